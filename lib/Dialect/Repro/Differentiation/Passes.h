//===- Passes.h - Differentiation of imported programs ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_DIFFERENTIATION_PASSES_H
#define REPRO_DIALECT_REPRO_DIFFERENTIATION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::repro {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Dialect/Repro/Differentiation/Passes.h.inc"

/// (J1) Registers `AdjointOpInterface` for the operations of imported programs.
void registerConvolutionAdjoint(DialectRegistry &registry);
void registerReproAdjoints(DialectRegistry &registry);
void registerStructuredAdjoints(DialectRegistry &registry);
void registerTensorAdjoints(DialectRegistry &registry);
} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_PASSES_H
