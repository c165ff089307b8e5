//===- GPU.h - From a canonical program to device code ----------*- C++ -*-===//
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

/// Kernel functions become device kernels and launches of them.
void buildGPUExpandPipeline(OpPassManager &manager,
                            const Architecture &architecture);

/// Device kernels become PTX that has been verified.
void buildGPULowerPipeline(OpPassManager &manager,
                           const Architecture &architecture);

/// What runs a program on a device.
struct DeviceCode {
  std::string ptx;
  std::string plan; ///< as bytes, see docs/plan.md
  std::string constants;
};

/// Compiles a canonical program; the module stays as it is. Errors are
/// diagnostics. With `timing` the time of each pass is printed to stderr.
FailureOr<DeviceCode> compileForGPU(ModuleOp module,
                                    const Architecture &architecture,
                                    bool timing = false);

/// Registers `gpu`, `gpu-expand` and `gpu-lower`.
void registerGPUPipelines();

} // namespace mlir::repro

#endif // REPRO_PIPELINES_GPU_H
