//===- CanonicalShapes.cpp - Sizes and accesses of a program --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalShapes.h"

#include "Dialect/Repro/IR/AffineBounds.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// (A4) Sizes
//===----------------------------------------------------------------------===//

static constexpr int64_t kMaxTensorBytes = int64_t(1) << 40;
static constexpr int64_t kMaxProgramBytes = int64_t(1) << 50;
static constexpr int64_t kMaxConstantBytes = int64_t(1) << 32;
static constexpr int64_t kMaxIterations = int64_t(1) << 60;

/// Returns the product of non-negative factors; std::nullopt if the product of
/// the positive factors exceeds `limit`.
static std::optional<int64_t> multiply(ArrayRef<int64_t> factors,
                                       int64_t limit) {
  int64_t product = 1;
  bool isZero = false;
  for (int64_t factor : factors) {
    if (factor == 0)
      isZero = true;
    else if (llvm::MulOverflow(product, factor, product) || product > limit)
      return std::nullopt;
  }
  return isZero ? 0 : product;
}

/// Returns the size of a tensor in bytes; std::nullopt if it exceeds the limit
/// of (A4).
static std::optional<int64_t> getTensorBytes(RankedTensorType type) {
  SmallVector<int64_t> factors(type.getShape());
  factors.push_back(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  return multiply(factors, kMaxTensorBytes);
}

bool repro::isWithinLimits(RankedTensorType type) {
  return type.getRank() <= kMaxRank && getTensorBytes(type);
}

LogicalResult repro::verifySize(Operation *op, RankedTensorType type) {
  if (type.getRank() > kMaxRank)
    return op->emitOpError("(A4) expected at most ")
           << kMaxRank << " dimensions, got " << type.getRank() << " of "
           << type;
  if (!getTensorBytes(type))
    return op->emitOpError("(A4) expected a tensor of at most 2^40 bytes, got ")
           << type;
  return success();
}

LogicalResult repro::verifySizes(func::FuncOp main) {
  // A tensor has at most 2^40 bytes and a sum over 2^50 is an error, so the
  // sums stay below 2^51 and cannot overflow.
  int64_t all = 0, constants = 0;
  auto count = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor)
        continue;
      int64_t bytes = *getTensorBytes(tensor);
      all += bytes;
      constants += isa<arith::ConstantOp>(op) ? bytes : 0;
      if (all > kMaxProgramBytes)
        return op->emitOpError("(A4) expected at most 2^50 bytes in all "
                               "tensors of the program");
      if (constants > kMaxConstantBytes)
        return op->emitOpError("(A4) expected at most 2^32 bytes in all "
                               "constants of the program");
    }
    return success();
  };
  if (failed(count(main, main.getArgumentTypes())))
    return failure();
  return failure(main.getBody()
                     .walk<WalkOrder::PreOrder>([&](Operation *op) {
                       return WalkResult(count(op, op->getResultTypes()));
                     })
                     .wasInterrupted());
}

/// (A2) Checks the indices that MLIR's verifier evaluates. There may be at most
/// kMaxRank iterators, and divisors must be positive.
static LogicalResult verifyEnds(Operation *op, ArrayRef<AffineMap> maps) {
  if (hasEnds(maps, op->getOperands()))
    return success();
  return op->emitOpError("(A2) expected indices below 2^63 - 1");
}

/// (A2), (A4) Checks the number of iterations of an operation with loops of
/// `extents`, and the indices that MLIR's verifier evaluates.
static LogicalResult verifyLoops(Operation *op, ArrayRef<int64_t> extents,
                                 ArrayRef<AffineMap> maps) {
  if (int64_t(extents.size()) > kMaxRank)
    return op->emitOpError("(A4) expected at most ")
           << kMaxRank << " iterators, got " << extents.size();
  if (!multiply(extents, kMaxIterations))
    return op->emitOpError("(A4) expected at most 2^60 iterations");
  return verifyEnds(op, maps);
}

//===----------------------------------------------------------------------===//
// (A1), (A2) Loops
//===----------------------------------------------------------------------===//

/// Returns the value of an index expression at `dims`; std::nullopt if an
/// intermediate result does not fit into 64 bits. Divisors must be positive.
static std::optional<int64_t> evaluate(AffineExpr expr,
                                       ArrayRef<int64_t> dims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::optional<int64_t> lhs = evaluate(binary.getLHS(), dims);
  std::optional<int64_t> rhs = evaluate(binary.getRHS(), dims);
  if (!lhs || !rhs)
    return std::nullopt;
  int64_t result;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    if (llvm::AddOverflow(*lhs, *rhs, result))
      return std::nullopt;
    return result;
  case AffineExprKind::Mul:
    if (llvm::MulOverflow(*lhs, *rhs, result))
      return std::nullopt;
    return result;
  case AffineExprKind::Mod:
    result = *lhs % *rhs;
    return result < 0 ? result + *rhs : result;
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(*lhs, *rhs);
  default:
    return llvm::divideCeilSigned(*lhs, *rhs);
  }
}

