//===- CanonicalProgram.h - The contract of canonical programs --*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_CANONICALPROGRAM_H
#define REPRO_IDENTITY_CANONICALPROGRAM_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Verifies that the module is a canonical program
/// (docs/contributors/architecture.md). Reports a violation as an error at its
/// location.
LogicalResult verifyCanonicalProgram(ModuleOp module);

/// Whether the results of the operation depend on the elements of this tensor
/// operand. False if the operand is an init that is only a destination, or an
/// input that only determines a shape.
bool readsElements(OpOperand &operand);

/// (V1) Whether the type is a storage type: a float of less than 32 bits.
/// Tensors contain such elements, but arithmetic on them is in f32.
bool isStorage(Type type);

/// (V1) Whether the operation computes on scalars of storage types. The step of
/// a fold, and operations that only move or convert scalars, do not count.
bool computesOnStorage(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALPROGRAM_H
