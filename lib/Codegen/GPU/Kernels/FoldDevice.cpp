//===- FoldDevice.cpp - Folds by groups of threads ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The chunks of a fold (F1) are independent, and so are the lanes of a chunk.
// If a fold has lanes, a group of threads of a warp computes a chunk: each
// thread computes some of the lanes, adjacent threads read adjacent elements,
// and shuffles combine the lanes (F2). Otherwise one thread computes a chunk,
// and adjacent threads compute adjacent results. The results of the chunks form
// a list in memory, which further kernels fold (F3).
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/BodyVectorizer.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ParallelLoops.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

namespace {
/// The maximum number of lanes of a fold: more would need too many registers.
constexpr int64_t kMostLanes = 256;
/// From this number of results on, one thread computes all chunks of a result.
constexpr int64_t kManyResults = 65536;
/// kFreeLanes and kFreeChunk are the lanes and chunk size chosen for folds in
/// any order (F5) that use lanes; kFreeColumnChunk is the chunk size of those
/// that do not.
constexpr int64_t kFreeLanes = 64, kFreeChunk = 8192, kFreeColumnChunk = 512;
/// The minimum number of elements per row for which a fold in any order (F5)
/// uses a group of threads. With fewer, most threads of the group would be
/// idle.
constexpr int64_t kGroupElements = kWarp / 2;
/// kUnrolledElements is the number of elements whose loads a thread keeps in
/// flight. A loop is unrolled if its body has at most kUnrolledBody operations
/// or, with lanes, at most kUnrolledLanes for all lanes of a thread.
constexpr int64_t kUnrolledElements = 4, kUnrolledBody = 16,
                  kUnrolledLanes = 32;

class FoldDevice {
public:
  FoldDevice(DeviceBuilder &b, FoldOp op) : b(b), fold(b, op) {}
  LogicalResult match();
  size_t getNumLevels() const { return levels.size(); }
  /// Returns the size in bytes of the list that a level writes. The last level
  /// writes no list.
  int64_t getListBytes(size_t level) const;
  /// Builds the kernel of a level. `lists` are the offsets of the levels' lists
  /// in the workspace.
  void expand(size_t level, ArrayRef<int64_t> lists);

private:
  /// One kernel, which folds a list of n elements for each result. At the first
  /// level, the list has the elements of the reduction; at a later level, it
  /// has the results of the chunks of the level before.
  struct Level {
    int64_t n, chunk, run, lanes;
    bool isSequential = false; ///< starts with the first element
    int64_t getChunks() const { return llvm::divideCeil(n, chunk); }
  };
  using Next = function_ref<Value(Value t, Value accumulator)>;

  void chooseOrder();
  Value applyBody(Value t, Value accumulator);
  Value foldThread(const Level &level, Value start, Value end, Next next);
  Value foldGroup(const Level &level, Value member, Value start, Value end,
                  Next next);
  Value combineLanes(const Level &level, SmallVector<Value> lanes);
  /// Returns the `value` of another thread of the warp: the one that is
  /// `distance` threads after this thread.
  Value shuffleDown(Value value, int64_t distance);
  void locate(Value result);
  void storeResult(Value total);
  Value getListIndex(const Level &of, Value result, Value chunk);

  DeviceBuilder &b;
  FoldInfo fold;
  Type type;
  SmallVector<Level> levels;
  bool hasLanes = false;               ///< a group of threads processes a chunk
  bool allChunks = false;              ///< a thread processes a whole result
  SmallVector<CollapsedDim> parallel;  ///< accesses: inputs, then output
  SmallVector<CollapsedDim> reduction; ///< accesses: the inputs
  // The coordinates and base offsets of the current result.
  SmallVector<Value> coordinates, bases;
};
} // namespace

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// (F5) If the order of the fold is free, chooses an order that suits the
/// threads.
void FoldDevice::chooseOrder() {
  bool isRow = llvm::any_of(fold.inputs, [&](const Access &access) {
    unsigned i = &access - fold.inputs.begin();
    return access.isMemory() && !reduction.empty() &&
           reduction.back().coefficients[i] == 1;
  });
  bool rows =
      isRow ? fold.n >= kGroupElements : fold.results < kFreeColumnChunk;
  fold.lanes = rows ? kFreeLanes : 1;
  fold.refold = rows;
  fold.chunk = std::min(fold.n, rows ? kFreeChunk : kFreeColumnChunk);
  fold.run = fold.n;
}

