//===- DeviceKernels.h - One expansion per kind of kernel -------*- C++ -*-===//
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

/// Makes the device kernels of one kernel function, which run one after the
/// other.
class DeviceKernelFactory {
public:
  /// `op` is the structured operation of `function`, whose kernels go to the
  /// end of `module`.
  /// Argument i of the kernels is aligned to `alignments[i]` bytes.
  DeviceKernelFactory(func::FuncOp function, Operation *op,
                      gpu::GPUModuleOp module, int64_t failureWords,
                      const Architecture &architecture,
                      ArrayRef<int64_t> alignments);

  /// A new kernel; `build` expands the copy of the structured operation that it
  /// is given. The name of a second kernel needs a suffix.
  template <typename OpTy>
  void create(StringRef suffix,
              function_ref<void(DeviceBuilder &, OpTy)> build) {
    (void)createKernel(suffix, [&](DeviceBuilder &b, Operation *copy) {
      build(b, cast<OpTy>(copy));
      return success();
    });
  }
  /// The same; there is no kernel where `build` fails.
  template <typename OpTy>
  LogicalResult
  tryCreate(StringRef suffix,
            function_ref<LogicalResult(DeviceBuilder &, OpTy)> build) {
    return createKernel(suffix, [&](DeviceBuilder &b, Operation *copy) {
      return build(b, cast<OpTy>(copy));
    });
  }

  struct Kernel {
    gpu::GPUFuncOp function;
    LaunchShape launch;
  };
  /// Gives the kernels their workspace, whose size is known now; a kernel that
  /// uses none loses the argument.
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

void expandElementwise(DeviceBuilder &b, linalg::GenericOp op);
void expandCopy(DeviceBuilder &b, memref::CopyOp op);
/// Any fold, by the first of the following that takes it, but for exact ones.
LogicalResult expandAnyFold(DeviceKernelFactory &factory, FoldOp op);
/// (K1) fma folds of lanes = 1 over two factors, in tiles.
LogicalResult expandContraction(DeviceKernelFactory &factory, FoldOp op);
/// (M4) matrix products whose rule is that of the architecture's matrix unit.
LogicalResult expandAccumulators(DeviceKernelFactory &factory, FoldOp op);
/// (K4) matrix products that repro-decompose-exact kept; failure where the fold
/// is none.
LogicalResult expandExact(DeviceKernelFactory &factory, FoldOp op);
/// (Q4) contractions of bytes by matrix instructions, the others literally.
LogicalResult expandBlockContraction(DeviceKernelFactory &factory,
                                     BlockContractionOp op);
/// Folds of one result by one operation, by groups of threads.
LogicalResult expandFold(DeviceKernelFactory &factory, FoldOp op);
LogicalResult expandScatter(DeviceKernelFactory &factory, ScatterOp op);

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELS_H
