//===- AccumulatorKernel.cpp - Sums of matrix units in vectors ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (M4) on a tile of results, (M1) without a branch. Beside the packed elements,
// as f32, lie their exponents: those of the rows as two equal halves of an i32,
// those of the columns as i16. A block takes two passes. The first finds the
// greatest exponent E of each result, in i16. In the second a product, which is
// exact in f32, times 2^(F - E), which is exact too, is converted to i32 toward
// zero: that is the rule's cut. The sum in i32 is converted to f32 toward zero.
//
// All exponents are relative to the least E for which 2^(F - E) is an f32, and
// what that makes subnormal or loses is below the cut. Zeros have an exponent
// below all, elements that are not finite or too long one above all. Results
// for which E was out of range, or a sum too large, end as NaNs, and all NaNs
// are computed again by AccumulatorChain.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"
#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/AccumulatorChain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

static constexpr int64_t kF32Fraction = 23, kF32Bias = 127;
/// Exponents of zeros and of what the vectors cannot do; sums of two stay in
/// i16 and on their side of the limit.
static constexpr int64_t kZero = -8000, kSpecial = 16000, kZeroLimit = -4000;
/// Products are below 2^(E + 2), which has to be an f32.
static constexpr int64_t kGreatest = 126;
/// Elements of K after which the values c go to memory.
static constexpr int64_t kSpan = 1024;
/// Largest chunk whose rows are packed together.
static constexpr int64_t kLongestChunk = 4096;
/// Bits of f32 that vectors multiply, those of tf32: products of more are not
/// exact in f32.
static constexpr int64_t kFactorBits = 11;
/// Products in a straight line.
static constexpr int64_t kStraight = 4;

namespace {
/// What the sums of a rule need.
struct SumLimits {
  FdpaAttr rule;
  int64_t leastX, leastY; ///< exponents of normal elements
  int64_t bitsX, bitsY;   ///< of significands

  static std::optional<SumLimits> get(FdpaAttr rule, Type x, Type y);

  int64_t getFraction() const { return *rule.getFraction(); }
  bool isF16() const { return rule.getRound() == SumRounding::rne_f16; }
  /// The exponent to which all others are relative.
  int64_t getLeast() const {
    return std::max(rule.getFloor(), getFraction() - kF32Bias + 2);
  }
  /// Whether a number below it could decide E.
  bool checksLeast() const { return getLeast() > rule.getFloor(); }
  /// How many products of a block surely add up in an i32.
  int64_t getSafeProducts() const;
  /// Whether those of a block, and c, do.
  bool checksOverflow() const;

private:
  double getLargestProduct() const {
    return (2 - std::ldexp(2.0, -bitsX)) * (2 - std::ldexp(2.0, -bitsY)) *
           std::ldexp(1.0, getFraction());
  }
};

class AccumulatorContraction : public Contraction {
public:
  AccumulatorContraction(HostBuilder &b, FoldOp op) : Contraction(b, op) {}

  LogicalResult match(FdpaAttr rule);
  Type getElement(bool ofRows) const {
    const Factor &factor = ofRows ? rows : columns;
    return fold.inputs[factor.inputs[0]].element;
  }
};

/// What a tile carries from block to block.
struct State {
  SmallVector<Value> sums; ///< c, row by row
  /// Over all blocks and results of a lane: the greatest E, the greatest as an
  /// unsigned number (null: not needed), and sums that overflowed in their
  /// sign (likewise).
  Value greatest, unsignedGreatest, overflow;

