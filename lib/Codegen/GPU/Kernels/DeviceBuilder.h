//===- DeviceBuilder.h - The body of a device kernel ------------*- C++ -*-===//
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

/// Threads of a warp, and of a block of independent threads or warps.
constexpr int64_t kWarp = 32, kBlock = 128;

/// Memory beyond the buffers that the launches of one kernel function share: a
/// part of the arena. Offsets are in bytes, 256-byte aligned.
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

/// How a device kernel is launched.
struct LaunchShape {
  SmallVector<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t sharedBytes = 0;
  /// That a multiprocessor should hold at once, which limits registers.
  int64_t blocksPerProcessor = 1;
};

/// Builds the body of a device kernel in place of a structured operation, for
/// one thread of the grid. The kernel's arguments are its buffers, the
/// workspace and the error word; all operations on scalars.
///
/// By default the grid is one of independent threads: the work items of thread
/// t are t, t + threads, t + 2 threads, ..., so that neighbouring threads work
/// on neighbouring items.
class DeviceBuilder : public KernelBuilder {
public:
  /// `failureWords` is the number of messages of the module.
  DeviceBuilder(gpu::GPUFuncOp kernel, Operation *op, Workspace &workspace,
                int64_t failureWords, const Architecture &architecture);

  const Architecture &getArchitecture() const { return architecture; }

  void forEachItem(function_ref<void(Value)> body) override;
  /// Sets the launch to as many threads as are sensible for `items`.
  void setWork(int64_t items, int64_t grain) override;
  int64_t getLanes() const override { return 0; }

  /// The launch of a kernel that counts blocks and threads itself.
  void setLaunch(LaunchShape shape) { launch = std::move(shape); }
  const LaunchShape &getLaunch() const { return launch; }
  /// Whether there is nothing to do at all.
  bool isEmpty() const { return empty; }

  /// Puts the numbers that are known at the end where they are needed, and
  /// erases the structured operation.
  void finish();

  /// Bytes to which the buffer of an operand is aligned.
  int64_t getAlignment(Value operand);
  /// A tile in the shared memory of a block.
  Value createTile(ArrayRef<int64_t> shape, Type element);
  /// `lanes` neighbouring elements in one access: of a flattened buffer, or of
  /// a tile at `indices`. They must be aligned.
  Value loadAligned(Value memref, Type element, ValueRange indices,
                    int64_t lanes);
  void storeAligned(Value vector, Value memref, ValueRange indices);

  Value getBlockId(gpu::Dimension dimension = gpu::Dimension::x);
  Value getThreadId(gpu::Dimension dimension = gpu::Dimension::x);
  void barrier();

  /// The values of `then` where the condition holds, else any of their types.
  SmallVector<Value> chooseOrAny(Value condition,
                                 function_ref<SmallVector<Value>()> then);

  /// Memory that all launches of the kernel function share: the part of the
  /// workspace that was allocated at `offset`.
  Value getWorkspace(Type element, int64_t count, int64_t offset);

  SmallVector<Value> delinearize(Value linear,
                                 ArrayRef<int64_t> sizes) override;

protected:
  Value createScratch(MemRefType type, int64_t offset) override;
  void recordFailure(int64_t message) override;

private:
  /// An index that `finish` replaces by a constant.
  Value createPlaceholder();
  void numberThreads();

  Workspace &workspace;
  int64_t failureWords;
  const Architecture &architecture;
  LaunchShape launch;
  bool empty = false;
  /// The thread's number in the grid and where its scratch memory is; what of
  /// them is known at the end.
  Value thread, scratch, threads, items, scratchBegin, scratchSize;
  int64_t numItems = 0;
  bool hasOwnItems = false;
};

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICEBUILDER_H
