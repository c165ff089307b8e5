//===- ContractionTile.cpp - The multiply-adds of one tile ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// If a strip has fewer tiles than this number, each tile would prefetch too
/// many columns at once.
static constexpr int64_t kManyTiles = 32;
/// The maximum number of multiply-adds per vector register in the innermost
/// loop body. Short bodies are slow if another thread uses half of the decoder;
/// in long ones, loads are scheduled so early that vectors are spilled.
static constexpr int64_t kUnrolledPerRegister = 3;

Tile ContractionKernel::locateTile(Value row, int64_t rowCount, Value panel,
                                   ArrayRef<PanelVector> vectors,
                                   const KBlock &kBlock) {
  Value local = b.sub(row, firstRow);
  Tile tile{row, rowCount, panel, vectors, kBlock};
  tile.number = b.div(local, config.tileRows);
  if (config.rowsPacked)
    tile.packedRows = b.add(
        getPackedRows(kBlock.start, kBlock.chunk),
        b.mul(config.rowsAlongRows ? tile.number : local, config.rowStride));
  else
    for (int64_t x = 0; x < rowCount; ++x)
      tile.rowOffsets.push_back(
          b.add(rowBase[0], getRowOffset(b.add(row, x), rowPositions, 0)));
  tile.masks.resize(vectors.size());
  if (config.masked && !config.columnsPacked)
    for (auto [mask, vector] : llvm::zip_equal(tile.masks, vectors))
      if (vector.count)
        mask = b.getMask(vector.count, lanes);
  return tile;
}

Value ContractionKernel::getSumsOffset(const Tile &tile) {
  int64_t width = config.tileVectors * lanes;
  Value slot = b.mul(b.sub(tile.row, firstRow), width);
  if (config.kBlocksOutside)
    slot = b.add(
        slot, b.mul(b.sub(tile.panel, firstPanel), config.stripRows * width));
  return slot;
}

void ContractionKernel::emitTile(Value row, int64_t rowCount, Value panel,
                                 ArrayRef<PanelVector> vectors,
                                 const KBlock &kBlock) {
  Tile tile = locateTile(row, rowCount, panel, vectors, kBlock);
  Value slot = getSumsOffset(tile);
  auto beginAtZero = [&] { // (F4)
    return SmallVector<Value>(rowCount * vectors.size(),
                              b.zero(VectorType::get({lanes}, type)));
  };
  auto goOn = [&] {
    SmallVector<Value> sums;
    for (size_t i = 0; i < rowCount * vectors.size(); ++i)
      sums.push_back(
          b.loadVector(kBlockSums, type, b.add(slot, i * lanes), 1, lanes));
    return sums;
  };
  // Whether accumulators start at zero is decided at run time: separate code
  // for the first K-block would double the code size.
  SmallVector<Value> starts =
      config.hasKBlocks() ? b.choose(b.equal(kBlock.start, kBlock.chunk.start),
                                     beginAtZero, goOn)
                          : beginAtZero();
  SmallVector<Value> sums = emitSums(tile, starts);
  if (!config.hasKBlocks()) {
    finishTile(tile, sums);
    return;
  }
  b.when(
      b.equal(kBlock.end, kBlock.chunk.end), [&] { finishTile(tile, sums); },
      [&] {
        for (auto [i, sum] : llvm::enumerate(sums))
          b.storeVector(sum, kBlockSums, b.add(slot, i * lanes), 1);
      });
}

