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

/// Threads per warp, and per block of independent threads or warps.
constexpr int64_t kWarp = 32, kBlock = 128;

/// Memory in the arena, in addition to the buffers, that the launches of one
/// kernel function share. Offsets are in bytes and 256-byte aligned.
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
  /// The minimum number of blocks per multiprocessor; limits registers.
  int64_t blocksPerProcessor = 1;
};

/// Builds the body of a device kernel, for one thread of the grid, which
/// replaces a structured operation. The kernel's arguments are its buffers, the
/// workspace and the error word; all operations are on scalars.
///
/// By default the grid consists of independent threads: thread t processes the
/// work items t, t + threads, t + 2 threads, ..., so that adjacent threads
/// process adjacent items.
class DeviceBuilder : public KernelBuilder {
public:
  /// `failureWords` is the number of error messages of the module.
  DeviceBuilder(gpu::GPUFuncOp kernel, Operation *op, Workspace &workspace,
                int64_t failureWords, const Architecture &architecture);

  /// Returns the architecture that the kernel is built for.
  const Architecture &getArchitecture() const { return architecture; }

  /// Emits a loop over the work items of the thread.
  void forEachItem(function_ref<void(Value)> body) override;
  /// Sets the launch to a suitable number of threads for `items`.
  void setWork(int64_t items, int64_t grain) override;
  int64_t getLanes() const override { return 0; }

  /// Sets the launch of a kernel that computes block and thread numbers itself.
  void setLaunch(LaunchShape shape) { launch = std::move(shape); }
  /// Returns the launch of the kernel; final after `finish`.
  const LaunchShape &getLaunch() const { return launch; }
  /// Whether the kernel has no work at all.
  bool isEmpty() const { return empty; }

  /// Replaces the placeholders by constants, which are known only after the
  /// body is complete, and erases the structured operation.
  void finish();

  /// Returns the alignment, in bytes, of an operand's buffer.
  int64_t getAlignment(Value operand);
  /// Creates a tile in the shared memory of a block.
  Value createTile(ArrayRef<int64_t> shape, Type element);
  /// Loads `lanes` adjacent elements in one aligned access, from a flattened
  /// buffer or from a tile at `indices`.
  Value loadAligned(Value memref, Type element, ValueRange indices,
                    int64_t lanes);
  /// Stores a vector in one aligned access.
  void storeAligned(Value vector, Value memref, ValueRange indices);

  /// Returns the index of the block in the grid.
  Value getBlockId(gpu::Dimension dimension = gpu::Dimension::x);
  /// Returns the index of the thread in the block.
  Value getThreadId(gpu::Dimension dimension = gpu::Dimension::x);
  /// Emits a barrier for the threads of the block.
  void barrier();

  /// Returns the values of `then` if the condition holds, else poison.
  SmallVector<Value> chooseOrAny(Value condition,
                                 function_ref<SmallVector<Value>()> then);

  /// Returns the part of the workspace that was allocated at `offset`; all
  /// launches of the kernel function share the memory.
  Value getWorkspace(Type element, int64_t count, int64_t offset);

  SmallVector<Value> delinearize(Value linear,
                                 ArrayRef<int64_t> sizes) override;

protected:
  Value createScratch(MemRefType type, int64_t offset) override;
  void recordFailure(int64_t message) override;

private:
  /// Creates an index that `finish` replaces by a constant.
  Value createPlaceholder();
  /// Emits the thread's number at the start of the kernel, once.
  void numberThreads();

  Workspace &workspace;
  int64_t failureWords;
  const Architecture &architecture;
  LaunchShape launch;
  bool empty = false;
  /// The thread's number in the grid, the address of its scratch memory, and
  /// placeholders for numbers that `finish` determines.
  Value thread, scratch, threads, items, scratchBegin, scratchSize;
  int64_t numItems = 0;
  bool hasOwnItems = false;
};

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICEBUILDER_H
