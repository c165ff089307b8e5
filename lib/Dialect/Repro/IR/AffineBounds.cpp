//===- AffineBounds.cpp - Extents of loops, bounds of accesses ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/IR/AffineBounds.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

/// Intermediate results of a map stay below this limit, so that no sum
/// overflows.
static constexpr int64_t kMaxIndex = int64_t(1) << 62;

namespace {
/// The integers from a minimum to a maximum, inclusive.
struct Interval {
  int64_t low = 0, high = 0;
};

/// The values of an affine expression over an iteration space:
/// sum(coefficients[d] * d) + rest, where rest may be any number in an
/// interval.
struct IndexRange {
  SmallVector<int64_t> coefficients;
  Interval rest;
};
} // namespace

/// Returns the minimum and maximum of `range` if the index of each dimension d
/// is in [0, extents[d]); std::nullopt if they exceed kMaxIndex.
static std::optional<Interval> getBounds(const IndexRange &range,
                                         ArrayRef<int64_t> extents) {
  Interval bounds = range.rest;
  for (auto [coefficient, extent] :
       llvm::zip_equal(range.coefficients, extents)) {
    int64_t reach;
    int64_t &bound = coefficient < 0 ? bounds.low : bounds.high;
    if (llvm::MulOverflow(coefficient, extent - 1, reach) ||
        llvm::AddOverflow(bound, reach, bound))
      return std::nullopt;
  }
  if (bounds.low < -kMaxIndex || bounds.high > kMaxIndex)
    return std::nullopt;
  return bounds;
}

static std::optional<IndexRange> addRanges(const IndexRange &lhs,
                                           const IndexRange &rhs) {
  IndexRange sum = lhs;
  for (auto [total, part] : llvm::zip_equal(sum.coefficients, rhs.coefficients))
    if (llvm::AddOverflow(total, part, total))
      return std::nullopt;
  if (llvm::AddOverflow(lhs.rest.low, rhs.rest.low, sum.rest.low) ||
      llvm::AddOverflow(lhs.rest.high, rhs.rest.high, sum.rest.high))
    return std::nullopt;
  return sum;
}

static std::optional<IndexRange> scaleRange(const IndexRange &range,
                                            int64_t factor) {
  IndexRange product = range;
  for (int64_t &coefficient : product.coefficients)
    if (llvm::MulOverflow(coefficient, factor, coefficient))
      return std::nullopt;
  if (llvm::MulOverflow(range.rest.low, factor, product.rest.low) ||
      llvm::MulOverflow(range.rest.high, factor, product.rest.high))
    return std::nullopt;
  if (factor < 0)
    std::swap(product.rest.low, product.rest.high);
  return product;
}

/// Returns the interval of the results of a floordiv, ceildiv or mod of numbers
/// within `bounds`.
static Interval divideInterval(Interval bounds, AffineExprKind kind,
                               int64_t divisor) {
  if (kind == AffineExprKind::CeilDiv)
    return {llvm::divideCeilSigned(bounds.low, divisor),
            llvm::divideCeilSigned(bounds.high, divisor)};
  Interval quotient = {llvm::divideFloorSigned(bounds.low, divisor),
                       llvm::divideFloorSigned(bounds.high, divisor)};
  if (kind == AffineExprKind::FloorDiv)
    return quotient;
  if (quotient.low == quotient.high)
    return {llvm::mod(bounds.low, divisor), llvm::mod(bounds.high, divisor)};
  return {0, divisor - 1};
}

/// Returns the range of `expr`, which must satisfy `isBoundable`, over loops of
/// `extents` (all positive); std::nullopt if an intermediate result exceeds
/// kMaxIndex.
static std::optional<IndexRange> getRange(AffineExpr expr,
                                          ArrayRef<int64_t> extents) {
  IndexRange leaf;
  leaf.coefficients.resize(extents.size());
  std::optional<IndexRange> range;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    leaf.rest = {constant.getValue(), constant.getValue()};
    range = leaf;
  } else if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    leaf.coefficients[dim.getPosition()] = 1;
    range = leaf;
  } else {
    auto binary = cast<AffineBinaryOpExpr>(expr);
    std::optional<IndexRange> lhs = getRange(binary.getLHS(), extents);
    if (!lhs)
      return std::nullopt;
    if (expr.getKind() == AffineExprKind::Add) {
      std::optional<IndexRange> rhs = getRange(binary.getRHS(), extents);
      if (!rhs)
        return std::nullopt;
      range = addRanges(*lhs, *rhs);
    } else {
      int64_t factor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
      if (expr.getKind() == AffineExprKind::Mul) {
        range = scaleRange(*lhs, factor);
      } else {
        leaf.rest =
            divideInterval(*getBounds(*lhs, extents), expr.getKind(), factor);
        range = leaf;
      }
    }
  }
  if (!range || !getBounds(*range, extents))
    return std::nullopt;
  return range;
}

