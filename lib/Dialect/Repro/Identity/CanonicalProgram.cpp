//===- CanonicalProgram.cpp - The contract of canonical programs ----------===//
//-----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalProgram.h"

#include "Dialect/Repro/Identity/CanonicalOps.h"
#include "Dialect/Repro/Identity/CanonicalShapes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Types (V1)
//===----------------------------------------------------------------------===//

static bool isElementType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type))
    return integer.isSignless() &&
           llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
  return isa<Float64Type, Float32Type, BFloat16Type, Float16Type,
             Float8E4M3FNType, Float8E5M2Type, Float6E3M2FNType,
             Float6E2M3FNType, Float4E2M1FNType, Float8E8M0FNUType>(type);
}

/// Reports a type that a canonical program may not contain.
static LogicalResult verifyType(Operation *op, Type type) {
  if (isElementType(type) || type.isIndex())
    return success();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return op->emitOpError("(V1) type ")
           << type
           << " is not supported: expected index, i1, i8, i16, i32, i64, "
              "f64, f32, bf16, f16, f8E4M3FN, f8E5M2, f6E3M2FN, f6E2M3FN, "
              "f4E2M1FN, f8E8M0FNU or a tensor";
  if (!tensor.hasStaticShape())
    return op->emitOpError("expected a static shape, got ") << type;
  if (tensor.getEncoding())
    return op->emitOpError("expected a tensor without encoding, got ") << type;
  if (!isElementType(tensor.getElementType()))
    return op->emitOpError("(V1) element type ")
           << tensor.getElementType() << " is not supported";
  return verifySize(op, tensor);
}

static LogicalResult verifyTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (failed(verifyType(op, type)))
      return failure();
  return success();
}

bool repro::isStorage(Type type) {
  auto floatType = dyn_cast<FloatType>(type);
  return floatType && floatType.getWidth() < 32;
}

