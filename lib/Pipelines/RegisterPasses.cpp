//===- RegisterPasses.cpp - Passes and pipelines
//---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Registration.h"

#include "Pipelines/CPU.h"
#include "Pipelines/GPU.h"
#include "Pipelines/Pipelines.h"
#include "dialects/Codegen/CPU/Passes.h"
#include "dialects/Codegen/GPU/Passes.h"
#include "dialects/Codegen/Passes.h"
#include "dialects/Conversion/Passes.h"
#include "dialects/Repro/Transforms/Passes.h"

#include "mlir/Conversion/Passes.h"
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
    registerArithToLLVMConversionPass();
    registerConvertControlFlowToLLVMPass();
    registerConvertFuncToLLVMPass();
    registerConvertIndexToLLVMPass();
    registerConvertMathToLLVMPass();
    registerConvertVectorToLLVMPass();
    registerConvertVectorToSCFPass();
    registerFinalizeMemRefToLLVMConversionPass();
    registerLowerAffinePass();
    registerReconcileUnrealizedCastsPass();
    registerSCFToControlFlowPass();
    registerTosaToArithPass();
    registerTosaToLinalgNamedPass();
    registerTosaToLinalgPass();
    registerTosaToSCFPass();
    registerTosaToTensorPass();
    registerUBToLLVMConversionPass();
    registerConvertGpuOpsToNVVMOpsPass();
    registerConvertNVVMToLLVMPass();
    registerCPUPipelines();
    registerGPUPipelines();
    registerReproCPUPasses();
    registerReproGPUPasses();
    registerReproCodegenPasses();
    registerReproConversionPasses();
    registerReproTransformsPasses();
    registerImportPipelines();
    registerSchedulePipeline();
    return true;
  }();
  (void)once;
}
