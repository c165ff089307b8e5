//===- ExactDevice.cpp - Exact matrix products by matrix instructions -----===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K4) Five kernels: the largest magnitude of each row of each factor; the
// integers q_t of (K4) as signed bytes, q = d0 + 256 d1 + ...; the products of
// these, each sum of which an i32 holds, by instructions that multiply matrices
// of bytes. The products of digits p and q with the same p + q share an
// accumulator; together they are T.
//
// Digits lie as the instructions take them: for each step of 32 elements of K
// and each digit, lines of 16 words, each of a pair of rows r and r + 8. Thread
// t of the four that share a line takes words 4 t to 4 t + 3: words 2 t and
// 2 t + 1 of both rows' elements. Which k that is for the instruction does not
// matter, as it is the same in both factors. Rows beyond the last repeat it.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Contraction.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

namespace {
/// A block of 2 x 2 warps computes a tile of kTile x kTile results, a warp a
/// quarter of it: kHigh x kWide instructions of 16 x 8 results.
constexpr int64_t kTile = 64, kThreads = 128, kHigh = 2, kWide = 4;
/// Threads that look for the largest magnitudes.
constexpr int64_t kScaleThreads = 256;
/// Elements of a step of K, and those of a row that a thread makes digits of.
constexpr int64_t kStep = 32, kThreadElements = 16;
/// Words of a line and of one access.
constexpr int64_t kLine = 16, kAccess = 4;
/// Words of a digit of a tile's rows in a step: an access for each thread.
constexpr int64_t kTileWords = kTile / 2 * kLine;
static_assert(kTileWords == kThreads * kAccess);

/// Where the kernels leave their results in the workspace: for each factor.
struct WorkspaceOffsets {
  int64_t magnitudes[2], digits[2];
};

class ExactDevice : public Contraction {
public:
  ExactDevice(DeviceBuilder &b, FoldOp op) : Contraction(b, op), b(b) {}
  LogicalResult match();
  int64_t getMagnitudeBytes(unsigned f);
  int64_t getDigitBytes(unsigned f);
  void expandMagnitudes(unsigned f, const WorkspaceOffsets &offsets);
  void expandDigits(unsigned f, const WorkspaceOffsets &offsets);
  void expandProducts(const WorkspaceOffsets &offsets);

private:
  const Factor &getFactor(unsigned f) { return f ? columns : rows; }
  int64_t getPaddedSize(unsigned f) {
    return llvm::divideCeil(getFactor(f).size, kTile) * kTile;
  }
  bool isAlongReduction(unsigned f);
  /// The place of a row of a factor, for each leaf.
  SmallVector<Value> locateRow(unsigned f, Value batchIndex, Value own);
  Value loadElement(unsigned f, ArrayRef<Value> row, Value k);
  Value loadMagnitude(unsigned f, const WorkspaceOffsets &offsets,
                      Value batchIndex, Value own);

  SmallVector<Value> getDigits(unsigned f, Value batchIndex, Value own,
                               Value share, const WorkspaceOffsets &offsets);

  Value i32(int64_t value) { return b.constant(b.getI32IntegerAttr(value)); }
  Value i64(int64_t value) { return b.constant(b.getI64IntegerAttr(value)); }
  Value getExponent(Value magnitude);
  Value isFinite(Value magnitude);

  SmallVector<Value> readSlice(unsigned f, Value slice);
  void storeSlice(unsigned f, ArrayRef<Value> values, Value buffer);
  SmallVector<Value> compute(Value buffer, ValueRange carried);
  void storeResults(const WorkspaceOffsets &offsets, ValueRange sums);

  DeviceBuilder &b;
  int64_t digits, bits;
  int64_t steps;  ///< of a slice: as many as shared memory has room for
  int64_t slices; ///< of K
  int64_t batchSize;
  // Of the block and thread that multiplies.
  Value thread, batchIndex, begin[2], warpBegin[2], group, member, buffers;
  Value sources[2];
};
} // namespace

LogicalResult ExactDevice::match() {
  if (failed(matchFactors()))
    return fold.op.emitOpError("expected a matrix product, as those that "
                               "repro-decompose-exact keeps");
  // Neighbouring threads write neighbouring columns.
  settleFactors(!rows.loops.empty() &&
                rows.loops.back().coefficients.back() == 1);
  batchSize = getProduct(getSizes(batch));
  digits = cast<ExactAttr>(fold.op.getOrderAttr()).getDigits();
  bits = 8 * digits - 2;
  steps = digits == 2 ? 2 : 1;
  slices = llvm::divideCeil(fold.n, kStep * steps);
  return success();
}

