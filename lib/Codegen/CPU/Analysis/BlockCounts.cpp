//===- BlockCounts.cpp - Run counts of basic blocks -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Analysis/BlockCounts.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

using namespace llvm;
using namespace mlir::repro;

static constexpr char countsName[] = "repro_counts";

/// These passes remove dead code. A loop that then only increments counters
/// becomes one addition per counter.
static constexpr char passes[] =
    "ipsccp,function(adce,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm,indvars,loop-deletion),"
    "simplifycfg,instcombine<no-verify-fixpoint>)";

/// Makes each basic block increment its own counter in `counts`. Counters
/// outside loops, and in loops that contain at least two levels of loops, are
/// volatile: in a register, each would add a phi to every block.
static void addCounters(Function &function, GlobalVariable &counts,
                        unsigned &next) {
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (BasicBlock &block : function) {
    const Loop *loop = loops.getLoopFor(&block);
    bool isVolatile =
        !loop || any_of(loop->getSubLoops(), [](const Loop *inner) {
          return !inner->isInnermost();
        });
    IRBuilder<> builder(&block, block.getFirstInsertionPt());
    llvm::Value *place = builder.CreateConstInBoundsGEP2_64(
        counts.getValueType(), &counts, 0, next++);
    llvm::Value *before =
        builder.CreateLoad(builder.getInt64Ty(), place, isVolatile);
    builder.CreateStore(builder.CreateAdd(before, builder.getInt64(1)), place,
                        isVolatile);
  }
}

static Expected<SmallVector<uint64_t>>
countRuns(const Module &module, const StringMap<KernelWork> &work) {
  KernelCopy copy(module);
  unsigned count = 0;
  for (Function *kernel : copy.getKernels())
    count += kernel->size();
  Module &code = copy.getModule();
  auto *type = ArrayType::get(llvm::Type::getInt64Ty(code.getContext()), count);
  auto *counts = new GlobalVariable(
      code, type, /*isConstant=*/false, GlobalVariable::ExternalLinkage,
      ConstantAggregateZero::get(type), countsName);
  copy.removeEffects();
  unsigned next = 0;
  for (Function *kernel : copy.getKernels())
    addCounters(*kernel, *counts, next);
  if (Error failed = copy.load(
          work, [](unsigned) { return 0; }, passes, CodeGenOptLevel::Less))
    return std::move(failed);
  if (Error failed = copy.run())
    return std::move(failed);
  auto found = copy.lookup(countsName);
  if (!found)
    return found.takeError();
  const auto *begin = found->toPtr<const uint64_t *>();
  return SmallVector<uint64_t>(begin, begin + count);
}

/// Adds the preheaders and exit blocks that code generation would add later, so
/// that these blocks are named too.
static void simplifyLoops(Function &function) {
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (Loop *loop : loops)
    simplifyLoop(loop, &dominators, &loops, /*SE=*/nullptr, /*AC=*/nullptr,
                 /*MSSAU=*/nullptr, /*PreserveLCSSA=*/false);
}

std::string mlir::repro::nameBlocksByCount(Module &module,
                                           const StringMap<KernelWork> &work,
                                           const Level &level) {
  for (Function &function : module)
    if (!function.isDeclaration())
      simplifyLoops(function);
  auto runs = countRuns(module, work);
  if (!runs)
    return "cannot count how often blocks run: " + toString(runs.takeError());
  auto lines = traceLines(module, work, level, *runs);
  if (!lines)
    return "cannot follow what kernels read: " + toString(lines.takeError());
  unsigned next = 0;
  for (Function &function : module)
    for (BasicBlock &block : function) {
      const LineAccesses &of = (*lines)[next];
      std::string name = "runs." + std::to_string((*runs)[next++]) + ".";
      if (of.missed)
        name += "missed." + std::to_string(of.missed) + ".scattered." +
                std::to_string(of.scattered) + ".";
      block.setName(name);
    }
  return {};
}
