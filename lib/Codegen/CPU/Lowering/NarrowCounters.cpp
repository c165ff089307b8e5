//===- NarrowCounters.cpp - Counters of 32 bits ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/NarrowCounters.h"

#include "mlir/Support/LLVM.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// Narrows one function.
class Narrowing {
public:
  Narrowing(llvm::ScalarEvolution &evolution) : evolution(evolution) {}

  void narrowComparison(llvm::ICmpInst &comparison);
  /// Narrows a counter of a loop, and its next value.
  void narrowCounter(llvm::PHINode &counter, const llvm::Loop &loop);
  /// Whether the value is an i64 that is known to be from 0 to 2^31 - 1.
  bool isNarrow(llvm::Value *value) {
    return value->getType()->isIntegerTy(64) &&
           evolution.getUnsignedRangeMax(evolution.getSCEV(value)).isIntN(31);
  }

private:
  llvm::ScalarEvolution &evolution;
};
} // namespace

void Narrowing::narrowComparison(llvm::ICmpInst &comparison) {
  llvm::Value *x = comparison.getOperand(0), *y = comparison.getOperand(1);
  llvm::IRBuilder<> b(&comparison);
  auto narrow = [&](llvm::Value *value) {
    return b.CreateTrunc(value, b.getInt32Ty());
  };
  comparison.replaceAllUsesWith(
      b.CreateICmp(comparison.getPredicate(), narrow(x), narrow(y)));
}

void Narrowing::narrowCounter(llvm::PHINode &counter, const llvm::Loop &loop) {
  llvm::BasicBlock *before = loop.getLoopPredecessor();
  llvm::BasicBlock *latch = loop.getLoopLatch();
  if (!before || !latch || counter.getNumIncomingValues() != 2)
    return;
  auto *next =
      dyn_cast<llvm::BinaryOperator>(counter.getIncomingValueForBlock(latch));
  if (!next || next->getOpcode() != llvm::Instruction::Add ||
      next->getOperand(0) != &counter)
    return;
  auto *step = dyn_cast<llvm::ConstantInt>(next->getOperand(1));
  if (!step || !step->getValue().isIntN(30))
    return;
  llvm::IRBuilder<> b(&counter);
  llvm::PHINode *narrow = b.CreatePHI(b.getInt32Ty(), 2);
  b.SetInsertPoint(before->getTerminator());
  narrow->addIncoming(
      b.CreateTrunc(counter.getIncomingValueForBlock(before), b.getInt32Ty()),
      before);
  b.SetInsertPoint(next);
  // The counter is below 2^31 and the step below 2^30, so nothing overflows.
  llvm::Value *sum = b.CreateAdd(
      narrow, b.getInt32(uint32_t(step->getZExtValue())), "", /*HasNUW=*/true);
  narrow->addIncoming(sum, latch);
  llvm::Value *wideSum = b.CreateZExt(sum, counter.getType());
  b.SetInsertPoint(&*counter.getParent()->getFirstInsertionPt());
  llvm::Value *wide = b.CreateZExt(narrow, counter.getType());
  next->replaceAllUsesWith(wideSum);
  counter.replaceAllUsesWith(wide);
}

llvm::PreservedAnalyses
mlir::repro::narrowCounters(llvm::Function &function,
                            llvm::FunctionAnalysisManager &analyses) {
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  Narrowing narrowing(evolution);
  SmallVector<llvm::Instruction *> prefetches;
  SmallVector<llvm::ICmpInst *> comparisons;
  SmallVector<std::pair<llvm::PHINode *, llvm::Loop *>> counters;
  // All ranges are found before the first change.
  for (llvm::Instruction &each : llvm::instructions(function)) {
    if (auto *comparison = dyn_cast<llvm::ICmpInst>(&each))
      if (narrowing.isNarrow(comparison->getOperand(0)) &&
          narrowing.isNarrow(comparison->getOperand(1)))
        comparisons.push_back(comparison);
    if (auto *phi = dyn_cast<llvm::PHINode>(&each))
      if (llvm::Loop *loop = loops.getLoopFor(phi->getParent());
          loop && loop->getHeader() == phi->getParent() &&
          narrowing.isNarrow(phi))
        counters.push_back({phi, loop});
    auto *call = dyn_cast<llvm::IntrinsicInst>(&each);
    if (call && call->getIntrinsicID() == llvm::Intrinsic::prefetch)
      prefetches.push_back(call);
  }
  for (llvm::ICmpInst *comparison : comparisons)
    narrowing.narrowComparison(*comparison);
  for (auto [counter, loop] : counters)
    narrowing.narrowCounter(*counter, *loop);
  for (llvm::Instruction *prefetch : prefetches)
    prefetch->eraseFromParent();
  return llvm::PreservedAnalyses::none();
}
