//===- BlockContraction.cpp - Contractions of block-scaled tensors --------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the dot product of each block (Q4), which is exact in any order: in
// i32 for integers and in f64 for f8. A vector lane computes one result along
// N. A word is an i32 or f64 that holds 4, 2 or 1 neighbouring elements of K;
// one instruction multiplies the words of all lanes. Words of neighbouring
// columns are packed as vectors; words of rows are broadcast. A long K is
// divided into segments, which are packed and added one after another.
//
// Where an instruction adds products of bytes in i16, a group of words is added
// in i16 and then widened to i32. This requires that i16 can represent the
// exact sum of the products of one word, and that of a group. The sums in
// between may wrap.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/Schedule/Buffers/Kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// The maximum number of words of K that are packed at a time.
static constexpr int64_t kMostWords = 1024;
/// The packed rows of an item take 1/kRowsOfCache of the L2 cache, so that
/// there are items for many threads. For f8, the packed rows take
/// 1/kFloatRowsOfCache: unpacking columns of f8 takes longer, so more rows must
/// share the unpacked columns.
static constexpr int64_t kRowsOfCache = 16;
static constexpr int64_t kFloatRowsOfCache = 2;
/// The desired number of work items: panels are divided among more items until
/// there are at least this many items.
static constexpr int64_t kManyItems = 16;
/// The minimum number of panels of a work item: with fewer, packing its rows
/// would cost too much.
static constexpr int64_t kManyPanels = 8;
/// The number of vectors along N in one row of a tile.
static constexpr int64_t kTileVectors = 2;
/// The maximum number of words of a block in one unrolled loop body.
static constexpr int64_t kUnrolledWords = 16;

bool repro::cpu::isInRows(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t offset;
  return getStaticStrides(type, offset)->back() == 1;
}

namespace {
/// The contents of a word. `bytes`: 4 bytes, whose products are added as i32.
/// `groupedBytes`: 4 bytes, whose products are added as i16 within a group of
/// words. `halves`, `words`: two i16 or one i32. `floats`: one f64.
enum class Product { bytes, groupedBytes, halves, words, floats };

class BlockContraction {
public:
  BlockContraction(HostBuilder &b, BlockContractionOp op);

  bool isSupported() {
    return block % perWord() == 0 && k % block == 0 &&
           results.getNumElements() > 0 && k > 0 &&
           isInRows(op.getInputs()[0]) && isInRows(op.getInputs()[2]) &&
           isInRows(op.getOutputs()[0]);
  }
  void expand();

private:
  bool isFloat() const { return product == Product::floats; }
  bool isGrouped() const { return product == Product::groupedBytes; }
  int64_t perWord() const {
    return product == Product::bytes || isGrouped() ? 4
           : product == Product::halves             ? 2
                                                    : 1;
  }
  bool isArm() const {
    return b.getLevel().machine == repro_runtime::Machine::AArch64;
  }
  /// Whether the bytes of rows are stored as unsigned bytes, offset by 128,
  /// because x86 multiplies unsigned by signed bytes. The sums are corrected
  /// afterwards.
  bool hasUnsignedRows() const {
    return (product == Product::bytes || isGrouped()) && !isArm();
  }
  Type getWordType() const {
    return isFloat() ? Type(b.getF64Type()) : Type(b.getI32Type());
  }
  VectorType getWordsType(int64_t count) const {
    return VectorType::get({count}, getWordType());
  }
  /// Returns the type of the sums of a group, before `widen`.
  VectorType getSumsType() const {
    if (!isGrouped())
      return getWordsType(lanes);
    return VectorType::get({lanes * (isArm() ? 4 : 2)}, b.getIntegerType(16));
  }
  int64_t panelWidth() const { return kTileVectors * lanes; }

