//===- ImportedOps.h - Operations of imported programs ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_IMPORTEDOPS_H
#define REPRO_IR_IMPORTEDOPS_H

#include "dialects/Repro/IR/Repro.h"

#define GET_OP_CLASSES
#include "dialects/Repro/IR/ImportedOps.h.inc"

#endif // REPRO_IR_IMPORTEDOPS_H
