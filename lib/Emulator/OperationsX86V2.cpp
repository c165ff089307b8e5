//===- OperationsX86V2.cpp - Operations for x86-64-v2 ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define REPRO_EMULATOR_LEVEL "x86-64-v2"
#define REPRO_EMULATOR_TABLE repro_emulator_operations_v2
#include "Emulator/Operations.inc"