int64_t ExactDevice::getMagnitudeBytes(unsigned f) {
  return batchSize * getFactor(f).size * sizeof(int32_t);
}

int64_t ExactDevice::getDigitBytes(unsigned f) {
  return batchSize * slices * steps * digits * getPaddedSize(f) * kStep;
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// Whether a factor's neighbours in memory follow each other along K.
bool ExactDevice::isAlongReduction(unsigned f) {
  const Factor &factor = getFactor(f);
  auto stepsByOne = [&](ArrayRef<CollapsedDim> loops) {
    return !loops.empty() && loops.back().coefficients[0] == 1;
  };
  return stepsByOne(factor.reduction) && !stepsByOne(factor.loops);
}

SmallVector<Value> ExactDevice::locateRow(unsigned f, Value batchIndex,
                                          Value own) {
  const Factor &factor = getFactor(f);
  unsigned firstAccess = f ? rows.inputs.size() : 0;
  SmallVector<Value> batchAt = b.delinearize(batchIndex, getSizes(batch));
  SmallVector<Value> at = b.delinearize(own, getSizes(factor.loops));
  SmallVector<Value> offsets;
  for (auto [leaf, number] : llvm::enumerate(factor.inputs))
    offsets.push_back(
        b.add(b.add(getLoopOffset(b, batch, batchAt, firstAccess + leaf),
                    getLoopOffset(b, factor.loops, at, leaf)),
              fold.inputs[number].constant));
  return offsets;
}

Value ExactDevice::loadElement(unsigned f, ArrayRef<Value> row, Value k) {
  const Factor &factor = getFactor(f);
  SmallVector<Value> at = b.delinearize(k, getSizes(factor.reduction));
  return computeFactor(factor, /*lanes=*/0, [&](unsigned leaf) {
    const Access &access = fold.inputs[factor.inputs[leaf]];
    Value offset =
        b.add(row[leaf], getLoopOffset(b, factor.reduction, at, leaf));
    return b.load(access.buffer, access.element, offset);
  });
}

/// The bits of the largest magnitude of each row: as integers they are ordered
/// like the floats, infinities and NaNs last.
void ExactDevice::expandMagnitudes(unsigned f,
                                   const WorkspaceOffsets &offsets) {
  const Factor &factor = getFactor(f);
  bool along = isAlongReduction(f);
  int64_t height = along ? kScaleThreads / kWarp : kWarp;
  int64_t width = kScaleThreads / height;
  int64_t blocks = llvm::divideCeil(factor.size, height);
  LaunchShape launch;
  launch.grid[0] = batchSize * blocks;
  launch.block[0] = kScaleThreads;
  b.setLaunch(launch);
  Value target = b.getWorkspace(b.getI32Type(), batchSize * factor.size,
                                offsets.magnitudes[f]);
  Value found = b.createTile(kScaleThreads, b.getI32Type());
  Value thread = b.getThreadId();
  Value slow = b.div(thread, kWarp), fast = b.rem(thread, kWarp);
  Value own = along ? slow : fast, share = along ? fast : slow;
  SmallVector<Value> at = b.delinearize(b.getBlockId(), {batchSize, blocks});
  Value first = b.mul(at[1], height);
  Value index =
      b.min(b.add(first, own), b.index(factor.size - 1)); // again, if beyond
  SmallVector<Value> row = locateRow(f, at[0], index);
  Value largest = b.loop(
      share, b.index(fold.n), width, {i32(0)},
      [&](Value k, ValueRange carried) {
        Value magnitude = arith::AndIOp::create(
            b,
            arith::BitcastOp::create(b, b.getI32Type(), loadElement(f, row, k)),
            i32(INT32_MAX));
        return SmallVector<Value>{
            arith::MaxSIOp::create(b, carried[0], magnitude)};
      })[0];
  b.store(largest, found, b.add(b.mul(own, width), share));
  b.barrier();
  Value place = b.add(first, thread);
  Value isRow = b.less(thread, b.index(height));
  if (factor.size % height)
    isRow =
        arith::AndIOp::create(b, isRow, b.less(place, b.index(factor.size)));
  b.when(isRow, [&] {
    Value all = b.loop(
        b.index(0), b.index(width), 1, {i32(0)},
        [&](Value i, ValueRange carried) {
          Value one =
              b.load(found, b.getI32Type(), b.add(b.mul(thread, width), i));
          return SmallVector<Value>{arith::MaxSIOp::create(b, carried[0], one)};
        })[0];
    b.store(all, target, b.add(b.mul(at[0], factor.size), place));
  });
}

Value ExactDevice::loadMagnitude(unsigned f, const WorkspaceOffsets &offsets,
                                 Value batchIndex, Value own) {
  int64_t size = getFactor(f).size;
  Value source =
      b.getWorkspace(b.getI32Type(), batchSize * size, offsets.magnitudes[f]);
  return b.load(source, b.getI32Type(), b.add(b.mul(batchIndex, size), own));
}

/// e of (K4), i64, of a finite magnitude; as an f64 it is not subnormal.
Value ExactDevice::getExponent(Value magnitude) {
  Value narrow = arith::BitcastOp::create(b, b.getF32Type(), magnitude);
  Value real = arith::ExtFOp::create(b, b.getF64Type(), narrow);
  Value biased = arith::ShRUIOp::create(
      b, arith::BitcastOp::create(b, b.getI64Type(), real), i64(52));
  Value exponent = arith::SubIOp::create(b, biased, i64(1022));
  Value isZero =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, magnitude, i32(0));
  return b.select(isZero, i64(0), exponent);
}