  SmallVector<Value> pack() const;
  State unpack(ValueRange values) const;
};

class AccumulatorKernel : public ContractionKernel {
public:
  AccumulatorKernel(HostBuilder &b, AccumulatorContraction contraction,
                    const TileConfig &config, const SumLimits &limits,
                    Type rowElement, Type columnElement)
      : ContractionKernel(b, std::move(contraction), config), limits(limits),
        rule(limits.rule), width(config.tileVectors * lanes),
        chain(b, rule, rowElement, columnElement) {
    int64_t kBlocks = llvm::divideCeil(config.span, config.kBlockSize);
    rowExponents =
        b.getScratch(b.getI32Type(), kBlocks * config.rowKBlockStride);
    columnExponents = b.getScratch(b.getIntegerType(16),
                                   config.groupPanels * config.panelStride);
    redone = b.getScratch(b.getF32Type(),
                          config.tileRows * config.tileVectors * lanes);
  }

private:
  void emitTile(Value row, int64_t rowCount, Value panel,
                ArrayRef<PanelVector> vectors, const KBlock &kBlock) override;
  void packRowsAlongReduction(Value first, Value end,
                              const KBlock &kBlock) override;
  void packRowsAlongRows(const Chunk &chunk) override;
  void packColumns(Value first, const KBlock &kBlock) override;
  Value getResult(Value total, Value offset, LaneMask mask) override;

  /// Whether totals of several chains add up (F3).
  bool hasChunks() const { return rule.getChunk() && rule.getChunk() < fold.n; }
  bool startsFromInit() const { return rule.getStart() == SumStart::init; }
  /// The values c with which a chain of blocks begins.
  SmallVector<Value> getStarts(const Tile &tile);
  /// (M1) The exponents of elements, relative to `base`, as i32.
  Value getExponents(Value elements, int64_t least, int64_t bits, int64_t base);
  void packRowExponents(Value first, Value count);

  State addBlocks(const Tile &tile, const State &start);
  State addBlock(const Tile &tile, ArrayRef<BlockPart> parts,
                 const State &state);
  State addPart(const Tile &tile, const BlockPart &part, const State &state);
  /// Through the products of a part.
  SmallVector<Value>
  forEachProduct(const BlockPart &part, int64_t most, ValueRange starts,
                 function_ref<SmallVector<Value>(Value, ValueRange)> body);
  Value getRowPlace(const Tile &tile, int64_t x, Value k);
  Value getColumnPlace(const Tile &tile, Value k);
  SmallVector<Value> getGreatest(const Tile &tile, const BlockPart &part);
  /// E of each result, relative, from that of the products and c.
  Value withExponentOf(Value c, Value ofProducts);
  Value round(Value sum, Value scale);

  void finishChain(const Tile &tile, SmallVector<Value> sums);
  /// Computes results that are NaNs again.
  SmallVector<Value> redoNaNs(const Tile &tile, ArrayRef<Value> sums);
  Value redo(const Tile &tile, Value row, const PanelVector &vector,
             Value lane);

  Value splat(int64_t value, int64_t bits = 32) {
    auto type =
        VectorType::get({bits == 16 ? width : lanes}, b.getIntegerType(bits));
    return b.constant(DenseElementsAttr::get(
        type, APInt(bits, uint64_t(value), /*isSigned=*/true)));
  }
  Value toBits(Value floats) {
    return arith::BitcastOp::create(b, VectorType::get({lanes}, b.getI32Type()),
                                    floats);
  }
  Value toFloats(Value bits) {
    return arith::BitcastOp::create(b, VectorType::get({lanes}, b.getF32Type()),
                                    bits);
  }

  const SumLimits limits;
  const FdpaAttr rule;
  const int64_t width; ///< of a panel
  AccumulatorChain chain;
  Value rowExponents, columnExponents, redone;
};
} // namespace

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

std::optional<SumLimits> SumLimits::get(FdpaAttr rule, Type x, Type y) {
  if (!rule.getFraction())
    return std::nullopt;
  auto getBits = [](Type type) {
    return type.isF32() ? kFactorBits
                        : int64_t(cast<FloatType>(type).getFPMantissaWidth());
  };
  SumLimits limits{rule, kernels::getLeastExponent(x),
                   kernels::getLeastExponent(y), getBits(x), getBits(y)};
  if (limits.getSafeProducts() < 1 || limits.getLeast() > kGreatest / 2)
    return std::nullopt;
  return limits;
}

int64_t SumLimits::getSafeProducts() const {
  return int64_t(double(INT32_MAX) / getLargestProduct());
}

