//===- AccumulatorKernel.h - Matrix-unit sums as vectors --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes (M4) on a tile of results, and (M1) without a branch. Exponents are
// packed next to the f32 elements: a row's exponent as two equal halves of an
// i32, a column's as an i16. A block of products takes two passes. The first
// pass finds the greatest exponent E for each result, in i16. The second pass
// multiplies each product by 2^(F - E), which is exact in f32, and converts it
// to i32 toward zero: this is the cut of the rule. The integers are added in
// i32, and their sum is converted to f32.
//
// Exponents are biased by 127, like f32 exponent fields. Zeros have an exponent
// below all others; elements that are not finite or have too many significand
// bits have one above all. E is at least F - 125, so that products below
// 2^-126, which f32 rounds, are cut to 0. If the rule's E may be less, the
// result becomes a NaN where all exponents of a block's nonzero products are
// below F - 125, and where a nonzero initial c is below 2^(F - 125). Any other
// c is a multiple of 2^-125, which no E cuts. An E above 126 or an overflow
// also makes the result a NaN. AccumulatorChain recomputes all results that are
// NaNs.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_ACCUMULATORKERNEL_H
#define REPRO_CODEGEN_CPU_KERNELS_ACCUMULATORKERNEL_H

#include "Codegen/CPU/Kernels/ContractionKernel.h"
#include "Codegen/Common/AccumulatorChain.h"

#include <cmath>

namespace mlir::repro::cpu {

constexpr int64_t kF32Fraction = 23, kF32Bias = 127;
/// The exponent given to zeros. The sum of two such exponents, or of two
/// exponents of unsupported elements, fits in i16 and is far from all exponents
/// of numbers.
constexpr int64_t kZeroExponent = -8000;

/// The ranges of exponents and sums for which the vector code computes the bits
/// of a rule.
struct SumLimits {
  FdpaAttr rule;
  int64_t leastX, leastY; ///< exponents of normal elements
  int64_t bitsX, bitsY;   ///< widths of significands

  static std::optional<SumLimits> get(FdpaAttr rule, Type x, Type y);

  int64_t getFraction() const { return *rule.getFraction(); }
  bool isF16() const { return rule.getRound() == SumRounding::rne_f16; }
  /// Returns the least E that the vector code uses.
  int64_t getLeast() const {
    return std::max(rule.getFloor(), getFraction() - kF32Bias + 2);
  }
  /// Whether the rule permits an E that is less than the least E of the vector
  /// code.
  bool checksLeast() const { return getLeast() > rule.getFloor(); }
  /// Returns how many cut products of a block can be added in i32 without
  /// overflow.
  int64_t getSafeProducts() const;
  /// Whether the sum of a block's products and c may overflow an i32.
  bool checksOverflow() const;

private:
  double getLargestProduct() const {
    return (2 - std::ldexp(2.0, -bitsX)) * (2 - std::ldexp(2.0, -bitsY)) *
           std::ldexp(1.0, getFraction());
  }
};

/// The values that a tile carries from one block of products to the next.
struct AccumulatorState {
  SmallVector<Value> sums; ///< c, row by row
  /// Properties of all blocks and rows so far; null if not needed. `greatest`:
  /// the greatest E, as an f32 exponent field. `low`: the greatest exponent of
  /// a product minus the least E, as an unsigned i16. `overflow`: an i32 whose
  /// sign bit is set if a sum overflowed.
  Value greatest, low, overflow;

  SmallVector<Value> pack() const;
  AccumulatorState unpack(ValueRange values) const;
};

/// The kernel of a contraction with the sums of a matrix unit (M4).
class AccumulatorKernel : public ContractionKernel {
public:
  AccumulatorKernel(HostBuilder &b, Contraction contraction,
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

  bool hasChunks() const { return rule.getChunk() && rule.getChunk() < fold.n; }
  bool startsFromInit() const { return rule.getStart() == SumStart::init; }
  /// Returns the initial values of c for a chain of blocks.
  SmallVector<Value> getStarts(const Tile &tile);
  /// (M1) Returns the exponents of elements minus `base`, as i32.
  Value getExponents(Value elements, int64_t least, int64_t bits, int64_t base);
  void packRowExponents(Value first, Value count);

  AccumulatorState addBlocks(const Tile &tile, const AccumulatorState &start);
  AccumulatorState addBlock(const Tile &tile, ArrayRef<BlockPart> parts,
                            const AccumulatorState &state);
  AccumulatorState addPart(const Tile &tile, const BlockPart &part,
                           const AccumulatorState &state);
  /// Calls `body` with each product's index and the values that the previous
  /// call returned, `starts` at first. Returns the values of the last call.
  SmallVector<Value>
  forEachProduct(const BlockPart &part, ValueRange starts,
                 function_ref<SmallVector<Value>(Value, ValueRange)> body);
  Value getRowPlace(const Tile &tile, int64_t x, Value k);
  Value getColumnPlace(const Tile &tile, Value k);
  SmallVector<Value> getGreatest(const Tile &tile, const BlockPart &part);
  /// Returns Exp(c) as an f32 exponent field; 0 for a zero or a subnormal f32.
  Value getExponentOf(Value c);
  /// Returns, for each row, the sum over `part` of the cut products of this row
  /// and vector `v` of the columns. `scales` has the factor 2^(F - E) of each
  /// row.
  SmallVector<Value> addProducts(const Tile &tile, const BlockPart &part,
                                 int64_t v, ArrayRef<Value> scales,
                                 Value &overflow);
  SmallVector<Value> addSums(ArrayRef<Value> sums, ArrayRef<Value> more,
                             Value &overflow);
  Value round(Value sum, Value scale);

  void finishChain(const Tile &tile, SmallVector<Value> sums);
  /// Replaces each NaN in `sums` by the result that `chain` computes.
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

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_ACCUMULATORKERNEL_H
