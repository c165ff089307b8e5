//===- OperationsGeneric.cpp - Operations for CPUs without a level --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define REPRO_EMULATOR_LEVEL "generic"
#define REPRO_EMULATOR_TABLE repro_emulator_operations_generic
#include "Emulator/Operations.inc"
