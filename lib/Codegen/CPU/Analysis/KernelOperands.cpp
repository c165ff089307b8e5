//===- KernelOperands.cpp - Bytes that kernels read and write -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Analysis/KernelOperands.h"

#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

/// Returns the number of bytes from the first to the last element, inclusive.
/// Returns 0 for an empty buffer or unknown strides.
static int64_t getBytes(MemRefType type) {
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return 0;
  int64_t last = 0;
  for (auto [extent, stride] : llvm::zip_equal(type.getShape(), strides)) {
    if (extent == 0)
      return 0;
    last += (extent - 1) * stride;
  }
  return (last + 1) * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

std::string mlir::repro::describeOperands(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto kernel : module.getOps<func::FuncOp>()) {
    stream << kernel.getName();
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      auto buffer = dyn_cast<MemRefType>(type);
      std::optional<launch::Access> access = launch::getAccess(kernel, index);
      if (buffer && access)
        stream << ' ' << launch::stringifyAccess(*access) << ':'
               << getBytes(buffer);
    }
    stream << '\n';
  }
  return text;
}
