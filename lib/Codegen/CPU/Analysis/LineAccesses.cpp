//===- LineAccesses.cpp - Cache misses of basic blocks --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Analysis/LineAccesses.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include <array>
#include <cmath>

using namespace llvm;
using namespace mlir::repro;

/// kMostAccesses is the maximum number of accesses that are traced for one
/// kernel, and kWays the assumed associativity of the L2 cache.
static constexpr uint64_t kMostAccesses = 1 << 17;
static constexpr unsigned kWays = 8;
/// kRuns is the number of runs of consecutive lines that are tracked at a time.
/// The first kRunBegin lines of a run (4 KB) count as not prefetched, because
/// prefetchers stop at page boundaries.
static constexpr unsigned kRuns = 32, kRunBegin = 64;
/// The distance between the assumed addresses of consecutive buffers is the sum
/// of these two constants, so that buffers begin in different sets of the
/// cache.
static constexpr uint64_t kBufferReach = uint64_t(1) << 40,
                          kBufferShift = 4096 + 64;
/// The assumed address of scratch memory: below the addresses of all buffers.
/// Its cache set differs from those of the first buffers.
static constexpr uint64_t kScratchBegin = (uint64_t(1) << 32) + (1 << 16);

namespace {
/// A set-associative cache with least-recently-used replacement.
class Cache {
public:
  Cache(uint64_t lines) : sets(std::max<uint64_t>(lines / kWays, 1)) {
    clear();
  }
  void clear() { numbers.assign(sets * kWays, ~uint64_t(0)); }
  /// Accesses the cache line with number `line`. Returns whether it was cached.
  bool use(uint64_t line) {
    uint64_t *set = &numbers[line % sets * kWays];
    unsigned at = std::find(set, set + kWays - 1, line) - set;
    bool found = set[at] == line;
    std::copy_backward(set, set + at, set + at + 1);
    set[0] = line;
    return found;
  }

private:
  uint64_t sets;
  std::vector<uint64_t> numbers; // most recently used of a set first
};

/// Tracks runs: sequences of lines whose numbers rise or fall by at most 2 from
/// one line to the next.
class Runs {
public:
  void clear() { runs.fill({}); }
  /// Adds `line` to a run, or starts a run. Returns the number of lines that
  /// this run then has.
  unsigned follow(uint64_t line) {
    auto *found = std::find_if(runs.begin(), runs.end() - 1, [&](Run run) {
      return run.length && line - run.last + 2 <= 4;
    });
    bool goesOn = found->length && line - found->last + 2 <= 4;
    Run run = {line, goesOn ? found->length + 1 : 1};
    std::copy_backward(runs.begin(), found, found + 1);
    runs.front() = run;
    return run.length;
  }

private:
  struct Run {
    uint64_t last = 0;
    unsigned length = 0;
  };
  std::array<Run, kRuns> runs; // most recently used first
};

/// Receives the memory accesses of the copy while the copy runs, and counts the
/// cache misses.
class Trace {
public:
  Trace(const Level &level, std::vector<unsigned> kernels)
      : lineBytes(level.lineBytes), cache(level.l2Bytes / level.lineBytes),
        kernels(std::move(kernels)), accesses(this->kernels.size()),
        runs(this->kernels.size()) {}

  /// Sets the address and size of scratch memory in this process. The simulated
  /// cache uses the address kScratchBegin instead, so that the results are the
  /// same in every process.
  void setScratch(uint64_t address, uint64_t bytes) {
    scratch = address;
    scratchBytes = bytes;
  }

  /// Records an access of a basic block to `size` bytes. `isFirst` marks the
  /// block's first access, which counts an execution of the block. Returns
  /// whether the kernel has reached the maximum number of accesses.
  bool add(uint64_t address, uint64_t size, unsigned block, bool isStore,
           bool isFirst) {
    if (kernel != kernels[block]) {
      kernel = kernels[block];
      left = kMostAccesses;
      cache.clear();
      misses.clear();
    }
    runs[block] += isFirst;
    if (address - scratch < scratchBytes)
      address += kScratchBegin - scratch;
    LineAccesses &found = accesses[block];
    uint64_t line = address / lineBytes,
             last = (address + size - 1) / lineBytes;
    for (; line <= last; ++line)
      if (!cache.use(line)) {
        uint64_t passes = isStore ? 2 : 1;
        found.missed += passes;
        if (misses.follow(line) <= kRunBegin)
          found.scattered += passes;
      }
    left -= left > 0;
    return left == 0;
  }

  /// Returns the misses of each basic block, scaled from the recorded
  /// executions to `all`, the number of all executions of each block.
  std::vector<LineAccesses> scale(ArrayRef<uint64_t> all) const {
    std::vector<LineAccesses> scaled = accesses;
    for (auto [each, some, many] : zip_equal(scaled, runs, all))
      for (uint64_t *count : {&each.missed, &each.scattered})
        *count = some ? std::llround(double(*count) * many / some) : 0;
    return scaled;
  }

private:
  uint64_t lineBytes;
  Cache cache;
  Runs misses;
  std::vector<unsigned> kernels; // for each block
  std::vector<LineAccesses> accesses;
  std::vector<uint64_t> runs;
  uint64_t scratch = 0, scratchBytes = 0;
  unsigned kernel = ~0u;
  uint64_t left = 0;
};

/// A load or store that the trace records.
struct Access {
  Instruction *at;
  llvm::Value *pointer;
  uint64_t size;
  bool isStore;
};
} // namespace

