//===- BlockLoop.cpp - Kernels of several ops on blocks of rows -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/BlockLoop.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

BlockLoop::BlockLoop(func::FuncOp kernel, scf::ForallOp blocks)
    : kernel(kernel),
      numBlocks(*getConstantIntValue(blocks.getMixedUpperBound()[0])) {
  IRRewriter b(blocks);
  Location loc = blocks.getLoc();
  auto argument = [&](unsigned fromEnd) {
    return kernel.getArgument(kernel.getNumArguments() - fromEnd);
  };
  for (auto alloc : llvm::make_early_inc_range(
           blocks.getBody()->getOps<memref::AllocOp>())) {
    MemRefType type = alloc.getType();
    Value offset = arith::ConstantIndexOp::create(b, loc, bufferBytes);
    b.replaceAllUsesWith(alloc,
                         memref::ViewOp::create(b, loc, type, argument(4),
                                                offset, ValueRange()));
    b.eraseOp(alloc);
    bufferBytes +=
        getScratchBytes(type.getElementType(), type.getNumElements());
  }
  scratchBytes = bufferBytes;
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  loop = scf::ForOp::create(b, loc, argument(2), argument(1), one);
  b.eraseOp(blocks.getTerminator());
  b.inlineBlockBefore(blocks.getBody(), loop.getBody()->getTerminator(),
                      loop.getInductionVar());
  b.eraseOp(blocks);
}

void BlockLoop::finish() {
  Builder b(kernel.getContext());
  kernel->setAttr("repro.work_items", b.getI64IntegerAttr(numBlocks));
  // A block is large enough for a thread.
  kernel->setAttr("repro.work_grain", b.getI64IntegerAttr(1));
  kernel->setAttr("repro.scratch_bytes", b.getI64IntegerAttr(scratchBytes));
}

void BlockBuilder::forEachItem(function_ref<void(Value)> body) {
  assert(!numItems && "has one loop over its items");
  // `setWork` comes later.
  numItems = arith::ConstantOp::create(*this, getIndexAttr(0));
  loop(index(0), numItems, 1, body);
}

void BlockBuilder::setWork(int64_t items, int64_t) {
  if (numItems)
    numItems.setValueAttr(getIndexAttr(items));
}
