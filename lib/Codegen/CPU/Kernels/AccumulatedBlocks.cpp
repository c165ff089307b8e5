//===- AccumulatedBlocks.cpp - Block-scaled accumulators as vectors -------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes (M5) in f64, where every step is exact. A vector lane computes one
// result along N. Elements of rows and columns are packed as f64 values, next
// to their powers 2^Exp (0 for zeros). If each product includes the scales,
// values and powers are multiplied by their scale before they are packed. A
// first pass through a block finds 2^E, the greatest product of two powers. A
// second pass multiplies the products by 2^(F - E), cuts the results to
// integers and adds the integers. If the products of a group share one scale
// per factor, the first pass computes the exact sum of the group's code
// products, multiplies it by the scales, and keeps the result for the second
// pass.
//
// Codes and scales have no infinities; a NaN makes the result a NaN.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/AccumulatorChain.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Schedule/Buffers/Kernel.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// The maximum number of elements of K that are packed at a time.
static constexpr int64_t kSegment = 128;
/// The maximum numbers of rows and columns of a work item.
static constexpr int64_t kItemRows = 64, kItemColumns = 64;
/// The number of vectors along N in one row of a tile.
static constexpr int64_t kPanelVectors = 2;
/// The maximum number of groups (M5) of a block: the sums of all groups stay in
/// registers.
static constexpr int64_t kMostGroups = 8;
/// f64 represents all integers of up to this number of bits exactly.
static constexpr int64_t kExactBits = 53;
static constexpr int64_t kF64Exponent = 0x7ff0000000000000;

namespace {
class AccumulatedBlocks {
public:
  AccumulatedBlocks(HostBuilder &b, BlockContractionOp op);
  LogicalResult match();
  void expand();

private:
  /// A vector of elements of rows or columns, and a vector of the powers 2^Exp
  /// of these elements. Both are multiplied by the scale if each product
  /// includes the scales.
  struct Factor {
    Value value, power;
  };
  /// Scratch buffers with the packed rows, or with one packed panel of columns.
  struct Packed {
    Value values, powers, scaleValues, scalePowers;
  };
  /// A tile of results. Its first row is row `local` of the work item.
  struct Tile {
    Value local;
    int64_t rowCount;
    Value column; ///< first column of the panel within the item
  };

  bool isScaled() { return op.getStep() == BlockStep::scaled; }
  bool isGrouped() const { return rule.getGroup() > 1; }
  int64_t panelWidth() const { return kPanelVectors * lanes; }
  VectorType getDoubles(int64_t count) const {
    return VectorType::get({count}, b.getF64Type());
  }
  Value splat(double value, int64_t count);
  Value getOffset(const Access &access, Value row, Value column);

  void beginSegment(Value first);
  /// Calls `body` for each scale of the segment, with the number of the scale
  /// and the range [from, to) of the elements to which the scale applies.
  void forBlocks(function_ref<void(Value number, Value from, Value to)> body);
  Value loadCodes(const Access &codes, Value offset, int64_t count);
  Factor getScale(Value scale);
  /// Returns the packed form of `codes`, multiplied by `scale` if there is one.
  Factor getFactor(Value codes, int64_t leastExponent,
                   std::optional<Factor> scale);
  Value larger(Value x, Value y);
  Value getPower(Value value, int64_t leastExponent);
  void packRows(Value begin, Value count);
  void packPanel(Value firstColumn);

  void emitTile(const Tile &tile);
  /// Adds the products [from, to) to the chain of sums `c`, block after block.
  /// Returns the sums as f64.
  SmallVector<Value> addChain(const Tile &tile, Value from, Value to,
                              ValueRange c);
  SmallVector<Value> addBlock(const Tile &tile, Value from, Value to,
                              ValueRange c);
  Value multiplyAdd(Value x, Value y, Value sum);
  /// (M1) Rounds an exact sum as the rule requires. The result is an f64.
  Value round(Value exact);
  Value loadRow(Value packed, const Tile &tile, int64_t row, Value k);
  Value loadColumn(Value packed, Value k, int64_t vector);
  Value loadRowScale(Value packed, const Tile &tile, int64_t row, Value number);
  void writeResults(Value begin, Value count, Value firstColumn,
                    Value columnCount);

