//===- GPU.h - Compiles canonical programs to device code -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PIPELINES_GPU_H
#define REPRO_PIPELINES_GPU_H

#include "Target/Architecture.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::repro {

/// Expands kernel functions to device kernels and their launches.
void buildGPUExpandPipeline(OpPassManager &manager,
                            const Architecture &architecture);

/// Lowers device kernels to PTX and verifies the PTX.
void buildGPULowerPipeline(OpPassManager &manager,
                           const Architecture &architecture);

/// The compiled program for a device.
struct DeviceCode {
  std::string ptx;
  std::string plan; ///< as bytes (docs/reference/plan.md)
  std::string constants;
};

/// Compiles a copy of a canonical program. Errors are emitted as diagnostics.
/// With `timing`, the time of each pass is printed to stderr.
FailureOr<DeviceCode> compileForGPU(ModuleOp module,
                                    const Architecture &architecture,
                                    bool timing = false);

/// Registers `gpu`, `gpu-expand` and `gpu-lower`.
void registerGPUPipelines();

} // namespace mlir::repro

#endif // REPRO_PIPELINES_GPU_H