bool repro::hasEnds(ArrayRef<AffineMap> maps, ValueRange operands) {
  SmallVector<int64_t> first(kMaxRank, 0), last(kMaxRank, 0);
  SmallVector<bool> isKnown(kMaxRank, false);
  for (auto [map, operand] : llvm::zip(maps, operands)) {
    auto tensor = dyn_cast<RankedTensorType>(operand.getType());
    ArrayRef<int64_t> shape = tensor ? tensor.getShape() : ArrayRef<int64_t>();
    for (auto [expr, extent] : llvm::zip(map.getResults(), shape)) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (!dim || isKnown[dim.getPosition()])
        continue;
      isKnown[dim.getPosition()] = true;
      last[dim.getPosition()] = extent - 1;
    }
  }
  auto hasEnd = [](AffineExpr expr, ArrayRef<int64_t> dims) {
    std::optional<int64_t> end = evaluate(expr, dims);
    return end && *end < std::numeric_limits<int64_t>::max();
  };
  return llvm::all_of(maps, [&](AffineMap map) {
    return llvm::all_of(map.getResults(), [&](AffineExpr expr) {
      return hasEnd(expr, first) && hasEnd(expr, last);
    });
  });
}

LogicalResult repro::verifyMaps(Operation *op, ArrayRef<AffineMap> maps) {
  if (failed(verifyEnds(op, maps)))
    return failure();
  SmallVector<IndexedShape> accesses;
  for (auto [map, operand] : llvm::zip_equal(maps, op->getOperands())) {
    auto tensor = dyn_cast<RankedTensorType>(operand.getType());
    accesses.push_back({map, tensor ? tensor.getShape() : ArrayRef<int64_t>()});
  }
  return verifyAccesses(op, accesses);
}

/// Checks that a linalg.generic is parallel and writes each element of its
/// results exactly once.
static LogicalResult verifyGeneric(linalg::GenericOp op) {
  if (op.getNumReductionLoops())
    return op.emitOpError("(F1) has ")
           << op.getNumReductionLoops()
           << " iterators that are not parallel: a reduction is a "
              "repro.fold";
  SmallVector<IndexedShape> accesses;
  for (OpOperand &operand : op->getOpOperands())
    accesses.push_back(
        {op.getMatchingIndexingMap(&operand), op.getShape(&operand)});
  if (failed(verifyAccesses(op, accesses)))
    return failure();
  for (OpOperand &output : op.getDpsInitsMutable()) {
    AffineMap map = op.getMatchingIndexingMap(&output);
    if (!map.isPermutation())
      return op.emitOpError("expected a permutation as map of output #")
             << output.getOperandNumber() - op.getNumDpsInputs() << ", got "
             << AffineMapAttr::get(map);
  }
  return verifyLoops(op, op.getStaticLoopRanges(), op.getIndexingMapsArray());
}

//===----------------------------------------------------------------------===//
// (A3) Operations that move elements
//===----------------------------------------------------------------------===//

static LogicalResult verifyResultShape(Operation *op,
                                       ArrayRef<int64_t> expected) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (type.getShape() == expected)
    return success();
  return op->emitOpError("(A3) expected a result of shape [")
         << expected << "], got " << type;
}

/// Checks that a slice stays within a tensor of `shape`.
static LogicalResult verifySlice(OffsetSizeAndStrideOpInterface op,
                                 ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> offsets = op.getStaticOffsets();
  ArrayRef<int64_t> sizes = op.getStaticSizes();
  ArrayRef<int64_t> strides = op.getStaticStrides();
  for (ArrayRef<int64_t> numbers : {offsets, sizes, strides})
    if (llvm::any_of(numbers, ShapedType::isDynamic))
      return op->emitOpError("(A3) expected static offsets, sizes and strides");
  for (auto [dim, extent, offset, size, stride] :
       llvm::enumerate(shape, offsets, sizes, strides)) {
    int64_t last = 0;
    bool isTooLarge =
        llvm::MulOverflow(std::max<int64_t>(size - 1, 0), stride, last) ||
        llvm::AddOverflow(last, offset, last);
    if (stride < 1 || size < 0 || offset < 0 || isTooLarge ||
        last >= extent + (size == 0))
      return op->emitOpError("(A3) expected a slice of dimension ")
             << dim << " within its " << extent << " elements, got offset "
             << offset << ", size " << size << " and stride " << stride;
  }
  return success();
}

