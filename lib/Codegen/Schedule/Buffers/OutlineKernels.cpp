//===- OutlineKernels.cpp - Structured ops become kernel functions --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuseEpilogues.h"
#include "FuseRows.h"
#include "Kernel.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROOUTLINEKERNELS
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {

/// "file.py:3: " where the location names a file, innermost first.
std::string describe(Location loc) {
  std::string text;
  loc->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColLoc>(inner);
    if (!file)
      return WalkResult::advance();
    text = (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ": ")
               .str();
    return WalkResult::interrupt();
  });
  return text;
}

struct OutlineKernels
    : public repro::impl::ReproOutlineKernelsBase<OutlineKernels> {
  using ReproOutlineKernelsBase::ReproOutlineKernelsBase;

  void runOnOperation() override;

private:
  /// Numbers the checks of (E1) within a structured op.
  void numberChecks(Operation *op);
  void addMessage(Operation *check, const Twine &text);

  llvm::SetVector<Attribute> messages;
};

} // namespace

void OutlineKernels::addMessage(Operation *check, const Twine &text) {
  Builder builder(check->getContext());
  Attribute message =
      builder.getStringAttr(Twine(describe(check->getLoc())) + text);
  messages.insert(message);
  auto number = std::distance(messages.begin(), llvm::find(messages, message));
  check->setAttr(messageAttrName, builder.getI64IntegerAttr(number));
}

void OutlineKernels::numberChecks(Operation *op) {
  op->walk([&](Operation *nested) {
    if (auto assertion = dyn_cast<cf::AssertOp>(nested)) {
      addMessage(nested, assertion.getMsg());
    } else if (auto scatter = dyn_cast<ScatterOp>(nested)) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      stream << "scatter index out of range for a tensor of shape [";
      llvm::interleaveComma(
          cast<ShapedType>(scatter.getOutputs()[0].getType()).getShape(),
          stream);
      stream << "]";
      addMessage(nested, text);
    }
  });
}

/// Erases buffers and views that nobody uses any more.
static void eraseDeadOps(func::FuncOp main) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void OutlineKernels::runOnOperation() {
  ModuleOp module = getOperation();
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal() || !main.getBody().hasOneBlock()) {
    module.emitError("expected a function 'main' of one block");
    return signalPassFailure();
  }
  messages.clear();
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
    if (!becomesKernel(op)) {
      op.emitOpError("expected structured operations on buffers alone");
      return signalPassFailure();
    }
    numberChecks(&op);
  }
  if (fuseEpilogues)
    repro::fuseEpilogues(main);
  if (fuseRows)
    repro::fuseRows(main);
  eraseDeadOps(main);
  KernelOutliner kernels(main, "kernel");
  for (Operation &op :
       llvm::make_early_inc_range(main.getBody().front().without_terminator()))
    if (becomesKernel(op) && failed(kernels.outline(&op)))
      return signalPassFailure();
  eraseDeadOps(main);
  Builder builder(&getContext());
  module->setAttr(messagesAttrName,
                  builder.getArrayAttr(messages.getArrayRef()));
}
