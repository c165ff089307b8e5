//===- AccumulatorDevice.cpp - (M4) by the instructions of a matrix unit --===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of 2 x 2 warps computes a tile of results by mma.sync, whose sums are
// those of the rule (M3). Both factors pass through shared memory in slices of
// kSlice elements of K, as words of two neighbours along K; the next slice is
// read while the warps multiply the present one.
//
// An instruction adds one block of the rule, or two in ascending order of K.
// Zeros fill the last block: a product of zeros has no exponent and adds
// nothing (M1). A block of zeros alone would make +0 of -0, so there is none.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Contraction.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;
using repro_target::MatrixElement;
using repro_target::MatrixRule;
using repro_target::MatrixUnit;

namespace {
constexpr int64_t kTileThreads = 128;
/// Elements of K of a slice, of what a thread reads at once, and of a word.
constexpr int64_t kSlice = 32, kGroup = 8, kPacked = 2;
/// Words of a row of a slice; the last ones are there so that the rows of an
/// instruction lie in different banks.
constexpr int64_t kPitch = kSlice / kPacked + 4;
/// Results of an instruction.
constexpr int64_t kRows = 16, kColumns = 8;
/// Fewest rows and columns of a product in large tiles.
constexpr int64_t kLargeProduct = 96;

class AccumulatorDevice : public Contraction {
public:
  AccumulatorDevice(DeviceBuilder &b, FoldOp op)
      : Contraction(b, op), b(b), rule(cast<FdpaAttr>(op.getOrderAttr())) {}
  LogicalResult match();
  void expand();

private:
  const Factor &getFactor(unsigned f) { return f ? columns : rows; }
  void chooseTile();
  void locate(unsigned f);
  SmallVector<Value> readSlice(unsigned f, Value slice, bool isLast);
  void storeSlice(unsigned f, ArrayRef<Value> values, Value buffer);
  /// Adds the products of the first `count` elements of a slice to the sums.
  void multiply(Value buffer, int64_t count, MutableArrayRef<Value> sums);
  Value multiply(ArrayRef<Value> left, ArrayRef<Value> right,
                 ArrayRef<Value> sums);
  /// Calls `handle` with the number of each sum of the thread, its offset in
  /// the output and whether it is a result, null if it is one for sure.
  void forSums(function_ref<void(int64_t, Value offset, Value exists)> handle);
  Value readInit(Value offset);
  void storeResults(ArrayRef<Value> totals);

  Value i32(int64_t value) { return b.constant(b.getI32IntegerAttr(value)); }

  DeviceBuilder &b;
  const FdpaAttr rule;
  const MatrixUnit *unit = nullptr;
  int64_t high = 0, wide = 0; ///< instructions of a warp's results
  int64_t extents[2];         ///< of the tile
  bool isAlong[2], isVector[2];
  int64_t batchSize = 1;
  // Of the present block and thread.
  Value thread, batchIndex, begin[2], warpBegin[2], group, member, buffers;
  struct Group {
    Value own, part; ///< row or column of the tile, group of its slice
    Value base;      ///< where that lies in the buffer, but for K
  };
  SmallVector<Group> groups[2];
};
} // namespace

static std::optional<MatrixElement> getMatrixElement(Type type) {
  if (type.isF16())
    return MatrixElement::F16;
  if (type.isBF16())
    return MatrixElement::BF16;
  return std::nullopt;
}

