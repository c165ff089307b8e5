//===- Passes.h - Partition of programs among ranks -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_PARTITION_PASSES_H
#define REPRO_DIALECT_REPRO_PARTITION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::repro {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Dialect/Repro/Partition/Passes.h.inc"

/// (T1) Registers `PartitionOpInterface` for the operations of canonical
/// programs.
void registerStructuredDivisions(DialectRegistry &registry);
void registerTensorDivisions(DialectRegistry &registry);
} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_PARTITION_PASSES_H
