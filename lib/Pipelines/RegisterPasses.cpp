//===- RegisterPasses.cpp - Registers passes and pipelines ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Registration.h"

#include "Codegen/CPU/Passes.h"
#include "Codegen/Cores/Lowering/Passes.h"
#include "Codegen/Cores/Mapping/Passes.h"
#include "Codegen/Cores/Verification/Passes.h"
#include "Codegen/Functions/Passes.h"
#include "Codegen/GPU/Passes.h"
#include "Codegen/Schedule/Buffers/Passes.h"
#include "Codegen/Schedule/Tensors/Passes.h"
#include "Conversion/Passes.h"
#include "Dialect/Repro/Differentiation/Passes.h"
#include "Dialect/Repro/Partition/Passes.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "Pipelines/CPU.h"
#include "Pipelines/Cores.h"
#include "Pipelines/GPU.h"
#include "Pipelines/Pipelines.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/TosaToArith/TosaToArith.h"
#include "mlir/Conversion/TosaToLinalg/TosaToLinalg.h"
#include "mlir/Conversion/TosaToSCF/TosaToSCF.h"
#include "mlir/Conversion/TosaToTensor/TosaToTensor.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Dialect/Tosa/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void repro::registerPasses() {
  static bool once = [] {
    registerTransformsPasses();
    affine::registerAffinePasses();
    arith::registerArithPasses();
    bufferization::registerBufferizationPasses();
    memref::registerMemRefPasses();
    registerLinalgPasses();
    registerSCFPasses();
    tosa::registerTosaPasses();
    registerPass([] { return createArithToLLVMConversionPass(); });
    registerPass([] { return createConvertControlFlowToLLVMPass(); });
    registerPass([] { return createConvertFuncToLLVMPass(); });
    registerPass([] { return createConvertIndexToLLVMPass(); });
    registerPass([] { return createConvertMathToLLVMPass(); });
    registerPass([] { return createConvertVectorToLLVMPass(); });
    registerPass([] { return createConvertVectorToSCFPass(); });
    registerPass([] { return createFinalizeMemRefToLLVMConversionPass(); });
    registerPass([] { return createLowerAffinePass(); });
    registerPass([] { return createReconcileUnrealizedCastsPass(); });
    registerPass([] { return createSCFToControlFlowPass(); });
    registerPass([] { return createTosaToArithPass(); });
    registerPass([] { return tosa::createTosaToLinalgNamed(); });
    registerPass([] { return tosa::createTosaToLinalg(); });
    registerPass([] { return createTosaToSCFPass(); });
    registerPass([] { return createTosaToTensorPass(); });
    registerPass([] { return createUBToLLVMConversionPass(); });
    registerPass([] { return createConvertGpuOpsToNVVMOps(); });
    registerPass([] { return createConvertNVVMToLLVMPass(); });
    registerCPUPipelines();
    registerCoresPipelines();
    registerGPUPipelines();
    registerReproCoresLoweringPasses();
    registerReproCoresMappingPasses();
    registerReproCoresVerificationPasses();
    registerReproCPUPasses();
    registerReproGPUPasses();
    registerReproConversionPasses();
    registerReproDifferentiationPasses();
    registerReproFunctionsPasses();
    registerReproPartitionPasses();
    registerReproScheduleBuffersPasses();
    registerReproScheduleTensorsPasses();
    registerReproTransformsPasses();
    registerImportPipelines();
    registerSchedulePipeline();
    return true;
  }();
  (void)once;
}
