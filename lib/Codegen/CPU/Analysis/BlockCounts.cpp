//===- BlockCounts.cpp - How often blocks of code run --------------------===//
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

#include <cmath>

using namespace llvm;
using namespace mlir::repro;

static constexpr char countsName[] = "repro_counts";

/// Runs of blocks outside of pairs of loops that are counted of a kernel: each
/// takes time. Of more some work items stand for the others, in groups as far
/// from each other.
static constexpr uint64_t kMostRuns = uint64_t(1) << 26, kMostGroups = 64;

/// Dead code first, then loops that count become their numbers.
static constexpr char passes[] =
    "ipsccp,function(adce,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm,indvars,loop-deletion),"
    "simplifycfg,instcombine<no-verify-fixpoint>)";

/// Adds to an element of the counts at the beginning of each block. Counts
/// outside of loops and of pairs of loops are volatile: in registers they would
/// be phis of every block. `isVolatile` gets an element for each block.
static void addCounters(Function &function, GlobalVariable &counts,
                        SmallVectorImpl<bool> &isVolatile) {
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (BasicBlock &block : function) {
    const Loop *loop = loops.getLoopFor(&block);
    bool isOutside =
        !loop || any_of(loop->getSubLoops(), [](const Loop *inner) {
          return !inner->isInnermost();
        });
    IRBuilder<> builder(&block, block.getFirstInsertionPt());
    llvm::Value *place = builder.CreateConstInBoundsGEP2_64(
        counts.getValueType(), &counts, 0, isVolatile.size());
    llvm::Value *before =
        builder.CreateLoad(builder.getInt64Ty(), place, isOutside);
    builder.CreateStore(builder.CreateAdd(before, builder.getInt64(1)), place,
                        isOutside);
    isVolatile.push_back(isOutside);
  }
}

/// Counts the blocks of a kernel, whose counts these are, for all work items.
static void countKernel(KernelCopy::Run *run, unsigned kernel, uint64_t items,
                        MutableArrayRef<uint64_t> counts,
                        ArrayRef<bool> isVolatile) {
  if (items > 1) {
    // The one in the middle is as long as the mean one of a triangle.
    run(kernel, items / 2, items / 2 + 1);
    uint64_t runs = 0;
    for (auto [count, isOutside] : zip_equal(counts, isVolatile))
      runs += isOutside ? count : 0;
    fill(counts, 0);
    uint64_t some =
        std::max<uint64_t>(kMostRuns / std::max<uint64_t>(runs, 1), 1);
    if (some < items) {
      uint64_t groups = std::min(some, kMostGroups), size = some / groups;
      for (uint64_t group = 0; group < groups; ++group) {
        uint64_t begin = (items - size) * (2 * group + 1) / (2 * groups);
        run(kernel, begin, begin + size);
      }
      for (uint64_t &count : counts)
        count = std::llround(double(count) * items / (groups * size));
      return;
    }
  }
  run(kernel, 0, items);
}

/// How often each block of the kernels in `module` runs.
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
  SmallVector<bool> isVolatile;
  // Of each kernel, before its blocks become fewer.
  SmallVector<std::pair<uint64_t, size_t>> itemsAndBlocks;
  for (Function *kernel : copy.getKernels()) {
    addCounters(*kernel, *counts, isVolatile);
    itemsAndBlocks.emplace_back(work.lookup(kernel->getName()).items,
                                kernel->size());
  }
  auto jit = copy.load(
      work, [](unsigned) { return 0; }, passes, CodeGenOptLevel::Less);
  if (!jit)
    return jit.takeError();
  auto run = (*jit)->lookup(KernelCopy::runName);
  if (!run)
    return run.takeError();
  auto found = (*jit)->lookup(countsName);
  if (!found)
    return found.takeError();
  MutableArrayRef<uint64_t> all(found->toPtr<uint64_t *>(), count);
  size_t next = 0;
  for (auto [number, kernel] : enumerate(itemsAndBlocks)) {
    auto [items, blocks] = kernel;
    countKernel(run->toPtr<KernelCopy::Run>(), number, items,
                all.slice(next, blocks),
                ArrayRef(isVolatile).slice(next, blocks));
    next += blocks;
  }
  return to_vector(all);
}

/// Gives loops the blocks before and behind them that code generation would
/// add, without a count of their own.
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