bool SumLimits::checksOverflow() const {
  return getLargestProduct() * rule.getTerms() +
             std::ldexp(2.0, getFraction()) >
         double(INT32_MAX);
}

LogicalResult AccumulatorContraction::match(FdpaAttr rule) {
  if (failed(matchFactors()) || !type.isF32())
    return failure();
  if (rule.getChunk() && rule.getChunk() < fold.n)
    return success(rule.getChunk() <= kLongestChunk);
  // Without chunks of the rule, c waits in the place of totals.
  fold.chunk = std::min<int64_t>(fold.n, llvm::alignTo(kSpan, rule.getBlock()));
  return success();
}

SmallVector<Value> State::pack() const {
  SmallVector<Value> values(sums);
  values.push_back(greatest);
  for (Value value : {unsignedGreatest, overflow})
    if (value)
      values.push_back(value);
  return values;
}

State State::unpack(ValueRange values) const {
  State state;
  state.sums.assign(values.begin(), values.begin() + sums.size());
  size_t next = sums.size();
  state.greatest = values[next++];
  if (unsignedGreatest)
    state.unsignedGreatest = values[next++];
  if (overflow)
    state.overflow = values[next++];
  return state;
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

Value AccumulatorKernel::getExponents(Value elements, int64_t least,
                                      int64_t bits, int64_t base) {
  Value pattern = toBits(elements);
  Value magnitude = arith::AndIOp::create(b, pattern, splat(INT32_MAX));
  Value field = arith::ShRUIOp::create(b, magnitude, splat(kF32Fraction));
  Value exponent = arith::SubIOp::create(b, field, splat(kF32Bias));
  exponent = arith::MaxSIOp::create(b, exponent, splat(least));
  Value isZero =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, magnitude, splat(0));
  exponent = arith::SelectOp::create(b, isZero, splat(kZero), exponent);
  Value isSpecial =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, field, splat(255));
  if (least == 1 - kF32Bias && bits == kFactorBits) {
    Value tail = arith::AndIOp::create(
        b, magnitude, splat((1 << (kF32Fraction + 1 - bits)) - 1));
    Value isLong =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, tail, splat(0));
    isSpecial = arith::OrIOp::create(b, isSpecial, isLong);
  }
  exponent = arith::SelectOp::create(b, isSpecial, splat(kSpecial), exponent);
  return arith::SubIOp::create(b, exponent, splat(base));
}

void AccumulatorKernel::packRowExponents(Value first, Value count) {
  Value low = splat(0xffff), places = splat(16);
  // Whole vectors: what lies behind the rows is slack, or packed later.
  b.loop(first, b.add(first, count), lanes, [&](Value at) {
    Value exponents =
        getExponents(b.loadVector(block, type, at, 1, lanes), limits.leastX,
                     limits.bitsX, limits.getLeast());
    Value pairs =
        arith::OrIOp::create(b, arith::AndIOp::create(b, exponents, low),
                             arith::ShLIOp::create(b, exponents, places));
    b.storeVector(pairs, rowExponents, at, 1);
  });
}

void AccumulatorKernel::packRowsAlongReduction(Value first, Value end,
                                               const KBlock &kBlock) {
  ContractionKernel::packRowsAlongReduction(first, end, kBlock);
  Value packed = getPackedRows(kBlock.start, kBlock.chunk);
  b.loop(first, end, 1, [&](Value row) {
    packRowExponents(
        b.add(packed, b.mul(b.sub(row, firstRow), config.rowStride)),
        b.sub(kBlock.end, kBlock.start));
  });
}

void AccumulatorKernel::packRowsAlongRows(const Chunk &chunk) {
  ContractionKernel::packRowsAlongRows(chunk);
  Value tiles = b.div(b.add(b.sub(endRow, firstRow), config.tileRows - 1),
                      config.tileRows);
  b.loop(chunk.start, chunk.end, config.kBlockSize, [&](Value start) {
    Value count =
        b.mul(b.sub(b.min(b.add(start, config.kBlockSize), chunk.end), start),
              config.tileRows);
    Value packed = getPackedRows(start, chunk);
    b.loop(b.index(0), tiles, 1, [&](Value tile) {
      packRowExponents(b.add(packed, b.mul(tile, config.rowStride)), count);
    });
  });
}