  /// Loads `count` words of contiguous elements, starting at `offset`.
  Value loadWords(const Access &codes, Value offset, int64_t count);
  bool hasSegments() const { return segmentBlocks < blocks; }
  /// Begins the next segment of K, whose first block is `block`.
  void beginSegment(Value block);
  /// Calls `body` for all words of the segment: first for whole vectors, then
  /// for single words. `body` receives the first word and the number of words.
  void forWords(function_ref<void(Value word, int64_t count)> body);
  void packRows(Value begin, Value count);
  void packPanel(Value panel);
  void packCodes(ArrayRef<Value> columns, Value vector);
  /// Emits all tiles of the panel for the current segment.
  void emitPanel(Value begin, Value count, Value panel);
  void emitTile(Value row, Value local, int64_t rowCount, Value panel);
  /// Returns the dot products of all results of a tile over one block.
  SmallVector<Value> emitDots(Value local, int64_t rowCount, Value block);
  /// Returns the sums of a tile over the products of one group of words.
  SmallVector<Value> emitGroup(Value local, int64_t rowCount, Value group);
  /// Returns `sums` plus the products of word `word`, for all results of a
  /// tile.
  SmallVector<Value> multiplyAdd(Value local, int64_t rowCount, Value word,
                                 ValueRange sums);
  Value multiplyAdd(Value row, Value column, Value sum);
  /// Converts the sums of a group (`getSumsType`) to the type of words.
  Value widen(Value sums);
  /// Multiplies i16 elements and adds each pair of neighbouring products as
  /// i32.
  Value addNeighbours(Value x, Value y);
  Value call(StringRef intrinsic, Type result, ValueRange operands);
  void writeResults(Value row, int64_t rowCount, Value panel,
                    ArrayRef<Value> sums);
  Value getOffset(const Access &access, Value row, Value column);

  HostBuilder &b;
  BlockContractionOp op;
  MemRefType results;
  int64_t rank, m, n, k;
  int64_t block; ///< elements of a block
  Product product;
  int64_t lanes;
  int64_t groupWords; ///< a divisor of the words of a block
  int64_t blockWords, blocks, tileRows, blockRows, rowBlocks, panels, shares;
  int64_t segmentBlocks; ///< maximum
  Access x, xScales, y, yScales, output;
  SmallVector<Value> batch;              ///< coordinates of the current item
  Value firstBlock, numBlocks, numWords; ///< of the current segment
  Value rows, columns, columnScales, corrections;
  Value totals; ///< of a panel, between segments; null: not needed
};
} // namespace

/// Returns the maximum number of byte words whose products can be added in i16;
/// 0 if this is not possible even for the products of one word.
static int64_t getMostGroupedWords(const Level &level, BlockContractionOp op) {
  auto magnitudes = op.getMagnitudes();
  if (!magnitudes || level.isMicrocontroller)
    return 0;
  int64_t x = (*magnitudes)[0], y = (*magnitudes)[1];
  constexpr int64_t kMost = INT16_MAX;
  if (level.machine == repro_runtime::Machine::AArch64)
    return kMost / (x * y);
  // x86 adds two products at a time, with saturation. x is offset by 128, so
  // the sum of two products must fit in i16 even with the offset.
  return 2 * (128 + x) * y > kMost ? 0 : kMost / (2 * x * y);
}

static Product chooseProduct(const Level &level, BlockContractionOp op,
                             int64_t block) {
  if (!op.getFractionBits())
    return Product::floats;
  auto isByte = [&](unsigned input) {
    return getElementTypeOrSelf(op.getInputs()[input].getType()).isInteger(8);
  };
  if (isByte(0) && isByte(2) && block % 4 == 0) {
    if (level.hasByteDots)
      return Product::bytes;
    if (getMostGroupedWords(level, op) > 0)
      return Product::groupedBytes;
  }
  return level.machine == repro_runtime::Machine::X86_64 ? Product::halves
                                                         : Product::words;
}