bool repro::computesOnStorage(Operation *op) {
  if (!op->hasTrait<OpTrait::Elementwise>() ||
      isa<arith::BitcastOp, arith::ExtFOp, arith::SelectOp, arith::SIToFPOp,
          arith::TruncFOp, arith::UIToFPOp>(op))
    return false;
  if (!llvm::any_of(op->getOperandTypes(), isStorage) &&
      !llvm::any_of(op->getResultTypes(), isStorage))
    return false;
  auto fold = dyn_cast_or_null<FoldOp>(op->getParentOp());
  return !fold || fold.getStep() != op;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Whether the attribute is an empty set of flags.
static bool isClear(Attribute value) {
  if (auto flags = dyn_cast<arith::FastMathFlagsAttr>(value))
    return flags.getValue() == arith::FastMathFlags::none;
  if (auto flags = dyn_cast<arith::IntegerOverflowFlagsAttr>(value))
    return flags.getValue() == arith::IntegerOverflowFlags::none;
  return false;
}

static LogicalResult verifyAttributes(Operation *op, const CanonicalOp &entry) {
  for (NamedAttribute attr : op->getDiscardableAttrs())
    return op->emitOpError("(H2) attribute '")
           << attr.getName().getValue()
           << "' is discardable: expected no discardable attribute";
  for (StringAttr name : op->getName().getAttributeNames()) {
    Attribute value =
        op->getInherentAttr(name.getValue()).value_or(Attribute());
    if (!value)
      continue;
    const auto *known = llvm::find_if(
        entry.attributes, [&](const CanonicalAttribute &attribute) {
          return attribute.name == name.getValue();
        });
    if (known == entry.attributes.end())
      return op->emitOpError("(H2) attribute '")
             << name.getValue() << "' is unknown to the identity";
    if (known->form == AttributeForm::none && !isClear(value))
      return op->emitOpError("(V3) expected no '")
             << name.getValue() << "', got " << value;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static LogicalResult verifyPlace(Operation *op, const CanonicalOp &entry) {
  Operation *parent = op->getParentOp();
  switch (entry.place) {
  case CanonicalPlace::program:
    if (!isa<func::FuncOp>(parent))
      return op->emitOpError("expected in the block of the function, found in "
                             "the body of '")
             << parent->getName() << "'";
    return success();
  case CanonicalPlace::anywhere:
    if (isa<tensor::PadOp>(parent))
      return op->emitOpError("expected a padding value from outside of the "
                             "body of 'tensor.pad'");
    return success();
  case CanonicalPlace::generic:
  case CanonicalPlace::fold:
  case CanonicalPlace::pad:
    return success(); // the operation's verifier checks its parent
  }
  return success();
}

bool repro::readsElements(OpOperand &operand) {
  Operation *owner = operand.getOwner();
  if (auto generic = dyn_cast<linalg::GenericOp>(owner))
    return generic.payloadUsesValueFromOperand(&operand);
  if (auto fold = dyn_cast<FoldOp>(owner))
    return fold.isDpsInit(&operand) ||
           !fold.getBody()->getArgument(operand.getOperandNumber()).use_empty();
  return !(isa<ArgReduceOp, RandomOp, ScanOp, SortOp>(owner) &&
           cast<DestinationStyleOpInterface>(owner).isDpsInit(&operand));
}

/// (Q4) Rejects elements of i16: sums of their products may overflow.
static LogicalResult verifyBlocks(BlockContractionOp op) {
  for (Value input : op.getInputs())
    if (getElementTypeOrSelf(input.getType()).isInteger(16))
      return op->emitOpError("(Q4) expected integers of i8, got ")
             << input.getType();
  return success();
}

/// (F6) Checks that no operation reads the undefined elements of a
/// tensor.empty.
static LogicalResult verifyEmpty(tensor::EmptyOp op) {
  for (OpOperand &use : op->getUses())
    if (readsElements(use))
      return use.getOwner()->emitOpError("(F6) reads operand #")
             << use.getOperandNumber()
             << ", which is a tensor.empty without a defined element";
  return success();
}

/// Whether `select` yields the bits from `cast`, or those of the canonical NaN
/// if the operand of `cast` is a NaN.
static bool isNaNSelected(arith::SelectOp select, arith::BitcastOp cast) {
  auto isX = [&](Value value) { // accepts x and its exact extension
    auto extension = value.getDefiningOp<arith::ExtFOp>();
    return value == cast.getIn() ||
           (extension && extension.getIn() == cast.getIn());
  };
  auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
  IntegerAttr bits;
  return compare && compare.getPredicate() == arith::CmpFPredicate::UNO &&
         isX(compare.getLhs()) && isX(compare.getRhs()) &&
         select.getFalseValue() == cast.getOut() &&
         matchPattern(select.getTrueValue(), m_Constant(&bits)) &&
         bits.getValue() ==
             APFloat::getQNaN(llvm::cast<FloatType>(cast.getIn().getType())
                                  .getFloatSemantics())
                 .bitcastToAPInt();
}

/// (V4) Checks that the bits of a NaN are not observable: a bitcast of a float
/// to an integer must feed a select that replaces the bits of a NaN by the
/// canonical ones. Bitcasts between float types are not permitted.
static LogicalResult verifyBitcast(arith::BitcastOp op) {
  if (!isa<FloatType>(op.getIn().getType()))
    return success();
  if (isa<FloatType>(op.getType()))
    return op.emitOpError("(V4) expected a cast to or from an integer, got ")
           << op.getIn().getType() << " to " << op.getType();
  // A value in the function's own block can be requested as an output, which
  // would make the bits of a NaN observable.
  if (isa<func::FuncOp>(op->getParentOp()))
    return op.emitOpError("(V4) expected the bits of a float only in the body "
                          "of another operation");
  for (Operation *user : op->getUsers()) {
    auto select = dyn_cast<arith::SelectOp>(user);
    // `isNaNSelected` also rejects a select that yields the result of the
    // bitcast for a NaN.
    if (!select || !isNaNSelected(select, op))
      return op.emitOpError("(V4) expected every use to be select(cmpf uno x, "
                            "x; bits of the canonical NaN; bitcast x), got '")
             << user->getName() << "'";
  }
  return success();
}

/// (V1) Checks that extensions are exact, and rejects conversions to f8E8M0FNU,
/// for which no rule defines a rounding.
static LogicalResult verifyConversion(Operation *op) {
  if (!isa<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp>(
          op))
    return success();
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  if (isa<Float8E8M0FNUType>(to))
    return op->emitOpError("(V1) no rule converts to ") << to;
  if ((isa<Float8E8M0FNUType>(from) && isa<Float16Type>(to)) ||
      (isa<Float6E2M3FNType>(from) && isa<Float8E5M2Type>(to)))
    return op->emitOpError("(V1) expected an exact extension, but ")
           << to << " has not all values of " << from;
  return success();
}

static LogicalResult verifyOp(Operation *op) {
  const CanonicalOp *entry = lookupCanonicalOp(getStoredName(op));
  if (StringRef pass = getDecomposition(op->getName()); !pass.empty())
    return op->emitOpError("is not an operation of a canonical program: '")
           << pass << "' decomposes it";
  if (!entry)
    return op->emitOpError("is not an operation of a canonical program: "
                           "docs/contributors/architecture.md lists these");
  if (auto random = dyn_cast<RandomOp>(op);
      random && random.getDistribution() != Distribution::bits &&
      random.getDistribution() != Distribution::uniform)
    return op->emitOpError("(R2) expected 'bits' or 'uniform', got '")
           << stringifyDistribution(random.getDistribution())
           << "', which repro-decompose-distributions writes out";
  if (failed(verifyAttributes(op, *entry)) || failed(verifyPlace(op, *entry)) ||
      failed(verifyTypes(op, op->getOperandTypes())) ||
      failed(verifyTypes(op, op->getResultTypes())))
    return failure();
  if (auto constant = dyn_cast<arith::ConstantOp>(op);
      constant &&
      !isa<IntegerAttr, FloatAttr, DenseElementsAttr>(constant.getValue()))
    return op->emitOpError("(H2) expected the value itself as integer, float "
                           "or dense elements");
  if (llvm::any_of(op->getResultTypes(), llvm::IsaPred<ShapedType>) &&
      isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
      !isa<arith::ConstantOp>(op))
    return op->emitOpError("expected scalars: arithmetic on tensors is a "
                           "linalg.generic");
  if (computesOnStorage(op))
    return op->emitOpError("(V1) computes on a storage type: "
                           "'repro-widen-storage' makes it compute in f32");
  if (failed(verifyConversion(op)))
    return failure();
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return verifyEmpty(empty);
  if (auto contraction = dyn_cast<BlockContractionOp>(op))
    return verifyBlocks(contraction);
  if (auto bitcast = dyn_cast<arith::BitcastOp>(op))
    return verifyBitcast(bitcast);
  if (auto fold = dyn_cast<FoldOp>(op); fold && !fold.getOrderAttr())
    return fold.emitOpError("(P0) expected an order");
  return verifyShapes(op);
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

/// Checks that `repro.name` is the only attribute of arguments and results.
static LogicalResult verifyNames(func::FuncOp main, StringRef what,
                                 ArrayAttr attributes) {
  if (!attributes)
    return success();
  for (auto [index, dictionary] : llvm::enumerate(attributes))
    for (NamedAttribute attr : cast<DictionaryAttr>(dictionary))
      if (attr.getName() != "repro.name")
        return main.emitOpError("(H2) attribute '")
               << attr.getName().getValue() << "' of " << what << " " << index
               << ": expected only 'repro.name'";
  return success();
}

static LogicalResult verifyMain(func::FuncOp main) {
  if (main.getName() != "main" || !main.isPublic())
    return main.emitOpError("expected only the public function '@main'");
  if (!main.getBody().hasOneBlock())
    return main.emitOpError("expected a body of one block, got ")
           << main.getBody().getBlocks().size();
  for (NamedAttribute attr : main->getDiscardableAttrs())
    if (attr.getName() != "repro.num_state")
      return main.emitOpError("(H2) attribute '")
             << attr.getName().getValue()
             << "': expected only 'repro.num_state'";
  if (main.getNoInline())
    return main.emitOpError("(H2) attribute 'no_inline': expected none");
  auto numState = main->getAttrOfType<IntegerAttr>("repro.num_state");
  if (!numState)
    return main.emitOpError("expected the attribute 'repro.num_state'");
  for (int64_t i = 0; i < numState.getInt(); ++i)
    if (main.getArgumentTypes()[i] != main.getResultTypes()[i])
      return main.emitOpError("state #")
             << i << " is an argument of type " << main.getArgumentTypes()[i]
             << " and a result of type " << main.getResultTypes()[i]
             << ", expected the same";
  for (auto types : {main.getArgumentTypes(), main.getResultTypes()})
    for (Type type : types)
      if (!isa<RankedTensorType>(type))
        return main.emitOpError("expected tensors as arguments and results, "
                                "got ")
               << type;
  if (failed(verifyTypes(main, main.getArgumentTypes())) ||
      failed(verifyTypes(main, main.getResultTypes())) ||
      failed(verifyNames(main, "argument", main.getArgAttrsAttr())) ||
      failed(verifyNames(main, "result", main.getResAttrsAttr())))
    return failure();
  WalkResult result = main.getBody().walk<WalkOrder::PreOrder>(
      [](Operation *op) { return WalkResult(verifyOp(op)); });
  return result.wasInterrupted() ? failure() : verifySizes(main);
}

/// Rejects constants of f8E8M0FNU that are negative. MLIR can represent them
/// but has no bit pattern for them, so this check must precede everything that
/// prints the operation.
static LogicalResult verifyPowers(ModuleOp module) {
  WalkResult walked = module.walk([](arith::ConstantOp constant) {
    auto number = dyn_cast<FloatAttr>(constant.getValue());
    if (!number || !isa<Float8E8M0FNUType>(number.getType()) ||
        !number.getValue().isNegative())
      return WalkResult::advance();
    emitError(constant.getLoc(), "(V1) expected a power of two as constant, "
                                 "got a negative number");
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

LogicalResult repro::verifyCanonicalProgram(ModuleOp module) {
  if (failed(verifyPowers(module)))
    return failure();
  for (NamedAttribute attr : module->getAttrs())
    return module.emitError("(H2) attribute '")
           << attr.getName().getValue() << "' of the module: expected none";
  for (Operation &op : *module.getBody())
    if (!isa<func::FuncOp>(op))
      return op.emitOpError("expected only the function '@main' in a "
                            "canonical module");
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  if (functions.empty())
    return module.emitError("expected the function '@main', got none");
  for (func::FuncOp function : functions)
    if (failed(verifyMain(function)))
      return failure();
  return success();
}