  HostBuilder &b;
  BlockContractionOp op;
  FdpaAttr rule;
  MemRefType results;
  int64_t rank, m, n, k, block, lanes;
  int64_t segment = 0, segmentBlocks = 0;
  int64_t tileRows, itemRows, itemColumns;
  int64_t leastX, leastY;
  Access x, xScales, y, yScales, output;
  SmallVector<Value> batch;    ///< coordinates of the current item
  Value firstK, length;        ///< of the current segment
  Value firstBlock, numBlocks; ///< range of the segment's scales
  Packed rows, columns;
  Value sums; ///< of the work item, kept between segments
};
} // namespace

AccumulatedBlocks::AccumulatedBlocks(HostBuilder &b, BlockContractionOp op)
    : b(b), op(op), rule(op.getAccumulatorAttr()),
      results(cast<MemRefType>(op.getOutputs()[0].getType())),
      rank(results.getRank()), m(results.getDimSize(rank - 2)),
      n(results.getDimSize(rank - 1)),
      k(cast<MemRefType>(op.getInputs()[0].getType()).getDimSize(rank - 1)),
      block(std::min<int64_t>(op.getBlock(), std::max<int64_t>(k, 1))),
      lanes(b.getLanes() / 2), tileRows(isGrouped() ? 2 : 4) {
  auto [ofX, ofY] = op.getCodeTypes();
  leastX = kernels::getLeastExponent(ofX);
  leastY = kernels::getLeastExponent(ofY);
  itemRows = std::min<int64_t>(kItemRows, llvm::alignTo(m, tileRows));
  itemColumns = std::min<int64_t>(
      kItemColumns, llvm::alignTo(n, std::max<int64_t>(panelWidth(), 1)));
}

LogicalResult AccumulatedBlocks::match() {
  if (lanes < 2 || results.getNumElements() == 0 || k == 0 ||
      !isInRows(op.getInputs()[0]) || !isInRows(op.getInputs()[2]) ||
      !isInRows(op.getOutputs()[0]))
    return failure();
  int64_t terms = rule.getTerms();
  if (!rule.getFraction() || rule.getLate() ||
      rule.getRound() == SumRounding::rne_f16 ||
      terms / rule.getGroup() > (isGrouped() ? kMostGroups : terms))
    return failure();
  // The number of bits of a sum: F, plus two for the product of two codes and
  // two for that of two scales, because a product of two significands is below
  // 4. The sum of a group also spans the exponents of its codes.
  int64_t most = *rule.getFraction() + 4;
  if (isGrouped())
    for (Type type : op.getCodeTypes())
      most += llvm::ilogb(
          APFloat::getLargest(cast<FloatType>(type).getFloatSemantics()));
  if (most + llvm::Log2_64_Ceil(terms + 1) > kExactBits)
    return failure();
  int64_t unit = isScaled() ? terms : block;
  if (unit > kSegment)
    return failure();
  segment = std::min<int64_t>(llvm::alignDown(kSegment, unit),
                              llvm::alignTo(k, unit));
  segmentBlocks = llvm::divideCeil(segment, block) + 1;
  return success();
}

Value AccumulatedBlocks::splat(double value, int64_t count) {
  return b.constant(
      DenseElementsAttr::get(getDoubles(count), b.getF64FloatAttr(value)));
}

Value AccumulatedBlocks::getOffset(const Access &access, Value row,
                                   Value column) {
  SmallVector<Value> at(batch);
  at.append({row, column});
  return b.getOffset(access, at);
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

void AccumulatedBlocks::beginSegment(Value first) {
  firstK = first;
  length = b.min(b.sub(b.index(k), first), b.index(segment));
  firstBlock = b.div(first, block);
  Value end = b.div(b.add(b.add(first, length), block - 1), block);
  numBlocks = b.sub(end, firstBlock);
}

void AccumulatedBlocks::forBlocks(
    function_ref<void(Value number, Value from, Value to)> body) {
  b.loop(b.index(0), numBlocks, 1, [&](Value number) {
    Value begin = b.mul(b.add(firstBlock, number), block);
    Value from = b.sub(b.max(begin, firstK), firstK);
    Value to = b.min(b.sub(b.add(begin, block), firstK), length);
    body(number, from, to);
  });
}

Value AccumulatedBlocks::loadCodes(const Access &codes, Value offset,
                                   int64_t count) {
  Value loaded = b.loadVector(codes.buffer, codes.element, offset, 1, count);
  return b.convertFloat(b.convertFloat(loaded, b.getF32Type()), b.getF64Type());
}

Value AccumulatedBlocks::larger(Value x, Value y) {
  Value isLarger = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, y);
  return arith::SelectOp::create(b, isLarger, x, y);
}

