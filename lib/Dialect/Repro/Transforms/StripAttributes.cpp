//===- StripAttributes.cpp - Remove attributes of no effect ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-strip-attributes (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the module and removes every
// discardable attribute that is not part of a canonical program.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROSTRIPATTRIBUTES
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;

static void stripAttributes(Operation *op) {
  // All attributes of an unregistered operation are discardable.
  if (!op->isRegistered())
    return;
  for (NamedAttribute attr : llvm::to_vector(op->getDiscardableAttrs()))
    if (attr.getName() != "repro.num_state")
      op->removeDiscardableAttr(attr.getName());
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return;
  auto namesOnly = [&](DictionaryAttr attrs) -> DictionaryAttr {
    Attribute name = attrs ? attrs.get("repro.name") : Attribute();
    SmallVector<NamedAttribute> kept;
    if (name)
      kept.emplace_back(StringAttr::get(op->getContext(), "repro.name"), name);
    return DictionaryAttr::get(op->getContext(), kept);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttrs(i, namesOnly(function.getArgAttrDict(i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.setResultAttrs(i, namesOnly(function.getResultAttrDict(i)));
}

namespace {
struct StripAttributes
    : public repro::impl::ReproStripAttributesBase<StripAttributes> {
  void runOnOperation() override {
    getOperation().removeSymNameAttr();
    getOperation().walk(stripAttributes);
  }
};
} // namespace