/// Whether `expr` consists of dimensions, constants, sums, products with
/// constants, and floordiv, ceildiv and mod by positive constants.
static bool isBoundable(AffineExpr expr) {
  if (isa<AffineConstantExpr, AffineDimExpr>(expr))
    return true;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary || !isBoundable(binary.getLHS()) || !isBoundable(binary.getRHS()))
    return false;
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return true;
  case AffineExprKind::Mul:
    return static_cast<bool>(constant);
  default:
    return constant && constant.getValue() > 0;
  }
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// (A1) Returns the extents of the loops. The extent of a loop is the size of
/// the first dimension that the loop alone indexes; all other such dimensions
/// must have the same size. An extent is dynamic if one of these sizes is.
static FailureOr<SmallVector<int64_t>>
getExtents(Operation *op, ArrayRef<IndexedShape> operands) {
  SmallVector<std::optional<int64_t>> found(
      operands.empty() ? 0 : operands.front().map.getNumDims());
  for (auto [number, operand] : llvm::enumerate(operands))
    for (auto [index, expr, size] :
         llvm::enumerate(operand.map.getResults(), operand.shape)) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (!dim)
        continue;
      std::optional<int64_t> &extent = found[dim.getPosition()];
      if (!extent || ShapedType::isDynamic(size))
        extent = size;
      if (*extent == size || ShapedType::isDynamic(*extent))
        continue;
      return op->emitOpError("(A1) dimension ")
             << index << " of operand #" << number << " is " << size
             << ", but the extent of iterator " << dim.getPosition() << " is "
             << *extent;
    }
  SmallVector<int64_t> extents;
  for (auto [index, extent] : llvm::enumerate(found)) {
    if (!extent)
      return op->emitOpError("(A1) no map has iterator ")
             << index << " as a result, which would give its extent";
    extents.push_back(*extent);
  }
  return extents;
}

/// (A2) Checks that `expr`, result `index` of the map of operand `number`, is
/// in [0, `size`) in every iteration.
static LogicalResult verifyAccess(Operation *op, unsigned number,
                                  unsigned index, AffineExpr expr, int64_t size,
                                  ArrayRef<int64_t> extents) {
  std::optional<IndexRange> range = getRange(expr, extents);
  if (!range)
    return op->emitOpError("(A2) result #")
           << index << " of indexing map #" << number
           << " exceeds 2^62 on the way";
  Interval bounds = *getBounds(*range, extents);
  if (bounds.low < 0 || bounds.high >= size)
    return op->emitOpError("(A2) result #")
           << index << " of indexing map #" << number << " goes from "
           << bounds.low << " to " << bounds.high << ", expected 0 to "
           << size - 1;
  return success();
}

LogicalResult repro::verifyAccesses(Operation *op,
                                    ArrayRef<IndexedShape> operands) {
  FailureOr<SmallVector<int64_t>> extents = getExtents(op, operands);
  if (failed(extents))
    return failure();
  for (auto [number, operand] : llvm::enumerate(operands))
    for (auto [index, expr] : llvm::enumerate(operand.map.getResults()))
      if (!isBoundable(expr))
        return op->emitOpError("(A2) cannot tell the bounds of result #")
               << index << " of indexing map #" << number
               << ": expected sums of iterators times constants, and floordiv, "
                  "ceildiv and mod of them by positive constants";
  // An empty iteration space accesses nothing, and dynamic extents are not
  // checked.
  if (llvm::any_of(*extents, [](int64_t extent) {
        return extent == 0 || ShapedType::isDynamic(extent);
      }))
    return success();
  for (auto [number, operand] : llvm::enumerate(operands))
    for (auto [index, expr, size] :
         llvm::enumerate(operand.map.getResults(), operand.shape))
      if (!ShapedType::isDynamic(size) &&
          failed(verifyAccess(op, number, index, expr, size, *extents)))
        return failure();
  return success();
}