LogicalResult FoldDevice::match() {
  if (!fold.step || fold.n == 0 || fold.results == 0 ||
      fold.outputs.size() != 1)
    return failure();
  SmallVector<const Access *> inputs, accesses;
  for (const Access &access : fold.inputs)
    inputs.push_back(&access);
  accesses = inputs;
  accesses.push_back(&fold.outputs[0]);
  if (llvm::any_of(accesses, [](const Access *a) { return !a->linear; }))
    return failure();
  type = fold.getAccumulatorType();
  if (type.isIndex()) // index has no fixed size
    return failure();
  // Results are ordered so that adjacent threads read adjacent elements.
  SmallVector<unsigned> dims(fold.parallel);
  auto getStep = [&](unsigned dim) {
    int64_t step = 0;
    for (const Access *access : inputs)
      step += std::abs(access->coefficients[dim]);
    return step;
  };
  llvm::stable_sort(
      dims, [&](unsigned x, unsigned y) { return getStep(x) > getStep(y); });
  llvm::SmallBitVector fixed =
      getIndexedDims(*fold.op.getBody(), fold.sizes.size());
  parallel = collapseDims(dims, fold.sizes, accesses, fixed);
  reduction = collapseDims(fold.reduction, fold.sizes, inputs, fixed);
  if (fold.anyOrder)
    chooseOrder();
  hasLanes = fold.lanes > 1;
  if (fold.lanes > kMostLanes)
    return failure();
  Level level{fold.n, fold.chunk, fold.run, fold.lanes};
  allChunks = !hasLanes && !fold.refold && fold.results >= kManyResults;
  levels.push_back(level);
  while (level.getChunks() > 1 && !allChunks) {
    int64_t n = level.getChunks();
    level = fold.refold ? Level{n, fold.chunk, n, fold.lanes}
                        : Level{n, n, n, 1, /*isSequential=*/true};
    levels.push_back(level);
  }
  return success();
}

