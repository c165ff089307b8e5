//===- GPU.cpp - Compiles canonical programs to device code ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines `gpu`, `gpu-expand` and `gpu-lower`, and the driver that compiles a
// program with them: convert a canonical program to verified PTX and a plan.
//
//===----------------------------------------------------------------------===//

#include "Pipelines/GPU.h"

#include "Codegen/CPU/Passes.h"
#include "Codegen/Functions/Passes.h"
#include "Codegen/GPU/Lowering/ReadDevicePlan.h"
#include "Codegen/GPU/Passes.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "Pipelines/Pipelines.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::repro;

static ScheduleOptions getGPUSchedule(const Architecture &architecture) {
  ScheduleOptions options;
  options.hasByteMatrices = architecture.hasByteMatrices;
  return options;
}

void mlir::repro::buildGPUExpandPipeline(OpPassManager &manager,
                                         const Architecture &architecture) {
  ReproExpandDeviceKernelsOptions options;
  options.arch = architecture.description;
  manager.addPass(createReproExpandDeviceKernels(options));
}

void mlir::repro::buildGPULowerPipeline(OpPassManager &manager,
                                        const Architecture &architecture) {
  {
    OpPassManager &device = manager.nest<gpu::GPUModuleOp>();
    device.addPass(createCSEPass());
    device.addPass(createReproExpandFunctions());
    device.addPass(createReproExpandRemainder());
    device.addPass(memref::createExpandStridedMetadataPass());
    device.addPass(createLowerAffinePass());
  }
  ReproExpandArithmeticOptions arithmetic;
  // Do not use the devices' instructions that convert to and from f16: for a
  // NaN, they return bits other than those of the canonical NaN (V4).
  arithmetic.hasF16 = false;
  manager.addPass(createReproExpandArithmetic(arithmetic));
  OpPassManager &device = manager.nest<gpu::GPUModuleOp>();
  device.addPass(createReproConvertMathToDevice());
  device.addPass(createSCFToControlFlowPass());
  device.addPass(createReproCanonicalize());
  device.addPass(createCSEPass());
  ConvertGpuOpsToNVVMOpsOptions nvvm;
  nvvm.useBarePtrCallConv = true;
  // `math` is not in the list, because its patterns create calls of a device
  // library.
  for (StringRef dialect : {"arith", "cf", "func", "index", "memref", "vector"})
    nvvm.allowedDialects.push_back(dialect.str());
  device.addPass(createConvertGpuOpsToNVVMOps(nvvm));
  ConvertVectorToLLVMPassOptions vector;
  vector.reassociateFPReductions = false;
  device.addPass(createConvertVectorToLLVMPass(vector));
  device.addPass(createConvertNVVMToLLVMPass());
  device.addPass(createUBToLLVMConversionPass());
  device.addPass(createReconcileUnrealizedCastsPass());
  device.addPass(createCSEPass());
  ReproEmitPTXOptions options;
  options.arch = architecture.description;
  manager.addPass(createReproEmitPTX(options));
  ReproVerifyPTXOptions verification;
  verification.tensorCores = architecture.matrixUnit != nullptr;
  manager.addPass(createReproVerifyPTX(verification));
}

FailureOr<DeviceCode>
mlir::repro::compileForGPU(ModuleOp canonical, const Architecture &architecture,
                           bool timing) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  PassManager manager(module->getContext(), ModuleOp::getOperationName());
  if (timing)
    manager.enableTiming();
  buildSchedulePipeline(manager, getGPUSchedule(architecture));
  buildGPUExpandPipeline(manager, architecture);
  buildGPULowerPipeline(manager, architecture);
  if (failed(manager.run(*module)))
    return failure();
  FailureOr<TranslatedPlan> translated = readDevicePlan(*module);
  if (failed(translated))
    return failure();
  DeviceCode code;
  code.plan = ::repro_runtime::writePlan(translated->plan);
  code.constants = std::move(translated->constants);
  for (auto binary : module->getOps<gpu::BinaryOp>())
    for (auto object : binary.getObjects().getAsRange<gpu::ObjectAttr>())
      code.ptx += object.getObject().getValue();
  return code;
}

namespace {
struct GPUOptions : public PassPipelineOptions<GPUOptions> {
  Option<std::string> arch{*this, "arch",
                           llvm::cl::desc("the architecture, such as sm_90, or "
                                          "the path of a machine's file, "
                                          "perhaps with +tensor-cores"),
                           llvm::cl::init("sm_75")};
};
} // namespace

/// Registers a pipeline with the option `arch`.
template <typename Build>
static void registerWithArchitecture(StringRef name, StringRef description,
                                     Build build) {
  PassPipelineRegistration<GPUOptions>(
      name, description,
      [build](OpPassManager &manager, const GPUOptions &options) {
        std::string error;
        FailureOr<Architecture> architecture =
            getArchitecture(options.arch, error);
        if (failed(architecture))
          llvm::report_fatal_error(StringRef(error),
                                   /*gen_crash_diag=*/false);
        build(manager, *architecture);
      });
}

void mlir::repro::registerGPUPipelines() {
  registerWithArchitecture("gpu-expand",
                           "kernel functions to device kernels and launches",
                           buildGPUExpandPipeline);
  registerWithArchitecture("gpu-lower", "device kernels to PTX",
                           buildGPULowerPipeline);
  registerWithArchitecture(
      "gpu", "canonical programs to launches and PTX",
      [](OpPassManager &manager, const Architecture &architecture) {
        buildSchedulePipeline(manager, getGPUSchedule(architecture));
        buildGPUExpandPipeline(manager, architecture);
        buildGPULowerPipeline(manager, architecture);
      });
}
