//===- Bufferize.cpp - Convert tensors to buffers -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-bufferize (Passes.td), run by lib/Pipelines/Schedule.cpp: runs
// one-shot bufferization, with identity layouts for all buffers. Arguments are
// never written.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROBUFFERIZE
#include "lib/Codegen/Schedule/Buffers/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::bufferization;

namespace {
struct Bufferize : public repro::impl::ReproBufferizeBase<Bufferize> {
  void runOnOperation() override;
};
} // namespace

/// Gives each operation that writes into a tensor.empty a tensor.empty of its
/// own, so that unrelated operations do not share a buffer.
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

/// Returns the constant that fills `tensor`; null if `tensor` is not filled
/// with a constant.
static TypedAttr getFillValue(Value tensor) {
  auto fill = tensor.getDefiningOp<linalg::GenericOp>();
  if (!fill || fill.getNumDpsInputs() != 0 || fill->getNumResults() != 1 ||
      !llvm::all_of(fill.getBody()->without_terminator(), [](Operation &op) {
        return op.hasTrait<OpTrait::ConstantLike>();
      }))
    return {};
  TypedAttr value;
  matchPattern(fill.getBody()->getTerminator()->getOperand(0),
               m_Constant(&value));
  return value;
}

/// Replaces constant initial values of a fold by an attribute, so that no
/// buffer is filled with them.
static void takeConstantInits(FoldOp fold) {
  SmallVector<Attribute> values;
  for (Value init : fold.getOutputs()) {
    TypedAttr value = getFillValue(init);
    if (!value)
      return;
    values.push_back(value);
  }
  // (F3) A fold without elements returns its initial value, so it keeps the
  // tensor of initial values.
  SmallVector<int64_t> sizes = fold.getStaticLoopRanges();
  if (values.empty() || llvm::is_contained(sizes, 0))
    return;
  OpBuilder builder(fold);
  for (OpOperand &init : fold.getDpsInitsMutable()) {
    auto type = cast<RankedTensorType>(init.get().getType());
    init.set(tensor::EmptyOp::create(builder, fold.getLoc(), type.getShape(),
                                     type.getElementType()));
  }
  ReproDialect::InitAttrHelper(fold.getContext())
      .setAttr(fold, builder.getArrayAttr(values));
}

/// Gives each operation that overwrites a filled tensor its own fill, because
/// filling is cheaper than copying.
static void separateFills(func::FuncOp function) {
  function.walk([&](DestinationStyleOpInterface op) {
    if (auto fold = dyn_cast<FoldOp>(*op))
      takeConstantInits(fold);
    for (OpOperand &init : op.getDpsInitsMutable()) {
      Operation *fill = init.get().getDefiningOp();
      if (!getFillValue(init.get()) || fill->hasOneUse())
        continue;
      OpBuilder builder(op);
      auto own = cast<linalg::GenericOp>(builder.clone(*fill));
      builder.setInsertionPoint(own);
      for (OpOperand &empty : own.getDpsInitsMutable())
        empty.set(builder.clone(*empty.get().getDefiningOp())->getResult(0));
      init.set(own->getResult(0));
    }
  });
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// If an operation reads and writes the same part of a tensor through two equal
/// slices, makes it use one slice for both. Elementwise operations then work in
/// place.
static void mergeSlices(func::FuncOp function) {
  function.walk([](DestinationStyleOpInterface op) {
    for (OpOperand &init : op.getDpsInitsMutable()) {
      auto written = init.get().getDefiningOp<tensor::ExtractSliceOp>();
      for (Value input : op.getDpsInputs()) {
        auto read = input.getDefiningOp<tensor::ExtractSliceOp>();
        if (written && read && written != read &&
            OperationEquivalence::isEquivalentTo(
                written, read, OperationEquivalence::IgnoreLocations))
          init.set(read);
      }
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
    separateFills(function);
    separateEmptyTensors(function);
    // Arguments are not writable here: repro-plan-buffers decides later which
    // states are updated in place.
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.setArgAttr(i, writable, no);
  }
  // Values that are inserted into another tensor are computed directly at their
  // destination.
  IRRewriter rewriter(&getContext());
  if (failed(eliminateEmptyTensors(rewriter, module)))
    return signalPassFailure();
  for (auto function : module.getOps<func::FuncOp>())
    mergeSlices(function);
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
