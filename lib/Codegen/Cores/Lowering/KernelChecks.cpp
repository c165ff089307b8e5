//===- KernelChecks.cpp - Which kernels contain checks --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelChecks.h"

#include "dialects/Launch/IR/KernelSignature.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

using namespace mlir;
using namespace mlir::repro;

bool cores::hasChecks(FunctionOpInterface kernel) {
  if (kernel.isExternal())
    return true;
  if (!launch::KernelSignature(kernel).getError().use_empty())
    return true;
  // Before the expansion, checks are assertions.
  return kernel.walk([](cf::AssertOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}
