//===- MapMatrix.cpp - Choose the folds that matrix arrays compute --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K4) Pass repro-map-matrix (Passes.td).
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Lowering/ByteProducts.h"
#include "Codegen/Cores/Mapping/Passes.h"
#include "Mapping.h"
#include "Target/ManyCore.h"
#include "dialects/Cores/IR/Cores.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPMATRIX
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace {
struct MapMatrix : public repro::impl::ReproMapMatrixBase<MapMatrix> {
  using ReproMapMatrixBase::ReproMapMatrixBase;
  void runOnOperation() override;
};
} // namespace

void cores::chooseMatrix(FoldOp fold, const ManyCore &machine) {
  int64_t most = machine.getMostMatrixProducts();
  if (machine.matrixOperandBits != 8 || most == 0)
    return;
  std::optional<ByteProducts> products = ByteProducts::get(fold);
  if (!products || !fold.hasPureBufferSemantics())
    return;
  // The fewest slices, which are equal: the core adds the results of each.
  int64_t depth = std::max<int64_t>(fold.getExtents()[products->depthLoop], 1);
  int64_t slice = llvm::divideCeil(depth, llvm::divideCeil(depth, most));
  MLIRContext *context = fold.getContext();
  CoresDialect::MatrixAttrHelper(context).setAttr(
      fold, MatrixAttr::get(context, machine.matrixRows, machine.matrixColumns,
                            slice));
}

void MapMatrix::runOnOperation() {
  std::string error;
  FailureOr<ManyCore> description = getManyCore(machine, error);
  if (failed(description)) {
    getOperation().emitError(error);
    return signalPassFailure();
  }
  getOperation().walk([&](FoldOp fold) { chooseMatrix(fold, *description); });
}