int64_t FoldDevice::getListBytes(size_t level) const {
  Type storage = getStorageType(type);
  int64_t bytes = storage.getIntOrFloatBitWidth() / 8;
  return fold.results * levels[level].getChunks() * bytes;
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

Value FoldDevice::applyBody(Value t, Value accumulator) {
  SmallVector<Value> at = b.delinearize(t, getSizes(reduction));
  for (auto [loop, value] : llvm::zip_equal(reduction, at))
    if (loop.dims.size() == 1)
      coordinates[loop.dims[0]] = value;
  BodyVectorizer body(b, /*lanes=*/0);
  body.index = [&](int64_t dim) { return LaneValue{coordinates[dim]}; };
  Block *block = fold.op.getBody();
  for (auto [i, access] : llvm::enumerate(fold.inputs)) {
    if (block->getArgument(i).use_empty())
      continue;
    body.map(block->getArgument(i),
             access.isMemory()
                 ? b.load(access.buffer, access.element,
                          b.add(bases[i], getLoopOffset(b, reduction, at, i)))
                 : access.scalar);
  }
  body.map(block->getArguments().back(), accumulator);
  Value result = body.inlineBody(*block)[0];
  return isa<FloatType>(type) ? b.convertFloat(result, type) : result;
}

/// Emits a loop from `start` to `end` that is unrolled `unroll` times, so that
/// the loads of several iterations are in flight together. Returns the final
/// values.
static SmallVector<Value>
unrolledLoop(DeviceBuilder &b, Value start, Value end, int64_t step,
             int64_t unroll, ValueRange inits,
             function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  SmallVector<Value> carried(inits);
  if (unroll == 1)
    return b.loop(start, end, step, carried, body);
  Value whole =
      b.sub(b.sub(end, start), b.rem(b.sub(end, start), step * unroll));
  Value middle = b.add(start, whole);
  carried = b.loop(start, middle, step * unroll, carried,
                   [&](Value at, ValueRange inner) {
                     SmallVector<Value> next(inner);
                     for (int64_t i = 0; i < unroll; ++i)
                       next = body(b.add(at, i * step), next);
                     return next;
                   });
  return b.loop(middle, end, step, carried, body);
}

Value FoldDevice::foldThread(const Level &level, Value start, Value end,
                             Next next) {
  Value first = level.isSequential ? next(start, {}) : fold.getStart(b, 0);
  if (level.isSequential)
    start = b.add(start, 1);
  Block &body = *fold.op.getBody();
  int64_t operations = std::distance(body.begin(), body.end());
  int64_t unroll = operations <= kUnrolledBody ? kUnrolledElements : 1;
  Value result = unrolledLoop(b, start, end, 1, std::min(unroll, level.n),
                              {first}, [&](Value t, ValueRange acc) {
                                return SmallVector<Value>{next(t, acc[0])};
                              })[0];
  return level.lanes > 1 ? combineLanes(level, {result}) : result;
}

Value FoldDevice::foldGroup(const Level &level, Value member, Value start,
                            Value end, Next next) {
  // Lanes whose number is at least the length of a run have no elements.
  int64_t lanes = std::min<int64_t>(level.lanes, llvm::PowerOf2Ceil(level.run));
  int64_t threads = std::min(lanes, kWarp);
  SmallVector<Value> starts(lanes / threads, fold.getStart(b, 0));
  // Adds the thread's elements among the `lanes` elements from `base` on, if
  // they are in [lower, upper). A null `lower` means no lower limit.
  auto takePart = [&](Value base, Value lower, Value upper, ValueRange acc) {
    SmallVector<Value> taken;
    for (auto [i, value] : llvm::enumerate(acc)) {
      Value t = b.add(b.add(base, member), i * threads);
      Value isInside = b.less(t, upper);
      if (lower)
        isInside = arith::AndIOp::create(
            b, isInside,
            arith::CmpIOp::create(b, arith::CmpIPredicate::sge, t, lower));
      taken.push_back(b.choose(
          isInside,
          [&, value = value] { return SmallVector<Value>{next(t, value)}; },
          [&, value = value] { return SmallVector<Value>{value}; })[0]);
    }
    return taken;
  };
  if (level.run == level.n ||
      (level.run % lanes == 0 && level.chunk % lanes == 0)) {
    // Element t belongs to lane t mod lanes. If a chunk does not begin at lane
    // 0, the loop begins at lane 0 and skips the elements before the chunk.
    bool isAligned = level.getChunks() == 1 || level.chunk % lanes == 0;
    Block &body = *fold.op.getBody();
    int64_t operations = std::distance(body.begin(), body.end());
    bool isShort = operations * int64_t(starts.size()) <= kUnrolledLanes;
    int64_t unroll = isShort && isAligned ? kUnrolledElements : 1;
    Value from = isAligned ? start : b.sub(start, b.rem(start, lanes));
    Value lower = isAligned ? Value() : start;
    SmallVector<Value> acc = starts;
    Value middle = from;
    if (unroll > 1) {
      Value size = b.sub(end, from);
      middle = b.add(from, b.sub(size, b.rem(size, lanes * unroll)));
      acc = b.loop(from, middle, lanes * unroll, acc,
                   [&](Value base, ValueRange carried) {
                     SmallVector<Value> taken(carried);
                     for (int64_t u = 0; u < unroll; ++u)
                       for (auto [i, value] : llvm::enumerate(taken))
                         value = next(b.add(b.add(base, member),
                                            u * lanes + i * threads),
                                      value);
                     return taken;
                   });
    }
    acc = b.loop(middle, end, lanes, acc, [&](Value base, ValueRange carried) {
      return takePart(base, lower, end, carried);
    });
    return combineLanes(level, acc);
  }
  // Processes one run after another, because each run begins at lane 0.
  Value last = b.div(b.add(end, level.run - 1), level.run);
  SmallVector<Value> acc =
      b.loop(b.div(start, level.run), last, 1, starts,
             [&](Value number, ValueRange outer) {
               Value base = b.mul(number, level.run);
               Value lower = b.max(start, base);
               Value upper = b.min(end, b.add(base, level.run));
               return b.loop(base, upper, lanes, outer,
                             [&](Value at, ValueRange carried) {
                               return takePart(at, lower, upper, carried);
                             });
             });
  return combineLanes(level, acc);
}

Value FoldDevice::shuffleDown(Value value, int64_t distance) {
  auto shuffle = [&](Value word) -> Value {
    return gpu::ShuffleOp::create(b, word, distance, kWarp,
                                  gpu::ShuffleMode::DOWN)
        .getShuffleResult();
  };
  Type i32 = b.getI32Type();
  Type kind = value.getType();
  Value bits = value;
  unsigned width = kind.getIntOrFloatBitWidth();
  if (isa<FloatType>(kind))
    bits = arith::BitcastOp::create(b, b.getIntegerType(width), value);
  if (width == 64) {
    Value half = b.constant(b.getI64IntegerAttr(32));
    Value low = shuffle(arith::TruncIOp::create(b, i32, bits));
    Value high = shuffle(
        arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, bits, half)));
    bits = arith::OrIOp::create(
        b, arith::ExtUIOp::create(b, b.getI64Type(), low),
        arith::ShLIOp::create(
            b, arith::ExtUIOp::create(b, b.getI64Type(), high), half));
  } else if (width == 32) {
    bits = shuffle(bits);
  } else {
    bits =
        arith::TruncIOp::create(b, b.getIntegerType(width),
                                shuffle(arith::ExtUIOp::create(b, i32, bits)));
  }
  return isa<FloatType>(kind) ? arith::BitcastOp::create(b, kind, bits) : bits;
}