/// Returns 2^Exp of each lane, at least 2^`leastExponent`.
Value AccumulatedBlocks::getPower(Value value, int64_t leastExponent) {
  int64_t count = cast<VectorType>(value.getType()).getNumElements();
  auto integers = VectorType::get({count}, b.getI64Type());
  Value mask =
      b.constant(DenseElementsAttr::get(integers, APInt(64, kF64Exponent)));
  Value power = arith::AndIOp::create(
      b, arith::BitcastOp::create(b, integers, value), mask);
  power = arith::BitcastOp::create(b, getDoubles(count), power);
  return larger(power, splat(std::ldexp(1.0, int(leastExponent)), count));
}

/// (Q1) Returns the magnitudes of scales, and their powers 2^Exp. An f32 scale
/// is a power of two, so both are equal.
AccumulatedBlocks::Factor AccumulatedBlocks::getScale(Value scale) {
  bool isPower = getElementTypeOrSelf(scale.getType()).isF32();
  constexpr int64_t kLeast = -6; // the least exponent of f8E4M3FN
  Value value =
      b.convertFloat(b.convertFloat(scale, b.getF32Type()), b.getF64Type());
  value = math::AbsFOp::create(b, value);
  return {value, isPower ? value : getPower(value, kLeast)};
}

AccumulatedBlocks::Factor
AccumulatedBlocks::getFactor(Value codes, int64_t leastExponent,
                             std::optional<Factor> scale) {
  Value value = codes, power = getPower(codes, leastExponent);
  if (scale) {
    value = arith::MulFOp::create(b, value, scale->value);
    power = arith::MulFOp::create(b, power, scale->power);
  }
  Value zero = b.zero(value.getType());
  Value isZero =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, zero);
  return {value, arith::SelectOp::create(b, isZero, zero, power)};
}

void AccumulatedBlocks::packRows(Value begin, Value count) {
  b.loop(b.index(0), count, 1, [&](Value local) {
    Value row = b.add(begin, local);
    Value from = getOffset(x, row, firstK);
    Value to = b.mul(local, segment);
    Value scaleRow = b.div(row, op.getRows()[0]);
    forBlocks([&](Value number, Value first, Value end) {
      std::optional<Factor> scale;
      Value at = getOffset(xScales, scaleRow, b.add(firstBlock, number));
      Value loaded =
          b.loadVector(xScales.buffer, xScales.element, at, 1, /*lanes=*/1);
      Value place = b.add(b.mul(local, segmentBlocks), number);
      if (!isScaled()) {
        b.storeVector(loaded, rows.scaleValues, place, 1);
      } else {
        scale = getScale(loaded);
        if (isGrouped()) {
          b.storeVector(scale->value, rows.scaleValues, place, 1);
          b.storeVector(scale->power, rows.scalePowers, place, 1);
        }
      }
      b.forVectors(first, end, lanes, [&](Value at, int64_t size) {
        Value codes = loadCodes(x, b.add(from, at), size);
        if (isGrouped()) {
          b.storeVector(codes, rows.values, b.add(to, at), 1);
          return;
        }
        std::optional<Factor> wide = scale;
        if (scale && size > 1)
          for (Value *each : {&wide->value, &wide->power})
            *each = b.broadcast(vector::ExtractOp::create(b, *each, 0), size);
        Factor factor = getFactor(codes, leastX, wide);
        b.storeVector(factor.value, rows.values, b.add(to, at), 1);
        b.storeVector(factor.power, rows.powers, b.add(to, at), 1);
      });
    });
  });
}