bool repro::mayAccess(AffineMap map, ArrayRef<int64_t> extents,
                      ArrayRef<int64_t> shape) {
  if (!llvm::all_of(map.getResults(), isBoundable))
    return false;
  for (auto [expr, size] : llvm::zip_equal(map.getResults(), shape))
    if (auto dim = dyn_cast<AffineDimExpr>(expr);
        dim && extents[dim.getPosition()] != size)
      return false;
  if (llvm::is_contained(extents, 0))
    return true;
  return llvm::all_of(
      llvm::zip_equal(map.getResults(), shape), [&](auto access) {
        auto [expr, size] = access;
        std::optional<IndexRange> range = getRange(expr, extents);
        std::optional<Interval> bounds =
            range ? getBounds(*range, extents) : std::nullopt;
        return bounds && bounds->low >= 0 && bounds->high < size;
      });
}

std::optional<std::pair<int64_t, int64_t>>
repro::getExprBounds(AffineExpr expr, ArrayRef<int64_t> extents) {
  if (!isBoundable(expr))
    return std::nullopt;
  std::optional<IndexRange> range = getRange(expr, extents);
  if (!range)
    return std::nullopt;
  Interval bounds = *getBounds(*range, extents);
  return std::pair(bounds.low, bounds.high);
}

/// Returns the range of an index in a loop body over `extents` (all positive),
/// computed from at most `budget` operations; std::nullopt if the index is not
/// a sum of multiples of loop indices.
static std::optional<IndexRange>
getRange(Value value, ArrayRef<int64_t> extents, unsigned &budget) {
  IndexRange leaf;
  leaf.coefficients.resize(extents.size());
  IntegerAttr constant;
  if (matchPattern(value, m_Constant(&constant))) {
    leaf.rest = {constant.getInt(), constant.getInt()};
    return leaf;
  }
  Operation *op = value.getDefiningOp();
  if (!op || budget == 0)
    return std::nullopt;
  --budget;
  if (isa<linalg::IndexOp, repro::IndexOp>(op)) {
    auto loop = dyn_cast<linalg::IndexOp>(op);
    leaf.coefficients[loop ? loop.getDim()
                           : cast<repro::IndexOp>(op).getDim()] = 1;
    return leaf;
  }
  auto is64Bits = [](Value v) {
    return v.getType().isIndex() || v.getType().isInteger(64);
  };
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::IndexCastOp>(
          op) ||
      !llvm::all_of(op->getOperands(), is64Bits) || !is64Bits(op->getResult(0)))
    return std::nullopt;
  std::optional<IndexRange> range =
      getRange(op->getOperand(0), extents, budget);
  if (!range || isa<arith::IndexCastOp>(op))
    return range;
  IntegerAttr factor;
  if (isa<arith::MulIOp>(op)) {
    if (!matchPattern(op->getOperand(1), m_Constant(&factor)))
      return std::nullopt;
    range = scaleRange(*range, factor.getInt());
  } else {
    std::optional<IndexRange> rhs =
        getRange(op->getOperand(1), extents, budget);
    if (rhs && isa<arith::SubIOp>(op))
      rhs = scaleRange(*rhs, -1);
    range = rhs ? addRanges(*range, *rhs) : std::nullopt;
  }
  if (!range || !getBounds(*range, extents))
    return std::nullopt;
  return range;
}

bool repro::isWithin(Value value, Operation *loops, int64_t size) {
  SmallVector<int64_t> extents =
      isa<FoldOp>(loops) ? cast<FoldOp>(loops).getStaticLoopRanges()
                         : cast<linalg::GenericOp>(loops).getStaticLoopRanges();
  if (ShapedType::isDynamicShape(extents))
    return false;
  if (llvm::is_contained(extents, 0))
    return true;
  unsigned budget = 16;
  std::optional<IndexRange> range = getRange(value, extents, budget);
  std::optional<Interval> bounds =
      range ? getBounds(*range, extents) : std::nullopt;
  return bounds && bounds->low >= 0 && bounds->high < size;
}
