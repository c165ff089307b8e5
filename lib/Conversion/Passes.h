//===- Passes.h - Conversions to and from the repro dialect -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CONVERSION_PASSES_H
#define REPRO_CONVERSION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::repro {
#define GEN_PASS_DECL
#include "lib/Conversion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Conversion/Passes.h.inc"
} // namespace mlir::repro

#endif // REPRO_CONVERSION_PASSES_H