void AccumulatorKernel::packColumns(Value first, const KBlock &kBlock) {
  ContractionKernel::packColumns(first, kBlock);
  Type i16 = VectorType::get({lanes}, b.getIntegerType(16));
  b.loop(b.index(0), b.index(config.groupPanels), 1, [&](Value panel) {
    Value base = b.mul(panel, config.panelStride);
    Value end = b.mul(b.sub(kBlock.end, kBlock.start), width);
    b.loop(b.index(0), end, lanes, [&](Value at) {
      Value place = b.add(base, at);
      Value exponents =
          getExponents(b.loadVector(panelBuffer, type, place, 1, lanes),
                       limits.leastY, limits.bitsY, 0);
      b.storeVector(arith::TruncIOp::create(b, i16, exponents), columnExponents,
                    place, 1);
    });
  });
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Value AccumulatorKernel::getRowPlace(const Tile &tile, int64_t x, Value k) {
  Value local = b.sub(k, tile.kBlock.start);
  if (config.rowsAlongRows)
    return b.add(b.add(tile.packedRows, b.mul(local, config.tileRows)), x);
  return b.add(b.add(tile.packedRows, x * config.rowStride), local);
}

Value AccumulatorKernel::getColumnPlace(const Tile &tile, Value k) {
  return b.add(tile.vectors[0].packed,
               b.mul(b.sub(k, tile.kBlock.start), width));
}

SmallVector<Value> AccumulatorKernel::forEachProduct(
    const BlockPart &part, int64_t most, ValueRange starts,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  std::optional<int64_t> count = getConstantIntValue(part.count);
  // Some products in a straight line, so many that they divide all.
  int64_t step = 1;
  if (count)
    for (int64_t i = 1; i <= std::min(kStraight, most); ++i)
      step = *count % i == 0 ? i : step;
  auto straight = [&](Value first, ValueRange values) {
    SmallVector<Value> next(values);
    for (int64_t i = 0; i < step; ++i)
      next = body(part.getProduct(b, b.add(first, i)), next);
    return next;
  };
  if (count && *count == step)
    return straight(b.index(0), starts);
  return b.loop(b.index(0), part.count, step, starts, straight);
}

SmallVector<Value> AccumulatorKernel::getGreatest(const Tile &tile,
                                                  const BlockPart &part) {
  SmallVector<Value> starts(tile.rowCount, splat(2 * kZero, 16));
  auto vectorType = VectorType::get({width}, b.getIntegerType(16));
  auto pairsType = VectorType::get({width / 2}, b.getI32Type());
  return forEachProduct(
      part, kStraight, starts, [&](Value k, ValueRange greatest) {
        Value ofColumns = b.loadVector(columnExponents, b.getIntegerType(16),
                                       getColumnPlace(tile, k), 1, width);
        SmallVector<Value> next;
        for (int64_t x = 0; x < tile.rowCount; ++x) {
          Value pair =
              b.load(rowExponents, b.getI32Type(), getRowPlace(tile, x, k));
          Value ofRow = vector::BitCastOp::create(
              b, vectorType, vector::BroadcastOp::create(b, pairsType, pair));
          next.push_back(arith::MaxSIOp::create(
              b, greatest[x], arith::AddIOp::create(b, ofRow, ofColumns)));
        }
        return next;
      });
}

Value AccumulatorKernel::withExponentOf(Value c, Value ofProducts) {
  Value twice = arith::ShLIOp::create(b, toBits(c), splat(1));
  Value field = arith::ShRUIOp::create(b, twice, splat(kF32Fraction + 1));
  Value exponent =
      arith::SubIOp::create(b, field, splat(kF32Bias + limits.getLeast()));
  if (limits.isF16())
    exponent =
        arith::MaxSIOp::create(b, exponent, splat(-14 - limits.getLeast()));
  Value isZero =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, twice, splat(0));
  exponent = arith::SelectOp::create(b, isZero, splat(kZero), exponent);
  return arith::MaxSIOp::create(b, ofProducts, exponent);
}