static LogicalResult verifyPad(tensor::PadOp op) {
  Type element = op.getSourceType().getElementType();
  if (op.getResultType().getElementType() != element)
    return op.emitOpError("(A3) expected a result of ")
           << element << ", the element type of the source, got "
           << op.getResultType().getElementType();
  SmallVector<int64_t> shape;
  for (auto [extent, low, high] :
       llvm::zip_equal(op.getSourceType().getShape(), op.getStaticLow(),
                       op.getStaticHigh())) {
    if (ShapedType::isDynamic(low) || ShapedType::isDynamic(high))
      return op.emitOpError("(A3) expected static padding");
    if (low < 0 || high < 0)
      return op.emitOpError("(A3) expected padding that is not negative");
    int64_t sum;
    if (llvm::AddOverflow(extent, low, sum) ||
        llvm::AddOverflow(sum, high, sum))
      return op.emitOpError("(A3) expected padding of less than 2^63, got ")
             << low << " and " << high;
    shape.push_back(sum);
  }
  return verifyResultShape(op, shape);
}

static LogicalResult verifyConcat(tensor::ConcatOp op) {
  // (A4) bounds the extents, so the sum of the inputs' extents cannot overflow.
  auto first = cast<RankedTensorType>(op.getInputs().front().getType());
  SmallVector<int64_t> shape(first.getShape());
  uint64_t dim = op.getDim();
  shape[dim] = 0;
  for (Value input : op.getInputs()) {
    SmallVector<int64_t> other(
        cast<RankedTensorType>(input.getType()).getShape());
    int64_t extent = std::exchange(other[dim], shape[dim]);
    if (other != shape)
      return op.emitOpError(
                 "(A3) expected inputs that differ only in dimension ")
             << dim << ", got " << first << " and " << input.getType();
    shape[dim] += extent;
  }
  return verifyResultShape(op, shape);
}

/// Checks that each group of dimensions of `expanded` has the same number of
/// elements as the corresponding dimension of `collapsed`.
static LogicalResult verifyReshape(Operation *op, ArrayRef<int64_t> collapsed,
                                   ArrayRef<int64_t> expanded,
                                   ArrayRef<ReassociationIndices> groups) {
  int64_t next = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    int64_t elements = 1;
    for (int64_t dim : group) {
      if (dim != next++ || dim >= int64_t(expanded.size()))
        return op->emitOpError("(A3) expected the dimensions in order");
      elements *= expanded[dim]; // at most 2^40, by (A4)
    }
    if (index >= collapsed.size() || elements != collapsed[index])
      return op->emitOpError(
                 "(A3) expected each group of dimensions to have equal "
                 "numbers of elements in both types, got ")
             << op->getOperand(0).getType() << " and "
             << op->getResult(0).getType();
  }
  // A reshape without groups has exactly one element on both sides.
  bool isComplete =
      groups.empty() ? llvm::all_of(expanded, [](int64_t n) { return n == 1; })
                     : next == int64_t(expanded.size());
  if (!isComplete || groups.size() != collapsed.size())
    return op->emitOpError("(A3) expected each dimension in one group");
  return success();
}

static LogicalResult verifyExpand(tensor::ExpandShapeOp op) {
  ArrayRef<int64_t> shape = op.getStaticOutputShape();
  if (failed(verifyResultShape(op, shape)))
    return failure();
  return verifyReshape(op, op.getSrcType().getShape(), shape,
                       op.getReassociationIndices());
}

/// Checks that the dimension is a constant below the rank, so that no check is
/// needed at run time.
static LogicalResult verifyDim(tensor::DimOp op) {
  std::optional<int64_t> index = op.getConstantIndex();
  int64_t rank = cast<RankedTensorType>(op.getSource().getType()).getRank();
  if (!index || *index < 0 || *index >= rank)
    return op.emitOpError("(A3) expected a constant dimension from 0 to ")
           << rank - 1;
  return success();
}

LogicalResult repro::verifyShapes(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return verifyGeneric(generic);
  if (auto fold = dyn_cast<FoldOp>(op))
    return verifyLoops(op, fold.getExtents(), fold.getIndexingMapsArray());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return verifySlice(slice, slice.getSourceType().getShape());
  if (auto slice = dyn_cast<tensor::InsertSliceOp>(op))
    return verifySlice(slice, slice.getDestType().getShape());
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return verifyPad(pad);
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return verifyConcat(concat);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return verifyExpand(expand);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return verifyReshape(op, collapse.getResultType().getShape(),
                         collapse.getSrcType().getShape(),
                         collapse.getReassociationIndices());
  if (auto dim = dyn_cast<tensor::DimOp>(op))
    return verifyDim(dim);
  return success();
}
