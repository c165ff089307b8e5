//===- OutlineKernels.cpp - Structured ops become kernel functions --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-outline-kernels (Passes.td), run by lib/Pipelines/Schedule.cpp:
// moves each structured op of `main` into a kernel function, which `main`
// launches. Equal kernels share one function.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "KernelOps.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROOUTLINEKERNELS
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {

struct OutlineKernels
    : public repro::impl::ReproOutlineKernelsBase<OutlineKernels> {
  void runOnOperation() override;
};
} // namespace

/// (E1) Verifies that each check in `op` has the number of its message.
static LogicalResult verifyChecks(Operation *op) {
  launch::LaunchDialect::MessageAttrHelper message(op->getContext());
  return failure(
      op->walk([&](Operation *nested) {
          if (!isa<cf::AssertOp>(nested) || message.isAttrPresent(nested))
            return WalkResult::advance();
          nested->emitOpError("expected the number of its message, which "
                              "repro-number-checks gives it");
          return WalkResult::interrupt();
        }).wasInterrupted());
}

/// Erases buffers and views that are not used.
static void eraseDeadOps(func::FuncOp main) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// If a fold reads an operand at a constant index, such as one tap of a
/// convolution, gives it the slice at that index. Folds that differ only in the
/// index, such as the phases of a strided convolution, then share a kernel.
static void sliceAtConstants(FoldOp fold, Operation *before) {
  OpBuilder builder(before);
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  for (OpOperand &operand : fold.getInputsMutable()) {
    AffineMap &map = maps[operand.getOperandNumber()];
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type || !type.hasStaticShape() || type.getNumElements() == 0 ||
        !operand.get().getParentRegion()->isAncestor(before->getParentRegion()))
      continue;
    SmallVector<AffineExpr> exprs(map.getResults());
    SmallVector<OpFoldResult> offsets, sizes,
        strides(exprs.size(), builder.getIndexAttr(1));
    bool isSlice = false;
    for (auto [expr, extent] : llvm::zip_equal(exprs, type.getShape())) {
      auto constant = dyn_cast<AffineConstantExpr>(expr);
      isSlice |= constant && extent > 1;
      offsets.push_back(
          builder.getIndexAttr(constant ? constant.getValue() : 0));
      sizes.push_back(builder.getIndexAttr(constant ? 1 : extent));
      if (constant)
        expr = builder.getAffineConstantExpr(0);
    }
    if (!isSlice)
      continue;
    map = AffineMap::get(map.getNumDims(), 0, exprs, builder.getContext());
    operand.set(memref::SubViewOp::create(builder, fold.getLoc(), operand.get(),
                                          offsets, sizes, strides));
  }
  fold.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
}

void OutlineKernels::runOnOperation() {
  ModuleOp module = getOperation();
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal() || !main.getBody().hasOneBlock()) {
    module.emitError("expected a function 'main' of one block");
    return signalPassFailure();
  }
  for (Operation &op : llvm::make_early_inc_range(
           main.getBody().front().without_terminator())) {
    if (isMemoryEffectFree(&op) ||
        isa<memref::AllocOp, memref::GetGlobalOp>(op))
      continue;
    if (auto copy = dyn_cast<memref::CopyOp>(op);
        copy && copy.getSource() == copy.getTarget()) {
      op.erase();
      continue;
    }
    if (!isa<KernelOpInterface>(op)) {
      op.emitOpError("expected only structured operations on buffers");
      return signalPassFailure();
    }
    if (failed(verifyChecks(&op)))
      return signalPassFailure();
  }
  eraseDeadOps(main);
  KernelOutliner kernels(main, "kernel");
  for (Operation &op : llvm::make_early_inc_range(
           main.getBody().front().without_terminator())) {
    if (!isa<KernelOpInterface>(op))
      continue;
    op.walk([&](FoldOp fold) { sliceAtConstants(fold, &op); });
    if (failed(kernels.outline(&op)))
      return signalPassFailure();
  }
  eraseDeadOps(main);
}
