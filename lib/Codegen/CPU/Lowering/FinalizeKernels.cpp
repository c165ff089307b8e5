//===- FinalizeKernels.cpp - Keep the expanded kernels alone --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFINALIZEKERNELS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct FinalizeKernels
    : public repro::impl::ReproFinalizeKernelsBase<FinalizeKernels> {
  void runOnOperation() override;
};
} // namespace

void FinalizeKernels::runOnOperation() {
  for (auto kernel : getOperation().getOps<func::FuncOp>()) {
    constexpr unsigned scratchFromEnd = 4;
    if (kernel.isExternal() || kernel.getNumArguments() < scratchFromEnd)
      continue;
    BlockArgument scratch =
        kernel.getArgument(kernel.getNumArguments() - scratchFromEnd);
    auto type = dyn_cast<MemRefType>(scratch.getType());
    if (!type || type.hasStaticShape())
      continue;
    int64_t bytes = 0;
    if (auto attr = kernel->getAttrOfType<IntegerAttr>("repro.scratch_bytes"))
      bytes = attr.getInt();
    OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
    scratch.setType(MemRefType::get({bytes}, type.getElementType()));
    auto cast = memref::CastOp::create(builder, kernel.getLoc(), type, scratch);
    scratch.replaceAllUsesExcept(cast, cast);
    kernel.setFunctionType(builder.getFunctionType(
        kernel.getBody().getArgumentTypes(), kernel.getResultTypes()));
    // Kernels are entered by address.
    kernel.setPublic();
  }
}
