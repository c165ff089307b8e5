//===- FinalizeKernels.cpp - Makes kernels ready for LLVM IR --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-finalize-kernels (Passes.td), run by lib/Pipelines/CPU.cpp: gives
// the scratch buffer of each kernel a static size and buffers without elements
// no strides of 0, so that every buffer can become a bare pointer.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Launch/IR/Launch.h"

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

/// Makes a buffer without elements an argument of rank 1. LLVM's lowering has
/// no bare pointer for a stride of 0, which a buffer of 4 x 0 elements has.
static void flattenEmpty(BlockArgument buffer, OpBuilder &builder) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  if (!type || !type.hasStaticShape() || type.getNumElements() != 0)
    return;
  int64_t offset;
  FailureOr<SmallVector<int64_t>> strides = getStaticStrides(type, offset);
  if (failed(strides))
    return;
  buffer.setType(MemRefType::get({0}, type.getElementType()));
  auto cast =
      memref::ReinterpretCastOp::create(builder, buffer.getLoc(), type, buffer,
                                        offset, type.getShape(), *strides);
  buffer.replaceAllUsesExcept(cast, cast);
}

void FinalizeKernels::runOnOperation() {
  for (auto kernel : getOperation().getOps<func::FuncOp>()) {
    if (kernel.isExternal() || !launch::KernelSignature::matches(kernel))
      continue;
    BlockArgument scratch = launch::KernelSignature(kernel).getScratch();
    auto type = cast<MemRefType>(scratch.getType());
    launch::WorkAttr work =
        launch::LaunchDialect::WorkAttrHelper(&getContext()).getAttr(kernel);
    int64_t bytes = work ? work.getScratchBytes() : 0;
    OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
    scratch.setType(MemRefType::get({bytes}, type.getElementType()));
    auto cast = memref::CastOp::create(builder, kernel.getLoc(), type, scratch);
    scratch.replaceAllUsesExcept(cast, cast);
    for (BlockArgument argument : kernel.getBody().getArguments())
      if (argument != scratch)
        flattenEmpty(argument, builder);
    kernel.setFunctionType(builder.getFunctionType(
        kernel.getBody().getArgumentTypes(), kernel.getResultTypes()));
    // Removes attributes that the launch plan no longer needs and that LLVM IR
    // does not have.
    StringRef access = launch::LaunchDialect::AccessAttrHelper::getNameStr();
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      kernel.removeArgAttr(i, access);
    // Kernels are entered through a table of addresses, so they must not be
    // removed as unused.
    kernel.setPublic();
  }
}
