//===- TensorBuilders.h - Builders of tensor operations ---------*- C++ -*-===//
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

/// Creates a tensor of `shape`. `body` computes the element at position p from
/// one element of each input: for input i, the element at position maps[i](p).
/// A null or missing map is the identity.
Value mapElements(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, Type element,
    ValueRange inputs, ArrayRef<AffineMap> maps,
    llvm::function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body);
/// Like `mapElements`, but `body` computes one element of each of several
/// results.
SmallVector<Value> mapElementsToMany(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, TypeRange elements,
    ValueRange inputs, ArrayRef<AffineMap> maps,
    llvm::function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)>
        body);

/// Reshapes a tensor of static shape to `shape`, with the elements in the same
/// row-major order.
Value reshape(ImplicitLocOpBuilder &b, Value tensor, ArrayRef<int64_t> shape);

/// Converts each element of `tensor` to the float type `element`.
Value convertElements(ImplicitLocOpBuilder &b, Value tensor, Type element);

/// Permutes dimensions: dimension i of the result is dimension permutation[i]
/// of `tensor`.
Value transpose(ImplicitLocOpBuilder &b, Value tensor,
                ArrayRef<int64_t> permutation);

/// Pads `tensor` with trailing zeros to `shape`.
Value padWithZeros(ImplicitLocOpBuilder &b, Value tensor,
                   ArrayRef<int64_t> shape);

/// (Q2) Divides the elements of an f32 tensor into groups. Returns a tensor of
/// `shape` with the maximum magnitude of each group; `map` maps the position of
/// an element to that of its group's maximum.
Value createAmax(ImplicitLocOpBuilder &b, Value tensor, ArrayRef<int64_t> shape,
                 AffineMap map);

} // namespace mlir::repro

#endif // REPRO_IR_TENSORBUILDERS_H