void AccumulatedBlocks::packPanel(Value firstColumn) {
  for (int64_t vector = 0; vector < kPanelVectors; ++vector) {
    SmallVector<Value> lanesOf;
    for (int64_t lane = 0; lane < lanes; ++lane)
      lanesOf.push_back(
          b.min(b.add(firstColumn, vector * lanes + lane), b.index(n - 1)));
    auto getPlace = [&](Value at) {
      return b.mul(b.add(b.mul(at, kPanelVectors), vector), lanes);
    };
    forBlocks([&](Value number, Value first, Value end) {
      SmallVector<Value> offsets;
      for (Value column : lanesOf)
        offsets.push_back(getOffset(yScales, b.div(column, op.getRows()[1]),
                                    b.add(firstBlock, number)));
      Value loaded = b.gather(yScales.buffer, yScales.element, offsets);
      std::optional<Factor> scale;
      if (!isScaled()) {
        b.storeVector(loaded, columns.scaleValues, getPlace(number), 1);
      } else {
        scale = getScale(loaded);
        if (isGrouped()) {
          b.storeVector(scale->value, columns.scaleValues, getPlace(number), 1);
          b.storeVector(scale->power, columns.scalePowers, getPlace(number), 1);
          scale.reset();
        }
      }
      b.forVectors(first, end, lanes, [&](Value at, int64_t size) {
        SmallVector<Value> codes;
        for (Value column : lanesOf)
          codes.push_back(
              loadCodes(y, getOffset(y, column, b.add(firstK, at)), size));
        for (auto [i, code] : llvm::enumerate(b.transpose(codes))) {
          Value place = getPlace(b.add(at, i));
          if (isGrouped()) {
            b.storeVector(code, columns.values, place, 1);
            continue;
          }
          Factor factor = getFactor(code, leastY, scale);
          b.storeVector(factor.value, columns.values, place, 1);
          b.storeVector(factor.power, columns.powers, place, 1);
        }
      });
    });
  }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Value AccumulatedBlocks::loadRow(Value packed, const Tile &tile, int64_t row,
                                 Value k) {
  Value at = b.add(b.mul(b.add(tile.local, row), segment), k);
  return b.broadcast(b.load(packed, b.getF64Type(), at), lanes);
}

Value AccumulatedBlocks::loadRowScale(Value packed, const Tile &tile,
                                      int64_t row, Value number) {
  Value at = b.add(b.mul(b.add(tile.local, row), segmentBlocks), number);
  return b.broadcast(b.load(packed, b.getF64Type(), at), lanes);
}

Value AccumulatedBlocks::loadColumn(Value packed, Value k, int64_t vector) {
  Value at = b.mul(b.add(b.mul(k, kPanelVectors), vector), lanes);
  return b.loadVector(packed, b.getF64Type(), at, 1, lanes);
}

Value AccumulatedBlocks::multiplyAdd(Value x, Value y, Value sum) {
  // With or without fma, the bits are the same, because products and sums are
  // exact here.
  if (b.getLevel().hasFma)
    return math::FmaOp::create(b, x, y, sum);
  return arith::AddFOp::create(b, sum, arith::MulFOp::create(b, x, y));
}

Value AccumulatedBlocks::round(Value exact) {
  auto floats = VectorType::get({lanes}, b.getF32Type());
  Value rounded = arith::TruncFOp::create(b, floats, exact);
  if (rule.getRound() == SumRounding::rne_f32)
    return arith::ExtFOp::create(b, exact.getType(), rounded);
  // Rounds toward zero: where TruncFOp has rounded away from zero, the
  // magnitude is decreased by one unit in the last place. Magnitudes of 2^128
  // and above stay infinite.
  auto integers = VectorType::get({lanes}, b.getI32Type());
  auto constant = [&](int32_t value) {
    return b.constant(
        DenseElementsAttr::get(integers, APInt(32, uint32_t(value))));
  };
  Value wide = arith::ExtFOp::create(b, exact.getType(), rounded);
  Value magnitude = math::AbsFOp::create(b, exact);
  Value isFar = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                      math::AbsFOp::create(b, wide), magnitude);
  Value isFinite =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, magnitude,
                            splat(std::ldexp(1.0, 128), lanes));
  Value bits = arith::BitcastOp::create(b, integers, rounded);
  Value before = arith::SubIOp::create(b, bits, constant(1));
  bits = arith::SelectOp::create(b, arith::AndIOp::create(b, isFar, isFinite),
                                 before, bits);
  if (rule.getRound() == SumRounding::rz_e8m13)
    bits = arith::AndIOp::create(b, bits, constant(~0x3ff));
  Value cut = arith::BitcastOp::create(b, floats, bits);
  // Adding +0 turns -0 into +0.
  cut = arith::AddFOp::create(b, cut, b.zero(floats));
  return arith::ExtFOp::create(b, exact.getType(), cut);
}

