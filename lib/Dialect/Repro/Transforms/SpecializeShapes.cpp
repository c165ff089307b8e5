//===- SpecializeShapes.cpp - Replaces symbols by sizes -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-specialize-shapes (Passes.td), run from Python, outside of the
// pipelines: rewrites each symbolic function in program order with the given
// size of each symbol, so that every tensor has a static shape.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/SymbolicProgram.h"
#include "Dialect/Repro/Transforms/ExactFolding.h"
#include "Dialect/Repro/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROSPECIALIZESHAPES
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Reads the size of each symbol from the options `symbol=size` of the pass.
static FailureOr<SmallVector<int64_t>>
readSizes(func::FuncOp main, ArrayRef<Symbol> symbols,
          ArrayRef<std::string> options) {
  llvm::StringMap<int64_t> given;
  for (StringRef option : options) {
    auto [name, text] = option.rsplit('=');
    int64_t size;
    if (name.empty() || text.getAsInteger(10, size))
      return main.emitError("expected symbol=size, got '") << option << "'";
    if (!given.try_emplace(name, size).second)
      return main.emitError("symbol '") << name << "' has two sizes";
  }
  SmallVector<int64_t> sizes;
  for (const Symbol &symbol : symbols) {
    auto entry = given.find(symbol.name);
    if (entry == given.end())
      return main.emitError("symbol '") << symbol.name << "' has no size";
    int64_t size = entry->second;
    if (size < symbol.least || size > symbol.most)
      return main.emitError("symbol '")
             << symbol.name << "' is " << size << ", expected " << symbol.least
             << " to " << symbol.most;
    sizes.push_back(size);
    given.erase(entry);
  }
  if (!given.empty())
    return main.emitError("there is no symbol '")
           << given.begin()->first() << "'";
  return sizes;
}