/// The copy calls this function for each access. All parameters are 64-bit
/// integers, which every ABI passes in the same way.
static uint64_t addAccess(Trace *trace, uint64_t address, uint64_t size,
                          uint64_t block, uint64_t isStore, uint64_t isFirst) {
  return trace->add(address, size, block, isStore, isFirst);
}

/// Returns the loads and stores of a basic block, except accesses to the stack.
static SmallVector<Access> findAccesses(BasicBlock &block,
                                        const llvm::DataLayout &layout) {
  SmallVector<Access> found;
  auto add = [&](Instruction &at, llvm::Value *pointer, llvm::Value *stored) {
    llvm::Type *type = stored ? stored->getType() : at.getType();
    if (!isa<AllocaInst>(getUnderlyingObject(pointer, /*MaxLookup=*/0)))
      found.push_back({&at, pointer, layout.getTypeStoreSize(type), !!stored});
  };
  for (Instruction &at : block) {
    if (auto *load = dyn_cast<LoadInst>(&at))
      add(at, load->getPointerOperand(), nullptr);
    else if (auto *store = dyn_cast<StoreInst>(&at))
      add(at, store->getPointerOperand(), store->getValueOperand());
    auto *call = dyn_cast<IntrinsicInst>(&at);
    if (!call)
      continue;
    switch (call->getIntrinsicID()) {
    case Intrinsic::masked_load:
    case Intrinsic::masked_gather:
      add(at, call->getArgOperand(0), nullptr);
      break;
    case Intrinsic::masked_store:
    case Intrinsic::masked_scatter:
      add(at, call->getArgOperand(1), call->getArgOperand(0));
      break;
    default:
      break;
    }
  }
  return found;
}

/// Inserts a call to addAccess before each access of a basic block. If the
/// first of these calls reports that the limit is reached, the kernel returns.
static void tellAccesses(BasicBlock &block, unsigned number, Trace &trace) {
  LLVMContext &context = block.getContext();
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  SmallVector<llvm::Type *> types(6, i64);
  auto *type = llvm::FunctionType::get(i64, types, false);
  auto getAddress = [&](auto *host) {
    return ConstantInt::get(i64, reinterpret_cast<uint64_t>(host));
  };
  Constant *callee = ConstantExpr::getIntToPtr(getAddress(&addAccess),
                                               PointerType::get(context, 0));
  bool isFirst = true;
  auto tell = [&](Instruction *at, llvm::Value *address, uint64_t size,
                  bool isStore) {
    IRBuilder<> builder(at);
    llvm::Value *isEnough = builder.CreateCall(
        type, callee,
        {getAddress(&trace), builder.CreatePtrToInt(address, i64),
         builder.getInt64(size), builder.getInt64(number),
         builder.getInt64(isStore), builder.getInt64(isFirst)});
    // Only the first access of a block checks the limit, because each check
    // adds a branch, and branches take long to compile.
    if (!std::exchange(isFirst, false))
      return;
    Instruction *branch = SplitBlockAndInsertIfThen(
        builder.CreateIsNotNull(isEnough), at, /*Unreachable=*/true);
    ReturnInst::Create(context, nullptr, branch->getIterator());
    branch->eraseFromParent();
  };
  for (Access &access :
       findAccesses(block, block.getModule()->getDataLayout())) {
    auto *lanes = dyn_cast<llvm::FixedVectorType>(access.pointer->getType());
    if (!lanes) {
      tell(access.at, access.pointer, access.size, access.isStore);
      continue;
    }
    unsigned count = lanes->getNumElements();
    for (unsigned i = 0; i < count; ++i) {
      IRBuilder<> builder(access.at);
      tell(access.at, builder.CreateExtractElement(access.pointer, i),
           access.size / count, access.isStore);
    }
  }
}

Expected<std::vector<LineAccesses>>
mlir::repro::traceLines(const llvm::Module &module,
                        const StringMap<KernelWork> &work, const Level &level,
                        ArrayRef<uint64_t> runs) {
  KernelCopy copy(module);
  SmallVector<BasicBlock *> blocks;
  std::vector<unsigned> kernels;
  for (auto [number, kernel] : enumerate(copy.getKernels()))
    for (BasicBlock &block : *kernel) {
      blocks.push_back(&block);
      kernels.push_back(number);
    }
  Trace trace(level, std::move(kernels));
  for (auto [number, block] : enumerate(blocks))
    tellAccesses(*block, number, trace);
  copy.removeEffects();
  auto getBuffer = [](unsigned number) {
    return (number + 1) * kBufferReach + number * kBufferShift;
  };
  // Hardly any optimization is worthwhile: few accesses run, so compilation
  // dominates the time.
  if (Error failed = copy.load(work, getBuffer,
                               "function(adce,simplifycfg,loop(loop-deletion))",
                               CodeGenOptLevel::None))
    return std::move(failed);
  auto scratch = copy.lookup(KernelCopy::scratchName);
  if (!scratch)
    return scratch.takeError();
  trace.setScratch(scratch->getValue(), KernelCopy::getScratchBytes(work));
  if (Error failed = copy.run())
    return std::move(failed);
  return trace.scale(runs);
}
