//===- TensorSlice.cpp - Slices of tensors --------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/TensorSlice.h"

#include <numeric>

using namespace mlir;
using namespace mlir::repro;

bool StridedRange::overlaps(const StridedRange &other) const {
  if (offset > other.offset)
    return other.overlaps(*this);
  if (offset + (size - 1) * stride < other.offset)
    return false;
  // An approximation: whether the ranges would have a common element if they
  // were unbounded.
  return (other.offset - offset) % std::gcd(stride, other.stride) == 0;
}

TensorSlice repro::getWhole(RankedTensorType type) {
  TensorSlice slice;
  for (int64_t extent : type.getShape())
    slice.push_back({0, extent, 1});
  return slice;
}

std::optional<TensorSlice> repro::getSlice(tensor::InsertSliceOp op) {
  if (op.getDestType().getRank() == 0 ||
      op.getSourceType().getRank() != op.getDestType().getRank() ||
      !op.getDestType().hasStaticShape())
    return std::nullopt;
  TensorSlice slice;
  for (auto [offset, size, stride] : llvm::zip_equal(
           op.getStaticOffsets(), op.getStaticSizes(), op.getStaticStrides())) {
    if (ShapedType::isDynamic(offset) || ShapedType::isDynamic(size) ||
        ShapedType::isDynamic(stride) || size == 0)
      return std::nullopt;
    slice.push_back({offset, size, stride});
  }
  return slice;
}

Value repro::createInsertion(OpBuilder &builder, Location loc, Value source,
                             Value target, const TensorSlice &slice) {
  SmallVector<OpFoldResult> offsets, sizes, strides;
  for (const StridedRange &range : slice) {
    offsets.push_back(builder.getIndexAttr(range.offset));
    sizes.push_back(builder.getIndexAttr(range.size));
    strides.push_back(builder.getIndexAttr(range.stride));
  }
  return tensor::InsertSliceOp::create(builder, loc, source, target, offsets,
                                       sizes, strides);
}

bool repro::overlap(const TensorSlice &one, const TensorSlice &other) {
  return llvm::all_of(llvm::zip_equal(one, other), [](auto pair) {
    return std::get<0>(pair).overlaps(std::get<1>(pair));
  });
}

/// Returns the range of the elements of `ranges` after their dimensions, with
/// the extents `extents`, are collapsed to one; std::nullopt if these elements
/// do not form a range.
static std::optional<StridedRange> collapseGroup(ArrayRef<StridedRange> ranges,
                                                 ArrayRef<int64_t> extents) {
  StridedRange result{0, 1, 1};
  int64_t inner = 1;
  for (auto [range, extent] :
       llvm::zip_equal(llvm::reverse(ranges), llvm::reverse(extents))) {
    result.offset += range.offset * inner;
    if (range.size > 1) {
      int64_t stride = range.stride * inner;
      if (result.size == 1)
        result.stride = stride;
      else if (stride != result.stride * result.size)
        return std::nullopt;
      result.size *= range.size;
    }
    inner *= extent;
  }
  return result;
}

/// Returns the ranges of the elements of `range` after its dimension is
/// expanded to dimensions with the extents `extents`; std::nullopt if these
/// elements do not form ranges.
static std::optional<TensorSlice> expandDimension(const StridedRange &range,
                                                  ArrayRef<int64_t> extents) {
  TensorSlice result;
  int64_t offset = range.offset;
  for (int64_t extent : llvm::reverse(extents)) {
    result.push_back({offset % extent, 1, 1});
    offset /= extent;
  }
  std::reverse(result.begin(), result.end());
  // The elements must fill some inner dimensions and form a range in the next
  // dimension.
  StridedRange rest = range;
  for (int64_t i = extents.size() - 1; i >= 0 && rest.size > 1; --i) {
    if (result[i].offset + (rest.size - 1) * rest.stride < extents[i]) {
      result[i].size = rest.size;
      result[i].stride = rest.stride;
      return result;
    }
    if (rest.stride % extents[i] == 0) {
      rest.stride /= extents[i];
      continue;
    }
    if (rest.stride != 1 || result[i].offset != 0 ||
        rest.size % extents[i] != 0)
      return std::nullopt;
    result[i].size = extents[i];
    rest.size /= extents[i];
  }
  if (rest.size > 1)
    return std::nullopt;
  return result;
}

std::optional<TensorSlice>
repro::collapse(const TensorSlice &slice, ArrayRef<int64_t> extents,
                ArrayRef<ReassociationIndices> groups) {
  TensorSlice result;
  for (const ReassociationIndices &group : groups) {
    std::optional<StridedRange> range =
        collapseGroup(ArrayRef(slice).slice(group.front(), group.size()),
                      extents.slice(group.front(), group.size()));
    if (!range)
      return std::nullopt;
    result.push_back(*range);
  }
  return result;
}

std::optional<TensorSlice>
repro::expand(const TensorSlice &slice, ArrayRef<int64_t> extents,
              ArrayRef<ReassociationIndices> groups) {
  TensorSlice result;
  for (auto [range, group] : llvm::zip_equal(slice, groups)) {
    std::optional<TensorSlice> ranges =
        expandDimension(range, extents.slice(group.front(), group.size()));
    if (!ranges)
      return std::nullopt;
    llvm::append_range(result, *ranges);
  }
  return result;
}