/// Returns the type of an argument whose extents result from applying `map` to
/// the sizes.
static FailureOr<RankedTensorType> getArgumentType(func::FuncOp main,
                                                   unsigned number,
                                                   AffineMap map,
                                                   ArrayRef<int64_t> sizes) {
  auto type = cast<RankedTensorType>(main.getArgumentTypes()[number]);
  Builder builder(main.getContext());
  SmallVector<Attribute> constants;
  for (int64_t size : sizes)
    constants.push_back(builder.getIndexAttr(size));
  SmallVector<Attribute> extents;
  auto fail = [&]() {
    return main.emitError("argument #")
           << number << " of type " << type << " has no extents "
           << AffineMapAttr::get(map) << " at these sizes";
  };
  if (failed(map.constantFold(constants, extents)))
    return fail();
  SmallVector<int64_t> shape;
  int64_t elements = 1;
  for (auto [dim, extent] : llvm::enumerate(extents)) {
    shape.push_back(cast<IntegerAttr>(extent).getInt());
    bool isOther =
        !type.isDynamicDim(dim) && type.getDimSize(dim) != shape[dim];
    std::optional<int64_t> product =
        llvm::checkedMul(elements, std::max<int64_t>(shape[dim], 1));
    if (isOther || shape[dim] < 0 || !product)
      return fail();
    elements = *product;
  }
  return type.clone(shape);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static bool isInteger(Type type) { return type.isIntOrIndex(); }

static bool hasStaticShape(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return !shaped || shaped.hasStaticShape();
}

static LogicalResult failToSpecialize(Operation *op, Type type) {
  return op->emitOpError("has a shape that does not follow from the sizes of "
                         "the symbols, ")
         << type;
}

/// Replaces `op` by constants if it computes integers from constants. Such
/// integers may determine shapes; exact folding handles floats elsewhere.
static bool foldIntegers(IRRewriter &rewriter, Operation *op) {
  bool isArithmetic =
      isa_and_nonnull<affine::AffineDialect, arith::ArithDialect>(
          op->getDialect());
  if (!isArithmetic && !isa<tensor::DimOp, tensor::ExtractOp>(op))
    return false;
  if (isa<arith::ConstantOp>(op) ||
      !llvm::all_of(op->getResultTypes(), isInteger) ||
      (isArithmetic && !llvm::all_of(op->getOperandTypes(), isInteger)))
    return false;
  SmallVector<Value> values;
  rewriter.setInsertionPoint(op);
  if (failed(rewriter.tryFold(op, values)) || values.empty())
    return false;
  rewriter.replaceOp(op, values);
  return true;
}

/// Replaces constant values by attributes.
static SmallVector<OpFoldResult>
foldConstants(SmallVector<OpFoldResult> values) {
  (void)foldDynamicIndexList(values);
  return values;
}

static LogicalResult checkAssertion(IRRewriter &rewriter, cf::AssertOp op) {
  APInt holds;
  if (!matchPattern(op.getArg(), m_ConstantInt(&holds)))
    return success();
  if (holds.isZero())
    return op.emitError("at these sizes: ") << op.getMsg();
  rewriter.eraseOp(op);
  return success();
}

/// Returns the shape that a tensor of extents contains, if all extents are
/// constants.
static std::optional<SmallVector<int64_t>> getNamedShape(Value extents) {
  auto elements = extents.getDefiningOp<tensor::FromElementsOp>();
  if (!elements)
    return std::nullopt;
  SmallVector<int64_t> shape;
  for (Value element : elements.getElements()) {
    std::optional<int64_t> extent = getConstantIntValue(element);
    if (!extent)
      return std::nullopt;
    shape.push_back(*extent);
  }
  return shape;
}

/// Rewrites a reshape of static types as a collapse and an expansion of the
/// smallest groups of dimensions that have equal numbers of elements.
static FailureOr<Value> reshape(IRRewriter &rewriter, tensor::ReshapeOp op,
                                RankedTensorType target) {
  Value source = op.getSource();
  auto type = cast<RankedTensorType>(source.getType());
  SmallVector<int64_t> shape;
  SmallVector<ReassociationIndices> collapsed, expanded;
  int64_t from = 0, to = 0;
  while (from < type.getRank() || to < target.getRank()) {
    ReassociationIndices froms, tos;
    std::optional<int64_t> fromSize = 1, toSize = 1;
    do {
      bool isFrom = to == target.getRank() ||
                    (from < type.getRank() && *fromSize <= *toSize);
      if (isFrom) {
        fromSize = llvm::checkedMul(*fromSize, type.getDimSize(from));
        froms.push_back(from++);
      } else {
        toSize = llvm::checkedMul(*toSize, target.getDimSize(to));
        tos.push_back(to++);
      }
      if (!fromSize || !toSize)
        return failure();
    } while ((*fromSize != *toSize || froms.empty() || tos.empty()) &&
             (from < type.getRank() || to < target.getRank()));
    if (*fromSize != *toSize)
      return failure();
    // Trailing dimensions of extent 1 belong to the last group.
    if (froms.empty() || tos.empty()) {
      if (shape.empty()) {
        (froms.empty() ? expanded : collapsed)
            .push_back(froms.empty() ? tos : froms);
        continue;
      }
      llvm::append_range(collapsed.back(), froms);
      llvm::append_range(expanded.back(), tos);
      continue;
    }
    shape.push_back(*fromSize);
    collapsed.push_back(froms);
    expanded.push_back(tos);
  }
  if (shape.empty()) {
    // One of the tensors has rank 0, so its dimensions form no groups.
    collapsed.clear();
    expanded.clear();
  }
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  if (int64_t(shape.size()) != type.getRank())
    source = tensor::CollapseShapeOp::create(rewriter, loc, type.clone(shape),
                                             source, collapsed);
  if (int64_t(shape.size()) != target.getRank())
    source =
        tensor::ExpandShapeOp::create(rewriter, loc, target, source, expanded);
  return source;
}

/// Returns the value of `op` after rebuilding `op` for its static operands.
/// Returns null for operations that this function does not rebuild. Fails after
/// an error.
static FailureOr<Value> rebuild(IRRewriter &rewriter, Operation *op) {
  Location loc = op->getLoc();
  rewriter.setInsertionPoint(op);
  using Result = FailureOr<Value>;
  auto staticOr = [&](RankedTensorType type, auto create) -> Result {
    if (!type.hasStaticShape())
      return failToSpecialize(op, type);
    return Value(create(type));
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](tensor::EmptyOp empty) -> Result {
        return Value(tensor::EmptyOp::create(
            rewriter, loc, foldConstants(empty.getMixedSizes()),
            empty.getType().getElementType(), empty.getType().getEncoding()));
      })
      .Case([&](tensor::CastOp cast) -> Result { return cast.getSource(); })
      .Case([&](tensor::ReshapeOp op) -> Result {
        auto shape = getNamedShape(op.getShape());
        if (!shape)
          return failToSpecialize(op, op.getType());
        auto type = cast<RankedTensorType>(op.getType()).clone(*shape);
        Result value = llvm::any_of(*shape, [](int64_t n) { return n < 0; })
                           ? Result(failure())
                           : reshape(rewriter, op, type);
        if (failed(value))
          return op.emitOpError("cannot make ")
                 << type << " of " << op.getSource().getType();
        return value;
      })
      .Case([&](tensor::ExpandShapeOp op) -> Result {
        SmallVector<OpFoldResult> sizes =
            foldConstants(op.getMixedOutputShape());
        auto type = op.getResultType().clone(decomposeMixedValues(sizes).first);
        return staticOr(type, [&](RankedTensorType type) {
          return tensor::ExpandShapeOp::create(rewriter, loc, type, op.getSrc(),
                                               op.getReassociationIndices(),
                                               sizes);
        });
      })
      .Case([&](tensor::CollapseShapeOp op) -> Result {
        RankedTensorType type = tensor::CollapseShapeOp::inferCollapsedType(
            op.getSrcType(), op.getReassociationMaps());
        return staticOr(type, [&](RankedTensorType type) {
          return tensor::CollapseShapeOp::create(
              rewriter, loc, type, op.getSrc(), op.getReassociationIndices());
        });
      })
      .Case([&](tensor::ExtractSliceOp op) -> Result {
        llvm::SmallBitVector dropped = op.getDroppedDims();
        SmallVector<OpFoldResult> sizes = foldConstants(op.getMixedSizes());
        SmallVector<int64_t> shape;
        for (auto [dim, size] :
             llvm::enumerate(decomposeMixedValues(sizes).first))
          if (!dropped.test(dim))
            shape.push_back(size);
        SmallVector<OpFoldResult> offsets = foldConstants(op.getMixedOffsets());
        RankedTensorType type = op.getType().clone(shape);
        if (type.hasStaticShape() &&
            isEmptyAtEnd(op.getSourceType().getShape(), offsets, sizes))
          return Value(tensor::EmptyOp::create(rewriter, loc, shape,
                                               type.getElementType()));
        return staticOr(type, [&](RankedTensorType type) {
          return tensor::ExtractSliceOp::create(
              rewriter, loc, type, op.getSource(), offsets, sizes,
              foldConstants(op.getMixedStrides()));
        });
      })
      .Case([&](tensor::InsertSliceOp op) -> Result {
        return Value(tensor::InsertSliceOp::create(
            rewriter, loc, op.getSource(), op.getDest(),
            foldConstants(op.getMixedOffsets()),
            foldConstants(op.getMixedSizes()),
            foldConstants(op.getMixedStrides())));
      })
      .Case([&](tensor::PadOp op) -> Result {
        SmallVector<OpFoldResult> low = foldConstants(op.getMixedLowPad()),
                                  high = foldConstants(op.getMixedHighPad());
        RankedTensorType type = tensor::PadOp::inferResultType(
            op.getSourceType(), decomposeMixedValues(low).first,
            decomposeMixedValues(high).first);
        return staticOr(type, [&](RankedTensorType type) {
          auto padded = tensor::PadOp::create(
              rewriter, loc, type, op.getSource(), low, high, op.getNofold());
          rewriter.inlineRegionBefore(op.getRegion(), padded.getRegion(),
                                      padded.getRegion().begin());
          return padded;
        });
      })
      .Case([&](tensor::ConcatOp op) -> Result {
        RankedTensorType type = tensor::ConcatOp::inferResultType(
            op.getDim(), op.getInputs().getTypes());
        return staticOr(type, [&](RankedTensorType type) {
          return tensor::ConcatOp::create(rewriter, loc, type, op.getDim(),
                                          op.getInputs());
        });
      })
      .Default([](Operation *) -> Result { return Value(); });
}