/// c of the next block: the sum times 2^-scale.
Value AccumulatorKernel::round(Value sum, Value scale) {
  Type floats = VectorType::get({lanes}, b.getF32Type());
  Value rounded;
  switch (rule.getRound()) {
  case SumRounding::rne_f32:
    rounded = arith::SIToFPOp::create(b, floats, sum);
    break;
  case SumRounding::rz_f32:
    rounded = b.convertTowardZero(sum);
    break;
  case SumRounding::rz_e8m13:
    rounded = toFloats(arith::AndIOp::create(
        b, toBits(b.convertTowardZero(sum)), splat(~int64_t(0x3ff))));
    break;
  case SumRounding::rne_f16: {
    // A last bit that is odd where bits were lost rounds like all of them.
    Value cut = b.convertTowardZero(sum);
    Value isInexact = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                            b.truncate(cut), sum);
    Value bits = toBits(cut);
    rounded = toFloats(arith::SelectOp::create(
        b, isInexact, arith::OrIOp::create(b, bits, splat(1)), bits));
    break;
  }
  }
  rounded = arith::MulFOp::create(b, rounded, scale);
  if (limits.isF16())
    rounded =
        b.convertFloat(b.convertFloat(rounded, b.getF16Type()), b.getF32Type());
  return rounded;
}

State AccumulatorKernel::addPart(const Tile &tile, const BlockPart &part,
                                 const State &state) {
  int64_t count = tile.vectors.size();
  SmallVector<Value> greatest = getGreatest(tile, part);
  State next = state;
  SmallVector<Value> scales, inverses, totals;
  int64_t fraction = limits.getFraction(), least = limits.getLeast();
  Type narrow = VectorType::get({lanes}, b.getI32Type());
  for (int64_t x = 0; x < tile.rowCount; ++x)
    for (int64_t v = 0; v < count; ++v) {
      Value part = vector::ExtractStridedSliceOp::create(
          b, greatest[x], v * lanes, lanes, /*stride=*/1);
      Value top = withExponentOf(state.sums[x * count + v],
                                 arith::ExtSIOp::create(b, narrow, part));
      next.greatest = arith::MaxSIOp::create(b, next.greatest, top);
      if (next.unsignedGreatest)
        next.unsignedGreatest =
            arith::MaxUIOp::create(b, next.unsignedGreatest, top);
      top = arith::MaxSIOp::create(b, top, splat(0));
      Value biased =
          arith::SubIOp::create(b, splat(kF32Bias + fraction - least), top);
      Value scale = arith::ShLIOp::create(b, biased, splat(kF32Fraction));
      scales.push_back(toFloats(scale));
      inverses.push_back(toFloats(arith::SubIOp::create(
          b, splat(int64_t(2 * kF32Bias) << kF32Fraction), scale)));
    }
  auto add = [&](ArrayRef<Value> sums, ArrayRef<Value> others) {
    SmallVector<Value> added;
    for (auto [x, y] : llvm::zip_equal(sums, others)) {
      Value sum = arith::AddIOp::create(b, x, y);
      if (next.overflow) // The sign is that of neither.
        next.overflow = arith::OrIOp::create(
            b, next.overflow,
            arith::AndIOp::create(b, arith::XOrIOp::create(b, x, sum),
                                  arith::XOrIOp::create(b, y, sum)));
      added.push_back(sum);
    }
    return added;
  };
  auto multiply = [&](Value k, ValueRange sums) {
    SmallVector<Value> elements, next;
    Value place = getColumnPlace(tile, k);
    for (int64_t v = 0; v < count; ++v)
      elements.push_back(
          b.loadVector(panelBuffer, type, b.add(place, v * lanes), 1, lanes));
    for (int64_t x = 0; x < tile.rowCount; ++x) {
      Value element =
          b.broadcast(b.load(block, type, getRowPlace(tile, x, k)), lanes);
      for (int64_t v = 0; v < count; ++v) {
        int64_t i = x * count + v;
        Value product = arith::MulFOp::create(b, element, elements[v]);
        Value cut = b.truncate(arith::MulFOp::create(b, product, scales[i]));
        next.push_back(sums[i] ? arith::AddIOp::create(b, sums[i], cut) : cut);
      }
    }
    return next;
  };
  SmallVector<Value> zeros(scales.size(), splat(0));
  int64_t safe = limits.getSafeProducts();
  if (safe >= rule.getTerms()) {
    totals = forEachProduct(part, kStraight, zeros, multiply);
  } else {
    // So many at a time as surely add up.
    SmallVector<Value> carried = zeros;
    carried.push_back(next.overflow);
    carried = b.loop(b.index(0), part.count, safe, carried,
                     [&](Value first, ValueRange values) {
                       next.overflow = values.back();
                       Value end = b.min(b.add(first, safe), part.count);
                       SmallVector<Value> sums = b.loop(
                           first, end, 1, zeros, [&](Value j, ValueRange sums) {
                             return multiply(part.getProduct(b, j), sums);
                           });
                       SmallVector<Value> added =
                           add(SmallVector<Value>(values.drop_back()), sums);
                       added.push_back(next.overflow);
                       return added;
                     });
    next.overflow = carried.pop_back_val();
    totals = carried;
  }
  SmallVector<Value> ofC;
  for (auto [c, scale] : llvm::zip_equal(state.sums, scales))
    ofC.push_back(b.truncate(arith::MulFOp::create(b, c, scale)));
  totals = add(totals, ofC);
  for (auto [sum, total, inverse] :
       llvm::zip_equal(next.sums, totals, inverses))
    sum = round(total, inverse);
  return next;
}

