//===- BlockLoop.cpp - Kernels of several ops on blocks of rows -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/BlockLoop.h"

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "dialects/Launch/IR/KernelSignature.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

namespace {
/// A buffer in scratch memory that holds only the rows of one block.
struct BlockBuffer {
  int64_t bytes;
  Operation *first, *last; ///< first and last use
  int64_t offset = 0;
};
} // namespace

static BlockBuffer getBlockBuffer(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  BlockBuffer buffer{
      getScratchBytes(type.getElementType(), type.getNumElements()), alloc,
      alloc};
  for (OpOperand *use : getBufferUses(alloc)) {
    Operation *user =
        alloc->getBlock()->findAncestorOpInBlock(*use->getOwner());
    if (buffer.first == alloc || user->isBeforeInBlock(buffer.first))
      buffer.first = user;
    if (buffer.last->isBeforeInBlock(user))
      buffer.last = user;
  }
  return buffer;
}

/// Gives `buffer` the lowest offset at which it does not overlap a buffer of
/// `placed` that is in use at the same time.
static void place(BlockBuffer &buffer, ArrayRef<BlockBuffer> placed) {
  auto isInTheWay = [&](const BlockBuffer &other) {
    return !buffer.last->isBeforeInBlock(other.first) &&
           !other.last->isBeforeInBlock(buffer.first) &&
           buffer.offset < other.offset + other.bytes &&
           other.offset < buffer.offset + buffer.bytes;
  };
  for (const auto *other = llvm::find_if(placed, isInTheWay);
       other != placed.end(); other = llvm::find_if(placed, isInTheWay))
    buffer.offset = other->offset + other->bytes;
}

BlockLoop::BlockLoop(FunctionOpInterface kernel, scf::ForallOp blocks)
    : numBlocks(*getConstantIntValue(blocks.getMixedUpperBound()[0])) {
  IRRewriter b(blocks);
  Location loc = blocks.getLoc();
  launch::KernelSignature arguments(kernel);
  SmallVector<BlockBuffer> placed;
  for (auto alloc : llvm::make_early_inc_range(
           blocks.getBody()->getOps<memref::AllocOp>())) {
    if (alloc->use_empty()) {
      b.eraseOp(alloc);
      continue;
    }
    BlockBuffer buffer = getBlockBuffer(alloc);
    place(buffer, placed);
    placed.push_back(buffer);
    bufferBytes = std::max(bufferBytes, buffer.offset + buffer.bytes);
    Value offset = arith::ConstantIndexOp::create(b, loc, buffer.offset);
    b.replaceAllUsesWith(alloc, memref::ViewOp::create(b, loc, alloc.getType(),
                                                       arguments.getScratch(),
                                                       offset, ValueRange()));
    b.eraseOp(alloc);
  }
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  loop =
      scf::ForOp::create(b, loc, arguments.getBegin(), arguments.getEnd(), one);
  b.eraseOp(blocks.getTerminator());
  b.inlineBlockBefore(blocks.getBody(), loop.getBody()->getTerminator(),
                      loop.getInductionVar());
}

Value BlockBuilder::getBegin() { return index(0); }

Value BlockBuilder::getEnd() {
  assert(!end && "has one loop over its items");
  return end = arith::ConstantOp::create(*this, getIndexAttr(numItems));
}

void BlockBuilder::setWork(int64_t items, int64_t) {
  numItems = items;
  // If the loop was built before the number of its work items was known, sets
  // its end now.
  if (end)
    end.setValueAttr(getIndexAttr(items));
}

void BlockBuilder::finish() {
  kernelBuilder.reserveScratch(scratchBytes);
  prologueEnd->erase();
}

LogicalResult repro::cpu::expandBlocks(HostBuilder &b, scf::ForallOp blocks) {
  BlockLoop loop(b.getKernel(), blocks);
  b.reserveScratch(loop.getBufferBytes());
  for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
    auto kernel = dyn_cast<HostKernelOpInterface>(op);
    if (!kernel)
      continue;
    BlockBuilder block(b, &op, loop);
    if (failed(kernel.expandKernel(block)))
      return failure();
    block.finish();
  }
  // A work item is one block, and one block is enough work for a thread.
  b.setWork(loop.getNumBlocks(), /*grain=*/1);
  return success();
}