/// Returns the operands whose types equal those of the results; empty if there
/// are none, or if sizes determine the result types as well.
static SmallVector<Value> getDestinations(Operation *op) {
  if (isa<tensor::InsertSliceOp>(op))
    return {};
  if (auto destined = dyn_cast<DestinationStyleOpInterface>(op))
    return llvm::to_vector(destined.getDpsInits());
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return {select.getTrueValue()};
  if (op->hasTrait<OpTrait::SameOperandsAndResultType>())
    return {op->getOperand(0)};
  // The dialect tm_tensor is not registered, so its operations have no
  // interface. The operands for the outputs come last.
  if (op->getName().getStringRef().starts_with("tm_tensor."))
    return llvm::to_vector(op->getOperands().take_back(op->getNumResults()));
  return {};
}

/// Whether an operation has constant operands that should become attributes.
/// Its result types may already be static.
static bool hasConstantPlaces(Operation *op) {
  return isa<tensor::ExtractSliceOp, tensor::InsertSliceOp, tensor::PadOp>(
             op) &&
         llvm::any_of(op->getOperands(), [](Value value) {
           return value.getType().isIndex() &&
                  matchPattern(value, m_Constant());
         });
}

/// Gives static types to the results of an operation with static operands.
static LogicalResult specialize(IRRewriter &rewriter, Operation *op) {
  if (auto assertion = dyn_cast<cf::AssertOp>(op))
    return checkAssertion(rewriter, assertion);
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Operation &inner : llvm::make_early_inc_range(block))
        if (failed(specialize(rewriter, &inner)))
          return failure();
  if (foldIntegers(rewriter, op))
    return success();
  if (llvm::all_of(op->getResultTypes(), hasStaticShape) &&
      !isa<tensor::CastOp, tensor::ReshapeOp>(op) && !hasConstantPlaces(op))
    return success();
  SmallVector<Value> destinations = getDestinations(op);
  if (destinations.size() == op->getNumResults()) {
    for (auto [result, destination] : llvm::zip(op->getResults(), destinations))
      if (isa<TensorType>(result.getType()))
        rewriter.modifyOpInPlace(
            op, [&] { result.setType(destination.getType()); });
    return success();
  }
  if (op->getNumResults() != 1)
    return failToSpecialize(op, op->getResultTypes().front());
  FailureOr<Value> value = rebuild(rewriter, op);
  if (failed(value))
    return failure();
  Type type = op->getResultTypes().front();
  if (!*value || !hasStaticShape(value->getType()))
    return failToSpecialize(op, type);
  if (failed(verifyCompatibleShape(type, value->getType())))
    return op->emitOpError("is ")
           << type << ", at these sizes " << value->getType();
  rewriter.replaceOp(op, *value);
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