Value ExactDevice::isFinite(Value magnitude) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, magnitude,
                               i32(0x7f800000));
}

/// The digits of kThreadElements elements of a row, digit by digit, in words.
SmallVector<Value> ExactDevice::getDigits(unsigned f, Value batchIndex,
                                          Value own, Value share,
                                          const WorkspaceOffsets &offsets) {
  auto getPower = [&](Value exponent) -> Value { // of two
    Value biased = arith::AddIOp::create(b, exponent, i32(127));
    return arith::BitcastOp::create(b, b.getF32Type(),
                                    arith::ShLIOp::create(b, biased, i32(23)));
  };
  SmallVector<Value> row = locateRow(f, batchIndex, own);
  Value magnitude = loadMagnitude(f, offsets, batchIndex, own);
  Value finite = isFinite(magnitude);
  // Two exact factors: their product may be no f32.
  Value shift = arith::TruncIOp::create(
      b, b.getI32Type(),
      arith::SubIOp::create(b, i64(bits), getExponent(magnitude)));
  Value half = arith::ShRSIOp::create(b, shift, i32(1));
  Value scales[] = {getPower(half),
                    getPower(arith::SubIOp::create(b, shift, half))};
  constexpr int64_t words = kThreadElements / 4;
  SmallVector<Value> packed(digits * words);
  for (int64_t i = 0; i < kThreadElements; ++i) {
    Value k = b.add(b.mul(share, kThreadElements), i);
    Value isInside = finite;
    if (fold.n % (kStep * steps)) {
      isInside = arith::AndIOp::create(b, finite, b.less(k, b.index(fold.n)));
      k = b.min(k, b.index(fold.n - 1));
    }
    Value x = loadElement(f, row, k);
    for (Value scale : scales)
      x = arith::MulFOp::create(b, x, scale);
    Value q = arith::FPToSIOp::create(b, b.getI32Type(),
                                      math::RoundEvenOp::create(b, x));
    q = b.select(isInside, q, i32(0));
    for (int64_t d = 0; d < digits; ++d) {
      Value &word = packed[d * words + i / 4];
      Value byte = arith::AndIOp::create(b, q, i32(255));
      if (i % 4)
        word = arith::OrIOp::create(
            b, word, arith::ShLIOp::create(b, byte, i32(8 * (i % 4))));
      else
        word = byte;
      // The byte counts from -128 to 127; a 256th of the rest.
      q = arith::ShRSIOp::create(b, arith::AddIOp::create(b, q, i32(128)),
                                 i32(8));
    }
  }
  return packed;
}

