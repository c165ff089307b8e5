//===- TMTensorToRepro.cpp - torch-mlir's tm_tensor -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass convert-tm-tensor-to-repro (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks torch-mlir's tm_tensor operations,
// which are unregistered, and replaces each by repro operations with the same
// meaning; fails for operations that have no such replacement.
//
//===----------------------------------------------------------------------===//

#include "Conversion/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_CONVERTTMTENSORTOREPRO
#include "lib/Conversion/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Reading an unregistered operation
//===----------------------------------------------------------------------===//

/// Returns an attribute of an operation in generic form, from its properties or
/// from its other attributes.
static Attribute getAnyAttr(Operation *op, StringRef name) {
  if (auto properties =
          dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    if (Attribute attr = properties.get(name))
      return attr;
  return op->getDiscardableAttr(name);
}

/// Checks that the operation has `inputs` inputs, `outputs` outputs with one
/// result each, and one block, and that all operands are tensors of static
/// shape.
static LogicalResult getSegments(Operation *op, unsigned inputs,
                                 unsigned outputs) {
  auto segments = dyn_cast_or_null<DenseI32ArrayAttr>(
      getAnyAttr(op, "operandSegmentSizes"));
  if (!segments || segments.size() != 2 || segments[0] != int32_t(inputs) ||
      segments[1] != int32_t(outputs) ||
      op->getNumOperands() != inputs + outputs ||
      op->getNumResults() != outputs || op->getNumRegions() != 1 ||
      !op->getRegion(0).hasOneBlock())
    return op->emitOpError("expected ")
           << inputs << " inputs, " << outputs
           << " outputs, a result for each output, and one block, got "
           << op->getNumOperands() << " operands and " << op->getNumResults()
           << " results";
  for (Type type : op->getOperandTypes())
    if (auto shaped = dyn_cast<RankedTensorType>(type);
        !shaped || !shaped.hasStaticShape())
      return op->emitOpError("expected operands of static shape, got ") << type;
  return success();
}

/// Returns the only value that the body yields; null if it yields none or
/// several.
static Value getYielded(Operation *op) {
  Operation *yield = op->getRegion(0).front().getTerminator();
  return yield->getNumOperands() == 1 ? yield->getOperand(0) : Value();
}

/// Returns how the body combines `element` with `accumulator`; std::nullopt for
/// other bodies. If the body combines the accumulator with a value from outside
/// of the body, sets `element` to that value.
static std::optional<Combine> getCombine(Operation *op, Value &element,
                                         Value accumulator) {
  Value yielded = getYielded(op);
  if (!yielded)
    return std::nullopt;
  if (yielded == element)
    return Combine::replace;
  Operation *step = yielded.getDefiningOp();
  if (!step || step->getNumOperands() != 2 ||
      !llvm::is_contained(step->getOperands(), accumulator))
    return std::nullopt;
  Value other = step->getOperand(step->getOperand(0) == accumulator ? 1 : 0);
  if (other != element &&
      !other.getParentRegion()->isProperAncestor(element.getParentRegion()))
    return std::nullopt;
  element = other;
  if (isa<arith::AddFOp, arith::AddIOp>(step))
    return Combine::add;
  if (isa<arith::MulFOp, arith::MulIOp>(step))
    return Combine::mul;
  if (isa<arith::MaximumFOp, arith::MaxSIOp>(step))
    return Combine::maximum;
  if (isa<arith::MinimumFOp, arith::MinSIOp>(step))
    return Combine::minimum;
  return std::nullopt;
}

static Value makeEmpty(OpBuilder &builder, Location loc, Type type) {
  auto shaped = cast<RankedTensorType>(type);
  return tensor::EmptyOp::create(builder, loc, shaped.getShape(),
                                 shaped.getElementType());
}

static Value makeFill(OpBuilder &builder, Location loc, Value scalar,
                      Type type) {
  auto shaped = cast<RankedTensorType>(type);
  SmallVector<utils::IteratorType> parallel(shaped.getRank(),
                                            utils::IteratorType::parallel);
  Value empty = makeEmpty(builder, loc, type);
  return linalg::GenericOp::create(
             builder, loc, TypeRange{type}, ValueRange{}, ValueRange{empty},
             ArrayRef<AffineMap>{
                 builder.getMultiDimIdentityMap(shaped.getRank())},
             parallel,
             [&](OpBuilder &body, Location bodyLoc, ValueRange) {
               linalg::YieldOp::create(body, bodyLoc, scalar);
             })
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// (D1) Converts tm_tensor.scatter, with `ins(updates, indices)` and
/// `outs(original)`.
static LogicalResult convertScatter(IRRewriter &rewriter, Operation *op) {
  if (failed(getSegments(op, 2, 1)))
    return failure();
  Block &body = op->getRegion(0).front();
  Value element = body.getNumArguments() == 2 ? body.getArgument(0) : Value();
  std::optional<Combine> combine =
      element ? getCombine(op, element, body.getArgument(1)) : std::nullopt;
  if (!combine)
    return op->emitOpError("(D1) expected a body that adds, multiplies, takes "
                           "the maximum or minimum, or replaces");
  auto updates = cast<RankedTensorType>(op->getOperand(0).getType());
  auto indices = cast<RankedTensorType>(op->getOperand(1).getType());
  auto original = cast<RankedTensorType>(op->getOperand(2).getType());
  if (indices.getRank() != 2 || indices.getDimSize(1) > original.getRank())
    return op->emitOpError("(D1) expected indices of shape [n, k] with k at "
                           "most the rank of the original, got ")
           << indices;
  int64_t depth = indices.getDimSize(1);
  if (auto map =
          dyn_cast_or_null<DenseI64ArrayAttr>(getAnyAttr(op, "dimension_map")))
    for (auto [position, dim] : llvm::enumerate(map.asArrayRef()))
      if (int64_t(position) != dim)
        return op->emitOpError("(D1) index column ")
               << position << " names dimension " << dim
               << ", expected the leading dimensions in order";

  // The updates may have an additional dimension of extent 1 for each indexed
  // dimension: remove these dimensions.
  SmallVector<int64_t> shape{indices.getDimSize(0)};
  llvm::append_range(shape, original.getShape().drop_front(depth));
  SmallVector<int64_t> padded{indices.getDimSize(0)};
  padded.append(depth, 1);
  llvm::append_range(padded, original.getShape().drop_front(depth));
  Value source = op->getOperand(0);
  Location loc = op->getLoc();
  if (updates.getShape() != ArrayRef<int64_t>(shape)) {
    if (updates.getShape() != ArrayRef<int64_t>(padded))
      return op->emitOpError("(D1) expected updates of shape ")
             << RankedTensorType::get(shape, updates.getElementType())
             << ", got " << updates;
    SmallVector<ReassociationIndices> groups(1);
    for (int64_t dim = 0; dim <= depth; ++dim)
      groups[0].push_back(dim);
    for (int64_t dim = depth + 1; dim < updates.getRank(); ++dim)
      groups.push_back({dim});
    source = tensor::CollapseShapeOp::create(
        rewriter, loc, RankedTensorType::get(shape, updates.getElementType()),
        source, groups);
  }
  if (element != body.getArgument(0))
    source = makeFill(rewriter, loc, element, source.getType());
  rewriter.replaceOpWithNewOp<ScatterOp>(
      op, op->getResultTypes(), ValueRange{source, op->getOperand(1)},
      ValueRange{op->getOperand(2)}, *combine);
  return success();
}

/// (D3) Converts tm_tensor.scan, with `ins(input)` and `outs(output, carry)`.
static LogicalResult convertScan(IRRewriter &rewriter, Operation *op) {
  if (failed(getSegments(op, 1, 2)))
    return failure();
  auto dimension = dyn_cast_or_null<IntegerAttr>(getAnyAttr(op, "dimension"));
  auto inclusive = dyn_cast_or_null<BoolAttr>(getAnyAttr(op, "inclusive"));
  if (!dimension || !inclusive || !inclusive.getValue())
    return op->emitOpError("(D3) expected 'dimension' and 'inclusive = true'");
  Block &body = op->getRegion(0).front();
  Value element = body.getNumArguments() == 2 ? body.getArgument(0) : Value();
  std::optional<Combine> combine =
      element ? getCombine(op, element, body.getArgument(1)) : std::nullopt;
  if (!combine || *combine == Combine::replace ||
      element != body.getArgument(0))
    return op->emitOpError(
        "(D3) expected a body that adds, multiplies or takes an extreme");
  if (!op->getResult(1).use_empty())
    return op->emitOpError("(D3) the last carry has uses, expected none: read "
                           "the last element of the scan");
  Location loc = op->getLoc();
  Value empty = makeEmpty(rewriter, loc, op->getResult(0).getType());
  auto scan = ScanOp::create(rewriter, loc, TypeRange{empty.getType()},
                             ValueRange{op->getOperand(0)}, ValueRange{empty},
                             *combine, dimension.getInt());
  rewriter.replaceAllUsesWith(op->getResult(0), scan.getResult(0));
  rewriter.eraseOp(op);
  return success();
}

/// (D2) Returns the direction in which a body that compares two keys sorts;
/// std::nullopt for other bodies.
static std::optional<SortDirection> getDirection(Operation *op) {
  Block &body = op->getRegion(0).front();
  Value yielded = getYielded(op);
  Operation *compare = yielded ? yielded.getDefiningOp() : nullptr;
  if (!compare || compare->getNumOperands() != 2 || body.getNumArguments() < 2)
    return std::nullopt;
  bool swapped = compare->getOperand(0) == body.getArgument(1) &&
                 compare->getOperand(1) == body.getArgument(0);
  if (!swapped && (compare->getOperand(0) != body.getArgument(0) ||
                   compare->getOperand(1) != body.getArgument(1)))
    return std::nullopt;
  bool less;
  if (auto cmpf = dyn_cast<arith::CmpFOp>(compare)) {
    switch (cmpf.getPredicate()) {
    case arith::CmpFPredicate::OLT:
    case arith::CmpFPredicate::OLE:
    case arith::CmpFPredicate::ULT:
    case arith::CmpFPredicate::ULE:
      less = true;
      break;
    case arith::CmpFPredicate::OGT:
    case arith::CmpFPredicate::OGE:
    case arith::CmpFPredicate::UGT:
    case arith::CmpFPredicate::UGE:
      less = false;
      break;
    default:
      return std::nullopt;
    }
  } else if (auto cmpi = dyn_cast<arith::CmpIOp>(compare)) {
    switch (cmpi.getPredicate()) {
    case arith::CmpIPredicate::slt:
    case arith::CmpIPredicate::sle:
      less = true;
      break;
    case arith::CmpIPredicate::sgt:
    case arith::CmpIPredicate::sge:
      less = false;
      break;
    default:
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  return less != swapped ? SortDirection::ascending : SortDirection::descending;
}

/// (D2) Converts tm_tensor.sort, with `outs(key, carried...)`, which sorts all
/// operands by the key.
static LogicalResult convertSort(IRRewriter &rewriter, Operation *op) {
  if (failed(getSegments(op, 0, op->getNumOperands())))
    return failure();
  auto dimension = dyn_cast_or_null<IntegerAttr>(getAnyAttr(op, "dimension"));
  if (!dimension || op->getNumOperands() == 0)
    return op->emitOpError("(D2) expected a 'dimension' and a key");
  std::optional<SortDirection> direction = getDirection(op);
  if (!direction)
    return op->emitOpError("(D2) expected a comparator that compares the first "
                           "operand, ascending or descending");
  SmallVector<Value> inits;
  for (Type type : op->getResultTypes())
    inits.push_back(makeEmpty(rewriter, op->getLoc(), type));
  rewriter.replaceOpWithNewOp<SortOp>(op, op->getResultTypes(),
                                      op->getOperands(), inits, *direction,
                                      dimension.getInt());
  return success();
}

/// (D2) Converts tm_tensor.topk, with `ins(input)` and `outs(values, indices)`,
/// to a sort of the input that carries the positions along. The results are the
/// first sorted elements and their positions.
static LogicalResult convertTopK(IRRewriter &rewriter, Operation *op) {
  if (failed(getSegments(op, 1, 2)))
    return failure();
  auto attr = dyn_cast_or_null<IntegerAttr>(getAnyAttr(op, "dimension"));
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  auto indices = cast<RankedTensorType>(op->getOperand(2).getType());
  auto element = dyn_cast<IntegerType>(indices.getElementType());
  int64_t dimension = attr ? attr.getInt() : -1;
  if (dimension < 0 || dimension >= input.getRank() || !element)
    return op->emitOpError("(D2) expected a 'dimension' below ")
           << input.getRank() << " and integer indices, got " << indices;
  std::optional<SortDirection> direction = getDirection(op);
  if (!direction)
    return op->emitOpError("(D2) expected a comparator that compares the first "
                           "operand, ascending or descending");
  Location loc = op->getLoc();
  auto positionType = RankedTensorType::get(input.getShape(), element);
  SmallVector<utils::IteratorType> parallel(input.getRank(),
                                            utils::IteratorType::parallel);
  Value positions =
      linalg::GenericOp::create(
          rewriter, loc, TypeRange{positionType}, ValueRange{},
          ValueRange{makeEmpty(rewriter, loc, positionType)},
          ArrayRef<AffineMap>{rewriter.getMultiDimIdentityMap(input.getRank())},
          parallel,
          [&](OpBuilder &builder, Location bodyLoc, ValueRange) {
            Value index = linalg::IndexOp::create(builder, bodyLoc, dimension);
            Value position =
                arith::IndexCastOp::create(builder, bodyLoc, element, index);
            linalg::YieldOp::create(builder, bodyLoc, position);
          })
          .getResult(0);
  auto sorted =
      SortOp::create(rewriter, loc, TypeRange{input, positionType},
                     ValueRange{op->getOperand(0), positions},
                     ValueRange{makeEmpty(rewriter, loc, input),
                                makeEmpty(rewriter, loc, positionType)},
                     *direction, dimension);
  SmallVector<OpFoldResult> offsets(input.getRank(), rewriter.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(input.getRank(), rewriter.getIndexAttr(1));
  SmallVector<Value> results;
  for (auto [value, type] :
       llvm::zip_equal(sorted.getResults(), op->getResultTypes())) {
    auto shape = cast<RankedTensorType>(type).getShape();
    results.push_back(tensor::ExtractSliceOp::create(
        rewriter, loc, cast<RankedTensorType>(type), value, offsets,
        getAsIndexOpFoldResult(rewriter.getContext(), shape), strides));
  }
  rewriter.replaceOp(op, results);
  return success();
}

namespace {
struct ConvertTMTensorToRepro
    : public repro::impl::ConvertTMTensorToReproBase<ConvertTMTensorToRepro> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (op->getName().getDialectNamespace() == "tm_tensor" &&
          op->getName().stripDialect() != "yield")
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : ops) {
      rewriter.setInsertionPoint(op);
      StringRef name = op->getName().stripDialect();
      LogicalResult result = failure();
      if (name == "scatter")
        result = convertScatter(rewriter, op);
      else if (name == "scan")
        result = convertScan(rewriter, op);
      else if (name == "sort")
        result = convertSort(rewriter, op);
      else if (name == "topk")
        result = convertTopK(rewriter, op);
      else
        op->emitOpError("is not supported: expected tm_tensor.scatter, "
                        "tm_tensor.scan, tm_tensor.sort or tm_tensor.topk");
      if (failed(result))
        return signalPassFailure();
    }
  }
};
} // namespace
