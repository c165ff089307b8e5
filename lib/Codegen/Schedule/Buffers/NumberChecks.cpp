//===- NumberChecks.cpp - Number the checks of a program ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-number-checks (Passes.td), run by lib/Pipelines/Schedule.cpp:
// numbers the checks (E1) of the module in program order, and stores their
// messages as an attribute of the module.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPRONUMBERCHECKS
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct NumberChecks : public repro::impl::ReproNumberChecksBase<NumberChecks> {
  void runOnOperation() override;
};
} // namespace

/// Returns a prefix for messages: "file.py:3: " for the innermost file of the
/// location; if there is no file, "loss function: " for the outermost name.
static std::string describe(Location loc) {
  std::string line, name;
  loc->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = (named.getName().getValue() + ": ").str();
    auto file = dyn_cast<FileLineColLoc>(inner);
    if (!file)
      return WalkResult::advance();
    line = (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ": ")
               .str();
    return WalkResult::interrupt();
  });
  return line.empty() ? name : line;
}

static std::string getMessage(cf::AssertOp check) {
  return describe(check.getLoc()) + check.getMsg().str();
}

void NumberChecks::runOnOperation() {
  ModuleOp module = getOperation();
  Builder builder(module);
  launch::LaunchDialect::MessageAttrHelper messageAttr(module.getContext());
  llvm::SetVector<Attribute> messages;
  module.walk<WalkOrder::PreOrder>([&](cf::AssertOp op) {
    Attribute message = builder.getStringAttr(getMessage(op));
    messages.insert(message);
    auto number =
        std::distance(messages.begin(), llvm::find(messages, message));
    messageAttr.setAttr(op, builder.getI64IntegerAttr(number));
  });
  launch::LaunchDialect::MessagesAttrHelper(module.getContext())
      .setAttr(module, builder.getArrayAttr(messages.getArrayRef()));
}