void ExactDevice::expandDigits(unsigned f, const WorkspaceOffsets &offsets) {
  const Factor &factor = getFactor(f);
  int64_t shares = slices * steps * kStep / kThreadElements,
          lines = getPaddedSize(f) / 2;
  Value target = b.getWorkspace(
      b.getI32Type(), getDigitBytes(f) / sizeof(int32_t), offsets.digits[f]);
  bool along = isAlongReduction(f);
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(
        item, along ? ArrayRef<int64_t>{batchSize, lines, shares}
                    : ArrayRef<int64_t>{batchSize, shares, lines});
    Value line = at[along ? 1 : 2], share = at[along ? 2 : 1];
    Value upper = b.add(b.mul(b.div(line, 8), 16), b.rem(line, 8));
    SmallVector<Value> words[2];
    for (int64_t half : {0, 1})
      words[half] = getDigits(
          f, at[0], b.min(b.add(upper, 8 * half), b.index(factor.size - 1)),
          share, offsets);
    constexpr int64_t perStep = kStep / kThreadElements;
    Value step = b.div(share, perStep), inStep = b.rem(share, perStep);
    auto type = VectorType::get({kAccess}, b.getI32Type());
    for (int64_t d = 0; d < digits; ++d) {
      Value first =
          b.add(b.mul(b.add(b.mul(at[0], shares / perStep), step), digits), d);
      first = b.add(b.mul(b.add(b.mul(first, lines), line), kLine),
                    b.mul(inStep, kLine / perStep));
      for (int64_t t = 0; t < kLine / perStep / kAccess; ++t) {
        // A register of each row in turn, or both registers of a row.
        auto get = [&](int64_t half, int64_t i) {
          return words[half][d * (kThreadElements / 4) + 2 * t + i];
        };
        SmallVector<Value> elements{get(0, 0), get(!f, !!f), get(!!f, !f),
                                    get(1, 1)};
        b.storeAligned(vector::FromElementsOp::create(b, type, elements),
                       target, b.add(first, t * kAccess));
      }
    }
  });
  b.setWork(batchSize * lines * shares, 1);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Of a slice of a factor's digits, what the thread copies.
SmallVector<Value> ExactDevice::readSlice(unsigned f, Value slice) {
  SmallVector<Value> values;
  Value first = b.mul(b.add(b.mul(batchIndex, slices), slice), steps * digits);
  for (int64_t i = 0; i < steps * digits; ++i) {
    Value at = b.mul(b.add(b.mul(b.add(first, i), getPaddedSize(f)), begin[f]),
                     kLine / 2);
    values.push_back(b.loadAligned(sources[f], b.getI32Type(),
                                   b.add(at, b.mul(thread, kAccess)), kAccess));
  }
  return values;
}

void ExactDevice::storeSlice(unsigned f, ArrayRef<Value> values, Value buffer) {
  for (auto [i, value] : llvm::enumerate(values))
    b.storeAligned(value, buffers,
                   b.add(b.add(buffer, b.mul(thread, kAccess)),
                         (f * steps * digits + int64_t(i)) * kTileWords));
}

/// Adds the products of a slice to the accumulators, which are numbered by sum
/// of digits, row and column of instructions, and register.
SmallVector<Value> ExactDevice::compute(Value buffer, ValueRange carried) {
  SmallVector<Value> sums(carried);
  Type i32 = b.getI32Type();
  auto result = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                 SmallVector<Type>(4, i32));
  auto load = [&](unsigned f, int64_t step, int64_t digit, int64_t pair) {
    Value line = b.add(b.div(warpBegin[f], 2), group);
    Value at = b.add(b.mul(line, kLine), b.mul(member, kAccess));
    int64_t first =
        ((f * steps + step) * digits + digit) * kTileWords + pair * 8 * kLine;
    Value loaded =
        b.loadAligned(buffers, i32, b.add(b.add(buffer, at), first), kAccess);
    SmallVector<Value> registers;
    for (int64_t e = 0; e < kAccess; ++e)
      registers.push_back(vector::ExtractOp::create(b, loaded, e));
    return registers;
  };
  for (int64_t step = 0; step < steps; ++step) {
    SmallVector<SmallVector<Value>> left, right;
    for (int64_t d = 0; d < digits; ++d) {
      for (int64_t high = 0; high < kHigh; ++high)
        left.push_back(load(0, step, d, high));
      for (int64_t wide = 0; wide < kWide; wide += 2)
        right.push_back(load(1, step, d, wide / 2));
    }
    for (int64_t p = 0; p < digits; ++p)
      for (int64_t q = 0; q < digits; ++q)
        for (int64_t high = 0; high < kHigh; ++high)
          for (int64_t wide = 0; wide < kWide; ++wide) {
            ArrayRef<Value> row = left[p * kHigh + high];
            ArrayRef<Value> column = right[(q * kWide + wide) / 2];
            MutableArrayRef<Value> sum(
                &sums[(((p + q) * kHigh + high) * kWide + wide) * 4], 4);
            Value product = NVVM::MmaOp::create(
                b, result, row, column.slice(wide % 2 * 2, 2),
                ArrayRef<Value>(sum), ArrayRef<int64_t>{16, 8, 32},
                std::nullopt, NVVM::MMAIntOverflow::wrapped,
                std::array{NVVM::MMATypes::s8, NVVM::MMATypes::s8},
                std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
            for (int64_t e = 0; e < 4; ++e)
              sum[e] = LLVM::ExtractValueOp::create(b, product, e);
          }
  }
  return sums;
}