State AccumulatorKernel::addBlock(const Tile &tile, ArrayRef<BlockPart> parts,
                                  const State &state) {
  if (!rule.getLate())
    return addPart(tile, parts[0], state);
  State next = state;
  for (Value &sum : next.sums)
    sum = b.zero(sum.getType());
  for (const BlockPart &part : parts)
    next = addPart(tile, part, next);
  for (auto [sum, before] : llvm::zip_equal(next.sums, state.sums)) {
    sum = arith::AddFOp::create(b, sum, before);
    if (limits.isF16())
      sum = b.convertFloat(b.convertFloat(sum, b.getF16Type()), b.getF32Type());
  }
  return next;
}

State AccumulatorKernel::addBlocks(const Tile &tile, const State &start) {
  Value first = tile.kBlock.start, end = tile.kBlock.end;
  int64_t size = rule.getBlock();
  Value full = b.sub(end, b.rem(b.sub(end, first), size));
  SmallVector<Value> values = b.loop(
      first, full, size, start.pack(), [&](Value at, ValueRange carried) {
        SmallVector<BlockPart> parts = {{at, b.index(size)}};
        if (rule.getLate())
          parts = {{at, b.index(rule.getTerms()), 0},
                   {at, b.index(rule.getTerms()), 1}};
        return addBlock(tile, parts, start.unpack(carried)).pack();
      });
  if (fold.n % size == 0)
    return start.unpack(values);
  values = b.choose(
      b.less(full, end),
      [&] {
        return addBlock(tile, getBlockParts(b, rule, full, end),
                        start.unpack(values))
            .pack();
      },
      [&] { return values; });
  return start.unpack(values);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

SmallVector<Value> AccumulatorKernel::getStarts(const Tile &tile) {
  SmallVector<Value> starts;
  for (int64_t x = 0; x < tile.rowCount; ++x) {
    Value output = getResultRow(b.add(tile.row, x)).output;
    for (const PanelVector &vector : tile.vectors) {
      if (!startsFromInit()) {
        starts.push_back(b.zero(VectorType::get({lanes}, type)));
        continue;
      }
      LaneMask mask;
      if (vector.count)
        mask = b.getMask(b.max(vector.count, b.index(1)), lanes);
      starts.push_back(loadInit(b.add(output, vector.outputOffset), mask));
    }
  }
  return starts;
}

void AccumulatorKernel::emitTile(Value row, int64_t rowCount, Value panel,
                                 ArrayRef<PanelVector> vectors,
                                 const KBlock &kBlock) {
  Tile tile = locateTile(row, rowCount, panel, vectors, kBlock);
  size_t count = rowCount * vectors.size();
  Value slot = getSumsOffset(tile);
  auto loadAll = [&](Value buffer, Value offset) {
    SmallVector<Value> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(
          b.loadVector(buffer, type, b.add(offset, i * lanes), 1, lanes));
    return values;
  };
  auto storeAll = [&](ArrayRef<Value> values, Value buffer, Value offset) {
    for (auto [i, value] : llvm::enumerate(values))
      b.storeVector(value, buffer, b.add(offset, i * lanes), 1);
  };
  bool waits = !hasChunks() && fold.n > fold.chunk;
  auto begin = [&] {
    if (!waits)
      return getStarts(tile);
    return b.choose(
        b.equal(kBlock.start, b.index(0)), [&] { return getStarts(tile); },
        [&] { return loadAll(totals, getTotalsOffset(tile)); });
  };
  State start;
  start.sums = config.hasKBlocks()
                   ? b.choose(b.equal(kBlock.start, kBlock.chunk.start), begin,
                              [&] { return loadAll(kBlockSums, slot); })
                   : begin();
  start.greatest = splat(INT32_MIN);
  if (limits.checksLeast())
    start.unsignedGreatest = splat(0);
  if (limits.checksOverflow())
    start.overflow = splat(0);
  State end = addBlocks(tile, start);
  Value isBad =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, end.greatest,
                            splat(kGreatest - limits.getLeast()));
  if (end.unsignedGreatest) {
    // Numbers between zeros and the least exponent are the greatest of these.
    Value isLow = arith::CmpIOp::create(
        b, arith::CmpIPredicate::ugt, end.unsignedGreatest, splat(kZeroLimit));
    isBad = arith::OrIOp::create(b, isBad, isLow);
  }
  if (end.overflow)
    isBad =
        arith::OrIOp::create(b, isBad,
                             arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                                   end.overflow, splat(0)));
  Value nan = toFloats(splat(0x7fc00000));
  SmallVector<Value> sums;
  for (Value sum : end.sums)
    sums.push_back(arith::SelectOp::create(b, isBad, nan, sum));
  auto finish = [&] {
    if (!waits) {
      finishChain(tile, sums);
      return;
    }
    b.when(
        b.equal(kBlock.end, b.index(fold.n)), [&] { finishChain(tile, sums); },
        [&] { storeAll(sums, totals, getTotalsOffset(tile)); });
  };
  if (!config.hasKBlocks()) {
    finish();
    return;
  }
  b.when(b.equal(kBlock.end, kBlock.chunk.end), finish,
         [&] { storeAll(sums, kBlockSums, slot); });
}

