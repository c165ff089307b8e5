//===- SetSums.cpp - Sets the orders of contractions ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes repro-set-exact and repro-set-accumulator (Passes.td), run from
// Python, outside of the pipelines: set the order that a user has chosen, an
// exact sum (K4) or an accumulator (M4), on all contractions or on the listed
// ones. The verifier of repro.fold rejects orders that a contraction cannot
// have.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/ContractionBody.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROSETACCUMULATOR
#define GEN_PASS_DEF_REPROSETEXACT
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// Moves extensions that precede the contraction into its body, because (M1)
/// depends on the element types before extension.
static void readExtendedInputs(FoldOp fold) {
  Block *body = fold.getBody();
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  SmallVector<Operation *> passed;
  for (OpOperand &operand : fold.getInputsMutable()) {
    unsigned number = operand.getOperandNumber();
    std::optional<ExtendedInput> extended =
        getExtendedInput(operand.get(), maps[number]);
    if (!extended)
      continue;
    if (Operation *op = operand.get().getDefiningOp())
      passed.push_back(op);
    operand.set(extended->tensor);
    maps[number] = extended->map;
    BlockArgument argument = body->getArgument(number);
    Type wide = argument.getType();
    argument.setType(getElementTypeOrSelf(extended->tensor.getType()));
    OpBuilder b = OpBuilder::atBlockBegin(body);
    auto extension = arith::ExtFOp::create(b, fold.getLoc(), wide, argument);
    argument.replaceAllUsesExcept(extension, extension);
  }
  fold.setIndexingMapsAttr(
      Builder(fold.getContext()).getAffineMapArrayAttr(maps));
  // Erase the extensions that have no uses left.
  while (!passed.empty()) {
    Operation *op = passed.pop_back_val();
    if (isa<FoldOp>(op) || !isOpTriviallyDead(op))
      continue;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer && !llvm::is_contained(passed, producer))
        passed.push_back(producer);
    op->erase();
  }
}

/// Sets `order` on the contractions whose numbers are in `contractions`, or on
/// all contractions if that list is empty. The fold's verifier reports a
/// contraction that does not permit the order.
static LogicalResult setOrder(Operation *root, Attribute order,
                              ArrayRef<int64_t> contractions) {
  SmallVector<FoldOp> folds;
  root->walk([&](FoldOp fold) {
    std::optional<ContractionBody> contraction = getContraction(fold);
    if (contraction && contraction->isPlain())
      folds.push_back(fold);
  });
  for (int64_t number : contractions)
    if (number < 0 || number >= int64_t(folds.size()))
      return root->emitError("expected numbers of contractions below ")
             << folds.size() << ", got " << number;
  for (auto [number, fold] : llvm::enumerate(folds)) {
    if (!contractions.empty() &&
        !llvm::is_contained(contractions, int64_t(number)))
      continue;
    if (isa<FdpaAttr>(order))
      readExtendedInputs(fold);
    fold.setOrderAttr(order);
  }
  return success();
}

namespace {
/// (K4) Gives contractions exact sums.
struct SetExact : public repro::impl::ReproSetExactBase<SetExact> {
  using ReproSetExactBase::ReproSetExactBase;

  void runOnOperation() override {
    Operation *root = getOperation();
    auto exact = ExactAttr::getChecked([&] { return root->emitError(); },
                                       &getContext(), digits.getValue());
    if (!exact || failed(setOrder(root, exact, *contractions)))
      signalPassFailure();
  }
};

/// (M4) Gives contractions the accumulator of a matrix unit.
struct SetAccumulator
    : public repro::impl::ReproSetAccumulatorBase<SetAccumulator> {
  using ReproSetAccumulatorBase::ReproSetAccumulatorBase;

  void runOnOperation() override {
    Operation *root = getOperation();
    std::optional<SumRounding> rounding = symbolizeSumRounding(round);
    std::optional<SumStart> begin = symbolizeSumStart(start);
    if (!rounding || !begin) {
      root->emitError("(M4) expected round to be rz_f32, rz_e8m13, rne_f16 or "
                      "rne_f32, and start zero or init, got ")
          << round << " and " << start;
      return signalPassFailure();
    }
    auto fdpa = FdpaAttr::getChecked(
        [&] { return root->emitError(); }, &getContext(), terms.getValue(),
        fraction ? std::optional(fraction.getValue()) : std::nullopt, *rounding,
        floor.getValue(), late.getValue(), chunk.getValue(), *begin,
        /*group=*/int64_t(1));
    if (!fdpa || failed(setOrder(root, fdpa, *contractions)))
      signalPassFailure();
  }
};
} // namespace
