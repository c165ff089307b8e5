//===- Place.cpp - Where the part of a tensor is --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Place.h"

#include <numeric>

using namespace mlir;
using namespace mlir::repro;

bool Stretch::meets(const Stretch &other) const {
  if (offset > other.offset)
    return other.meets(*this);
  if (offset + (size - 1) * stride < other.offset)
    return false;
  // Those of both, were they endless.
  return (other.offset - offset) % std::gcd(stride, other.stride) == 0;
}

Place repro::getWhole(RankedTensorType type) {
  Place place;
  for (int64_t extent : type.getShape())
    place.push_back({0, extent, 1});
  return place;
}

std::optional<Place> repro::getPlace(tensor::InsertSliceOp op) {
  if (op.getDestType().getRank() == 0 ||
      op.getSourceType().getRank() != op.getDestType().getRank() ||
      !op.getDestType().hasStaticShape())
    return std::nullopt;
  Place place;
  for (auto [offset, size, stride] : llvm::zip_equal(
           op.getStaticOffsets(), op.getStaticSizes(), op.getStaticStrides())) {
    if (ShapedType::isDynamic(offset) || ShapedType::isDynamic(size) ||
        ShapedType::isDynamic(stride) || size == 0)
      return std::nullopt;
    place.push_back({offset, size, stride});
  }
  return place;
}

Value repro::createInsertion(OpBuilder &builder, Location loc, Value source,
                             Value target, const Place &place) {
  SmallVector<OpFoldResult> offsets, sizes, strides;
  for (const Stretch &stretch : place) {
    offsets.push_back(builder.getIndexAttr(stretch.offset));
    sizes.push_back(builder.getIndexAttr(stretch.size));
    strides.push_back(builder.getIndexAttr(stretch.stride));
  }
  return tensor::InsertSliceOp::create(builder, loc, source, target, offsets,
                                       sizes, strides);
}

bool repro::meet(const Place &one, const Place &other) {
  return llvm::all_of(llvm::zip_equal(one, other), [](auto pair) {
    return std::get<0>(pair).meets(std::get<1>(pair));
  });
}

/// The stretch of a collapsed dimension, or nothing where it is not one.
static std::optional<Stretch> collapseGroup(ArrayRef<Stretch> stretches,
                                            ArrayRef<int64_t> extents) {
  Stretch result{0, 1, 1};
  int64_t inner = 1;
  for (auto [stretch, extent] :
       llvm::zip_equal(llvm::reverse(stretches), llvm::reverse(extents))) {
    result.offset += stretch.offset * inner;
    if (stretch.size > 1) {
      int64_t stride = stretch.stride * inner;
      if (result.size == 1)
        result.stride = stride;
      else if (stride != result.stride * result.size)
        return std::nullopt;
      result.size *= stretch.size;
    }
    inner *= extent;
  }
  return result;
}

/// The stretches of the dimensions that one is expanded to, or nothing.
static std::optional<Place> expandDimension(const Stretch &stretch,
                                            ArrayRef<int64_t> extents) {
  Place result;
  int64_t offset = stretch.offset;
  for (int64_t extent : llvm::reverse(extents)) {
    result.push_back({offset % extent, 1, 1});
    offset /= extent;
  }
  std::reverse(result.begin(), result.end());
  // All of the inner dimensions that are passed, of the next one a stretch.
  Stretch rest = stretch;
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

std::optional<Place> repro::collapse(const Place &place,
                                     ArrayRef<int64_t> extents,
                                     ArrayRef<ReassociationIndices> groups) {
  Place result;
  for (const ReassociationIndices &group : groups) {
    std::optional<Stretch> stretch =
        collapseGroup(ArrayRef(place).slice(group.front(), group.size()),
                      extents.slice(group.front(), group.size()));
    if (!stretch)
      return std::nullopt;
    result.push_back(*stretch);
  }
  return result;
}

std::optional<Place> repro::expand(const Place &place,
                                   ArrayRef<int64_t> extents,
                                   ArrayRef<ReassociationIndices> groups) {
  Place result;
  for (auto [stretch, group] : llvm::zip_equal(place, groups)) {
    std::optional<Place> stretches =
        expandDimension(stretch, extents.slice(group.front(), group.size()));
    if (!stretches)
      return std::nullopt;
    llvm::append_range(result, *stretches);
  }
  return result;
}
