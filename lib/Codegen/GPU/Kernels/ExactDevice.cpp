//===- ExactDevice.cpp - Exact products by matrix instructions ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K4) Computes an exact matrix product with five kernels. Two kernels, one for
// each factor, find the largest magnitude in each row of the factor. Two more
// convert the factors to the integers q_t of (K4), stored as signed bytes d0,
// d1, ... with q = d0 + 256 d1 + .... The last kernel multiplies the bytes with
// matrix instructions, whose sums fit in i32. Products of digits p and q with
// equal p + q are added to one accumulator; all accumulators together represent
// T.
//
// Digits are stored like the parts of a ByteTile: one part for each step of K
// and each digit. Words 2 t and 2 t + 1 of both rows are in the slot of thread
// t.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Contraction.h"
#include "Codegen/GPU/Kernels/ByteTile.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

namespace {
/// The number of threads of a block that finds largest magnitudes.
constexpr int64_t kScaleThreads = 256;
/// The number of elements of a row that one thread converts to digits.
constexpr int64_t kThreadElements = 16;

/// The byte offsets in the workspace of each factor's magnitudes and digits.
struct WorkspaceOffsets {
  int64_t magnitudes[2], digits[2];
};

class ExactDevice : public Contraction {
  static constexpr int64_t kTile = ByteTile::kTile, kStep = ByteTile::kStep,
                           kLine = ByteTile::kLine, kSlot = ByteTile::kSlot;

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
  /// Returns the offset of row `own` of factor `f` in each of the factor's
  /// inputs.
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

  SmallVector<Value> readSlice(const ByteTile &tile, Value slice);
  SmallVector<Value> compute(ByteTile &tile, Value buffer, ValueRange carried);
  void storeResults(ByteTile &tile, const WorkspaceOffsets &offsets,
                    ValueRange sums);

  DeviceBuilder &b;
  int64_t digits, bits;
  int64_t steps;  ///< per slice: as many as fit into shared memory
  int64_t slices; ///< along K
  int64_t batchSize;
  Value sources[2];
};
} // namespace

LogicalResult ExactDevice::match() {
  if (failed(matchFactors()))
    return fold.op.emitOpError("expected a matrix product, as those that "
                               "repro-decompose-exact keeps");
  // Adjacent threads write adjacent columns, so exchange rows and columns if
  // the results of adjacent rows are contiguous.
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

/// Whether elements of a factor that are adjacent in memory are adjacent along
/// K.
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

/// Emits the kernel that finds the largest magnitude of each row, as bits. As
/// integers, these bits have the order of the floats; infinities and NaNs are
/// last.
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
  Value index = b.min(b.add(first, own), b.index(factor.size - 1)); // clamped
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

/// Returns the exponent e of (K4), as an i64, for the bits of a finite
/// magnitude. f64 holds every subnormal f32 as a normal number.
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

/// Returns the digits of kThreadElements elements of a row, packed into words:
/// first all words of the lowest digit, and so on.
SmallVector<Value> ExactDevice::getDigits(unsigned f, Value batchIndex,
                                          Value own, Value share,
                                          const WorkspaceOffsets &offsets) {
  auto getPower = [&](Value exponent) -> Value { // 2^exponent
    Value biased = arith::AddIOp::create(b, exponent, i32(127));
    return arith::BitcastOp::create(b, b.getF32Type(),
                                    arith::ShLIOp::create(b, biased, i32(23)));
  };
  SmallVector<Value> row = locateRow(f, batchIndex, own);
  Value magnitude = loadMagnitude(f, offsets, batchIndex, own);
  Value finite = isFinite(magnitude);
  // Multiplies by two exact powers of two, because their product may exceed the
  // range of f32.
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
      // The digit is in [-128, 127], and the remaining q is (q - digit) / 256.
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
    Value upper = ByteTile::getUpperRow(b, line);
    SmallVector<Value> words[2];
    for (int64_t half : {0, 1})
      words[half] = getDigits(
          f, at[0], b.min(b.add(upper, 8 * half), b.index(factor.size - 1)),
          share, offsets);
    constexpr int64_t perStep = kStep / kThreadElements;
    Value step = b.div(share, perStep), inStep = b.rem(share, perStep);
    auto type = VectorType::get({kSlot}, b.getI32Type());
    for (int64_t d = 0; d < digits; ++d) {
      Value first =
          b.add(b.mul(b.add(b.mul(at[0], shares / perStep), step), digits), d);
      first = b.add(b.mul(b.add(b.mul(first, lines), line), kLine),
                    b.mul(inStep, kLine / perStep));
      for (int64_t t = 0; t < kLine / perStep / kSlot; ++t) {
        auto get = [&](int64_t half) {
          return ArrayRef<Value>(words[half])
              .slice(d * (kThreadElements / 4) + 2 * t, 2);
        };
        SmallVector<Value> slot = ByteTile::fillSlot(f, get(0), get(1));
        b.storeAligned(vector::FromElementsOp::create(b, type, slot), target,
                       b.add(first, t * kSlot));
      }
    }
  });
  b.setWork(batchSize * lines * shares, 1);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Returns this thread's slots of a slice: one for each step and digit of both
