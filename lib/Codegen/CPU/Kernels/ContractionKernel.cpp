//===- ContractionKernel.cpp - fma folds in register tiles ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tile is `tileRows` times `tileVectors` vectors along N; its accumulators
// stay in registers for a whole chunk of K, so that each result sees its
// elements in the order of (F1). Either factor is read where it lies, or it is
// copied, f or g applied, into a block (rows) or a panel (vectors) first.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/Contraction.h"
#include "Codegen/CPU/Kernels/StructuredKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

namespace {
/// A vector of results along N, or its place beyond the end.
struct PanelVector {
  SmallVector<Value> leafOffsets;
  Value outputOffset;
  Value count; ///< lanes that are results; null: all
};

class ContractionKernel : public Contraction {
public:
  using Contraction::Contraction;
  LogicalResult match();
  void expand();

private:
  /// Part of the lanes of vectors along `dims` of the factor that are results.
  double getUse(const Factor &factor) const;
  void chooseTiles();
  void choosePacking();
  void chooseItems();

  void emitItem(Value item);
  void emitChunk(Value chunkStart, Value chunkEnd);
  void emitPanel(Value panel, Value chunkStart, Value chunkEnd);
  void emitTile(Value row, int64_t rows, Value panel,
                ArrayRef<PanelVector> vectors, Value chunkStart,
                Value chunkEnd);
  void finishTile(ArrayRef<Value> sums, Value row, int64_t rows, Value panel,
                  ArrayRef<PanelVector> vectors, Value chunkStart,
                  Value chunkEnd);
  PanelVector getPanelVector(Value vectorIndex);
  void packRows(Value chunkStart, Value chunkEnd);
  void packPanel(ArrayRef<PanelVector> vectors, Value chunkStart,
                 Value chunkEnd);
  void packPanelTransposed(ArrayRef<PanelVector> vectors, Value chunkStart,
                           Value chunkEnd);
  Value fillTable(const Factor &factor);
  /// Where element `k` of a factor that is not packed lies.
  Value getReductionOffset(const Factor &factor, Value table, Value k);

  bool isAlongReduction(const Factor &factor) const {
    return factor.reduction.empty() ||
           llvm::all_of(factor.reduction.back().coefficients,
                        [](int64_t c) { return c == 0 || c == 1; });
  }

  int64_t lanes;
  bool rowsPacked = false, columnsPacked = false;
  int64_t rowVectors;  ///< vectors along the innermost loop of N
  int64_t vectorCount; ///< of all of N
  int64_t tileRows, tileVectors;
  int64_t blockRows, blockPanels, rowBlocks, panelBlocks, panels;
  bool masked;     ///< some vectors have lanes that are no results
  bool transposed; ///< the panel is read along K
  bool rowsAlongReduction = true;

  Value rowTable, columnTable, block, panelBuffer, totals;
  // Of the current item.
  SmallVector<Value> rowBase, columnBase;
  Value outputBase, firstRow, endRow, firstPanel;
};
} // namespace

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
  int64_t most = target >= 16 ? 8 : target >= 8 ? 6 : 4;
  if (rows.size < most) {
    tileRows = rows.size;
    tileVectors = std::min<int64_t>(accumulators / tileRows, 8);
  } else {
    tileRows = most;
    tileVectors = vectorCount == 3 && target >= 16 ? 3 : 2;
    if (vectorCount == 1)
      tileRows = std::min(rows.size, accumulators / 2);
  }
  tileVectors = std::min(tileVectors, vectorCount);
  panels = llvm::divideCeil(vectorCount, tileVectors);
  masked = inner % lanes != 0 || vectorCount % tileVectors != 0;
}

void ContractionKernel::choosePacking() {
  int64_t span = std::min(fold.chunk, fold.n);
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
  rowsAlongReduction = isAlongReduction(rows);
  rowsPacked = !isElement(rows) ||
               (!rowsAlongReduction && panels > 2 && getReach(rows) > 131072);
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
}

