//===- ExpandKernels.cpp - Kernel functions become loops ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/BlockLoop.h"
#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/CPU/Passes.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/Schedule/Buffers/KernelContract.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDKERNELS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// Whether each result has few elements.
static bool isShortFold(FoldOp fold) {
  int64_t elements = 1;
  SmallVector<int64_t> sizes =
      cast<IndexingMapOpInterface>(fold.getOperation()).getStaticLoopRanges();
  for (auto [size, type] : llvm::zip_equal(sizes, fold.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      elements *= size;
  return elements <= 32;
}

namespace {
struct ExpandKernels
    : public repro::impl::ReproExpandKernelsBase<ExpandKernels> {
  using ReproExpandKernelsBase::ReproExpandKernelsBase;

  void runOnOperation() override {
    std::string error;
    FailureOr<Level> machine = getLevel(level, error);
    if (failed(machine)) {
      getOperation().emitError(error);
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function.isPrivate())
        continue;
      FailureOr<Operation *> op = findKernelBody(function);
      if (failed(op))
        return signalPassFailure();
      if (auto blocks = dyn_cast_or_null<scf::ForallOp>(*op)) {
        expandBlocks(function, blocks, *machine);
      } else if (auto scope = dyn_cast_or_null<memref::AllocaScopeOp>(*op)) {
        if (failed(expandScope(function, scope, *machine)))
          return signalPassFailure();
      } else if (*op) {
        cpu::HostBuilder b(function, *op, *machine);
        expand(b, *op);
      }
    }
  }

  static void expandBlocks(func::FuncOp function, scf::ForallOp blocks,
                           const Level &level) {
    cpu::BlockLoop loop(function, blocks);
    for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
      if (!isStructuredOp(op))
        continue;
      cpu::BlockBuilder b(function, &op, level, loop);
      expand(b, &op);
    }
    loop.finish();
  }

  static LogicalResult expandScope(func::FuncOp function,
                                   memref::AllocaScopeOp scope,
                                   const Level &level) {
    Block &body = scope.getBodyRegion().front();
    auto fold = *body.getOps<FoldOp>().begin();
    auto generic = *body.getOps<linalg::GenericOp>().begin();
    cpu::HostBuilder b(function, scope, level);
    if (failed(cpu::expandContraction(b, fold, generic)))
      return fold.emitError("expected a product of two factors, each with "
                            "dimensions of its own, in a scope");
    b.finish();
    return success();
  }

  static void expand(cpu::HostBuilder &b, Operation *op) {
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      cpu::expandElementwise(b, generic);
    else if (auto copy = dyn_cast<memref::CopyOp>(op))
      cpu::expandCopy(b, copy);
    else if (auto fold = dyn_cast<FoldOp>(op))
      expandFold(b, fold);
    else if (auto reduce = dyn_cast<ArgReduceOp>(op))
      kernels::expandArgReduce(b, reduce);
    else if (auto scatter = dyn_cast<ScatterOp>(op))
      cpu::expandScatter(b, scatter);
    else if (auto scan = dyn_cast<ScanOp>(op))
      kernels::expandScan(b, scan);
    else if (auto sort = dyn_cast<SortOp>(op))
      kernels::expandSort(b, sort);
    b.finish();
  }

  static void expandFold(cpu::HostBuilder &b, FoldOp fold) {
    if (succeeded(cpu::expandContraction(b, fold)))
      return;
    // A short window is better folded for several results at once.
    if (isShortFold(fold) && succeeded(cpu::expandColumnFold(b, fold)))
      return;
    if (succeeded(cpu::expandRowFold(b, fold)) ||
        succeeded(cpu::expandColumnFold(b, fold)))
      return;
    kernels::expandLiteralFold(b, fold);
  }
};
} // namespace
