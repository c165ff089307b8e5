//===- Adjoints.h - Adjoints of a program's values --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_DIFFERENTIATION_ADJOINTS_H
#define REPRO_DIALECT_REPRO_DIFFERENTIATION_ADJOINTS_H

#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {

/// The adjoints of a function's values: the gradients known so far while its
/// operations are visited in reverse order.
class Adjoints {
public:
  /// Operations that compute adjoints are inserted at the end of `block`. A
  /// value is active if it depends on one of `sources` through floats only.
  Adjoints(Block &block, ArrayRef<Value> sources);

  bool isActive(Value value) const { return active.contains(value); }
  bool isActive(Operation *op) const;
  /// Returns the adjoint of a value; null if no contribution has been added.
  Value get(Value value) const { return adjoints.lookup(value); }
  /// (J1) Adds a contribution to the sum of the earlier contributions to a
  /// value's adjoint. A null contribution is zero. Does nothing for inactive
  /// values, which have no adjoint.
  void add(Value value, Value contribution);
  /// Returns a builder that inserts before the terminator of the block.
  ImplicitLocOpBuilder builderAt(Location loc) const;

private:
  Block &block;
  DenseSet<Value> active;
  DenseMap<Value, Value> adjoints;
};

/// (J2) Returns the type in which derivatives of floats of `type` are computed.
Type getDerivativeType(Type type);

/// (J2) Returns the gradients of the operands of a scalar operation, given the
/// gradient of its result. `lookUp` maps the operands and the result to the
/// values that the created operations use.
SmallVector<Scalar> deriveOperands(DerivativeOpInterface op, Scalar gradient,
                                   llvm::function_ref<Value(Value)> lookUp);

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Returns a zero tensor or scalar of the type.
Value makeZero(ImplicitLocOpBuilder &b, Type type);
/// Reverses `tensor` along a dimension.
Value flip(ImplicitLocOpBuilder &b, Value tensor, int64_t dim);
/// Slices `size` elements from `offset` along a dimension.
Value slice(ImplicitLocOpBuilder &b, Value tensor, int64_t dim, int64_t offset,
            int64_t size);
/// Returns a tensor of `shape` that contains each element's index in a
/// dimension, as i64.
Value makePositions(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                    int64_t dim);
/// Returns the inclusive scan of `tensor` along `dim`.
Value scan(ImplicitLocOpBuilder &b, Value tensor, Combine combine, int64_t dim);

} // namespace mlir::repro

#include "lib/Dialect/Repro/Differentiation/AdjointOpInterface.h.inc"

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_ADJOINTS_H