SmallVector<Value> AccumulatedBlocks::addBlock(const Tile &tile, Value from,
                                               Value to, ValueRange c) {
  int64_t count = tile.rowCount * kPanelVectors;
  int64_t groups = rule.getTerms() / rule.getGroup();
  auto forTile =
      [&](function_ref<void(int64_t row, int64_t vector, int64_t i)> body) {
        for (int64_t i = 0; i < count; ++i)
          body(i / kPanelVectors, i % kPanelVectors, i);
      };
  Value zero = b.zero(getDoubles(lanes));

  // (M1) Computes 2^E, which is at least 2^floor.
  SmallVector<Value> powers(
      count, splat(std::ldexp(1.0, int(rule.getFloor())), lanes));
  forTile([&](int64_t, int64_t, int64_t i) {
    Value isZero =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, c[i], zero);
    Value power = getPower(c[i], -126);
    // The power of an infinite c is set to 2^128. Then 2^(F - E) is nonzero,
    // and its product with the infinity is infinite.
    Value most = splat(std::ldexp(1.0, 128), lanes);
    Value isFinite =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, power, most);
    power = arith::SelectOp::create(b, isFinite, power, most);
    power = arith::SelectOp::create(b, isZero, zero, power);
    powers[i] = larger(power, powers[i]);
  });
  SmallVector<SmallVector<Value>> grouped;
  if (isGrouped()) {
    for (int64_t group = 0; group < groups; ++group) {
      Value first = b.min(b.add(from, group * rule.getGroup()), to);
      Value end = b.min(b.add(first, rule.getGroup()), to);
      SmallVector<Value> products =
          b.loop(first, end, 1, SmallVector<Value>(count, zero),
                 [&](Value at, ValueRange carried) {
                   SmallVector<Value> next(carried);
                   forTile([&](int64_t row, int64_t vector, int64_t i) {
                     next[i] = multiplyAdd(
                         loadRow(rows.values, tile, row, at),
                         loadColumn(columns.values, at, vector), carried[i]);
                   });
                   return next;
                 });
      // If the last group is empty, it uses the scale of the last element.
      Value place = b.add(firstK, b.min(first, b.sub(to, b.index(1))));
      Value number = b.sub(b.div(place, block), firstBlock);
      forTile([&](int64_t row, int64_t vector, int64_t i) {
        auto multiply = [&](Value ofRow, Value ofColumn) -> Value {
          return arith::MulFOp::create(b,
                                       loadRowScale(ofRow, tile, row, number),
                                       loadColumn(ofColumn, number, vector));
        };
        products[i] = arith::MulFOp::create(
            b, products[i], multiply(rows.scaleValues, columns.scaleValues));
        Value power = multiply(rows.scalePowers, columns.scalePowers);
        Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ,
                                             products[i], zero);
        power = arith::SelectOp::create(b, isZero, zero, power);
        powers[i] = larger(power, powers[i]);
      });
      grouped.push_back(products);
    }
  } else {
    powers = b.loop(from, to, 1, powers, [&](Value at, ValueRange carried) {
      SmallVector<Value> next(carried);
      forTile([&](int64_t row, int64_t vector, int64_t i) {
        Value power =
            arith::MulFOp::create(b, loadRow(rows.powers, tile, row, at),
                                  loadColumn(columns.powers, at, vector));
        next[i] = larger(power, carried[i]);
      });
      return next;
    });
  }

  // Computes T in units of 2^(E - F): multiples of this unit become integers.
  int fraction = int(*rule.getFraction());
  SmallVector<Value> inverse(count), totals(count);
  auto cut = [&](Value value, int64_t i) -> Value {
    return math::TruncOp::create(b,
                                 arith::MulFOp::create(b, value, inverse[i]));
  };
  forTile([&](int64_t, int64_t, int64_t i) {
    inverse[i] = arith::DivFOp::create(
        b, splat(std::ldexp(1.0, fraction), lanes), powers[i]);
    totals[i] = cut(c[i], i);
  });
  if (isGrouped()) {
    for (ArrayRef<Value> products : grouped)
      forTile([&](int64_t, int64_t, int64_t i) {
        totals[i] = arith::AddFOp::create(b, totals[i], cut(products[i], i));
      });
  } else {
    totals = b.loop(from, to, 1, totals, [&](Value at, ValueRange carried) {
      SmallVector<Value> next(carried);
      forTile([&](int64_t row, int64_t vector, int64_t i) {
        Value product =
            arith::MulFOp::create(b, loadRow(rows.values, tile, row, at),
                                  loadColumn(columns.values, at, vector));
        next[i] = arith::AddFOp::create(b, carried[i], cut(product, i));
      });
      return next;
    });
  }
  forTile([&](int64_t, int64_t, int64_t i) {
    // (M1) If T = 0, the result is +0. Adding +0 turns -0 into +0.
    Value total = arith::AddFOp::create(b, totals[i], zero);
    Value unit = arith::MulFOp::create(
        b, powers[i], splat(std::ldexp(1.0, -fraction), lanes));
    totals[i] = round(arith::MulFOp::create(b, total, unit));
  });
  return totals;
}

