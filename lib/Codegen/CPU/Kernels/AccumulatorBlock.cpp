//===- AccumulatorBlock.cpp - The blocks of one accumulator tile ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/AccumulatorKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// The maximum number of products in one unrolled loop body.
static constexpr int64_t kStraight = 4;

SmallVector<Value> AccumulatorState::pack() const {
  SmallVector<Value> values(sums);
  values.push_back(greatest);
  for (Value value : {low, overflow})
    if (value)
      values.push_back(value);
  return values;
}

AccumulatorState AccumulatorState::unpack(ValueRange values) const {
  AccumulatorState state;
  state.sums.assign(values.begin(), values.begin() + sums.size());
  size_t next = sums.size();
  state.greatest = values[next++];
  if (low)
    state.low = values[next++];
  if (overflow)
    state.overflow = values[next++];
  return state;
}

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
    const BlockPart &part, ValueRange starts,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  std::optional<int64_t> count = getConstantIntValue(part.count);
  // Unrolls by the largest divisor of the number of products up to kStraight.
  int64_t step = 1;
  if (count)
    for (int64_t i = 1; i <= kStraight; ++i)
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
  SmallVector<Value> starts(tile.rowCount, splat(2 * kZeroExponent, 16));
  auto vectorType = VectorType::get({width}, b.getIntegerType(16));
  auto pairsType = VectorType::get({width / 2}, b.getI32Type());
  return forEachProduct(part, starts, [&](Value k, ValueRange greatest) {
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

Value AccumulatorKernel::getExponentOf(Value c) {
  Value twice = arith::ShLIOp::create(b, toBits(c), splat(1));
  Value field = arith::ShRUIOp::create(b, twice, splat(kF32Fraction + 1));
  if (!limits.isF16())
    return field;
  Value isZero =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, twice, splat(0));
  Value most = arith::MaxSIOp::create(b, field, splat(kF32Bias - 14));
  return arith::SelectOp::create(b, isZero, splat(0), most);
}

/// Multiplies the integer sum of a block by `scale` and rounds the product as
/// the rule requires. The result is the c of the next block.
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
    // Rounds to odd, so that the conversion to f16 below gives the same result
    // as rounding the full sum once.
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

/// Returns `sums` plus `more`. Sets the sign bit of `overflow` where an
/// addition overflows.
SmallVector<Value> AccumulatorKernel::addSums(ArrayRef<Value> sums,
                                              ArrayRef<Value> more,
                                              Value &overflow) {
  SmallVector<Value> added;
  for (auto [x, y] : llvm::zip_equal(sums, more)) {
    Value sum = arith::AddIOp::create(b, x, y);
    if (overflow) // the sum's sign differs from both operands' signs
      overflow = arith::OrIOp::create(
          b, overflow,
          arith::AndIOp::create(b, arith::XOrIOp::create(b, x, sum),
                                arith::XOrIOp::create(b, y, sum)));
    added.push_back(sum);
  }
  return added;
}

SmallVector<Value> AccumulatorKernel::addProducts(const Tile &tile,
                                                  const BlockPart &part,
                                                  int64_t v,
                                                  ArrayRef<Value> scales,
                                                  Value &overflow) {
  auto multiply = [&](Value k, ValueRange sums) {
    SmallVector<Value> next;
    Value column = b.loadVector(
        panelBuffer, type, b.add(getColumnPlace(tile, k), v * lanes), 1, lanes);
    for (int64_t x = 0; x < tile.rowCount; ++x) {
      Value row = b.load(block, type, getRowPlace(tile, x, k));
      Value product = arith::MulFOp::create(b, b.broadcast(row, lanes), column);
      Value cut = b.truncate(arith::MulFOp::create(b, product, scales[x]));
      next.push_back(arith::AddIOp::create(b, sums[x], cut));
    }
    return next;
  };
  SmallVector<Value> zeros(tile.rowCount, splat(0));
  int64_t safe = limits.getSafeProducts();
  if (safe >= rule.getTerms())
    return forEachProduct(part, zeros, multiply);
  // Each inner loop adds so few products that their sum cannot overflow. The
  // outer loop adds the sums of the inner loops with a check for overflow.
  SmallVector<Value> carried = zeros;
  carried.push_back(overflow);
  carried =
      b.loop(b.index(0), part.count, safe, carried,
             [&](Value first, ValueRange values) {
               Value end = b.min(b.add(first, safe), part.count);
               SmallVector<Value> sums =
                   b.loop(first, end, 1, zeros, [&](Value j, ValueRange sums) {
                     return multiply(part.getProduct(b, j), sums);
                   });
               Value nextOverflow = values.back();
               SmallVector<Value> added = addSums(
                   SmallVector<Value>(values.drop_back()), sums, nextOverflow);
               added.push_back(nextOverflow);
               return added;
             });
  overflow = carried.pop_back_val();
  return carried;
}

AccumulatorState AccumulatorKernel::addPart(const Tile &tile,
                                            const BlockPart &part,
                                            const AccumulatorState &state) {
  int64_t count = tile.vectors.size();
  SmallVector<Value> greatest = getGreatest(tile, part);
  AccumulatorState next = state;
  int64_t least = limits.getLeast() + kF32Bias;
  for (Value &top : greatest) {
    if (next.low)
      next.low = arith::MaxUIOp::create(
          b, next.low, arith::SubIOp::create(b, top, splat(least, 16)));
    top = arith::MaxSIOp::create(b, top, splat(least, 16));
  }
  Type narrow = VectorType::get({lanes}, b.getI32Type());
  // Each iteration computes one vector of columns, so that few values are in
  // registers at a time and each row element is loaded as a memory operand.
  for (int64_t v = 0; v < count; ++v) {
    SmallVector<Value> scales, ofC;
    for (int64_t x = 0; x < tile.rowCount; ++x) {
      Value c = state.sums[x * count + v];
      Value ofProducts = vector::ExtractStridedSliceOp::create(
          b, greatest[x], v * lanes, lanes, /*stride=*/1);
      Value top = arith::MaxSIOp::create(
          b, arith::ExtSIOp::create(b, narrow, ofProducts), getExponentOf(c));
      next.greatest = arith::MaxSIOp::create(b, next.greatest, top);
      // This is the exponent field of 2^(F - E).
      Value field = arith::SubIOp::create(
          b, splat(2 * kF32Bias + limits.getFraction()), top);
      Value scale = arith::ShLIOp::create(b, field, splat(kF32Fraction));
      scales.push_back(toFloats(scale));
    }
    SmallVector<Value> sums = addProducts(tile, part, v, scales, next.overflow);
    for (auto [x, scale] : llvm::enumerate(scales))
      ofC.push_back(b.truncate(
          arith::MulFOp::create(b, state.sums[x * count + v], scale)));
    sums = addSums(sums, ofC, next.overflow);
    for (auto [x, scale] : llvm::enumerate(scales)) {
      Value inverse = toFloats(arith::SubIOp::create(
          b, splat(2 * kF32Bias << kF32Fraction), toBits(scale)));
      next.sums[x * count + v] = round(sums[x], inverse);
    }
  }
  return next;
}

AccumulatorState AccumulatorKernel::addBlock(const Tile &tile,
                                             ArrayRef<BlockPart> parts,
                                             const AccumulatorState &state) {
  if (!rule.getLate())
    return addPart(tile, parts[0], state);
  AccumulatorState next = state;
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

AccumulatorState AccumulatorKernel::addBlocks(const Tile &tile,
                                              const AccumulatorState &start) {
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