void ContractionKernel::chooseItems() {
  int64_t panelWidth = tileVectors * lanes;
  int64_t tiles = llvm::divideCeil(rows.size, tileRows);
  int64_t blockTiles = std::min<int64_t>(tiles, 256 / tileRows);
  blockPanels =
      std::min<int64_t>(panels, std::max<int64_t>(256 / panelWidth, 1));
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
// Packing
//===----------------------------------------------------------------------===//

/// Copies rows [firstRow, endRow) of a chunk: row after row if their elements
/// lie along K, else one element of all rows after the other.
void ContractionKernel::packRows(Value chunkStart, Value chunkEnd) {
  unsigned leaves = rows.leaves.size();
  auto rowOffset = [&](Value row, unsigned leaf) {
    SmallVector<Value> at = b.delinearize(row, getSizes(rows.loops));
    return b.add(rowBase[leaf], getLoopOffset(b, rows.loops, at, leaf));
  };
  auto load = [&](unsigned leaf, Value offset, int64_t stride, int64_t lanes) {
    const Access &access = fold.inputs[rows.leaves[leaf]];
    if (!lanes || !stride)
      return b.load(access.buffer, access.element, offset);
    return b.loadVector(access.buffer, access.element, offset, stride, lanes);
  };
  bool alongRows = !rowsAlongReduction && rows.loops.size() == 1;
  if (alongRows) {
    b.loop(chunkStart, chunkEnd, 1, [&](Value k) {
      SmallVector<Value> at = b.delinearize(k, getSizes(rows.reduction));
      Value target = b.mul(b.sub(k, chunkStart), blockRows);
      SmallVector<Value> base;
      for (unsigned leaf = 0; leaf < leaves; ++leaf)
        base.push_back(
            b.add(rowBase[leaf], getLoopOffset(b, rows.reduction, at, leaf)));
      auto copy = [&](Value row, int64_t lanes) {
        Value value = computeFactor(rows, lanes, [&](unsigned leaf) {
          int64_t step = rows.loops[0].coefficients[leaf];
          return load(leaf, b.add(base[leaf], b.mul(row, step)), step, lanes);
        });
        Value offset = b.add(target, b.sub(row, firstRow));
        if (lanes)
          b.storeVector(value, block, offset, 1);
        else
          b.store(value, block, offset);
      };
      Value full = b.sub(endRow, b.rem(b.sub(endRow, firstRow), lanes));
      b.loop(firstRow, full, lanes, [&](Value row) { copy(row, lanes); });
      b.loop(full, endRow, 1, [&](Value row) { copy(row, 0); });
    });
    return;
  }
  int64_t span = std::min(fold.chunk, fold.n);
  b.loop(firstRow, endRow, 1, [&](Value row) {
    Value target = b.mul(b.sub(row, firstRow), span);
    SmallVector<Value> base;
    for (unsigned leaf = 0; leaf < leaves; ++leaf)
      base.push_back(rowOffset(row, leaf));
    forEachRun(
        b, rows.reduction, chunkStart, chunkEnd,
        [&](ArrayRef<Value> outer, Value lower, Value upper, Value first) {
          auto copy = [&](Value i, int64_t lanes) {
            SmallVector<Value> at(outer);
            if (!rows.reduction.empty())
              at.push_back(i);
            Value value = computeFactor(rows, lanes, [&](unsigned leaf) {
              int64_t step = rows.reduction.empty()
                                 ? 0
                                 : rows.reduction.back().coefficients[leaf];
              return load(
                  leaf,
                  b.add(base[leaf], getLoopOffset(b, rows.reduction, at, leaf)),
                  step, lanes);
            });
            Value k = b.sub(b.add(first, b.sub(i, lower)), chunkStart);
            if (lanes)
              b.storeVector(value, block, b.add(target, k), 1);
            else
              b.store(value, block, b.add(target, k));
          };
          if (!rowsAlongReduction) {
            b.loop(lower, upper, 1, [&](Value i) { copy(i, 0); });
            return;
          }
          Value full = b.sub(upper, b.rem(b.sub(upper, lower), lanes));
          b.loop(lower, full, lanes, [&](Value i) { copy(i, lanes); });
          b.loop(full, upper, 1, [&](Value i) { copy(i, 0); });
        });
  });
}

void ContractionKernel::packPanel(ArrayRef<PanelVector> vectors,
                                  Value chunkStart, Value chunkEnd) {
  b.loop(chunkStart, chunkEnd, 1, [&](Value k) {
    SmallVector<Value> at = b.delinearize(k, getSizes(columns.reduction));
    Value target = b.mul(b.sub(k, chunkStart), tileVectors * lanes);
    for (auto [v, vector] : llvm::enumerate(vectors)) {
      // Lanes beyond the results are computed from the last one, not used.
      Value value = computeFactor(columns, lanes, [&](unsigned leaf) {
        const Access &access = fold.inputs[columns.leaves[leaf]];
        int64_t step = columns.loops.back().coefficients[leaf];
        Value offset = b.add(vector.leafOffsets[leaf],
                             getLoopOffset(b, columns.reduction, at, leaf));
        if (!step)
          return b.load(access.buffer, access.element, offset);
        LaneMask mask;
        if (masked)
          mask = b.getMask(b.max(vector.count, b.index(1)), lanes);
        return b.loadVector(access.buffer, access.element, offset, step, lanes,
                            mask);
      });
      b.storeVector(value, panelBuffer, b.add(target, v * lanes), 1);
    }
  });
}

void ContractionKernel::packPanelTransposed(ArrayRef<PanelVector> vectors,
                                            Value chunkStart, Value chunkEnd) {
  int64_t width = tileVectors * lanes;
  for (auto [v, vector] : llvm::enumerate(vectors)) {
    Value last;
    if (masked)
      last = b.max(b.sub(vector.count, b.index(1)), b.index(0));
    forEachRun(
        b, columns.reduction, chunkStart, chunkEnd,
        [&, v = v, &vector = vector](ArrayRef<Value> outer, Value lower,
                                     Value upper, Value first) {
          auto copy = [&](Value i, LaneMask mask) {
            SmallVector<Value> at(outer);
            at.push_back(i);
            SmallVector<Value> elements;
            for (int64_t lane = 0; lane < lanes; ++lane) {
              Value n = b.index(lane);
              if (masked && lane)
                n = b.min(n, last);
              elements.push_back(
                  computeFactor(columns, lanes, [&](unsigned leaf) {
                    const Access &access = fold.inputs[columns.leaves[leaf]];
                    Value offset = b.add(
                        b.add(vector.leafOffsets[leaf],
                              getLoopOffset(b, columns.reduction, at, leaf)),
                        b.mul(n, columns.loops.back().coefficients[leaf]));
                    int64_t step = columns.reduction.back().coefficients[leaf];
                    if (!step)
                      return b.load(access.buffer, access.element, offset);
                    return b.loadVector(access.buffer, access.element, offset,
                                        step, lanes, mask);
                  }));
            }
            elements = b.transpose(std::move(elements));
            // Elements beyond the run are overwritten by the next run or
            // vector, or lie in the slack behind the panel.
            Value k = b.sub(b.add(first, b.sub(i, lower)), chunkStart);
            for (auto [j, element] : llvm::enumerate(elements))
              b.storeVector(element, panelBuffer,
                            b.add(b.mul(b.add(k, j), width), v * lanes), 1);
          };
          Value rest = b.rem(b.sub(upper, lower), lanes);
          Value full = b.sub(upper, rest);
          b.loop(lower, full, lanes, [&](Value i) { copy(i, {}); });
          b.when(b.less(full, upper),
                 [&] { copy(full, b.getMask(rest, lanes)); });
        });
  }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void ContractionKernel::emitTile(Value row, int64_t rowCount, Value panel,
                                 ArrayRef<PanelVector> vectors,
                                 Value chunkStart, Value chunkEnd) {
  auto vectorType = VectorType::get({lanes}, type);
  const Access *rowAccess = nullptr, *columnAccess = nullptr;
  SmallVector<Value> rowOffsets;
  int64_t span = std::min(fold.chunk, fold.n);
  bool alongRows = !rowsAlongReduction && rows.loops.size() == 1;
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

  SmallVector<Value> starts(rowCount * vectors.size(),
                            b.zero(vectorType)); // (F4)
  Value count = b.sub(chunkEnd, chunkStart);
  Value localRow = b.sub(row, firstRow);
  SmallVector<Value> sums =
      b.loop(b.index(0), count, 1, starts, [&](Value k, ValueRange acc) {
        Value t = b.add(chunkStart, k);
        SmallVector<Value> right, next;
        Value columnOffset;
        if (!columnsPacked)
          columnOffset = getReductionOffset(columns, columnTable, t);
        for (auto [v, vector] : llvm::enumerate(vectors)) {
          if (columnsPacked)
            right.push_back(b.loadVector(
                panelBuffer, type,
                b.add(b.mul(k, tileVectors * lanes), v * lanes), 1, lanes));
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
          else if (alongRows)
            left = b.load(block, type,
                          b.add(b.add(b.mul(k, blockRows), localRow), x));
          else
            left = b.load(block, type,
                          b.add(b.add(b.mul(localRow, span), x * span), k));
          left = b.broadcast(left, lanes);
          for (size_t v = 0; v < vectors.size(); ++v)
            next.push_back(math::FmaOp::create(b, left, right[v],
                                               acc[x * vectors.size() + v]));
        }
        return next;
      });
  finishTile(sums, row, rowCount, panel, vectors, chunkStart, chunkEnd);
}

/// (F3) adds the chunk to the totals, or after the last one init to the total.
void ContractionKernel::finishTile(ArrayRef<Value> sums, Value row,
                                   int64_t rowCount, Value panel,
                                   ArrayRef<PanelVector> vectors,
                                   Value chunkStart, Value chunkEnd) {
  const Access &output = fold.outputs[0];
  unsigned outputIndex = rows.leaves.size();
  int64_t step = columns.loops.back().coefficients.back();
  auto writeResults = [&](ArrayRef<Value> results) {
    for (int64_t x = 0; x < rowCount; ++x) {
      SmallVector<Value> at =
          b.delinearize(b.add(row, x), getSizes(rows.loops));
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
  };
  if (fold.n <= fold.chunk) {
    writeResults(sums);
    return;
  }
  int64_t blockTiles = blockRows / tileRows;
  Value tile = b.add(b.mul(b.sub(panel, firstPanel), blockTiles),
                     b.div(b.sub(row, firstRow), tileRows));
  Value base = b.mul(tile, tileRows * tileVectors * lanes);
  auto slot = [&](size_t i) { return b.add(base, i * lanes); };
  auto addTotals = [&] {
    SmallVector<Value> results;
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value total = b.loadVector(totals, type, slot(i), 1, lanes);
      results.push_back(arith::AddFOp::create(b, total, sum));
    }
    return results;
  };
  auto storeTotals = [&](ArrayRef<Value> values) {
    for (auto [i, value] : llvm::enumerate(values))
      b.storeVector(value, totals, slot(i), 1);
  };
  b.when(
      b.equal(chunkStart, b.index(0)), [&] { storeTotals(sums); },
      [&] {
        SmallVector<Value> results = addTotals();
        b.when(
            b.equal(chunkEnd, b.index(fold.n)), [&] { writeResults(results); },
            [&] { storeTotals(results); });
      });
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

void ContractionKernel::emitPanel(Value panel, Value chunkStart,
                                  Value chunkEnd) {
  SmallVector<PanelVector> vectors;
  for (int64_t v = 0; v < tileVectors; ++v)
    vectors.push_back(getPanelVector(b.add(b.mul(panel, tileVectors), v)));
  if (columnsPacked && transposed)
    packPanelTransposed(vectors, chunkStart, chunkEnd);
  else if (columnsPacked)
    packPanel(vectors, chunkStart, chunkEnd);
  int64_t rest = rows.size % tileRows;
  Value full = b.min(endRow, b.index(rows.size - rest));
  b.loop(firstRow, full, tileRows, [&](Value row) {
    emitTile(row, tileRows, panel, vectors, chunkStart, chunkEnd);
  });
  if (rest)
    b.when(b.equal(endRow, b.index(rows.size)), [&] {
      emitTile(b.index(rows.size - rest), rest, panel, vectors, chunkStart,
               chunkEnd);
    });
}

void ContractionKernel::emitChunk(Value chunkStart, Value chunkEnd) {
  if (rowsPacked)
    packRows(chunkStart, chunkEnd);
  Value endPanel = b.min(b.add(firstPanel, blockPanels), b.index(panels));
  b.loop(firstPanel, endPanel, 1,
         [&](Value panel) { emitPanel(panel, chunkStart, chunkEnd); });
}

void ContractionKernel::emitItem(Value item) {
  SmallVector<int64_t> sizes = getSizes(batch);
  sizes.push_back(panelBlocks);
  sizes.push_back(rowBlocks);
  SmallVector<Value> at = b.delinearize(item, sizes);
  firstRow = b.mul(at.pop_back_val(), blockRows);
  firstPanel = b.mul(at.pop_back_val(), blockPanels);
  endRow = b.min(b.add(firstRow, blockRows), b.index(rows.size));
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
    emitChunk(b.index(0), b.index(fold.n));
    return;
  }
  b.loop(b.index(0), b.index(fold.n), fold.chunk, [&](Value start) {
    emitChunk(start, b.min(b.add(start, fold.chunk), b.index(fold.n)));
  });
}

void ContractionKernel::expand() {
  int64_t span = std::min(fold.chunk, fold.n);
  if (rowsPacked)
    block = b.getScratch(type, blockRows * span);
  if (columnsPacked)
    // Transposing writes whole vectors of K.
    panelBuffer = b.getScratch(type, tileVectors * lanes * (span + lanes));
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