/// factors.
SmallVector<Value> ExactDevice::readSlice(const ByteTile &tile, Value slice) {
  SmallVector<Value> slots;
  Value first =
      b.mul(b.add(b.mul(tile.batchIndex, slices), slice), steps * digits);
  for (unsigned f : {0, 1})
    for (int64_t i = 0; i < steps * digits; ++i) {
      Value at =
          b.mul(b.add(b.mul(b.add(first, i), getPaddedSize(f)), tile.begin[f]),
                kLine / 2);
      slots.push_back(b.loadAligned(sources[f], b.getI32Type(),
                                    b.add(at, b.mul(tile.thread, kSlot)),
                                    kSlot));
    }
  return slots;
}

/// Returns the accumulators after adding the products of a slice. There are
/// kResults accumulators for each p + q, where p and q are the numbers of the
/// factors' digits.
SmallVector<Value> ExactDevice::compute(ByteTile &tile, Value buffer,
                                        ValueRange carried) {
  SmallVector<Value> sums(carried);
  for (int64_t step = 0; step < steps; ++step) {
    SmallVector<SmallVector<SmallVector<Value>>> slots[2];
    for (int64_t d = 0; d < digits; ++d)
      for (unsigned f : {0, 1})
        slots[f].push_back(
            tile.loadSlots(f, buffer, (f * steps + step) * digits + d));
    for (int64_t p = 0; p < digits; ++p)
      for (int64_t q = 0; q < digits; ++q)
        tile.multiply(slots[0][p], slots[1][q],
                      MutableArrayRef<Value>(sums).slice(
                          (p + q) * ByteTile::kResults, ByteTile::kResults));
  }
  return sums;
}

void ExactDevice::storeResults(ByteTile &tile, const WorkspaceOffsets &offsets,
                               ValueRange sums) {
  Type f32 = b.getF32Type(), f64 = b.getF64Type();
  const Access &output = fold.outputs[0];
  unsigned accesses[] = {unsigned(rows.inputs.size()),
                         unsigned(columns.inputs.size())};
  SmallVector<Value> batchAt = b.delinearize(tile.batchIndex, getSizes(batch));
  Value base =
      b.add(getLoopOffset(b, batch, batchAt, accesses[0] + accesses[1]),
            output.constant);
  /// A row or column of this thread's results: the power of two that scales it,
  /// whether all its elements are finite, and its offset in the output.
  struct Line {
    ByteTile::Line line;
    Value scale, finite, offset;
  };
  SmallVector<Line> lines[2];
  auto addLine = [&](unsigned f, int64_t number) {
    const Factor &factor = getFactor(f);
    Line line;
    line.line = tile.getLine(f, number);
    Value at = line.line.place;
    Value magnitude = loadMagnitude(f, offsets, tile.batchIndex, at);
    line.finite = isFinite(magnitude);
    Value biased =
        arith::AddIOp::create(b, getExponent(magnitude), i64(1023 - bits));
    line.scale = arith::BitcastOp::create(
        b, f64, arith::ShLIOp::create(b, biased, i64(52)));
    line.offset =
        getLoopOffset(b, factor.loops,
                      b.delinearize(at, getSizes(factor.loops)), accesses[f]);
    lines[f].push_back(line);
  };
  for (int64_t i = 0; i < 2 * ByteTile::kHigh; ++i)
    addLine(0, i);
  for (int64_t i = 0; i < 2 * ByteTile::kWide; ++i)
    addLine(1, i);
  Value nan =
      b.constant(b.getFloatAttr(f32, APFloat::getQNaN(APFloat::IEEEsingle())));
  for (int64_t i = 0; i < ByteTile::kResults; ++i) {
    const Line &row = lines[0][ByteTile::getRow(i)];
    const Line &column = lines[1][ByteTile::getColumn(i)];
    tile.whenExists(row.line, column.line, [&] {
      Value total;
      for (int64_t sum = 2 * digits - 1; sum-- > 0;) {
        Value part = arith::ExtSIOp::create(b, b.getI64Type(),
                                            sums[sum * ByteTile::kResults + i]);
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
        init =
            b.convertFloat(b.load(output.buffer, output.element, offset), f32);
      Value value = arith::AddFOp::create(b, init, rounded);
      b.store(b.convertFloat(b.canonicalizeNaN(value), output.element),
              output.buffer, offset);
    });
  }
}

void ExactDevice::expandProducts(const WorkspaceOffsets &offsets) {
  for (unsigned f : {0, 1})
    sources[f] = b.getWorkspace(
        b.getI32Type(), getDigitBytes(f) / sizeof(int32_t), offsets.digits[f]);
  ByteTile tile(b, batchSize, {rows.size, columns.size},
                2 * steps * digits * ByteTile::kPart,
                /*blocksPerProcessor=*/2);
  SmallVector<Value> zeros((2 * digits - 1) * ByteTile::kResults, i32(0));
  SmallVector<Value> sums = tile.forSlices(
      slices, zeros, [&](Value slice) { return readSlice(tile, slice); },
      [&](ArrayRef<Value> slots, Value buffer) {
        for (auto [part, slot] : llvm::enumerate(slots))
          tile.storeSlot(slot, buffer, part);
      },
      [&](Value, Value buffer, ValueRange carried) {
        return compute(tile, buffer, carried);
      });
  storeResults(tile, offsets, sums);
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
