//===- Derivatives.h - Derivatives of upstream's operations -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_IR_DERIVATIVES_H
#define REPRO_DIALECT_REPRO_IR_DERIVATIVES_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::repro {

/// (J2) Registers `DerivativeOpInterface` for operations of arith and math.
void registerDerivatives(DialectRegistry &registry);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_IR_DERIVATIVES_H
