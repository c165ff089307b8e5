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

/// Elements offset + i * stride for i < size, along one dimension.
struct StridedRange {
  int64_t offset, size, stride;

  bool overlaps(const StridedRange &other) const;
};

/// One range per dimension.
using TensorSlice = SmallVector<StridedRange>;

/// All of a tensor of static shape.
TensorSlice getWhole(RankedTensorType type);

/// The slice that the source replaces; nothing where it is dynamic or of rank 0
/// or the source has fewer dimensions.
std::optional<TensorSlice> getSlice(tensor::InsertSliceOp op);

Value createInsertion(OpBuilder &builder, Location loc, Value source,
                      Value target, const TensorSlice &slice);

/// Whether the slices may have an element in common.
bool overlap(const TensorSlice &one, const TensorSlice &other);

/// The slice in a tensor of `extents` whose dimensions are collapsed by
/// `groups`, or nothing where it is not one.
std::optional<TensorSlice> collapse(const TensorSlice &slice,
                                    ArrayRef<int64_t> extents,
                                    ArrayRef<ReassociationIndices> groups);

/// The slice in a tensor whose dimensions are expanded by `groups` to
/// `extents`, or nothing where it is not one.
std::optional<TensorSlice> expand(const TensorSlice &slice,
                                  ArrayRef<int64_t> extents,
                                  ArrayRef<ReassociationIndices> groups);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_TENSORSLICE_H
