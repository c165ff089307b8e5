//===- BlockLoop.h - Kernels of several ops on blocks of rows ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_BLOCKLOOP_H
#define REPRO_CODEGEN_CPU_KERNELS_BLOCKLOOP_H

#include "Codegen/CPU/Kernels/HostBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::repro::cpu {

/// The loop of a kernel over its blocks of rows: a work item is a block.
class BlockLoop {
public:
  /// Replaces `blocks` by a loop over the blocks that are this thread's, and
  /// the allocations in it by scratch memory.
  BlockLoop(func::FuncOp kernel, scf::ForallOp blocks);

  Block *getBody() { return loop.getBody(); }

  /// Scratch memory that the blocks of buffers take; what an operation of the
  /// loop needs for itself lies behind, in the same place for each.
  int64_t getBufferBytes() const { return bufferBytes; }
  void addScratch(int64_t bytes) {
    scratchBytes = std::max(scratchBytes, bytes);
  }

  /// Sets the attributes of the contract.
  void finish();

private:
  func::FuncOp kernel;
  scf::ForOp loop;
  int64_t numBlocks, bufferBytes = 0, scratchBytes = 0;
};

/// Builds the loops of one operation for one block: all its work items are
/// those of the thread that has the block.
class BlockBuilder : public HostBuilder {
public:
  BlockBuilder(func::FuncOp kernel, Operation *op, const Level &level,
               BlockLoop &loop)
      : HostBuilder(kernel, op, level), loop(loop) {
    scratchBytes = loop.getBufferBytes();
  }

  bool isShared() const override { return false; }
  Value getBegin() override;
  Value getEnd() override;
  void setWork(int64_t items, int64_t grain) override;
  /// The attributes are set when the loop is finished.
  void finish() override;

private:
  BlockLoop &loop;
  int64_t numItems = 0;
  arith::ConstantOp end;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_BLOCKLOOP_H
