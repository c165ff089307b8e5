//===- Passes.h - Canonical-to-canonical passes -----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_PASSES_H
#define REPRO_TRANSFORMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::repro {
#define GEN_PASS_DECL
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_PASSES_H
