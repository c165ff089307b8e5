//===- TensorSlice.h - Slices of tensors ------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_TENSORSLICE_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_TENSORSLICE_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::repro {

/// The elements offset + i * stride for 0 <= i < size, along one dimension.
struct StridedRange {
  int64_t offset, size, stride;

  bool overlaps(const StridedRange &other) const;
};

/// A part of a tensor: one range for each dimension.
using TensorSlice = SmallVector<StridedRange>;

/// Returns the slice that is a whole tensor of static shape.
TensorSlice getWhole(RankedTensorType type);

/// Returns the slice that an insertion overwrites. Returns std::nullopt if the
/// slice or the target is dynamic, if the slice is empty or of rank 0, or if
/// the source has fewer dimensions than the target.
std::optional<TensorSlice> getSlice(tensor::InsertSliceOp op);

/// Creates the insertion of `source` into `slice` of `target`, and returns its
/// result.
Value createInsertion(OpBuilder &builder, Location loc, Value source,
                      Value target, const TensorSlice &slice);

/// Whether two slices may have an element in common.
bool overlap(const TensorSlice &one, const TensorSlice &other);

/// Returns what `slice`, of a tensor with the extents `extents`, becomes when
/// the groups `groups` of dimensions are collapsed; std::nullopt if that is not
/// a slice.
std::optional<TensorSlice> collapse(const TensorSlice &slice,
                                    ArrayRef<int64_t> extents,
                                    ArrayRef<ReassociationIndices> groups);

/// Returns what `slice` becomes when its dimensions are expanded to the groups
/// `groups` with the extents `extents`; std::nullopt if that is not a slice.
std::optional<TensorSlice> expand(const TensorSlice &slice,
                                  ArrayRef<int64_t> extents,
                                  ArrayRef<ReassociationIndices> groups);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_TENSORSLICE_H
