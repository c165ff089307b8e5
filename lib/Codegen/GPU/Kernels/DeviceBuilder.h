//===- DeviceBuilder.h - Builds the body of a device kernel -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_DEVICEBUILDER_H
#define REPRO_CODEGEN_GPU_KERNELS_DEVICEBUILDER_H

#include "Codegen/Common/KernelBuilder.h"
#include "Target/Architecture.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::repro::device {

using namespace kernels;

/// The number of threads per warp, and per block of a kernel whose threads or
/// warps are independent.
constexpr int64_t kWarp = 32, kBlock = 128;

/// Device memory that the launches of one kernel function share, in addition to
/// the function's buffers. Offsets are in bytes and are multiples of 256.
class Workspace {
public:
  int64_t allocate(int64_t bytes) {
    int64_t offset = size;
    size += (bytes + 255) / 256 * 256;
    return offset;
  }
  int64_t getSize() const { return size; }

private:
  int64_t size = 0;
};

/// The launch configuration of a device kernel.
struct LaunchShape {
  SmallVector<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t sharedBytes = 0;
  /// The minimum number of blocks that must fit on a multiprocessor at once. A
  /// greater minimum leaves fewer registers per thread.
  int64_t blocksPerProcessor = 1;
};

/// Builds the body of a device kernel for one thread of the grid. The body
/// replaces a structured operation. The arguments of the kernel are its
/// buffers, the workspace and the error word. By default, operations are on
/// scalars.
///
/// By default the threads are independent: thread t of n processes the work
/// items t, t + n, t + 2 n, ..., so that adjacent threads process adjacent
/// items.
class DeviceBuilder : public KernelBuilder {
public:
  /// `failureWords` is the number of error messages of the module.
  DeviceBuilder(gpu::GPUFuncOp kernel, Operation *op, Workspace &workspace,
                int64_t failureWords, const Architecture &architecture);

  /// Returns the architecture for which the kernel is built.
  const Architecture &getArchitecture() const { return architecture; }

  /// Emits a loop over this thread's work items.
  void forEachItem(function_ref<void(Value)> body) override;
  /// Sets the number of work items, from which `finish` derives the number of
  /// threads. `grain` is ignored.
  void setWork(int64_t items, int64_t grain) override;
  int64_t getLanes() const override { return 0; }

  /// Sets the launch configuration of a kernel that does not use `forEachItem`.
  void setLaunch(LaunchShape shape) { launch = std::move(shape); }
  /// Returns the launch configuration, which is final after `finish`.
  const LaunchShape &getLaunch() const { return launch; }
  /// Whether the kernel has no work items.
  bool isEmpty() const { return empty; }

  /// Replaces the placeholders by constants, which are known only after the
  /// body is complete, and erases the structured operation.
  void finish();

  /// Returns the alignment, in bytes, of an operand's buffer.
  int64_t getAlignment(Value operand);
  /// Returns a new tile in the shared memory of a block.
  Value createTile(ArrayRef<int64_t> shape, Type element);
  /// Loads `lanes` adjacent elements in one aligned access, from `indices` on
  /// in a flattened buffer or a tile.
  Value loadAligned(Value memref, Type element, ValueRange indices,
                    int64_t lanes);
  /// Stores a vector in one aligned access, from `indices` on.
  void storeAligned(Value vector, Value memref, ValueRange indices);

  /// Returns the index of this block in the grid.
  Value getBlockId(gpu::Dimension dimension = gpu::Dimension::x);
  /// Returns the index of this thread in its block.
  Value getThreadId(gpu::Dimension dimension = gpu::Dimension::x);
  /// Emits a barrier for the threads of the block.
  void barrier();

  /// Returns the values of `then` if the condition holds, otherwise poison.
  SmallVector<Value> chooseOrAny(Value condition,
                                 function_ref<SmallVector<Value>()> then);

  /// Returns the part of the workspace that begins at byte `offset`. All
  /// launches of the kernel function share this memory.
  Value getWorkspace(Type element, int64_t count, int64_t offset);

  SmallVector<Value> delinearize(Value linear,
                                 ArrayRef<int64_t> sizes) override;

protected:
  Value createScratch(MemRefType type, int64_t offset) override;
  void recordFailure(int64_t message) override;

private:
  /// Returns a new index, which `finish` replaces by a constant.
  Value createPlaceholder();
  /// Computes this thread's number at the start of the kernel, unless it has
  /// been computed already.
  void numberThreads();

  Workspace &workspace;
  int64_t failureWords;
  const Architecture &architecture;
  LaunchShape launch;
  bool empty = false;
  /// The thread's number in the grid, the offset of its scratch memory in the
  /// workspace, and placeholders for numbers that `finish` determines.
  Value thread, scratch, threads, items, scratchBegin, scratchSize;
  int64_t numItems = 0;
  bool hasOwnItems = false;
};

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICEBUILDER_H
