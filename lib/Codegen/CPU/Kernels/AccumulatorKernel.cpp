//===- AccumulatorKernel.cpp - Matrix-unit sums as vectors ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/AccumulatorKernel.h"

#include "Codegen/CPU/Kernels/HostKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// kSpecial is the exponent given to elements that the vector code cannot
/// process: NaNs, infinities, and numbers with too many significand bits. An
/// exponent below kZeroLimit belongs to a zero.
static constexpr int64_t kSpecial = 16000, kZeroLimit = -4000;
/// The greatest E that the vector code supports: products are below 2^(E + 2)
/// and must be representable in f32.
static constexpr int64_t kGreatest = 126;
/// The bits of the NaN that marks a result for recomputation.
static constexpr int64_t kNaN = 0x7fc00000;
/// If the rule has no chunks, tiles store c whenever they have added the
/// products of about this number of elements of K.
static constexpr int64_t kSpan = 1024;
/// The largest chunk (F3) for which this kernel is used. It is limited because
/// the rows of a whole chunk are packed together.
static constexpr int64_t kLongestChunk = 4096;
/// The significand bits that f32 elements may use, as in tf32: products of
/// wider significands are not exact in f32.
static constexpr int64_t kFactorBits = 11;

namespace {
/// A contraction in chunks. If the rule has no chunks, K is still divided:
/// tiles store c after each part.
class AccumulatorContraction : public Contraction {
public:
  AccumulatorContraction(HostBuilder &b, FoldOp op) : Contraction(b, op) {}

  LogicalResult match(FdpaAttr rule);
  Type getElement(bool ofRows) const {
    const Factor &factor = ofRows ? rows : columns;
    return fold.inputs[factor.inputs[0]].element;
  }
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
  // Exponents are stored and compared in pairs.
  if (failed(matchFactors()) || !type.isF32() || b.getLanes() < 2)
    return failure();
  if (rule.getChunk() && rule.getChunk() < fold.n)
    return success(rule.getChunk() <= kLongestChunk);
  // The rule has no chunks, so K is divided into chunks of about kSpan
  // elements. Between two chunks, c is stored in the memory for totals.
  fold.chunk = std::min<int64_t>(fold.n, llvm::alignTo(kSpan, rule.getBlock()));
  return success();
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
  exponent = arith::SelectOp::create(b, isZero, splat(kZeroExponent), exponent);
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
  // Processes whole vectors. Elements written beyond the rows are unused, or
  // are overwritten later, when their own rows are packed.
  b.loop(first, b.add(first, count), lanes, [&](Value at) {
    Value exponents = getExponents(b.loadVector(block, type, at, 1, lanes),
                                   limits.leastX, limits.bitsX, -kF32Bias);
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
      Value init = loadInit(b.add(output, vector.outputOffset), mask);
      // An initial c that may decide E but is too small for the vector code
      // becomes a NaN, which is recomputed. A c that is added late does not
      // affect E.
      if (limits.checksLeast() && !rule.getLate()) {
        Value magnitude =
            arith::AndIOp::create(b, toBits(init), splat(INT32_MAX));
        // True if the magnitude is below 2^getLeast() but not 0: subtracting 1
        // from 0 wraps around.
        Value isLow = arith::CmpIOp::create(
            b, arith::CmpIPredicate::ult,
            arith::SubIOp::create(b, magnitude, splat(1)),
            splat(((limits.getLeast() + kF32Bias) << kF32Fraction) - 1));
        init = arith::SelectOp::create(b, isLow, toFloats(splat(kNaN)), init);
      }
      starts.push_back(init);
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
  AccumulatorState start;
  start.sums = config.hasKBlocks()
                   ? b.choose(b.equal(kBlock.start, kBlock.chunk.start), begin,
                              [&] { return loadAll(kBlockSums, slot); })
                   : begin();
  start.greatest = splat(INT32_MIN);
  if (limits.checksLeast())
    start.low = splat(0, 16);
  if (limits.checksOverflow())
    start.overflow = splat(0);
  AccumulatorState end = addBlocks(tile, start);
  Value isBad = arith::CmpIOp::create(
      b, arith::CmpIPredicate::sgt, end.greatest, splat(kGreatest + kF32Bias));
  if (end.low) {
    Value isLow = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, end.low,
                                        splat(kZeroLimit, 16));
    for (size_t v = 0; v < vectors.size(); ++v)
      isBad = arith::OrIOp::create(
          b, isBad,
          vector::ExtractStridedSliceOp::create(b, isLow, v * lanes, lanes,
                                                /*stride=*/1));
  }
  if (end.overflow)
    isBad =
        arith::OrIOp::create(b, isBad,
                             arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                                   end.overflow, splat(0)));
  Value nan = toFloats(splat(kNaN));
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
// Recomputation of NaNs
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
