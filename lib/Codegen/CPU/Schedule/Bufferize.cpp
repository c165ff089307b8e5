//===- Bufferize.cpp - From tensors to buffers ----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Codegen/CPU/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROBUFFERIZE
#include "dialects/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::bufferization;

namespace {
struct Bufferize : public repro::impl::ReproBufferizeBase<Bufferize> {
  void runOnOperation() override;
};
} // namespace

/// One tensor.empty for each operation that writes into it: nothing ties the
/// buffers of unrelated operations then.
static void separateEmptyTensors(func::FuncOp function) {
  SmallVector<tensor::EmptyOp> empties(function.getOps<tensor::EmptyOp>());
  for (tensor::EmptyOp empty : empties) {
    OpBuilder builder(empty);
    for (OpOperand &use : llvm::make_early_inc_range(empty->getUses())) {
      builder.setInsertionPoint(use.getOwner());
      use.set(builder.clone(*empty)->getResult(0));
    }
    empty.erase();
  }
}

/// Operations that write over the same constant each get a fill of their own:
/// filling costs less than copying what another one filled.
static void separateFills(func::FuncOp function) {
  auto isFill = [](linalg::GenericOp op) {
    return op && op.getNumDpsInputs() == 0 && op->getNumResults() == 1 &&
           llvm::all_of(op.getBody()->without_terminator(), [](Operation &nested) {
             return nested.hasTrait<OpTrait::ConstantLike>();
           });
  };
  function.walk([&](DestinationStyleOpInterface op) {
    for (OpOperand &init : op.getDpsInitsMutable()) {
      auto fill = init.get().getDefiningOp<linalg::GenericOp>();
      if (!isFill(fill) || fill->hasOneUse())
        continue;
      OpBuilder builder(op);
      auto own = cast<linalg::GenericOp>(builder.clone(*fill));
      builder.setInsertionPoint(own);
      for (OpOperand &empty : own.getDpsInitsMutable())
        empty.set(builder.clone(*empty.get().getDefiningOp())->getResult(0));
      init.set(own->getResult(0));
    }
  });
}

void Bufferize::runOnOperation() {
  ModuleOp module = getOperation();
  BoolAttr no = BoolAttr::get(&getContext(), false);
  StringRef writable = BufferizationDialect::kWritableAttrName;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    separateEmptyTensors(function);
    separateFills(function);
    // What is written in place is repro-plan-buffers' decision.
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.setArgAttr(i, writable, no);
  }
  // What is computed to be inserted somewhere is computed there.
  IRRewriter rewriter(&getContext());
  if (failed(eliminateEmptyTensors(rewriter, module)))
    return signalPassFailure();
  OneShotBufferizationOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.setFunctionBoundaryTypeConversion(LayoutMapOption::IdentityLayoutMap);
  options.unknownTypeConverterFn = [](TensorType type, Attribute space,
                                      const BufferizationOptions &) {
    return getMemRefTypeWithStaticIdentityLayout(type, space);
  };
  BufferizationState state;
  if (failed(runOneShotModuleBufferize(module, options, state)))
    return signalPassFailure();
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.removeArgAttr(i, writable);
}
