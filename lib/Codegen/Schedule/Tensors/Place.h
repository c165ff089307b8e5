//===- Place.h - Where the part of a tensor is ------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_PLACE_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_PLACE_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::repro {

/// Elements offset + i * stride for i < size, along one dimension.
struct Stretch {
  int64_t offset, size, stride;

  bool meets(const Stretch &other) const;
};

/// One stretch per dimension.
using Place = SmallVector<Stretch>;

/// All of a tensor of static shape.
Place getWhole(RankedTensorType type);

/// Where the source goes; nothing where that is dynamic or of rank 0 or the
/// source has fewer dimensions.
std::optional<Place> getPlace(tensor::InsertSliceOp op);

Value createInsertion(OpBuilder &builder, Location loc, Value source,
                      Value target, const Place &place);

/// Whether the places may have an element in common.
bool meet(const Place &one, const Place &other);

/// The place in a tensor of `extents` whose dimensions are collapsed by
/// `groups`, or nothing where it is not one.
std::optional<Place> collapse(const Place &place, ArrayRef<int64_t> extents,
                              ArrayRef<ReassociationIndices> groups);

/// The place in a tensor whose dimensions are expanded by `groups` to
/// `extents`, or nothing where it is not one.
std::optional<Place> expand(const Place &place, ArrayRef<int64_t> extents,
                            ArrayRef<ReassociationIndices> groups);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_PLACE_H
