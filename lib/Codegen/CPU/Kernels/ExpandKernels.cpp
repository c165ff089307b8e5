//===- ExpandKernels.cpp - Expands kernel functions to loops --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-kernels (Passes.td), run by lib/Pipelines/CPU.cpp: expands
// the structured operation in each private function to loops, through
// HostKernelOpInterface. The loops compute the same bits at every CPU level.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/CPU/Passes.h"
#include "Codegen/Schedule/Buffers/KernelContract.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDKERNELS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct ExpandKernels
    : public repro::impl::ReproExpandKernelsBase<ExpandKernels> {
  using ReproExpandKernelsBase::ReproExpandKernelsBase;

  void runOnOperation() override {
    std::string error;
    FailureOr<Level> machine = getLevel(level, error);
    if (failed(machine)) {
      getOperation().emitError(error);
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function.isPrivate())
        continue;
      FailureOr<Operation *> op = findKernelBody(function);
      if (failed(op))
        return signalPassFailure();
      if (!*op)
        continue;
      auto kernel = dyn_cast<cpu::HostKernelOpInterface>(*op);
      if (!kernel) {
        (*op)->emitError("expected an operation that CPUs have a kernel for, "
                         "got '")
            << (*op)->getName() << "'";
        return signalPassFailure();
      }
      cpu::HostBuilder b(function, *op, *machine);
      if (failed(kernel.expandKernel(b)))
        return signalPassFailure();
      b.finish();
    }
  }
};
} // namespace