void AccumulatorKernel::finishChain(const Tile &tile, SmallVector<Value> sums) {
  sums = redoNaNs(tile, sums);
  if (hasChunks())
    finishTile(tile, sums);
  else
    writeResults(tile, sums);
}

Value AccumulatorKernel::getResult(Value total, Value offset, LaneMask mask) {
  if (startsFromInit())
    return b.canonicalizeNaN(total);
  return ContractionKernel::getResult(total, offset, mask);
}

//===----------------------------------------------------------------------===//
// What vectors cannot do
//===----------------------------------------------------------------------===//

SmallVector<Value> AccumulatorKernel::redoNaNs(const Tile &tile,
                                               ArrayRef<Value> sums) {
  Value isNaN;
  for (Value sum : sums) {
    Value here = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, sum, sum);
    isNaN = isNaN ? arith::OrIOp::create(b, isNaN, here) : here;
  }
  Value any = vector::ReductionOp::create(b, vector::CombiningKind::OR, isNaN);
  return b.choose(
      any,
      [&] {
        for (auto [i, sum] : llvm::enumerate(sums))
          b.storeVector(sum, redone, b.index(i * lanes), 1);
        int64_t count = tile.vectors.size();
        b.loop(b.index(0), b.index(tile.rowCount), 1, [&](Value x) {
          for (auto [v, vector] : llvm::enumerate(tile.vectors)) {
            Value base = b.mul(b.add(b.mul(x, count), v), lanes);
            Value end = vector.count ? vector.count : b.index(lanes);
            b.loop(b.index(0), end, 1, [&, &vector = vector](Value lane) {
              Value place = b.add(base, lane);
              Value sum = b.load(redone, type, place);
              b.when(
                  arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, sum, sum),
                  [&] {
                    b.store(redo(tile, b.add(tile.row, x), vector, lane),
                            redone, place);
                  });
            });
          }
        });
        SmallVector<Value> again;
        for (size_t i = 0; i < sums.size(); ++i)
          again.push_back(
              b.loadVector(redone, type, b.index(i * lanes), 1, lanes));
        return again;
      },
      [&] { return SmallVector<Value>(sums); });
}

