//===- ContractionPacking.cpp - Packing of rows and columns ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

Value ContractionKernel::loadLeaf(const Factor &factor, unsigned leaf,
                                  Value offset, int64_t stride, int64_t lanes,
                                  LaneMask mask) {
  const Access &access = fold.inputs[factor.inputs[leaf]];
  if (!lanes || !stride)
    return b.load(access.buffer, access.element, offset);
  return b.loadVector(access.buffer, access.element, offset, stride, lanes,
                      mask);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value ContractionKernel::getPackedRows(Value k, const Chunk &chunk) {
  if (!config.hasKBlocks())
    return b.index(0);
  return b.mul(b.div(b.sub(k, chunk.start), config.kBlockSize),
               config.rowKBlockStride);
}

void ContractionKernel::packRowsAlongRows(const Chunk &chunk) {
  // Packs several elements of K at a time, so that the stores to a tile fill
  // whole cache lines.
  Value rest = b.rem(b.sub(chunk.end, chunk.start), kPackedTogether);
  Value full = b.sub(chunk.end, rest);
  b.loop(chunk.start, full, kPackedTogether,
         [&](Value k) { packElementsAlongRows(k, kPackedTogether, chunk); });
  b.loop(full, chunk.end, 1,
         [&](Value k) { packElementsAlongRows(k, 1, chunk); });
}

void ContractionKernel::packElementsAlongRows(Value first, int64_t count,
                                              const Chunk &chunk) {
  auto getBases = [&](Value k) {
    SmallVector<Value> bases;
    SmallVector<Value> at = b.delinearize(k, getSizes(rows.reduction));
    for (unsigned leaf = 0; leaf < rows.inputs.size(); ++leaf)
      bases.push_back(
          b.add(rowBase[leaf], getLoopOffset(b, rows.reduction, at, leaf)));
    return bases;
  };
  // Each copy prefetches the elements that the next copy packs.
  SmallVector<SmallVector<Value>> bases, nextBases;
  for (int64_t i = 0; i < count; ++i) {
    bases.push_back(getBases(b.add(first, i)));
    nextBases.push_back(getBases(b.add(first, count + i)));
  }
  assert((!config.hasKBlocks() || config.kBlockSize % kPackedTogether == 0) &&
         "a K-block has whole steps");
  Value local = b.sub(first, chunk.start);
  if (config.hasKBlocks())
    local = b.rem(local, config.kBlockSize);
  Value target =
      b.add(getPackedRows(first, chunk), b.mul(local, config.tileRows));
  auto copy = [&](Value row, int64_t lanes) {
    Value tile = b.div(b.sub(row, firstRow), config.tileRows);
    Value offset = b.add(target, b.mul(tile, config.rowStride));
    for (int64_t i = 0; i < count; ++i) {
      Value value = computeFactor(rows, lanes, [&](unsigned leaf) {
        int64_t step = rows.loops[0].coefficients[leaf];
        Value rowOffset = b.mul(row, step);
        if (step != 0)
          b.prefetch(fold.inputs[rows.inputs[leaf]].buffer,
                     b.add(nextBases[i][leaf], rowOffset), /*isWrite=*/false);
        return loadLeaf(rows, leaf, b.add(bases[i][leaf], rowOffset), step,
                        lanes, {});
      });
      b.storeVector(value, block, b.add(offset, i * config.tileRows), 1);
    }
  };
  // A vector holds a tile and the first rows of the next tile. The latter are
  // overwritten when the next k is packed, or lie in unused memory after the
  // tile.
  int64_t wide = llvm::PowerOf2Ceil(config.tileRows);
  int64_t endWide =
      wide <= rows.size
          ? ((rows.size - wide) / config.tileRows + 1) * config.tileRows
          : 0;
  int64_t rest = rows.size % config.tileRows;
  Value full = b.min(endRow, b.index(rows.size - rest));
  b.loop(firstRow, b.min(full, b.index(endWide)), config.tileRows,
         [&](Value row) { copy(row, wide); });
  b.loop(b.max(firstRow, b.index(endWide)), full, config.tileRows,
         [&](Value row) { copy(row, config.tileRows); });
  if (rest)
    b.when(b.equal(endRow, b.index(rows.size)),
           [&] { copy(b.index(rows.size - rest), rest); });
}

void ContractionKernel::packRowsAlongReduction(Value first, Value end,
                                               const KBlock &kBlock) {
  Value packed = getPackedRows(kBlock.start, kBlock.chunk);
  b.loop(first, end, 1, [&](Value row) {
    Value target = b.add(packed, b.mul(b.sub(row, firstRow), config.rowStride));
    SmallVector<Value> rowAt = b.delinearize(row, getSizes(rows.loops));
    SmallVector<Value> base;
    for (unsigned leaf = 0; leaf < rows.inputs.size(); ++leaf)
      base.push_back(
          b.add(rowBase[leaf], getLoopOffset(b, rows.loops, rowAt, leaf)));
    if (rowTable) {
      b.loop(kBlock.start, kBlock.end, 1, [&](Value k) {
        Value offset = b.add(base[0], b.load(rowTable, b.getIndexType(), k));
        Value value = computeFactor(rows, 0, [&](unsigned leaf) {
          return loadLeaf(rows, leaf, offset, 0, 0, {});
        });
        b.store(value, block, b.add(target, b.sub(k, kBlock.start)));
      });
      return;
    }
    forEachRun(
        b, rows.reduction, kBlock.start, kBlock.end,
        [&](ArrayRef<Value> outer, Value lower, Value upper, Value first) {
          auto copy = [&](Value i, int64_t lanes, LaneMask mask) {
            SmallVector<Value> at(outer);
            if (!rows.reduction.empty())
              at.push_back(i);
            Value value = computeFactor(rows, lanes, [&](unsigned leaf) {
              int64_t step = rows.reduction.empty()
                                 ? 0
                                 : rows.reduction.back().coefficients[leaf];
              Value offset =
                  b.add(base[leaf], getLoopOffset(b, rows.reduction, at, leaf));
              return loadLeaf(rows, leaf, offset, step, lanes, mask);
            });
            Value k = b.sub(b.add(first, b.sub(i, lower)), kBlock.start);
            if (lanes)
              b.storeVector(value, block, b.add(target, k), 1);
            else
              b.store(value, block, b.add(target, k));
          };
          if (!isInRuns(rows.reduction)) {
            b.loop(lower, upper, 1, [&](Value i) { copy(i, 0, {}); });
            return;
          }
          Value rest = b.rem(b.sub(upper, lower), lanes);
          Value full = b.sub(upper, rest);
          b.loop(lower, full, lanes, [&](Value i) { copy(i, lanes, {}); });
          // The vector also writes elements after the run, which are
          // overwritten by the next run or row, or lie in unused memory.
          b.when(b.less(full, upper),
                 [&] { copy(full, lanes, b.getMask(rest, lanes)); });
        });
  });
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

void ContractionKernel::packColumns(Value first, const KBlock &kBlock) {
  SmallVector<PanelVector> vectors;
  for (int64_t g = 0; g < config.groupPanels; ++g) {
    // If the last group has fewer panels than the others, its last panel is
    // packed again in place of each missing panel.
    Value panel = b.add(first, g);
    if (g)
      panel = b.min(panel, b.sub(endPanel, b.index(1)));
    llvm::append_range(vectors, getPanelVectors(panel));
  }
  if (!config.transposed) {
    packVectors(vectors, kBlock);
    return;
  }
  for (const PanelVector &vector : vectors)
    packVectorTransposed(vector, kBlock);
}

void ContractionKernel::packVectors(ArrayRef<PanelVector> vectors,
                                    const KBlock &kBlock) {
  SmallVector<LaneMask> masks(vectors.size());
  if (config.masked)
    for (auto [mask, vector] : llvm::zip_equal(masks, vectors))
      mask = b.getMask(b.max(vector.count, b.index(1)), lanes);
  b.loop(kBlock.start, kBlock.end, 1, [&](Value k) {
    SmallVector<Value> offsets;
    if (columnTable) {
      offsets.push_back(b.load(columnTable, b.getIndexType(), k));
    } else {
      SmallVector<Value> at = b.delinearize(k, getSizes(columns.reduction));
      for (unsigned leaf = 0; leaf < columns.inputs.size(); ++leaf)
        offsets.push_back(getLoopOffset(b, columns.reduction, at, leaf));
    }
    Value target = b.mul(b.sub(k, kBlock.start), config.tileVectors * lanes);
    for (auto [vector, mask] : llvm::zip_equal(vectors, masks)) {
      // Lanes beyond the results may hold any value, because they are not used.
      Value value = computeFactor(columns, lanes, [&](unsigned leaf) {
        Value offset = b.add(vector.leafOffsets[leaf], offsets[leaf]);
        return loadLeaf(columns, leaf, offset,
                        columns.loops.back().coefficients[leaf], lanes, mask);
      });
      b.storeVector(value, panelBuffer, b.add(vector.packed, target), 1);
    }
  });
}

void ContractionKernel::packVectorTransposed(const PanelVector &vector,
                                             const KBlock &kBlock) {
  Value last;
  if (config.masked)
    last = b.max(b.sub(vector.count, b.index(1)), b.index(0));
  forEachRun(
      b, columns.reduction, kBlock.start, kBlock.end,
      [&](ArrayRef<Value> outer, Value lower, Value upper, Value first) {
        auto copy = [&](Value i, LaneMask mask) {
          SmallVector<Value> at(outer);
          at.push_back(i);
          SmallVector<Value> elements;
          for (int64_t lane = 0; lane < lanes; ++lane) {
            Value n = b.index(lane);
            if (config.masked && lane)
              n = b.min(n, last);
            elements.push_back(
                computeFactor(columns, lanes, [&](unsigned leaf) {
                  Value offset =
                      b.add(vector.leafOffsets[leaf],
                            getLoopOffset(b, columns.reduction, at, leaf));
                  offset =
                      b.add(offset,
                            b.mul(n, columns.loops.back().coefficients[leaf]));
                  return loadLeaf(columns, leaf, offset,
                                  columns.reduction.back().coefficients[leaf],
                                  lanes, mask);
                }));
          }
          elements = b.transpose(std::move(elements));
          // The vectors also write elements after the run, which are
          // overwritten by the next run, or lie in unused memory after the
          // panel.
          Value k = b.sub(b.add(first, b.sub(i, lower)), kBlock.start);
          for (auto [j, element] : llvm::enumerate(elements))
            b.storeVector(element, panelBuffer,
                          b.add(vector.packed,
                                b.mul(b.add(k, j), config.tileVectors * lanes)),
                          1);
        };
        Value rest = b.rem(b.sub(upper, lower), lanes);
        Value full = b.sub(upper, rest);
        b.loop(lower, full, lanes, [&](Value i) { copy(i, {}); });
        b.when(b.less(full, upper),
               [&] { copy(full, b.getMask(rest, lanes)); });
      });
}
