//===- ContractionKernel.cpp - fma folds in register tiles ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"

#include "Codegen/CPU/Kernels/StructuredKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// Most rows of an item: a chunk of 512 of them is a MiB, half of a second
/// cache.
static constexpr int64_t kBlockRows = 504;
/// Most columns of an item: the rows are packed once for all of them. Fewer
/// where their totals are kept from chunk to chunk.
static constexpr int64_t kBlockColumns = 1024, kChunkedBlockColumns = 512;
/// Vectors of neighbouring panels that are packed together: what is read of one
/// k lies side by side.
static constexpr int64_t kGroupVectors = 8;
/// Between the rows, tiles and panels of packed factors, in elements.
static constexpr int64_t kSlack = 16;

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

double ContractionKernel::getUse(const Factor &factor) const {
  if (factor.loops.empty())
    return 1.0 / lanes;
  int64_t inner = factor.loops.back().size;
  return double(inner) / (llvm::divideCeil(inner, lanes) * lanes);
}

LogicalResult ContractionKernel::match() {
  if (failed(matchFactors()))
    return failure();
  lanes = b.getNativeLanes(type);
  // fma(x, y, acc) = fma(y, x, acc): vectors go where they are used best, then
  // where results lie next to each other.
  auto isContiguous = [&](const Factor &factor) {
    return !factor.loops.empty() &&
           factor.loops.back().coefficients.back() == 1;
  };
  double rowUse = getUse(rows), columnUse = getUse(columns);
  if (isContiguous(rows))
    rowUse *= 1.3;
  if (isContiguous(columns))
    columnUse *= 1.3;
  if (rowUse > columnUse)
    std::swap(rows, columns);
  if (columns.loops.empty())
    return failure();

  collapseBatch();
  chooseTiles();
  choosePacking();
  chooseItems();
  return success();
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void ContractionKernel::chooseTiles() {
  int64_t inner = columns.loops.back().size;
  rowVectors = llvm::divideCeil(inner, lanes);
  vectorCount = columns.size / inner * rowVectors;
  // Accumulators and rows that the registers hold: 32 of 512 bits, else 16.
  int64_t target = b.getTarget().lanes;
  int64_t accumulators = target >= 16 ? 24 : target >= 8 ? 12 : 8;
  int64_t most = target >= 16 ? 12 : target >= 8 ? 6 : 4;
  if (rows.size < most) {
    tileRows = rows.size;
    tileVectors = std::min<int64_t>(accumulators / tileRows, 8);
  } else {
    tileRows = most;
    tileVectors = 2;
  }
  tileVectors = std::min(tileVectors, vectorCount);
  panels = llvm::divideCeil(vectorCount, tileVectors);
  masked = inner % lanes != 0 || vectorCount % tileVectors != 0;
}

void ContractionKernel::choosePacking() {
  span = std::min(fold.chunk, fold.n);
  int64_t tiles = llvm::divideCeil(rows.size, tileRows);
  auto isElement = [&](const Factor &factor) {
    return factor.operations == 0 && factor.leaves.size() == 1 &&
           fold.inputs[factor.leaves[0]].isMemory();
  };
  // What one chunk of K spans in memory decides on whether the pages and lines
  // that a factor is read from stay at hand.
  auto getReach = [&](const Factor &factor) -> int64_t {
    if (factor.reduction.empty())
      return 0;
    return std::abs(factor.reduction.back().coefficients[0]) * 4 *
           std::min(span, factor.reduction.back().size);
  };
  rowsAlongRows = !isAlongReduction(rows) && rows.loops.size() == 1;
  // Rows that are far apart fall into few sets of a cache; and what is packed
  // is read many times.
  rowsPacked =
      !isElement(rows) || panels > 3 ||
      (!isAlongReduction(rows) && panels > 2 && getReach(rows) > 131072);
  int64_t step = columns.loops.back().coefficients[0];
  bool contiguous = isElement(columns) && step == 1;
  columnsPacked =
      !contiguous || (masked && lanes * type.getIntOrFloatBitWidth() < 256) ||
      (tiles > 2 && columns.reduction.size() <= 1 && getReach(columns) > 65536);
  transposed = columnsPacked && !contiguous && columns.operations <= 3 &&
               isAlongReduction(columns) && !columns.reduction.empty() &&
               columns.reduction.back().size >= lanes / 2 &&
               llvm::any_of(llvm::seq<unsigned>(columns.leaves.size()),
                            [&](unsigned leaf) {
                              int64_t step =
                                  columns.loops.back().coefficients[leaf];
                              return step != 0 && step != 1;
                            });
  rowStride = (rowsAlongRows ? tileRows : 1) * span + std::max(lanes, kSlack);
  // Transposing writes whole vectors of K.
  panelStride =
      tileVectors * lanes * (span + (transposed ? lanes : 0)) + kSlack;
}

void ContractionKernel::chooseItems() {
  int64_t panelWidth = tileVectors * lanes;
  int64_t tiles = llvm::divideCeil(rows.size, tileRows);
  int64_t blockTiles = std::min<int64_t>(tiles, kBlockRows / tileRows);
  blockPanels = std::min<int64_t>(
      panels, std::max<int64_t>(
                  (fold.n > fold.chunk ? kChunkedBlockColumns : kBlockColumns) /
                      panelWidth,
                  1));
  int64_t batchSize = getProduct(getSizes(batch));
  auto countItems = [&] {
    return batchSize * llvm::divideCeil(tiles, blockTiles) *
           llvm::divideCeil(panels, blockPanels);
  };
  auto getWork = [&] {
    return blockTiles * tileRows * blockPanels * panelWidth * fold.n;
  };
  // Enough items for a few threads, none of them tiny.
  while (countItems() < 8 && getWork() > (1 << 21) &&
         (blockTiles > 4 || blockPanels > 1)) {
    if (blockPanels > 1 && blockPanels * panelWidth >= blockTiles * tileRows)
      blockPanels = llvm::divideCeil(blockPanels, 2);
    else if (blockTiles > 4)
      blockTiles = llvm::divideCeil(blockTiles, 2);
    else
      blockPanels = llvm::divideCeil(blockPanels, 2);
  }
  // Where vectors are far apart in any case, one panel at a time will do.
  groupPanels =
      transposed || columns.loops.size() > 1
          ? 1
          : std::clamp<int64_t>(kGroupVectors / tileVectors, 1, blockPanels);
  blockRows = blockTiles * tileRows;
  rowBlocks = llvm::divideCeil(tiles, blockTiles);
  panelBlocks = llvm::divideCeil(panels, blockPanels);
  b.setWork(countItems(), (1 << 18) / std::max<int64_t>(getWork(), 1));
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Value ContractionKernel::fillTable(const Factor &factor) {
  Value table = b.getScratch(b.getIndexType(), fold.n);
  b.loop(b.index(0), b.index(fold.n), 1, [&](Value k) {
    SmallVector<Value> at = b.delinearize(k, getSizes(factor.reduction));
    b.store(getLoopOffset(b, factor.reduction, at, 0), table, k);
  });
  return table;
}

Value ContractionKernel::getReductionOffset(const Factor &factor, Value table,
                                            Value k) {
  if (table)
    return b.load(table, b.getIndexType(), k);
  if (factor.reduction.empty())
    return b.index(0);
  return b.mul(k, factor.reduction[0].coefficients[0]);
}

SmallVector<PanelVector> ContractionKernel::getPanelVectors(Value panel) {
  SmallVector<PanelVector> vectors;
  Value packed = b.mul(b.sub(panel, firstPacked), panelStride);
  for (int64_t v = 0; v < tileVectors; ++v) {
    vectors.push_back(getPanelVector(b.add(b.mul(panel, tileVectors), v)));
    vectors.back().packed = b.add(packed, v * lanes);
  }
  return vectors;
}

PanelVector ContractionKernel::getPanelVector(Value vectorIndex) {
  PanelVector vector;
  Value exists;
  if (vectorCount % tileVectors != 0) {
    exists = b.less(vectorIndex, b.index(vectorCount));
    vectorIndex = b.min(vectorIndex, b.index(vectorCount - 1));
  }
  SmallVector<int64_t> sizes = getSizes(columns.loops);
  int64_t inner = sizes.back();
  sizes.back() = rowVectors;
  SmallVector<Value> at = b.delinearize(vectorIndex, sizes);
  at.back() = b.mul(at.back(), lanes);
  if (masked) {
    vector.count = b.min(b.sub(b.index(inner), at.back()), b.index(lanes));
    if (exists)
      vector.count = b.select(exists, vector.count, b.index(0));
  }
  for (unsigned leaf = 0; leaf < columns.leaves.size(); ++leaf)
    vector.leafOffsets.push_back(
        b.add(columnBase[leaf], getLoopOffset(b, columns.loops, at, leaf)));
  vector.outputOffset =
      getLoopOffset(b, columns.loops, at, columns.leaves.size());
  return vector;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void ContractionKernel::emitTile(Value row, int64_t rowCount, Value panel,
                                 ArrayRef<PanelVector> vectors,
                                 const Chunk &chunk) {
  const Access *rowAccess = nullptr, *columnAccess = nullptr;
  SmallVector<Value> rowOffsets;
  if (!rowsPacked) {
    rowAccess = &fold.inputs[rows.leaves[0]];
    for (int64_t x = 0; x < rowCount; ++x) {
      if (rows.loops.size() <= 1) {
        Value at = getLoopOffset(
            b, rows.loops,
            rows.loops.empty() ? ArrayRef<Value>() : ArrayRef<Value>(row), 0);
        int64_t step = rows.loops.empty() ? 0 : rows.loops[0].coefficients[0];
        rowOffsets.push_back(b.add(b.add(rowBase[0], at), x * step));
        continue;
      }
      SmallVector<Value> at =
          b.delinearize(b.add(row, x), getSizes(rows.loops));
      rowOffsets.push_back(
          b.add(rowBase[0], getLoopOffset(b, rows.loops, at, 0)));
    }
  }
  if (!columnsPacked)
    columnAccess = &fold.inputs[columns.leaves[0]];
  SmallVector<LaneMask> masks(vectors.size());
  if (masked && !columnsPacked)
    for (auto [mask, vector] : llvm::zip_equal(masks, vectors))
      mask = b.getMask(vector.count, lanes);

  Value blockOffset;
  if (rowsPacked) {
    Value local = b.sub(row, firstRow);
    blockOffset =
        b.mul(rowsAlongRows ? b.div(local, tileRows) : local, rowStride);
  }
  Value count = b.sub(chunk.end, chunk.start);
  SmallVector<Value> starts(rowCount * vectors.size(),
                            b.zero(VectorType::get({lanes}, type))); // (F4)
  SmallVector<Value> sums =
      b.loop(b.index(0), count, 1, starts, [&](Value k, ValueRange acc) {
        Value t = b.add(chunk.start, k);
        SmallVector<Value> right, next;
        Value columnOffset;
        if (!columnsPacked)
          columnOffset = getReductionOffset(columns, columnTable, t);
        for (auto [v, vector] : llvm::enumerate(vectors)) {
          if (columnsPacked)
            right.push_back(b.loadVector(
                panelBuffer, type,
                b.add(vector.packed, b.mul(k, tileVectors * lanes)), 1, lanes));
          else
            right.push_back(
                b.loadVector(columnAccess->buffer, type,
                             b.add(vector.leafOffsets[0], columnOffset), 1,
                             lanes, masks[v]));
        }
        Value rowOffset;
        if (!rowsPacked)
          rowOffset = getReductionOffset(rows, rowTable, t);
        for (int64_t x = 0; x < rowCount; ++x) {
          Value left;
          if (!rowsPacked)
            left = b.load(rowAccess->buffer, type,
                          b.add(rowOffsets[x], rowOffset));
          else if (rowsAlongRows)
            left = b.load(block, type,
                          b.add(b.add(blockOffset, b.mul(k, tileRows)), x));
          else
            left = b.load(block, type,
                          b.add(b.add(blockOffset, x * rowStride), k));
          left = b.broadcast(left, lanes);
          for (size_t v = 0; v < vectors.size(); ++v)
            next.push_back(math::FmaOp::create(b, left, right[v],
                                               acc[x * vectors.size() + v]));
        }
        return next;
      });
  finishTile(sums, row, rowCount, panel, vectors, chunk);
}

void ContractionKernel::finishTile(ArrayRef<Value> sums, Value row,
                                   int64_t rowCount, Value panel,
                                   ArrayRef<PanelVector> vectors,
                                   const Chunk &chunk) {
  if (fold.n <= fold.chunk) {
    writeResults(sums, row, rowCount, vectors);
    return;
  }
  int64_t blockTiles = blockRows / tileRows;
  Value tile = b.add(b.mul(b.sub(panel, firstPanel), blockTiles),
                     b.div(b.sub(row, firstRow), tileRows));
  Value base = b.mul(tile, tileRows * tileVectors * lanes);
  auto addTotals = [&] {
    SmallVector<Value> results;
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value total =
          b.loadVector(totals, type, b.add(base, i * lanes), 1, lanes);
      results.push_back(arith::AddFOp::create(b, total, sum));
    }
    return results;
  };
  auto storeTotals = [&](ArrayRef<Value> values) {
    for (auto [i, value] : llvm::enumerate(values))
      b.storeVector(value, totals, b.add(base, i * lanes), 1);
  };
  b.when(
      b.equal(chunk.start, b.index(0)), [&] { storeTotals(sums); },
      [&] {
        SmallVector<Value> results = addTotals();
        b.when(
            b.equal(chunk.end, b.index(fold.n)),
            [&] { writeResults(results, row, rowCount, vectors); },
            [&] { storeTotals(results); });
      });
}

void ContractionKernel::writeResults(ArrayRef<Value> results, Value row,
                                     int64_t rowCount,
                                     ArrayRef<PanelVector> vectors) {
  const Access &output = fold.outputs[0];
  unsigned outputIndex = rows.leaves.size();
  int64_t step = columns.loops.back().coefficients.back();
  for (int64_t x = 0; x < rowCount; ++x) {
    SmallVector<Value> at = b.delinearize(b.add(row, x), getSizes(rows.loops));
    Value rowOffset =
        b.add(outputBase, getLoopOffset(b, rows.loops, at, outputIndex));
    for (auto [v, vector] : llvm::enumerate(vectors)) {
      Value offset = b.add(rowOffset, vector.outputOffset);
      auto write = [&, v = v](LaneMask mask) {
        Value init = fold.getConstantInit(b, 0, lanes);
        if (!init)
          init = b.convertFloat(b.loadVector(output.buffer, output.element,
                                             offset, step, lanes, mask),
                                type);
        Value result =
            arith::AddFOp::create(b, init, results[x * vectors.size() + v]);
        result = b.convertFloat(b.canonicalizeNaN(result), output.element);
        b.storeVector(result, output.buffer, offset, step, mask);
      };
      if (!masked) {
        write({});
        continue;
      }
      Value isFull = b.equal(vector.count, b.index(lanes));
      b.when(
          isFull, [&] { write({}); },
          [&, &vector = vector] {
            // Beyond the end there is nothing to read either.
            b.when(b.less(b.index(0), vector.count),
                   [&] { write(b.getMask(vector.count, lanes)); });
          });
    }
  }
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

void ContractionKernel::emitPanel(Value panel, const Chunk &chunk) {
  SmallVector<PanelVector> vectors = getPanelVectors(panel);
  int64_t rest = rows.size % tileRows;
  Value full = b.min(endRow, b.index(rows.size - rest));
  b.loop(firstRow, full, tileRows,
         [&](Value row) { emitTile(row, tileRows, panel, vectors, chunk); });
  if (rest)
    b.when(b.equal(endRow, b.index(rows.size)), [&] {
      emitTile(b.index(rows.size - rest), rest, panel, vectors, chunk);
    });
}

void ContractionKernel::emitChunk(const Chunk &chunk) {
  if (rowsPacked)
    packRows(chunk);
  b.loop(firstPanel, endPanel, groupPanels, [&](Value first) {
    firstPacked = first;
    if (columnsPacked)
      packColumns(first, chunk);
    b.loop(first, b.min(b.add(first, groupPanels), endPanel), 1,
           [&](Value panel) { emitPanel(panel, chunk); });
  });
}

void ContractionKernel::emitItem(Value item) {
  SmallVector<int64_t> sizes = getSizes(batch);
  sizes.push_back(panelBlocks);
  sizes.push_back(rowBlocks);
  SmallVector<Value> at = b.delinearize(item, sizes);
  firstRow = b.mul(at.pop_back_val(), blockRows);
  firstPanel = b.mul(at.pop_back_val(), blockPanels);
  endRow = b.min(b.add(firstRow, blockRows), b.index(rows.size));
  endPanel = b.min(b.add(firstPanel, blockPanels), b.index(panels));
  rowBase.clear();
  columnBase.clear();
  unsigned access = 0;
  for (Factor *factor : {&rows, &columns})
    for (unsigned leaf : factor->leaves)
      (factor == &rows ? rowBase : columnBase)
          .push_back(b.add(getLoopOffset(b, batch, at, access++),
                           fold.inputs[leaf].constant));
  outputBase =
      b.add(getLoopOffset(b, batch, at, access), fold.outputs[0].constant);
  if (fold.n <= fold.chunk) {
    emitChunk({b.index(0), b.index(fold.n)});
    return;
  }
  b.loop(b.index(0), b.index(fold.n), fold.chunk, [&](Value start) {
    emitChunk({start, b.min(b.add(start, fold.chunk), b.index(fold.n))});
  });
}

void ContractionKernel::expand() {
  if (rowsPacked)
    block = b.getScratch(
        type, (rowsAlongRows ? blockRows / tileRows : blockRows) * rowStride);
  if (columnsPacked)
    panelBuffer = b.getScratch(type, groupPanels * panelStride);
  if (fold.n > fold.chunk)
    totals = b.getScratch(type, blockRows * blockPanels * tileVectors * lanes);
  if (!rowsPacked && rows.reduction.size() > 1)
    rowTable = fillTable(rows);
  if (!columnsPacked && columns.reduction.size() > 1)
    columnTable = fillTable(columns);
  b.forEachItem([&](Value item) { emitItem(item); });
}

LogicalResult repro::cpu::expandContraction(KernelBuilder &b, FoldOp op) {
  ContractionKernel kernel(b, op);
  if (failed(kernel.match()))
    return failure();
  kernel.expand();
  return success();
}