void ExactDevice::storeResults(const WorkspaceOffsets &offsets,
                               ValueRange sums) {
  Type f32 = b.getF32Type(), f64 = b.getF64Type();
  const Access &output = fold.outputs[0];
  unsigned accesses[] = {unsigned(rows.inputs.size()),
                         unsigned(columns.inputs.size())};
  SmallVector<Value> batchAt = b.delinearize(batchIndex, getSizes(batch));
  Value base =
      b.add(getLoopOffset(b, batch, batchAt, accesses[0] + accesses[1]),
            output.constant);
  /// A row or column of results.
  struct Line {
    Value exists, scale, finite, offset;
  };
  auto getLine = [&](unsigned f, Value at) {
    const Factor &factor = getFactor(f);
    Line line;
    if (factor.size % kTile) {
      line.exists = b.less(at, b.index(factor.size));
      at = b.min(at, b.index(factor.size - 1));
    }
    Value magnitude = loadMagnitude(f, offsets, batchIndex, at);
    line.finite = isFinite(magnitude);
    Value biased =
        arith::AddIOp::create(b, getExponent(magnitude), i64(1023 - bits));
    line.scale = arith::BitcastOp::create(
        b, f64, arith::ShLIOp::create(b, biased, i64(52)));
    line.offset =
        getLoopOffset(b, factor.loops,
                      b.delinearize(at, getSizes(factor.loops)), accesses[f]);
    return line;
  };
  SmallVector<Line> lines[2];
  for (int64_t i = 0; i < 2 * kHigh; ++i)
    lines[0].push_back(
        getLine(0, b.add(b.add(b.add(begin[0], warpBegin[0]), group), 8 * i)));
  for (int64_t i = 0; i < 2 * kWide; ++i)
    lines[1].push_back(
        getLine(1, b.add(b.add(b.add(begin[1], warpBegin[1]), b.mul(member, 2)),
                         i / 2 * 8 + i % 2)));
  Value nan =
      b.constant(b.getFloatAttr(f32, APFloat::getQNaN(APFloat::IEEEsingle())));
  for (int64_t high = 0; high < kHigh; ++high)
    for (int64_t wide = 0; wide < kWide; ++wide)
      for (int64_t e = 0; e < 4; ++e) {
        const Line &row = lines[0][2 * high + e / 2];
        const Line &column = lines[1][2 * wide + e % 2];
        auto store = [&] {
          Value total;
          for (int64_t sum = 2 * digits - 1; sum-- > 0;) {
            Value part = arith::ExtSIOp::create(
                b, b.getI64Type(),
                sums[((sum * kHigh + high) * kWide + wide) * 4 + e]);
            if (total)
              part = arith::AddIOp::create(
                  b, arith::ShLIOp::create(b, total, i64(8)), part);
            total = part;
          }
          Value real = arith::SIToFPOp::create(b, f64, total);
          real = arith::MulFOp::create(b, real, row.scale);
          real = arith::MulFOp::create(b, real, column.scale);
          Value rounded = arith::TruncFOp::create(b, f32, real);
          Value finite = arith::AndIOp::create(b, row.finite, column.finite);
          rounded = b.select(finite, rounded, nan);
          Value offset = b.add(b.add(base, row.offset), column.offset);
          Value init = fold.getConstantInit(b, 0, /*lanes=*/0);
          if (!init)
            init = b.convertFloat(b.load(output.buffer, output.element, offset),
                                  f32);
          Value value = arith::AddFOp::create(b, init, rounded);
          b.store(b.convertFloat(b.canonicalizeNaN(value), output.element),
                  output.buffer, offset);
        };
        Value exists = row.exists;
        if (column.exists)
          exists =
              exists
                  ? arith::AndIOp::create(b, exists, column.exists).getResult()
                  : column.exists;
        if (exists)
          b.when(exists, store);
        else
          store();
      }
}

