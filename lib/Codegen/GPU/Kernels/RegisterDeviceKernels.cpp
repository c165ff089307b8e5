//===- RegisterDeviceKernels.cpp - Registers the GPU kernels --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Kernels/RegisterDeviceKernels.h"

#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

#include "lib/Codegen/GPU/Kernels/DeviceKernelOpInterface.cpp.inc"

namespace {
/// Implements DeviceKernelOpInterface for an operation. `expand` builds the
/// body of its only kernel, or creates all its kernels with the factory.
template <typename OpTy, auto expand>
struct DeviceKernelModel
    : DeviceKernelOpInterface::ExternalModel<DeviceKernelModel<OpTy, expand>,
                                             OpTy> {
  LogicalResult createKernels(Operation *op,
                              DeviceKernelFactory &factory) const {
    if constexpr (std::is_invocable_v<decltype(expand), DeviceBuilder &,
                                      OpTy>) {
      factory.create<OpTy>("", expand);
      return success();
    } else {
      return expand(factory, cast<OpTy>(op));
    }
  }
};
} // namespace

template <typename DialectTy, typename OpTy, auto expand>
static void registerKernels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, DialectTy *) {
    OpTy::template attachInterface<DeviceKernelModel<OpTy, expand>>(*context);
  });
}

void device::registerDeviceKernels(DialectRegistry &registry) {
  using linalg::LinalgDialect, memref::MemRefDialect;
  registerKernels<LinalgDialect, linalg::GenericOp, expandElementwise>(
      registry);
  registerKernels<MemRefDialect, memref::CopyOp, expandCopy>(registry);
  registerKernels<ReproDialect, ArgReduceOp, expandArgReduce>(registry);
  registerKernels<ReproDialect, BlockContractionOp, expandBlockContraction>(
      registry);
  registerKernels<ReproDialect, FoldOp, expandAnyFold>(registry);
  registerKernels<ReproDialect, ScanOp, expandScan>(registry);
  registerKernels<ReproDialect, ScatterOp, expandScatter>(registry);
  registerKernels<ReproDialect, SortOp, expandSort>(registry);
}