BlockContraction::BlockContraction(HostBuilder &b, BlockContractionOp op)
    : b(b), op(op), results(cast<MemRefType>(op.getOutputs()[0].getType())),
      rank(results.getRank()), m(results.getDimSize(rank - 2)),
      n(results.getDimSize(rank - 1)),
      k(cast<MemRefType>(op.getInputs()[0].getType()).getDimSize(rank - 1)),
      block(std::min<int64_t>(op.getBlock(), std::max<int64_t>(k, 1))),
      product(chooseProduct(b.getLevel(), op, block)),
      lanes(isFloat() ? b.getNativeLanes(b.getF64Type()) : b.getLanes()) {
  blockWords = block / perWord();
  blocks = k / block;
  groupWords = std::max<int64_t>(blockWords, 1);
  if (isGrouped()) {
    groupWords =
        std::min(getMostGroupedWords(b.getLevel(), op), kUnrolledWords);
    while (blockWords % groupWords)
      --groupWords;
  }
  tileRows = isFloat() && b.getLevel().vectorRegisters >= 32 ? 6 : 4;
  segmentBlocks =
      std::clamp<int64_t>(kMostWords / std::max<int64_t>(blockWords, 1), 1,
                          std::max<int64_t>(blocks, 1));
  int64_t rowBytes =
      (isFloat() ? 8 : 4) * segmentBlocks * std::max<int64_t>(blockWords, 1);
  int64_t most = std::max(b.getLevel().l2Bytes / rowBytes /
                              (isFloat() ? kFloatRowsOfCache : kRowsOfCache),
                          tileRows);
  blockRows = std::min<int64_t>(llvm::alignTo(m, tileRows),
                                llvm::alignDown(most, tileRows));
  if (blockRows == 0)
    return;
  rowBlocks = llvm::divideCeil(m, blockRows);
  panels = llvm::divideCeil(n, panelWidth());
  int64_t others =
      rowBlocks * ShapedType::getNumElements(results.getShape().drop_back(2));
  shares = std::clamp<int64_t>(
      llvm::divideCeil(kManyItems, std::max<int64_t>(others, 1)), 1,
      llvm::divideCeil(std::max<int64_t>(panels, 1), kManyPanels));
}

