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
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::repro::cpu {

/// The loop of a kernel over its blocks of rows; a work item is a block.
class BlockLoop {
public:
  /// Turns the body of `blocks` into a loop over the blocks of the current
  /// thread, and its allocations into scratch memory.
  BlockLoop(FunctionOpInterface kernel, scf::ForallOp blocks);

  Block *getBody() { return loop.getBody(); }
  int64_t getNumBlocks() const { return numBlocks; }

  /// Returns the scratch size of the blocks' buffers. The scratch memory of
  /// each operation in the loop follows the buffers, at the same offset for
  /// all.
  int64_t getBufferBytes() const { return bufferBytes; }

private:
  scf::ForOp loop;
  int64_t numBlocks, bufferBytes = 0;
};

/// Builds the loops of one operation for one block; the thread that processes
/// the block computes all its work items.
class BlockBuilder : public HostBuilder {
public:
  /// `kernel` builds the kernel that contains the loop.
  BlockBuilder(HostBuilder &kernel, Operation *op, const BlockLoop &loop)
      : HostBuilder(kernel.getKernel(), op, kernel.getLevel()),
        kernelBuilder(kernel) {
    scratchBytes = loop.getBufferBytes();
  }

  bool isShared() const override { return false; }
  Value getBegin() override;
  Value getEnd() override;
  void setWork(int64_t items, int64_t grain) override;
  /// Reserves the scratch memory and erases the operation; the kernel's builder
  /// sets the attributes.
  void finish() override;

private:
  HostBuilder &kernelBuilder;
  int64_t numItems = 0;
  arith::ConstantOp end;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_BLOCKLOOP_H
