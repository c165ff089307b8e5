//===- SetExact.cpp - Contractions with exact sums ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/ContractionBody.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROSETEXACT
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
/// (K4): the order of contractions becomes exact.
struct SetExact : public repro::impl::ReproSetExactBase<SetExact> {
  using ReproSetExactBase::ReproSetExactBase;

  void runOnOperation() override {
    Operation *root = getOperation();
    auto exact = ExactAttr::getChecked([&] { return root->emitError(); },
                                       &getContext(), digits.getValue());
    if (!exact)
      return signalPassFailure();
    SmallVector<FoldOp> folds;
    root->walk([&](FoldOp fold) {
      std::optional<ContractionBody> contraction = getContraction(fold);
      if (contraction && contraction->canBeExact())
        folds.push_back(fold);
    });
    for (int64_t number : contractions)
      if (number < 0 || number >= int64_t(folds.size())) {
        root->emitError("expected numbers of contractions below ")
            << folds.size() << ", got " << number;
        return signalPassFailure();
      }
    for (auto [number, fold] : llvm::enumerate(folds))
      if (contractions.empty() ||
          llvm::is_contained(contractions, int64_t(number)))
        fold.setOrderAttr(exact);
  }
};
} // namespace