void ExactDevice::expandProducts(const WorkspaceOffsets &offsets) {
  Type i32Type = b.getI32Type();
  int64_t rowTiles = getPaddedSize(0) / kTile;
  int64_t columnTiles = getPaddedSize(1) / kTile;
  LaunchShape launch;
  launch.grid[0] = batchSize * rowTiles * columnTiles;
  launch.block[0] = kThreads;
  launch.blocksPerProcessor = 2;
  b.setLaunch(launch);
  for (unsigned f : {0, 1})
    sources[f] = b.getWorkspace(i32Type, getDigitBytes(f) / sizeof(int32_t),
                                offsets.digits[f]);
  int64_t bufferSize = 2 * steps * digits * kTileWords;
  buffers = b.createTile(2 * bufferSize, i32Type);
  thread = b.getThreadId();
  SmallVector<Value> at =
      b.delinearize(b.getBlockId(), {batchSize, rowTiles, columnTiles});
  batchIndex = at[0];
  Value warp = b.div(thread, kWarp), lane = b.rem(thread, kWarp);
  for (unsigned f : {0, 1}) {
    begin[f] = b.mul(at[1 + f], kTile);
    warpBegin[f] = b.mul(f ? b.rem(warp, 2) : b.div(warp, 2), kTile / 2);
  }
  group = b.div(lane, 4);
  member = b.rem(lane, 4);
  for (unsigned f : {0, 1})
    storeSlice(f, readSlice(f, b.index(0)), b.index(0));
  b.barrier();
  SmallVector<Value> state{b.index(0)};
  state.append((2 * digits - 1) * kHigh * kWide * 4, i32(0));
  state = b.loop(
      b.index(0), b.index(slices), 1, state,
      [&](Value slice, ValueRange carried) {
        Value next = b.add(slice, 1);
        Value isMore = b.less(next, b.index(slices));
        Value other = b.sub(b.index(bufferSize), carried[0]);
        SmallVector<Value> onTheWay[2];
        for (unsigned f : {0, 1})
          onTheWay[f] =
              b.chooseOrAny(isMore, [&] { return readSlice(f, next); });
        SmallVector<Value> result{other};
        llvm::append_range(result, compute(carried[0], carried.drop_front()));
        for (unsigned f : {0, 1})
          storeSlice(f, onTheWay[f], other);
        b.barrier();
        return result;
      });
  storeResults(offsets, ArrayRef<Value>(state).drop_front());
}

LogicalResult device::expandExact(DeviceKernelFactory &factory, FoldOp op) {
  WorkspaceOffsets offsets;
  for (unsigned f : {0, 1}) {
    std::string name = f ? "columns" : "rows";
    auto expandMagnitudes = [&](DeviceBuilder &b, FoldOp copy) {
      ExactDevice kernel(b, copy);
      if (failed(kernel.match()))
        return failure();
      Workspace &workspace = factory.getWorkspace();
      offsets.magnitudes[f] = workspace.allocate(kernel.getMagnitudeBytes(f));
      offsets.digits[f] = workspace.allocate(kernel.getDigitBytes(f));
      kernel.expandMagnitudes(f, offsets);
      return success();
    };
    if (failed(
            factory.tryCreate<FoldOp>("magnitudes_" + name, expandMagnitudes)))
      return failure();
    auto expandDigits = [&](DeviceBuilder &b, FoldOp copy) {
      ExactDevice kernel(b, copy);
      if (failed(kernel.match()))
        return failure();
      kernel.expandDigits(f, offsets);
      return success();
    };
    if (failed(factory.tryCreate<FoldOp>("digits_" + name, expandDigits)))
      return failure();
  }
  return factory.tryCreate<FoldOp>("", [&](DeviceBuilder &b, FoldOp copy) {
    ExactDevice kernel(b, copy);
    if (failed(kernel.match()))
      return failure();
    kernel.expandProducts(offsets);
    return success();
  });
}
