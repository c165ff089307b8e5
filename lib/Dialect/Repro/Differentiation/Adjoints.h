//===- Adjoints.h - Adjoints of a program's values -*- C++ -*-===//
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

/// The adjoints of the values of a function: the gradients that are known so
/// far while its operations are gone through from the last one on.
class Adjoints {
public:
  /// Adjoints are computed at the end of `block`. A value is active where it
  /// depends on one of `sources` through floats alone.
  Adjoints(Block &block, ArrayRef<Value> sources);

  bool isActive(Value value) const { return active.contains(value); }
  bool isActive(Operation *op) const;
  /// The adjoint of a value, null where nothing contributed to it.
  Value get(Value value) const { return adjoints.lookup(value); }
  /// (J1) Adds a contribution behind those that there are. Inactive values have
  /// no adjoint. A null contribution is zero.
  void add(Value value, Value contribution);
  /// A builder before the end of the block.
  ImplicitLocOpBuilder builderAt(Location loc) const;

private:
  Block &block;
  DenseSet<Value> active;
  DenseMap<Value, Value> adjoints;
};

/// (J2) The type in which derivatives of floats of `type` are computed.
Type getDerivativeType(Type type);

/// (J2) The gradients of the operands of an operation on scalars, given that of
/// its result, where `lookUp` gives the values of its operands and result.
SmallVector<Scalar> deriveOperands(DerivativeOpInterface op, Scalar gradient,
                                   llvm::function_ref<Value(Value)> lookUp);

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// A tensor of the type, or a scalar, that is zero.
Value makeZero(ImplicitLocOpBuilder &b, Type type);
/// `tensor` in descending order along a dimension.
Value flip(ImplicitLocOpBuilder &b, Value tensor, int64_t dim);
/// Elements from `offset` on, `size` of them, along a dimension.
Value slice(ImplicitLocOpBuilder &b, Value tensor, int64_t dim, int64_t offset,
            int64_t size);
/// The position along a dimension, as i64.
Value makePositions(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                    int64_t dim);
/// The inclusive scan of `tensor`.
Value scan(ImplicitLocOpBuilder &b, Value tensor, Combine combine, int64_t dim);

} // namespace mlir::repro

#include "lib/Dialect/Repro/Differentiation/AdjointOpInterface.h.inc"

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_ADJOINTS_H
