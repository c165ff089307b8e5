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

/// The loop of a kernel over its blocks of rows. Each block is one work item.
class BlockLoop {
public:
  /// Turns the body of `blocks` into a loop over this thread's blocks, and
  /// turns the allocations in that body into scratch memory.
  BlockLoop(FunctionOpInterface kernel, scf::ForallOp blocks);

  Block *getBody() { return loop.getBody(); }
  int64_t getNumBlocks() const { return numBlocks; }

  /// Returns the scratch size of the buffers of one block. The buffers are
  /// followed by the scratch memory that all operations of the loop share.
  int64_t getBufferBytes() const { return bufferBytes; }

private:
  scf::ForOp loop;
  int64_t numBlocks, bufferBytes = 0;
};

/// Builds the loops of one operation within a block loop. One thread computes
/// all work items of the operation for its block.
class BlockBuilder : public HostBuilder {
public:
  /// `kernel` is the builder of the kernel that contains the loop.
  BlockBuilder(HostBuilder &kernel, Operation *op, const BlockLoop &loop)
      : HostBuilder(kernel.getKernel(), op, kernel.getLevel()),
        kernelBuilder(kernel) {
    scratchBytes = loop.getBufferBytes();
  }

  bool isShared() const override { return false; }
  Value getBegin() override;
  Value getEnd() override;
  void setWork(int64_t items, int64_t grain) override;
  /// Reserves the operation's scratch memory in the kernel and erases the
  /// operation. The builder of the kernel sets the kernel's attributes.
  void finish() override;

private:
  HostBuilder &kernelBuilder;
  int64_t numItems = 0;
  arith::ConstantOp end;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_BLOCKLOOP_H