Value BlockContraction::getOffset(const Access &access, Value row,
                                  Value column) {
  SmallVector<Value> at(batch);
  at.append({row, column});
  return b.getOffset(access, at);
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

Value BlockContraction::loadWords(const Access &codes, Value offset,
                                  int64_t count) {
  int64_t elements = count * perWord();
  Value loaded = b.loadVector(codes.buffer, codes.element, offset, 1, elements);
  if (isFloat())
    return b.convertFloat(b.convertFloat(loaded, b.getF32Type()),
                          b.getF64Type());
  Type part = b.getIntegerType(32 / perWord());
  if (part != codes.element)
    loaded =
        arith::ExtSIOp::create(b, VectorType::get({elements}, part), loaded);
  return vector::BitCastOp::create(b, VectorType::get({count}, b.getI32Type()),
                                   loaded);
}

void BlockContraction::beginSegment(Value block) {
  firstBlock = block;
  numBlocks = b.min(b.sub(b.index(blocks), block), b.index(segmentBlocks));
  numWords = b.mul(numBlocks, blockWords);
}

void BlockContraction::forWords(
    function_ref<void(Value word, int64_t count)> body) {
  b.forVectors(b.index(0), numWords, lanes, body);
}

void BlockContraction::packRows(Value begin, Value count) {
  b.loop(b.index(0), count, 1, [&](Value local) {
    Value from = getOffset(x, b.add(begin, local), b.mul(firstBlock, block));
    Value to = b.mul(local, segmentBlocks * blockWords);
    forWords([&](Value word, int64_t count) {
      Value loaded = loadWords(x, b.add(from, b.mul(word, perWord())), count);
      if (hasUnsignedRows()) {
        Value signs = b.constant(DenseElementsAttr::get(
            cast<VectorType>(loaded.getType()), APInt(32, 0x80808080)));
        loaded = arith::XOrIOp::create(b, loaded, signs);
      }
      b.storeVector(loaded, rows, b.add(to, word), 1);
    });
  });
}

void BlockContraction::packCodes(ArrayRef<Value> columnsOfLanes, Value vector) {
  forWords([&](Value word, int64_t count) {
    SmallVector<Value> loaded;
    for (Value column : columnsOfLanes) {
      Value from = getOffset(
          y, column, b.add(b.mul(firstBlock, block), b.mul(word, perWord())));
      loaded.push_back(loadWords(y, from, count));
    }
    for (auto [i, value] : llvm::enumerate(b.transpose(loaded))) {
      Value to = b.add(b.mul(b.add(word, i), kTileVectors), vector);
      b.storeVector(value, columns, b.mul(to, lanes), 1);
    }
  });
}

void BlockContraction::packPanel(Value panel) {
  Value first = b.mul(panel, panelWidth());
  b.loop(b.index(0), b.index(kTileVectors), 1, [&](Value vector) {
    SmallVector<Value> lanesOf;
    for (int64_t lane = 0; lane < lanes; ++lane)
      lanesOf.push_back(b.min(b.add(b.add(first, b.mul(vector, lanes)), lane),
                              b.index(n - 1)));
    packCodes(lanesOf, vector);
    b.loop(b.index(0), numBlocks, 1, [&](Value block) {
      SmallVector<Value> offsets;
      for (Value column : lanesOf)
        offsets.push_back(getOffset(yScales, b.div(column, op.getRows()[1]),
                                    b.add(firstBlock, block)));
      Value scales = b.gather(yScales.buffer, b.getF32Type(), offsets);
      Value to = b.mul(b.add(b.mul(block, kTileVectors), vector), lanes);
      b.storeVector(scales, columnScales, to, 1);
    });
  });
  if (!hasUnsignedRows())
    return;
  // The offset of the rows' bytes increases each sum by 128 times the sum of
  // the columns' bytes. Stores this correction for each group of words.
  VectorType words = getWordsType(lanes);
  Value zero = b.zero(getSumsType());
  Value signs =
      b.constant(DenseElementsAttr::get(words, APInt(32, 0x80808080)));
  b.loop(b.index(0), b.div(numWords, groupWords), 1, [&](Value group) {
    Value from = b.mul(group, groupWords);
    SmallVector<Value> sums =
        b.loop(b.index(0), b.index(groupWords), 1,
               SmallVector<Value>(kTileVectors, zero),
               [&](Value word, ValueRange sums) {
                 SmallVector<Value> next;
                 Value at = b.mul(b.add(from, word), panelWidth());
                 for (auto [v, sum] : llvm::enumerate(sums))
                   next.push_back(
                       multiplyAdd(signs,
                                   b.loadVector(columns, b.getI32Type(),
                                                b.add(at, v * lanes), 1, lanes),
                                   sum));
                 return next;
               });
    for (auto [v, sum] : llvm::enumerate(sums)) {
      Value negated = arith::SubIOp::create(b, zero, sum);
      b.storeVector(vector::BitCastOp::create(b, words, negated), corrections,
                    b.add(b.mul(group, panelWidth()), v * lanes), 1);
    }
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value BlockContraction::call(StringRef intrinsic, Type result,
                             ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, result, b.getStringAttr(intrinsic),
                                       operands)
      .getResult(0);
}

Value BlockContraction::multiplyAdd(Value row, Value column, Value sum) {
  if (isFloat()) {
    // With or without fma, the bits are the same, because products and sums are
    // exact here.
    if (b.getLevel().hasFma)
      return math::FmaOp::create(b, row, column, sum);
    return arith::AddFOp::create(b, sum, arith::MulFOp::create(b, row, column));
  }
  auto type = cast<VectorType>(sum.getType());
  if (product == Product::words) {
    Value multiplied = arith::MulIOp::create(b, row, column);
    return arith::AddIOp::create(b, sum, multiplied);
  }
  auto parts =
      VectorType::get({lanes * perWord()}, b.getIntegerType(32 / perWord()));
  row = vector::BitCastOp::create(b, parts, row);
  column = vector::BitCastOp::create(b, parts, column);
  if (product == Product::bytes)
    return call(isArm()
                    ? "llvm.aarch64.neon.sdot.v4i32.v16i8"
                    : "llvm.x86.avx512.vpdpbusd." + std::to_string(32 * lanes),
                type, {sum, row, column});
  if (product == Product::halves && b.getLevel().hasByteDots)
    return call("llvm.x86.avx512.vpdpwssd." + std::to_string(32 * lanes), type,
                {sum, row, column});
  Value products;
  if (isGrouped() && isArm()) {
    products = arith::MulIOp::create(b, arith::ExtSIOp::create(b, type, row),
                                     arith::ExtSIOp::create(b, type, column));
  } else if (isGrouped()) {
    products = call(lanes == 4   ? "llvm.x86.ssse3.pmadd.ub.sw.128"
                    : lanes == 8 ? "llvm.x86.avx2.pmadd.ub.sw"
                                 : "llvm.x86.avx512.pmaddubs.w.512",
                    type, {row, column});
  } else {
    products = addNeighbours(row, column);
  }
  return arith::AddIOp::create(b, sum, products);
}

Value BlockContraction::addNeighbours(Value x, Value y) {
  return call(lanes == 4   ? "llvm.x86.sse2.pmadd.wd"
              : lanes == 8 ? "llvm.x86.avx2.pmadd.wd"
                           : "llvm.x86.avx512.pmaddw.d.512",
              getWordsType(lanes), {x, y});
}

Value BlockContraction::widen(Value sums) {
  if (!isGrouped())
    return sums;
  auto type = cast<VectorType>(sums.getType());
  if (!isArm())
    return addNeighbours(
        sums, b.constant(DenseElementsAttr::get(type, b.getI16IntegerAttr(1))));
  auto halves = VectorType::get({type.getDimSize(0) / 2}, b.getIntegerType(16));
  SmallVector<Value> pairs;
  for (int64_t half : {0, 1})
    pairs.push_back(call(
        "llvm.aarch64.neon.saddlp.v4i32.v8i16", getWordsType(lanes),
        vector::ExtractStridedSliceOp::create(
            b, sums, {half * halves.getDimSize(0)}, {halves.getDimSize(0)}, {1})
            .getResult()));
  return call("llvm.aarch64.neon.addp.v4i32", getWordsType(lanes), pairs);
}

SmallVector<Value> BlockContraction::multiplyAdd(Value local, int64_t rowCount,
                                                 Value word, ValueRange sums) {
  SmallVector<Value> loaded, next;
  for (int64_t v = 0; v < kTileVectors; ++v)
    loaded.push_back(b.loadVector(columns, getWordType(),
                                  b.add(b.mul(word, panelWidth()), v * lanes),
                                  1, lanes));
  for (int64_t i = 0; i < rowCount; ++i) {
    Value at = b.add(b.mul(b.add(local, i), segmentBlocks * blockWords), word);
    Value row = b.broadcast(b.load(rows, getWordType(), at), lanes);
    for (Value column : loaded)
      next.push_back(multiplyAdd(row, column, sums[next.size()]));
  }
  return next;
}

SmallVector<Value> BlockContraction::emitGroup(Value local, int64_t rowCount,
                                               Value group) {
  SmallVector<Value> sums(rowCount * kTileVectors, b.zero(getSumsType()));
  if (hasUnsignedRows())
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value at = b.add(b.mul(group, panelWidth()), i % kTileVectors * lanes);
      sum = vector::BitCastOp::create(
          b, getSumsType(),
          b.loadVector(corrections, b.getI32Type(), at, 1, lanes));
    }
  Value first = b.mul(group, groupWords);
  if (groupWords > kUnrolledWords)
    return b.loop(b.index(0), b.index(groupWords), 1, sums,
                  [&](Value word, ValueRange carried) {
                    return multiplyAdd(local, rowCount, b.add(first, word),
                                       carried);
                  });
  for (int64_t word = 0; word < groupWords; ++word)
    sums = multiplyAdd(local, rowCount, b.add(first, word), sums);
  return sums;
}

SmallVector<Value> BlockContraction::emitDots(Value local, int64_t rowCount,
                                              Value block) {
  int64_t groups = blockWords / groupWords;
  Value first = b.mul(block, groups);
  SmallVector<Value> dots = emitGroup(local, rowCount, first);
  for (Value &dot : dots)
    dot = widen(dot);
  auto addGroup = [&](Value group, ValueRange dots) {
    SmallVector<Value> sums = emitGroup(local, rowCount, b.add(first, group));
    for (auto [sum, dot] : llvm::zip_equal(sums, dots))
      sum = arith::AddIOp::create(b, dot, widen(sum));
    return sums;
  };
  if (groups > 1 && blockWords > kUnrolledWords)
    return b.loop(b.index(1), b.index(groups), 1, dots, addGroup);
  for (int64_t group = 1; group < groups; ++group)
    dots = addGroup(b.index(group), dots);
  return dots;
}

void BlockContraction::emitTile(Value row, Value local, int64_t rowCount,
                                Value panel) {
  Type f32 = b.getF32Type();
  auto floats = VectorType::get({lanes}, f32);
  int64_t count = rowCount * kTileVectors;
  auto addBlock = [&](Value block, ValueRange sums) {
    SmallVector<Value> dots = emitDots(local, rowCount, block);
    SmallVector<Value> next;
    for (int64_t i = 0; i < rowCount; ++i) {
      Value scaleRow = b.div(b.add(row, i), op.getRows()[0]);
      Value rowScale = b.broadcast(
          b.load(xScales.buffer, f32,
                 getOffset(xScales, scaleRow, b.add(firstBlock, block))),
          lanes);
      for (int64_t v = 0; v < kTileVectors; ++v) {
        Value dot = dots[next.size()];
        if (isFloat())
          dot = arith::TruncFOp::create(b, floats, dot);
        else
          dot = arith::SIToFPOp::create(b, floats, dot);
        if (int64_t bits = op.getFractionBits().value_or(0)) {
          auto unit = b.getF32FloatAttr(std::ldexp(1.0f, -int(bits)));
          dot = arith::MulFOp::create(
              b, dot, b.constant(DenseElementsAttr::get(floats, unit)));
        }
        Value at = b.add(b.mul(block, panelWidth()), v * lanes);
        Value scale = arith::MulFOp::create(
            b, rowScale, b.loadVector(columnScales, f32, at, 1, lanes));
        Value sum = sums[next.size()];
        if (op.getStep() == BlockStep::fused)
          sum = math::FmaOp::create(b, dot, scale, sum);
        else
          sum = arith::AddFOp::create(b, sum,
                                      arith::MulFOp::create(b, dot, scale));
        next.push_back(sum);
      }
    }
    return next;
  };
  auto beginAtZero = [&] { return SmallVector<Value>(count, b.zero(floats)); };
  if (!hasSegments()) {
    writeResults(row, rowCount, panel,
                 b.loop(b.index(0), numBlocks, 1, beginAtZero(), addBlock));
    return;
  }
  auto getPlace = [&](int64_t i) {
    return b.add(b.mul(local, panelWidth()), i * lanes);
  };
  SmallVector<Value> starts =
      b.choose(b.equal(firstBlock, b.index(0)), beginAtZero, [&] {
        SmallVector<Value> sums;
        for (int64_t i = 0; i < count; ++i)
          sums.push_back(b.loadVector(totals, f32, getPlace(i), 1, lanes));
        return sums;
      });
  SmallVector<Value> sums = b.loop(b.index(0), numBlocks, 1, starts, addBlock);
  b.when(
      b.equal(b.add(firstBlock, numBlocks), b.index(blocks)),
      [&] { writeResults(row, rowCount, panel, sums); },
      [&] {
        for (auto [i, sum] : llvm::enumerate(sums))
          b.storeVector(sum, totals, getPlace(i), 1);
      });
}

void BlockContraction::writeResults(Value row, int64_t rowCount, Value panel,
                                    ArrayRef<Value> sums) {
  Type f32 = b.getF32Type();
  for (int64_t v = 0; v < kTileVectors; ++v) {
    Value column = b.add(b.mul(panel, panelWidth()), v * lanes);
    LaneMask mask;
    if (n % panelWidth())
      mask = b.getMask(
          b.max(b.min(b.sub(b.index(n), column), b.index(lanes)), b.index(0)),
          lanes);
    for (int64_t i = 0; i < rowCount; ++i) {
      Value at = getOffset(output, b.add(row, i), column);
      Value init = b.loadVector(output.buffer, f32, at, 1, lanes, mask);
      Value result = arith::AddFOp::create(b, init, sums[i * kTileVectors + v]);
      b.storeVector(b.canonicalizeNaN(result), output.buffer, at, 1, mask);
    }
  }
}

void BlockContraction::emitPanel(Value begin, Value count, Value panel) {
  packPanel(panel);
  Value full = b.sub(count, b.rem(count, tileRows));
  b.loop(b.index(0), full, tileRows, [&](Value local) {
    emitTile(b.add(begin, local), local, tileRows, panel);
  });
  b.loop(full, count, 1,
         [&](Value local) { emitTile(b.add(begin, local), local, 1, panel); });
}

void BlockContraction::expand() {
  AffineMap identity = b.getMultiDimIdentityMap(rank);
  x = b.getAccess(op.getInputs()[0], identity);
  xScales = b.getAccess(op.getInputs()[1], identity);
  y = b.getAccess(op.getInputs()[2], identity);
  yScales = b.getAccess(op.getInputs()[3], identity);
  output = b.getAccess(op.getOutputs()[0], identity);
  int64_t words = segmentBlocks * blockWords;
  rows = b.getScratch(getWordType(), blockRows * words);
  columns = b.getScratch(getWordType(), words * panelWidth());
  columnScales = b.getScratch(b.getF32Type(), segmentBlocks * panelWidth());
  if (hasUnsignedRows())
    corrections =
        b.getScratch(b.getI32Type(), words / groupWords * panelWidth());
  if (hasSegments())
    totals = b.getScratch(b.getF32Type(), blockRows * panelWidth());

  SmallVector<int64_t> items(results.getShape().drop_back(2));
  items.append({rowBlocks, shares});
  int64_t sharePanels = llvm::divideCeil(panels, shares);
  b.forEachItem([&](Value item) {
    batch = b.delinearize(item, items);
    Value share = batch.pop_back_val();
    Value begin = b.mul(batch.pop_back_val(), blockRows);
    Value count = b.min(b.sub(b.index(m), begin), b.index(blockRows));
    if (!hasSegments()) {
      beginSegment(b.index(0));
      packRows(begin, count);
    }
    Value firstPanel = b.mul(share, sharePanels);
    Value endPanel = b.min(b.add(firstPanel, sharePanels), b.index(panels));
    b.loop(firstPanel, endPanel, 1, [&](Value panel) {
      if (!hasSegments()) {
        emitPanel(begin, count, panel);
        return;
      }
      b.loop(b.index(0), b.index(blocks), segmentBlocks, [&](Value block) {
        beginSegment(block);
        packRows(begin, count);
        emitPanel(begin, count, panel);
      });
    });
  });
  b.setWork(getProduct(items), 1);
}

void repro::cpu::expandBlockContraction(HostBuilder &b, BlockContractionOp op) {
  if (op.getAccumulator()) {
    if (failed(expandAccumulatedBlocks(b, op)))
      expandLiteralBlockContraction(b, op);
    return;
  }
  BlockContraction contraction(b, op);
  if (contraction.isSupported())
    contraction.expand();
  else
    expandLiteralBlockContraction(b, op);
}
