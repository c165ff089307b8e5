//===- RegisterHostKernels.cpp - Registers the CPU kernels ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/RegisterHostKernels.h"

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/StructuredKernels.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

#include "lib/Codegen/CPU/Kernels/HostKernelOpInterface.cpp.inc"

namespace {
/// Implements HostKernelOpInterface for an operation by calling `expand`.
template <typename OpTy, auto expand>
struct HostKernelModel
    : HostKernelOpInterface::ExternalModel<HostKernelModel<OpTy, expand>,
                                           OpTy> {
  LogicalResult expandKernel(Operation *op, HostBuilder &b) const {
    if constexpr (std::is_void_v<decltype(expand(b, cast<OpTy>(op)))>) {
      expand(b, cast<OpTy>(op));
      return success();
    } else {
      return expand(b, cast<OpTy>(op));
    }
  }
};
} // namespace

template <typename DialectTy, typename OpTy, auto expand>
static void registerKernel(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, DialectTy *) {
    OpTy::template attachInterface<HostKernelModel<OpTy, expand>>(*context);
  });
}

void repro::cpu::registerHostKernels(DialectRegistry &registry) {
  using linalg::LinalgDialect, memref::MemRefDialect, scf::SCFDialect;
  registerKernel<LinalgDialect, linalg::GenericOp, expandElementwise>(registry);
  registerKernel<MemRefDialect, memref::CopyOp, expandCopy>(registry);
  registerKernel<MemRefDialect, memref::AllocaScopeOp, expandScope>(registry);
  registerKernel<SCFDialect, scf::ForallOp, expandBlocks>(registry);
  registerKernel<ReproDialect, ArgReduceOp, expandArgReduce>(registry);
  registerKernel<ReproDialect, BlockContractionOp, expandBlockContraction>(
      registry);
  registerKernel<ReproDialect, FoldOp, expandFold>(registry);
  registerKernel<ReproDialect, ScanOp, expandScan>(registry);
  registerKernel<ReproDialect, ScatterOp, expandScatter>(registry);
  registerKernel<ReproDialect, SortOp, expandSort>(registry);
}
