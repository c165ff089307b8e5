//===- ImportedOps.cpp - Operations of imported programs ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/ImportedOps.h"

using namespace mlir;
using namespace mlir::repro;

#define GET_OP_CLASSES
#include "dialects/Repro/IR/ImportedOps.cpp.inc"