SmallVector<Value> AccumulatedBlocks::addChain(const Tile &tile, Value from,
                                               Value to, ValueRange c) {
  int64_t terms = rule.getTerms();
  return b.loop(from, to, terms, c, [&](Value first, ValueRange carried) {
    return addBlock(tile, first, b.min(b.add(first, terms), to), carried);
  });
}

void AccumulatedBlocks::emitTile(const Tile &tile) {
  int64_t count = tile.rowCount * kPanelVectors;
  Type f32 = b.getF32Type();
  auto floats = VectorType::get({lanes}, f32);
  VectorType doubles = getDoubles(lanes);
  auto getPlace = [&](int64_t i) {
    Value row = b.add(tile.local, i / kPanelVectors);
    return b.add(b.add(b.mul(row, itemColumns), tile.column),
                 i % kPanelVectors * lanes);
  };
  SmallVector<Value> starts;
  for (int64_t i = 0; i < count; ++i)
    starts.push_back(b.loadVector(sums, f32, getPlace(i), 1, lanes));
  SmallVector<Value> ends;
  if (isScaled()) {
    for (Value &start : starts)
      start = arith::ExtFOp::create(b, doubles, start);
    for (Value end : addChain(tile, b.index(0), length, starts))
      ends.push_back(arith::TruncFOp::create(b, floats, end));
  } else {
    // A segment contains whole blocks, so each block's dot product is complete.
    auto addDots = [&](Value number, ValueRange carried) {
      Value from = b.mul(number, block);
      Value to = b.min(b.add(from, block), length);
      SmallVector<Value> dots =
          addChain(tile, from, to, SmallVector<Value>(count, b.zero(doubles)));
      SmallVector<Value> next;
      for (int64_t i = 0; i < count; ++i) {
        Value at = b.add(
            b.mul(b.add(tile.local, i / kPanelVectors), segmentBlocks), number);
        Value scale = b.broadcast(b.load(rows.scaleValues, f32, at), lanes);
        Value place = b.mul(
            b.add(b.mul(number, kPanelVectors), i % kPanelVectors), lanes);
        scale = arith::MulFOp::create(
            b, scale, b.loadVector(columns.scaleValues, f32, place, 1, lanes));
        Value dot = arith::TruncFOp::create(b, floats, dots[i]);
        if (op.getStep() == BlockStep::fused)
          next.push_back(math::FmaOp::create(b, dot, scale, carried[i]));
        else
          next.push_back(arith::AddFOp::create(
              b, carried[i], arith::MulFOp::create(b, dot, scale)));
      }
      return next;
    };
    ends = b.loop(b.index(0), numBlocks, 1, starts, addDots);
  }
  for (int64_t i = 0; i < count; ++i)
    b.storeVector(ends[i], sums, getPlace(i), 1);
}