LogicalResult AccumulatorDevice::match() {
  unit = b.getArchitecture().matrixUnit;
  if (!unit || failed(matchFactors()))
    return failure();
  Type element = fold.inputs[rows.inputs[0]].element;
  std::optional<MatrixElement> kind = getMatrixElement(element);
  if (!kind || fold.inputs[columns.inputs[0]].element != element ||
      !fold.inputs[rows.inputs[0]].isMemory() ||
      !fold.inputs[columns.inputs[0]].isMemory())
    return failure();
  // The zeros behind an end of K are never a block of their own: that would
  // make +0 of -0.
  std::optional<MatrixRule> native = unit->getRule(*kind);
  bool isUnit = native && rule.getTerms() == native->terms &&
                rule.getTerms() >= kGroup &&
                rule.getFraction() == native->fraction &&
                rule.getRound() == SumRounding::rz_f32 &&
                rule.getFloor() == native->floor && !rule.getLate();
  if (!isUnit || (fold.chunk < fold.n && fold.chunk % kSlice))
    return failure();
  // Neighbouring threads write neighbouring columns.
  settleFactors(!rows.loops.empty() &&
                rows.loops.back().coefficients.back() == 1);
  batchSize = getProduct(getSizes(batch));
  chooseTile();
  for (unsigned f : {0, 1}) {
    const Factor &factor = getFactor(f);
    const Access &access = fold.inputs[factor.inputs[0]];
    auto stepsByOne = [](ArrayRef<CollapsedDim> loops) {
      return !loops.empty() && loops.back().coefficients[0] == 1;
    };
    auto areAligned = [](ArrayRef<CollapsedDim> loops, unsigned access) {
      return llvm::all_of(loops, [&](const CollapsedDim &loop) {
        return loop.coefficients[access] % kGroup == 0;
      });
    };
    isAlong[f] = stepsByOne(factor.reduction) && !stepsByOne(factor.loops);
    isVector[f] =
        isAlong[f] && factor.reduction.back().size % kGroup == 0 &&
        areAligned(ArrayRef(factor.reduction).drop_back(), 0) &&
        areAligned(factor.loops, 0) && areAligned(batch, f) &&
        access.constant % kGroup == 0 &&
        b.getAlignment(fold.op->getOperand(factor.inputs[0])) % 16 == 0;
  }
  return success();
}

