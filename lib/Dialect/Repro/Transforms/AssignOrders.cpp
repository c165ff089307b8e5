//===- AssignOrders.cpp - The order of each fold --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-assign-orders (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the folds and gives each fold that
// has no order the one of order policy v1 of docs/reference/numerics.md;
// existing orders stay.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "llvm/ADT/SmallSet.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROASSIGNORDERS
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// (P1) Whether the fold is a contraction with a parallel dimension that
/// exactly one factor has.
static bool isProduct(FoldOp fold) {
  std::optional<ContractionBody> contraction = getContraction(fold);
  if (!contraction || !contraction->isOfElements())
    return false;
  for (auto [dim, type] : llvm::enumerate(fold.getIteratorTypesArray()))
    if (type == utils::IteratorType::parallel &&
        contraction->isOfOneFactor(dim))
      return true;
  return false;
}

/// (P2) Takes the longest suffix of the input's dimensions in which each
/// dimension is indexed by a reduction loop. Returns the number of these loops.
/// The input is the first operand that the body reads.
static int64_t getReducedSuffix(FoldOp fold) {
  SmallVector<utils::IteratorType> iterators = fold.getIteratorTypesArray();
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  maps.pop_back_n(fold.getOutputs().size());
  for (auto [index, map] : llvm::enumerate(maps)) {
    if (fold.getBody()->getArgument(index).use_empty())
      continue;
    llvm::SmallSet<unsigned, 4> suffix;
    for (AffineExpr expr : llvm::reverse(map.getResults())) {
      bool isReduced = false;
      for (auto [dim, type] : llvm::enumerate(iterators))
        if (type == utils::IteratorType::reduction &&
            expr.isFunctionOfDim(dim)) {
          isReduced = true;
          suffix.insert(dim);
        }
      if (!isReduced)
        break;
    }
    return suffix.size();
  }
  return 0;
}

/// Returns the order that rules (P0) to (P3) define.
static Attribute chooseOrder(FoldOp fold) {
  MLIRContext *context = fold.getContext();
  Operation *step = fold.getStep();
  if (!step)
    return SequentialAttr::get(context);
  if (isOrderIndependent(step))
    return AnyOrderAttr::get(context);
  if (!isProduct(fold))
    if (int64_t suffix = getReducedSuffix(fold))
      return OrderAttr::get(context, /*chunk=*/8192, /*lanes=*/64, suffix,
                            Totals::refold);
  return OrderAttr::get(context, /*chunk=*/512, /*lanes=*/1, /*run=*/0,
                        Totals::sequential);
}

namespace {
struct AssignOrders : public repro::impl::ReproAssignOrdersBase<AssignOrders> {
  void runOnOperation() override {
    getOperation()->walk([](FoldOp fold) {
      if (!fold.getOrderAttr())
        fold.setOrderAttr(chooseOrder(fold));
    });
  }
};
} // namespace