void AccumulatedBlocks::writeResults(Value begin, Value count,
                                     Value firstColumn, Value columnCount) {
  Type f32 = b.getF32Type();
  b.loop(b.index(0), count, 1, [&](Value local) {
    b.loop(b.index(0), columnCount, lanes, [&](Value column) {
      LaneMask mask;
      if (n % lanes)
        mask =
            b.getMask(b.min(b.sub(columnCount, column), b.index(lanes)), lanes);
      Value at =
          getOffset(output, b.add(begin, local), b.add(firstColumn, column));
      Value init = b.loadVector(output.buffer, f32, at, 1, lanes, mask);
      Value sum = b.loadVector(
          sums, f32, b.add(b.mul(local, itemColumns), column), 1, lanes);
      Value result = arith::AddFOp::create(b, init, sum);
      b.storeVector(b.canonicalizeNaN(result), output.buffer, at, 1, mask);
    });
  });
}

void AccumulatedBlocks::expand() {
  AffineMap identity = b.getMultiDimIdentityMap(rank);
  x = b.getAccess(op.getInputs()[0], identity);
  xScales = b.getAccess(op.getInputs()[1], identity);
  y = b.getAccess(op.getInputs()[2], identity);
  yScales = b.getAccess(op.getInputs()[3], identity);
  output = b.getAccess(op.getOutputs()[0], identity);
  Type f32 = b.getF32Type(), f64 = b.getF64Type();
  Type scales = isScaled() ? f64 : f32;
  auto allocate = [&](int64_t size) {
    Packed packed;
    packed.values = b.getScratch(f64, size * segment);
    if (!isGrouped())
      packed.powers = b.getScratch(f64, size * segment);
    if (!isScaled() || isGrouped())
      packed.scaleValues = b.getScratch(scales, size * segmentBlocks);
    if (isGrouped())
      packed.scalePowers = b.getScratch(scales, size * segmentBlocks);
    return packed;
  };
  rows = allocate(itemRows);
  columns = allocate(panelWidth());
  sums = b.getScratch(f32, itemRows * itemColumns);

  SmallVector<int64_t> items(results.getShape().drop_back(2));
  items.append(
      {llvm::divideCeil(m, itemRows), llvm::divideCeil(n, itemColumns)});
  b.forEachItem([&](Value item) {
    batch = b.delinearize(item, items);
    Value firstColumn = b.mul(batch.pop_back_val(), itemColumns);
    Value begin = b.mul(batch.pop_back_val(), itemRows);
    Value count = b.min(b.sub(b.index(m), begin), b.index(itemRows));
    Value zeros = b.zero(VectorType::get({lanes}, f32));
    b.loop(b.index(0), b.mul(count, itemColumns), lanes,
           [&](Value at) { b.storeVector(zeros, sums, at, 1); });
    Value columnCount =
        b.min(b.sub(b.index(n), firstColumn), b.index(itemColumns));
    Value full = b.sub(count, b.rem(count, tileRows));
    b.loop(b.index(0), b.index(k), segment, [&](Value first) {
      beginSegment(first);
      packRows(begin, count);
      b.loop(b.index(0), columnCount, panelWidth(), [&](Value column) {
        packPanel(b.add(firstColumn, column));
        b.loop(b.index(0), full, tileRows,
               [&](Value local) { emitTile({local, tileRows, column}); });
        b.loop(full, count, 1,
               [&](Value local) { emitTile({local, 1, column}); });
      });
    });
    writeResults(begin, count, firstColumn, columnCount);
  });
  b.setWork(getProduct(items), 1);
}

LogicalResult repro::cpu::expandAccumulatedBlocks(HostBuilder &b,
                                                  BlockContractionOp op) {
  AccumulatedBlocks contraction(b, op);
  if (failed(contraction.match()))
    return failure();
  contraction.expand();
  return success();
}