static LogicalResult specializeMain(func::FuncOp main,
                                    ArrayRef<std::string> options) {
  FailureOr<SymbolicSignature> signature = readSymbolicSignature(main);
  if (failed(signature))
    return failure();
  FailureOr<SmallVector<int64_t>> sizes =
      readSizes(main, signature->symbols, options);
  if (failed(sizes))
    return failure();
  for (auto [number, map] : llvm::enumerate(signature->extents)) {
    if (!map)
      continue;
    FailureOr<RankedTensorType> type =
        getArgumentType(main, number, map, *sizes);
    if (failed(type))
      return failure();
    main.getArgument(number).setType(*type);
  }
  eraseSymbolicSignature(main);
  IRRewriter rewriter(main.getContext());
  Block &body = main.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body))
    if (failed(specialize(rewriter, &op)))
      return failure();
  main.setFunctionType(
      FunctionType::get(main.getContext(), body.getArgumentTypes(),
                        body.getTerminator()->getOperandTypes()));
  for (auto [number, type] : llvm::enumerate(main.getResultTypes()))
    if (!hasStaticShape(type))
      return main.emitError("result #")
             << number << " has a shape that does not follow from the sizes of "
             << "the symbols, " << type;
  return success();
}

namespace {
struct SpecializeShapes
    : public repro::impl::ReproSpecializeShapesBase<SpecializeShapes> {
  using ReproSpecializeShapesBase::ReproSpecializeShapesBase;

  void runOnOperation() override {
    for (auto main : getOperation().getOps<func::FuncOp>())
      if (isSymbolic(main) && failed(specializeMain(main, sizes)))
        return signalPassFailure();
  }
};
} // namespace
