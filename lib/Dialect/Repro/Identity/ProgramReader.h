//===- ProgramReader.h - Canonical programs from their bytes ----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_PROGRAMREADER_H
#define REPRO_IDENTITY_PROGRAMREADER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::repro {

/// Reads the canonical module that writeProgram has written as `bytes`, in
/// linear time and memory. Returns null for all other bytes, even another
/// encoding of a program. The error names the wrong byte if it is known.
OwningOpRef<ModuleOp> readProgram(StringRef bytes, MLIRContext *context);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_PROGRAMREADER_H