/// (F2) Combines the lanes of a thread, and then those of its group. The
/// group's first thread receives the result.
Value FoldDevice::combineLanes(const Level &level, SmallVector<Value> lanes) {
  int64_t used = std::min<int64_t>(level.lanes, llvm::PowerOf2Ceil(level.run));
  for (size_t half = lanes.size() / 2; half; half /= 2) {
    for (size_t i = 0; i < half; ++i)
      lanes[i] = fold.combine(b, lanes[i], lanes[i + half]);
    lanes.resize(half);
  }
  Value result = lanes[0];
  for (int64_t distance = std::min(used, kWarp) / 2; distance; distance /= 2)
    result = fold.combine(b, result, shuffleDown(result, distance));
  // (F2) counts absent lanes as +0, so a sum with absent lanes is never -0.
  // This code omits these lanes; if the result is then -0 (possible only for an
  // fma step), adding +0 corrects it.
  if (used < level.lanes && isa<math::FmaOp>(fold.step))
    result = fold.combine(b, result, fold.getStart(b, 0));
  return result;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void FoldDevice::locate(Value result) {
  SmallVector<Value> at = b.delinearize(result, getSizes(parallel));
  coordinates.assign(fold.sizes.size(), b.index(0));
  for (auto [loop, value] : llvm::zip_equal(parallel, at))
    if (loop.dims.size() == 1)
      coordinates[loop.dims[0]] = value;
  bases.clear();
  for (auto [i, access] : llvm::enumerate(fold.inputs))
    bases.push_back(b.add(getLoopOffset(b, parallel, at, i), access.constant));
  bases.push_back(b.add(getLoopOffset(b, parallel, at, fold.inputs.size()),
                        fold.outputs[0].constant));
}

/// (F3), (F7) Combines the initial value and the total, and stores the result.
void FoldDevice::storeResult(Value total) {
  const Access &output = fold.outputs[0];
  bool isFloat = isa<FloatType>(type);
  Value init = fold.getConstantInit(b, 0, /*lanes=*/0);
  if (!init) {
    init = b.load(output.buffer, output.element, bases.back());
    if (isFloat)
      init = b.convertFloat(init, type);
  }
  Value result = fold.combine(b, init, total);
  if (isFloat)
    result = b.convertFloat(b.canonicalizeNaN(result), output.element);
  b.store(result, output.buffer, bases.back());
}

/// Returns the index of a chunk's value in a list, chosen so that threads
/// access adjacent elements at the same time.
Value FoldDevice::getListIndex(const Level &of, Value result, Value chunk) {
  return hasLanes ? b.add(b.mul(result, of.getChunks()), chunk)
                  : b.add(b.mul(chunk, fold.results), result);
}

void FoldDevice::expand(size_t number, ArrayRef<int64_t> lists) {
  const Level &level = levels[number];
  bool isLast = number + 1 == levels.size();
  int64_t chunks = allChunks ? 1 : level.getChunks();
  int64_t items = fold.results * chunks;
  int64_t threads =
      std::min({level.lanes, int64_t(llvm::PowerOf2Ceil(level.run)), kWarp});
  int64_t perBlock = kBlock / threads;
  LaunchShape launch;
  launch.grid[0] = llvm::divideCeil(items, perBlock);
  launch.block[0] = kBlock;
  b.setLaunch(launch);
  auto getList = [&](size_t i) {
    return b.getWorkspace(type, fold.results * levels[i].getChunks(), lists[i]);
  };
  Value source = number ? getList(number - 1) : Value();
  Value target = isLast ? Value() : getList(number);
  Value thread = b.getThreadId();
  Value item = b.add(b.mul(b.getBlockId(), perBlock), b.div(thread, threads));
  Value isInside = items % perBlock ? b.less(item, b.index(items)) : Value();
  auto compute = [&](Value item) {
    SmallVector<Value> at =
        b.delinearize(item, hasLanes ? ArrayRef<int64_t>{fold.results, chunks}
                                     : ArrayRef<int64_t>{chunks, fold.results});
    Value result = at[hasLanes ? 0 : 1], chunk = at[hasLanes ? 1 : 0];
    locate(result);
    auto next = [&](Value t, Value accumulator) -> Value {
      if (!number)
        return applyBody(t, accumulator);
      Value element =
          b.load(source, type, getListIndex(levels[number - 1], result, t));
      return accumulator ? fold.combine(b, accumulator, element) : element;
    };
    auto getEnd = [&](Value start) {
      return b.min(b.add(start, level.chunk), b.index(level.n));
    };
    Value total;
    if (allChunks) {
      total = foldThread(level, b.index(0), b.index(level.chunk), next);
      total = b.loop(b.index(level.chunk), b.index(level.n), level.chunk,
                     {total}, [&](Value start, ValueRange acc) {
                       Value one =
                           foldThread(level, start, getEnd(start), next);
                       return SmallVector<Value>{fold.combine(b, acc[0], one)};
                     })[0];
    } else {
      Value start = b.mul(chunk, level.chunk);
      total = threads == 1 ? foldThread(level, start, getEnd(start), next)
                           : foldGroup(level, b.rem(thread, threads), start,
                                       getEnd(start), next);
    }
    auto store = [&] {
      if (isLast)
        storeResult(total);
      else
        b.store(total, target, getListIndex(level, result, chunk));
    };
    if (threads == 1)
      return store();
    // All threads of a warp must execute a shuffle, even those without an item,
    // so only the store is conditional.
    Value isFirst = b.equal(b.rem(thread, threads), b.index(0));
    b.when(isInside ? arith::AndIOp::create(b, isFirst, isInside).getResult()
                    : isFirst,
           store);
  };
  if (threads == 1 && isInside)
    b.when(isInside, [&] { compute(item); });
  else
    compute(isInside ? b.min(item, b.index(items - 1)) : item);
}

LogicalResult device::expandFold(DeviceKernelFactory &factory, FoldOp op) {
  SmallVector<int64_t> lists;
  LogicalResult matched = factory.tryCreate<FoldOp>(
      "", [&](DeviceBuilder &b, FoldOp copy) -> LogicalResult {
        FoldDevice kernel(b, copy);
        if (failed(kernel.match()))
          return failure();
        for (size_t i = 0; i + 1 < kernel.getNumLevels(); ++i)
          lists.push_back(
              factory.getWorkspace().allocate(kernel.getListBytes(i)));
        kernel.expand(0, lists);
        return success();
      });
  if (failed(matched))
    return failure();
  for (size_t level = 1; level <= lists.size(); ++level)
    factory.create<FoldOp>(("totals" + Twine(level)).str(),
                           [&](DeviceBuilder &b, FoldOp copy) {
                             FoldDevice kernel(b, copy);
                             (void)kernel.match();
                             kernel.expand(level, lists);
                           });
  return success();
}

LogicalResult device::expandAnyFold(DeviceKernelFactory &factory, FoldOp op) {
  if (isa_and_present<ExactAttr>(op.getOrderAttr()))
    return device::expandExact(factory, op);
  if (isa_and_present<FdpaAttr>(op.getOrderAttr())) {
    if (succeeded(device::expandAccumulators(factory, op)))
      return success();
    factory.create<FoldOp>("", &expandAccumulatorFold);
    return success();
  }
  if (succeeded(device::expandContraction(factory, op)) ||
      succeeded(device::expandFold(factory, op)))
    return success();
  factory.create<FoldOp>("", &expandLiteralFold);
  return success();
}