SmallVector<Value> ContractionKernel::emitSums(const Tile &tile,
                                               ValueRange starts) {
  const KBlock &kBlock = tile.kBlock;
  prefetchResults(tile);
  // Prefetches the rows of the next tile and a share of the next K-block's
  // columns. If there are few tiles, the prefetches of the share are spread
  // over this tile's loop, because an L1 cache handles at most 10 to 16 misses
  // at a time.
  bool prefetchesRows = config.rowsPacked || config.rowsInPlace;
  bool spreadsColumns =
      kBlock.next.start && prefetchesRows && config.stripTiles < kManyTiles;
  if (kBlock.next.start && !spreadsColumns)
    prefetchColumns(tile.number, config.stripTiles, kBlock.next);
  auto step = [&](Value k, ValueRange sums) {
    return multiplyAdd(tile, k, sums);
  };
  if (!prefetchesRows)
    return b.loop(kBlock.start, kBlock.end, 1, starts, step);
  int64_t line = b.getLineElements(type);
  auto prefetchLine = [&](Value start) {
    prefetchRows(tile, start);
    prefetchSums(tile, start);
    if (spreadsColumns) {
      int64_t lines = llvm::divideCeil(config.kBlockSize, line);
      Value share = b.add(b.mul(tile.number, lines),
                          b.div(b.sub(start, kBlock.start), line));
      prefetchColumns(share, config.stripTiles * lines, kBlock.next);
    }
  };
  int64_t count = 1;
  // Unrolls only where vectors are long: other targets may expand each
  // multiply-add to many instructions.
  if (b.getLanes() >= 8)
    count = std::clamp<int64_t>(
        llvm::bit_floor(uint64_t(kUnrolledPerRegister *
                                 b.getLevel().vectorRegisters / starts.size())),
        1, line);
  auto unrolled = [&](Value k, ValueRange sums) {
    SmallVector<Value> next(sums);
    for (int64_t i = 0; i < count; ++i)
      next = multiplyAdd(tile, b.add(k, i), next);
    return next;
  };
  Value rest = b.rem(b.sub(kBlock.end, kBlock.start), line);
  Value full = b.sub(kBlock.end, rest);
  SmallVector<Value> ofLines = b.loop(
      kBlock.start, full, line, starts, [&](Value start, ValueRange sums) {
        prefetchLine(start);
        return b.loop(start, b.add(start, line), count, sums, unrolled);
      });
  b.when(b.less(full, kBlock.end), [&] { prefetchLine(full); });
  return b.loop(full, kBlock.end, 1, ofLines, step);
}

SmallVector<Value> ContractionKernel::multiplyAdd(const Tile &tile, Value k,
                                                  ValueRange sums) {
  SmallVector<Value> columnVectors = loadColumns(tile, k), next;
  Value rowOffset;
  if (!config.rowsPacked)
    rowOffset = getReductionOffset(rows, rowTable, k);
  for (int64_t x = 0; x < tile.rowCount; ++x) {
    Value element = b.broadcast(loadRow(tile, x, k, rowOffset), lanes);
    for (Value column : columnVectors)
      next.push_back(
          math::FmaOp::create(b, element, column, sums[next.size()]));
  }
  return next;
}

Value ContractionKernel::loadRow(const Tile &tile, int64_t x, Value k,
                                 Value offset) {
  if (!config.rowsPacked)
    return b.load(fold.inputs[rows.inputs[0]].buffer, type,
                  b.add(tile.rowOffsets[x], offset));
  Value local = b.sub(k, tile.kBlock.start);
  if (config.rowsAlongRows)
    return b.load(
        block, type,
        b.add(b.add(tile.packedRows, b.mul(local, config.tileRows)), x));
  return b.load(block, type,
                b.add(b.add(tile.packedRows, x * config.rowStride), local));
}

SmallVector<Value> ContractionKernel::loadColumns(const Tile &tile, Value k) {
  SmallVector<Value> columnVectors;
  Value offset =
      config.columnsPacked
          ? b.mul(b.sub(k, tile.kBlock.start), config.tileVectors * lanes)
          : getReductionOffset(columns, columnTable, k);
  for (auto [vector, mask] : llvm::zip_equal(tile.vectors, tile.masks))
    columnVectors.push_back(
        config.columnsPacked
            ? b.loadVector(panelBuffer, type, b.add(vector.packed, offset), 1,
                           lanes)
            : b.loadVector(fold.inputs[columns.inputs[0]].buffer, type,
                           b.add(vector.leafOffsets[0], offset), 1, lanes,
                           mask));
  return columnVectors;
}

//===----------------------------------------------------------------------===//
// Prefetching
//===----------------------------------------------------------------------===//