void AccumulatorDevice::chooseTile() {
  auto setTile = [&](int64_t newHigh, int64_t newWide) {
    high = newHigh;
    wide = newWide;
    extents[0] = 2 * kRows * high;
    extents[1] = 2 * kColumns * wide;
    return batchSize * llvm::divideCeil(rows.size, extents[0]) *
           llvm::divideCeil(columns.size, extents[1]);
  };
  // Totals of chunks take as many registers as the sums.
  bool isLarge = rows.size >= kLargeProduct && columns.size >= kLargeProduct &&
                 fold.chunk >= fold.n &&
                 setTile(4, 8) >= b.getArchitecture().multiprocessors / 2;
  if (!isLarge)
    setTile(2, 4);
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Which groups of a slice the thread reads: neighbouring threads read what
/// lies together.
void AccumulatorDevice::locate(unsigned f) {
  const Factor &factor = getFactor(f);
  Value start = b.add(
      getLoopOffset(b, batch, b.delinearize(batchIndex, getSizes(batch)), f),
      fold.inputs[factor.inputs[0]].constant);
  constexpr int64_t parts = kSlice / kGroup;
  for (int64_t first = 0; first < extents[f] * parts; first += kTileThreads) {
    Value item = b.add(thread, first);
    Group group;
    group.own = isAlong[f] ? b.div(item, parts) : b.rem(item, extents[f]);
    group.part = isAlong[f] ? b.rem(item, parts) : b.div(item, extents[f]);
    // What is beyond the end repeats the last one, and is not stored.
    Value at = b.add(begin[f], group.own);
    if (factor.size % extents[f])
      at = b.min(at, b.index(factor.size - 1));
    group.base = b.add(
        start, getLoopOffset(b, factor.loops,
                             b.delinearize(at, getSizes(factor.loops)), 0));
    groups[f].push_back(group);
  }
}

SmallVector<Value> AccumulatorDevice::readSlice(unsigned f, Value slice,
                                                bool isLast) {
  const Factor &factor = getFactor(f);
  const Access &access = fold.inputs[factor.inputs[0]];
  Type i16 = b.getI16Type();
  auto words = VectorType::get({kGroup / kPacked}, b.getI32Type());
  /// The bits of so many neighbours along K; +0 beyond its end.
  auto read = [&](const Group &group, Value k, int64_t lanes) -> Value {
    Value isInside;
    if (isLast) {
      isInside = b.less(k, b.index(fold.n));
      k = b.min(k, b.index(fold.n - lanes));
    }
    Value offset =
        b.add(group.base,
              getLoopOffset(b, factor.reduction,
                            b.delinearize(k, getSizes(factor.reduction)), 0));
    Value bits = lanes > 1 ? b.loadAligned(access.buffer, i16, offset, lanes)
                           : b.load(access.buffer, i16, offset);
    return isInside ? b.select(isInside, bits, b.zero(bits.getType())) : bits;
  };
  SmallVector<Value> values;
  for (const Group &group : groups[f]) {
    Value first = b.add(b.mul(slice, kSlice), b.mul(group.part, kGroup));
    if (isVector[f]) {
      values.push_back(
          vector::BitCastOp::create(b, words, read(group, first, kGroup)));
      continue;
    }
    SmallVector<Value> elements;
    for (int64_t i = 0; i < kGroup; i += kPacked) {
      Value pair[kPacked];
      for (int64_t e = 0; e < kPacked; ++e)
        pair[e] = arith::ExtUIOp::create(b, b.getI32Type(),
                                         read(group, b.add(first, i + e), 1));
      elements.push_back(arith::OrIOp::create(
          b, pair[0], arith::ShLIOp::create(b, pair[1], i32(16))));
    }
    values.push_back(vector::FromElementsOp::create(b, words, elements));
  }
  return values;
}

void AccumulatorDevice::storeSlice(unsigned f, ArrayRef<Value> values,
                                   Value buffer) {
  for (auto [group, value] : llvm::zip_equal(groups[f], values)) {
    Value row =
        b.add(b.mul(group.own, kPitch), b.mul(group.part, kGroup / kPacked));
    b.storeAligned(value, buffers,
                   b.add(b.add(buffer, row), f * extents[0] * kPitch));
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// One instruction, of as many elements of K as `right` has words for.
Value AccumulatorDevice::multiply(ArrayRef<Value> left, ArrayRef<Value> right,
                                  ArrayRef<Value> sums) {
  bool isF16 = fold.inputs[rows.inputs[0]].element.isF16();
  auto toOperands = [&](ArrayRef<Value> words) {
    SmallVector<Value> operands(words);
    if (isF16)
      for (Value &word : operands)
        word = LLVM::BitcastOp::create(
            b, VectorType::get({kPacked}, b.getF16Type()), word);
    return operands;
  };
  NVVM::MMATypes type = isF16 ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  auto result = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(4, b.getF32Type()));
  return NVVM::MmaOp::create(
      b, result, toOperands(left), toOperands(right), sums,
      ArrayRef<int64_t>{kRows, kColumns, kGroup * int64_t(right.size())},
      std::nullopt, std::nullopt, std::array{type, type},
      std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
}

void AccumulatorDevice::multiply(Value buffer, int64_t count,
                                 MutableArrayRef<Value> sums) {
  auto load = [&](unsigned f, int64_t own, int64_t word) {
    Value row = b.add(b.add(warpBegin[f], group), own + f * extents[0]);
    Value at = b.add(b.add(buffer, b.mul(row, kPitch)), b.add(member, word));
    return b.load(buffers, b.getI32Type(), at);
  };
  for (int64_t k = 0; k < count;) {
    // Words along K of an instruction, in fours.
    int64_t fours = unit->hasDepth16() && count - k > kGroup ? 2 : 1;
    SmallVector<SmallVector<Value>> left, right;
    for (int64_t i = 0; i < high; ++i) {
      left.emplace_back();
      for (int64_t four = 0; four < fours; ++four)
        for (int64_t half : {0, 1})
          left.back().push_back(
              load(0, kRows * i + 8 * half, k / kPacked + 4 * four));
    }
    for (int64_t j = 0; j < wide; ++j) {
      right.emplace_back();
      for (int64_t four = 0; four < fours; ++four)
        right.back().push_back(load(1, kColumns * j, k / kPacked + 4 * four));
    }
    for (int64_t i = 0; i < high; ++i)
      for (int64_t j = 0; j < wide; ++j) {
        MutableArrayRef<Value> own = sums.slice((i * wide + j) * 4, 4);
        Value product = multiply(left[i], right[j], own);
        for (int64_t e = 0; e < 4; ++e)
          own[e] = LLVM::ExtractValueOp::create(b, product, e);
      }
    k += kGroup * fours;
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void AccumulatorDevice::forSums(
    function_ref<void(int64_t, Value, Value)> handle) {
  struct Line {
    Value offset, exists;
  };
  SmallVector<Line> lines[2];
  auto addLine = [&](unsigned f, Value at) {
    const Factor &factor = getFactor(f);
    Line line;
    if (factor.size % extents[f]) {
      line.exists = b.less(at, b.index(factor.size));
      at = b.min(at, b.index(factor.size - 1));
    }
    line.offset = getLoopOffset(b, factor.loops,
                                b.delinearize(at, getSizes(factor.loops)), 1);
    lines[f].push_back(line);
  };
  Value first[2];
  for (unsigned f : {0, 1})
    first[f] = b.add(begin[f], warpBegin[f]);
  for (int64_t i = 0; i < 2 * high; ++i)
    addLine(0, b.add(b.add(first[0], group), 8 * i));
  for (int64_t i = 0; i < 2 * wide; ++i)
    addLine(1, b.add(b.add(first[1], b.mul(member, 2)), i / 2 * 8 + i % 2));
  Value start = b.add(
      getLoopOffset(b, batch, b.delinearize(batchIndex, getSizes(batch)), 2),
      fold.outputs[0].constant);
  for (int64_t i = 0; i < high; ++i)
    for (int64_t j = 0; j < wide; ++j)
      for (int64_t e = 0; e < 4; ++e) {
        const Line &row = lines[0][2 * i + e / 2];
        const Line &column = lines[1][2 * j + e % 2];
        Value exists = row.exists ? row.exists : column.exists;
        if (row.exists && column.exists)
          exists = arith::AndIOp::create(b, row.exists, column.exists);
        handle((i * wide + j) * 4 + e,
               b.add(b.add(start, row.offset), column.offset), exists);
      }
}

Value AccumulatorDevice::readInit(Value offset) {
  if (Value init = fold.getConstantInit(b, 0, /*lanes=*/0))
    return init;
  const Access &output = fold.outputs[0]; // (F7)
  return b.convertFloat(b.load(output.buffer, output.element, offset),
                        b.getF32Type());
}

void AccumulatorDevice::storeResults(ArrayRef<Value> totals) {
  const Access &output = fold.outputs[0];
  forSums([&](int64_t i, Value offset, Value exists) {
    auto store = [&] {
      Value result = totals[i];
      if (rule.getStart() == SumStart::zero) // (F3)
        result = arith::AddFOp::create(b, readInit(offset), result);
      b.store(b.convertFloat(b.canonicalizeNaN(result), output.element),
              output.buffer, offset);
    };
    if (exists)
      b.when(exists, store);
    else
      store();
  });
}

void AccumulatorDevice::expand() {
  int64_t tiles[2];
  for (unsigned f : {0, 1})
    tiles[f] = llvm::divideCeil(getFactor(f).size, extents[f]);
  noteTiles("blocks of " + std::to_string(extents[0]) + " x " +
            std::to_string(extents[1]) + " results and " +
            std::to_string(kSlice) + " of K by matrix instructions of " +
            std::string(unit->name));
  LaunchShape launch;
  launch.grid[0] = batchSize * tiles[0] * tiles[1];
  launch.block[0] = kTileThreads;
  b.setLaunch(launch);
  int64_t bufferSize = (extents[0] + extents[1]) * kPitch;
  buffers = b.createTile(2 * bufferSize, b.getI32Type());
  thread = b.getThreadId();
  SmallVector<Value> at =
      b.delinearize(b.getBlockId(), {batchSize, tiles[0], tiles[1]});
  batchIndex = at[0];
  Value warp = b.div(thread, kWarp), lane = b.rem(thread, kWarp);
  group = b.div(lane, 4);
  member = b.rem(lane, 4);
  for (unsigned f : {0, 1}) {
    begin[f] = b.mul(at[1 + f], extents[f]);
    warpBegin[f] = b.mul(f ? b.rem(warp, 2) : b.div(warp, 2), extents[f] / 2);
    locate(f);
  }

  int64_t count = high * wide * 4;
  auto splat = [&](double value) {
    return SmallVector<Value>(count, b.constant(b.getF32FloatAttr(value)));
  };
  SmallVector<Value> sums = splat(0);
  if (rule.getStart() == SumStart::init)
    forSums(
        [&](int64_t i, Value offset, Value) { sums[i] = readInit(offset); });
  // -0 + x is x, whatever x is.
  bool hasTotals = fold.chunk < fold.n;
  SmallVector<Value> totals = hasTotals ? splat(-0.0) : SmallVector<Value>();
  auto addToTotals = [&] {
    for (int64_t i = 0; i < count; ++i)
      totals[i] = arith::AddFOp::create(b, totals[i], sums[i]);
  };

  int64_t whole = fold.n / kSlice, rest = fold.n % kSlice;
  if (whole) {
    for (unsigned f : {0, 1})
      storeSlice(f, readSlice(f, b.index(0), /*isLast=*/false), b.index(0));
    b.barrier();
    SmallVector<Value> state{b.index(0)};
    llvm::append_range(state, sums);
    llvm::append_range(state, totals);
    state =
        b.loop(b.index(0), b.index(whole), 1, state,
               [&](Value slice, ValueRange carried) {
                 Value next = b.add(slice, 1);
                 Value isMore = b.less(next, b.index(whole));
                 Value other = b.sub(b.index(bufferSize), carried[0]);
                 SmallVector<Value> onTheWay[2];
                 for (unsigned f : {0, 1})
                   onTheWay[f] = b.chooseOrAny(isMore, [&] {
                     return readSlice(f, next, /*isLast=*/false);
                   });
                 sums.assign(carried.begin() + 1, carried.begin() + 1 + count);
                 multiply(carried[0], kSlice, sums);
                 if (hasTotals) {
                   totals.assign(carried.begin() + 1 + count, carried.end());
                   Value place = b.rem(next, fold.chunk / kSlice);
                   Value isEnd = b.equal(place, b.index(0));
                   Value zero = b.zero(b.getF32Type());
                   for (int64_t i = 0; i < count; ++i) {
                     Value total = arith::AddFOp::create(b, totals[i], sums[i]);
                     totals[i] = b.select(isEnd, total, totals[i]);
                     sums[i] = b.select(isEnd, zero, sums[i]);
                   }
                 }
                 for (unsigned f : {0, 1})
                   storeSlice(f, onTheWay[f], other);
                 b.barrier();
                 SmallVector<Value> result{other};
                 llvm::append_range(result, sums);
                 llvm::append_range(result, totals);
                 return result;
               });
    sums.assign(state.begin() + 1, state.begin() + 1 + count);
    totals.assign(state.begin() + 1 + count, state.end());
  }
  if (rest) {
    for (unsigned f : {0, 1})
      storeSlice(f, readSlice(f, b.index(whole), /*isLast=*/true), b.index(0));
    b.barrier();
    multiply(b.index(0), rest, sums);
  }
  if (hasTotals && fold.n % fold.chunk)
    addToTotals();
  storeResults(hasTotals ? totals : sums);
}

LogicalResult device::expandAccumulators(DeviceKernelFactory &factory,
                                         FoldOp op) {
  return factory.tryCreate<FoldOp>("", [](DeviceBuilder &b, FoldOp copy) {
    AccumulatorDevice kernel(b, copy);
    if (failed(kernel.match()))
      return failure();
    kernel.expand();
    return success();
  });
}