Value AccumulatorKernel::redo(const Tile &tile, Value row,
                              const PanelVector &vector, Value lane) {
  SmallVector<Value> rowAt = b.delinearize(row, getSizes(rows.loops));
  auto load = [&](const Factor &factor, Value k,
                  function_ref<Value(unsigned leaf)> getBase) {
    SmallVector<Value> at = b.delinearize(k, getSizes(factor.reduction));
    return computeFactor(factor, 0, [&](unsigned leaf) {
      return loadLeaf(
          factor, leaf,
          b.add(getBase(leaf), getLoopOffset(b, factor.reduction, at, leaf)), 0,
          0, {});
    });
  };
  auto loadRow = [&](Value k) {
    return load(rows, k, [&](unsigned leaf) {
      return b.add(rowBase[leaf], getLoopOffset(b, rows.loops, rowAt, leaf));
    });
  };
  auto loadColumn = [&](Value k) {
    return load(columns, k, [&](unsigned leaf) {
      return b.add(vector.leafOffsets[leaf],
                   b.mul(lane, columns.loops.back().coefficients[leaf]));
    });
  };
  Value start = b.index(0), end = b.index(fold.n), c = b.zero(type);
  if (hasChunks()) {
    start = tile.kBlock.chunk.start;
    end = tile.kBlock.chunk.end;
  } else if (startsFromInit()) {
    const Access &output = fold.outputs[0];
    c = fold.getConstantInit(b, 0, /*lanes=*/0);
    if (!c)
      c = b.convertFloat(
          b.load(output.buffer, output.element,
                 b.add(b.add(getResultRow(row).output, vector.outputOffset),
                       b.mul(lane, columns.loops.back().coefficients.back()))),
          type);
  }
  return chain.add(start, end, c, loadRow, loadColumn);
}

//===----------------------------------------------------------------------===//
// Expansion
//===----------------------------------------------------------------------===//

LogicalResult repro::cpu::expandAccumulator(HostBuilder &b, FoldOp op) {
  auto rule = cast<FdpaAttr>(op.getOrderAttr());
  AccumulatorContraction contraction(b, op);
  if (failed(contraction.match(rule)))
    return failure();
  ContractionShape shape = contraction.getShape();
  shape.block = rule.getBlock();
  std::optional<TileConfig> config =
      chooseTileConfig(shape, b.getLevel(), b.isShared());
  if (!config || !b.canConvertTogether(config->lanes))
    return failure();
  contraction.settleFactors(config->swapsFactors);
  Type x = contraction.getElement(/*ofRows=*/true);
  Type y = contraction.getElement(/*ofRows=*/false);
  std::optional<SumLimits> limits = SumLimits::get(rule, x, y);
  if (!limits)
    return failure();
  contraction.noteTiles(config->describe());
  b.setWork(config->items, config->grain);
  AccumulatorKernel(b, std::move(contraction), *config, *limits, x, y).expand();
  return success();
}