void ContractionKernel::prefetchRows(const Tile &tile, Value k) {
  if (!config.rowsPacked) {
    Value next = b.add(getReductionOffset(rows, rowTable, k), getTileStride());
    for (Value offset : tile.rowOffsets)
      b.prefetch(fold.inputs[rows.inputs[0]].buffer, b.add(offset, next),
                 /*isWrite=*/false);
    return;
  }
  // The first panel packs the next rows, so it prefetches their elements from
  // the factor, unless computing their addresses takes divisions.
  if (!config.rowsAlongRows && rows.loops.size() == 1 &&
      rows.reduction.size() == 1)
    b.when(b.equal(tile.panel, firstPanel), [&] {
      for (auto [i, leaf] : llvm::enumerate(rows.inputs)) {
        int64_t step = rows.loops[0].coefficients[i];
        int64_t next = rows.reduction[0].coefficients[i];
        if (step == 0 || next == 0)
          continue;
        Value base = b.add(rowBase[i], b.mul(k, next));
        for (int64_t x = 0; x < config.tileRows; ++x)
          b.prefetch(
              fold.inputs[leaf].buffer,
              b.add(base, b.mul(b.add(tile.row, config.tileRows + x), step)),
              /*isWrite=*/false);
      }
    });
  Value local = b.sub(k, tile.kBlock.start);
  int64_t step =
      config.rowsAlongRows ? b.getLineElements(type) : config.rowStride;
  Value offset =
      b.add(b.add(tile.packedRows, getTileStride()),
            config.rowsAlongRows ? b.mul(local, config.tileRows) : local);
  for (int64_t x = 0; x < config.tileRows; ++x)
    b.prefetch(block, b.add(offset, x * step), /*isWrite=*/false);
}

void ContractionKernel::prefetchSums(const Tile &tile, Value k) {
  if (!config.hasKBlocks() || config.kBlocksOutside)
    return;
  int64_t sums = config.tileRows * config.tileVectors;
  int64_t lines = llvm::divideCeil(config.kBlockSize, b.getLineElements(type));
  int64_t count = llvm::divideCeil(sums, lines);
  Value line = b.div(b.sub(k, tile.kBlock.start), b.getLineElements(type));
  Value first = b.add(b.mul(b.add(tile.number, 1), sums), b.mul(line, count));
  for (int64_t i = 0; i < count; ++i)
    b.prefetch(kBlockSums, b.mul(b.add(first, i), lanes), /*isWrite=*/true);
}

void ContractionKernel::prefetchColumns(Value share, int64_t shares,
                                        const NextKBlock &next) {
  // Columns of an image overlap, so their elements are cached already.
  if (columns.reduction.size() > 1)
    return;
  unsigned leaves = columns.inputs.size();
  // Returns the first element of the share and the number of elements.
  auto getShare = [&](int64_t all) {
    int64_t count = llvm::divideCeil(all, shares);
    return std::make_pair(b.mul(share, count), count);
  };
  auto prefetch = [&](unsigned leaf, Value offset) {
    b.prefetch(fold.inputs[columns.inputs[leaf]].buffer, offset,
               /*isWrite=*/false);
  };
  auto getOffset = [&](Value k, unsigned leaf) {
    return getLoopOffset(b, columns.reduction,
                         b.delinearize(k, getSizes(columns.reduction)), leaf);
  };
  if (!config.transposed) {
    auto [first, count] = getShare(config.kBlockSize);
    for (int64_t i = 0; i < count; ++i) {
      Value k = b.add(next.start, b.add(first, i));
      for (unsigned leaf = 0; leaf < leaves; ++leaf)
        if (columns.loops.back().coefficients[leaf] == 1)
          for (const PanelVector &vector : next.vectors)
            prefetch(leaf, b.add(vector.leafOffsets[leaf], getOffset(k, leaf)));
    }
    return;
  }
  if (columns.loops.size() > 1)
    return;
  auto [first, count] = getShare(config.tileVectors * lanes);
  for (unsigned leaf = 0; leaf < leaves; ++leaf) {
    if (columns.reduction.back().coefficients[leaf] != 1)
      continue;
    Value base = b.add(next.vectors.front().leafOffsets[leaf],
                       getOffset(next.start, leaf));
    for (int64_t i = 0; i < count; ++i) {
      Value column =
          b.mul(b.add(first, i), columns.loops.back().coefficients[leaf]);
      for (int64_t k = 0; k < config.kBlockSize; k += b.getLineElements(type))
        prefetch(leaf, b.add(base, b.add(column, k)));
    }
  }
}

int64_t ContractionKernel::getTileStride() const {
  if (config.rowsPacked && config.rowsAlongRows)
    return config.rowStride;
  return config.tileRows *
         (config.rowsPacked ? config.rowStride : rows.loops[0].coefficients[0]);
}
