//===- TensorBuilders.h - Tensors out of tensors ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_TENSORBUILDERS_H
#define REPRO_IR_TENSORBUILDERS_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {

/// A tensor of `shape` whose elements `body` computes from those of `inputs` at
/// `maps` of their position; a null map, or one that is left out, is the
/// identity.
Value mapElements(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, Type element,
    ValueRange inputs, ArrayRef<AffineMap> maps,
    llvm::function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body);
/// The same, of several tensors.
SmallVector<Value> mapElementsToMany(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, TypeRange elements,
    ValueRange inputs, ArrayRef<AffineMap> maps,
    llvm::function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)>
        body);

/// Reads or writes the elements of a tensor of static shape in row-major order
/// as one of another shape.
Value reshape(ImplicitLocOpBuilder &b, Value tensor, ArrayRef<int64_t> shape);

/// `tensor` with each element converted to a float type.
Value convertElements(ImplicitLocOpBuilder &b, Value tensor, Type element);

/// Dimension i of the result is dimension permutation[i] of `tensor`.
Value transpose(ImplicitLocOpBuilder &b, Value tensor,
                ArrayRef<int64_t> permutation);

/// `tensor` with zeros behind its elements, so that it has a shape.
Value padWithZeros(ImplicitLocOpBuilder &b, Value tensor,
                   ArrayRef<int64_t> shape);

/// (Q2) The greatest magnitudes, of `shape`, of the elements of a tensor of
/// f32: `map` says from a position of an element of which one it is.
Value createAmax(ImplicitLocOpBuilder &b, Value tensor, ArrayRef<int64_t> shape,
                 AffineMap map);

} // namespace mlir::repro

#endif // REPRO_IR_TENSORBUILDERS_H
