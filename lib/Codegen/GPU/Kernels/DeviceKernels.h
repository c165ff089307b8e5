//===- DeviceKernels.h - Creation of device kernels -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELS_H
#define REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELS_H

#include "Codegen/GPU/Kernels/DeviceBuilder.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::repro::device {

/// Creates the device kernels that replace one kernel function. The device
/// kernels run one after another, in the order of creation.
class DeviceKernelFactory {
public:
  /// `op` is the structured operation of `function`. Kernels are appended to
  /// `module`. Argument i of each kernel is aligned to `alignments[i]` bytes.
  DeviceKernelFactory(func::FuncOp function, Operation *op,
                      gpu::GPUModuleOp module, int64_t failureWords,
                      const Architecture &architecture,
                      ArrayRef<int64_t> alignments);

  /// Creates a kernel. `build` receives a copy of the structured operation and
  /// expands it. The kernels of one function need different suffixes.
  template <typename OpTy>
  void create(StringRef suffix,
              function_ref<void(DeviceBuilder &, OpTy)> build) {
    (void)createKernel(suffix, [&](DeviceBuilder &b, Operation *copy) {
      build(b, cast<OpTy>(copy));
      return success();
    });
  }
  /// Like `create`, but if `build` fails, removes the kernel and fails.
  template <typename OpTy>
  LogicalResult
  tryCreate(StringRef suffix,
            function_ref<LogicalResult(DeviceBuilder &, OpTy)> build) {
    return createKernel(suffix, [&](DeviceBuilder &b, Operation *copy) {
      return build(b, cast<OpTy>(copy));
    });
  }

  /// A device kernel and its launch configuration.
  struct Kernel {
    gpu::GPUFuncOp function;
    LaunchShape launch;
  };
  /// Gives the kernels their workspace, whose size is now final. The argument
  /// for the workspace is removed from kernels that do not use the workspace.
  void finish();
  ArrayRef<Kernel> getKernels() const { return kernels; }
  Workspace &getWorkspace() { return workspace; }

private:
  LogicalResult
  createKernel(StringRef suffix,
               function_ref<LogicalResult(DeviceBuilder &, Operation *)> build);

  func::FuncOp function;
  Operation *op;
  gpu::GPUModuleOp module;
  int64_t failureWords;
  const Architecture &architecture;
  SmallVector<int64_t> alignments;
  Workspace workspace;
  SmallVector<Kernel> kernels;
};

} // namespace mlir::repro::device

#include "lib/Codegen/GPU/Kernels/DeviceKernelOpInterface.h.inc"

namespace mlir::repro::device {

/// Expands an elementwise operation. A work item is one element.
void expandElementwise(DeviceBuilder &b, linalg::GenericOp op);
/// Expands a copy. A work item is one element.
void expandCopy(DeviceBuilder &b, memref::CopyOp op);
/// Expands any fold with the first of the functions below that supports it, or
/// literally if none does.
LogicalResult expandAnyFold(DeviceKernelFactory &factory, FoldOp op);
/// (K1) Expands an fma fold of two factors, with lanes = 1, in tiles.
LogicalResult expandContraction(DeviceKernelFactory &factory, FoldOp op);
/// (M4) Expands a matrix product whose rule is that of the architecture's
/// matrix unit.
LogicalResult expandAccumulators(DeviceKernelFactory &factory, FoldOp op);
/// (K4) Expands a matrix product that repro-decompose-exact left as one fold.
/// Fails for other folds.
LogicalResult expandExact(DeviceKernelFactory &factory, FoldOp op);
/// (Q4), (M5) Expands a block contraction: with byte matrix instructions if
/// they support it, otherwise literally.
LogicalResult expandBlockContraction(DeviceKernelFactory &factory,
                                     BlockContractionOp op);
/// Expands a fold with one result and one combining operation. The elements of
/// the fold are divided among groups of threads.
LogicalResult expandFold(DeviceKernelFactory &factory, FoldOp op);
/// Expands a scatter into three kernels, which use no atomics.
LogicalResult expandScatter(DeviceKernelFactory &factory, ScatterOp op);

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELS_H
