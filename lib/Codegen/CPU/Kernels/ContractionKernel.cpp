//===- ContractionKernel.cpp - fma folds in register tiles ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the order of (F1) and (F3): the chunks of a result are computed in
// sequence, and the elements of a chunk are added in ascending order.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"

#include "Codegen/CPU/Kernels/HostKernels.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// The maximum number of elements of K for which offsets are looked up in a
/// table, unless only a table can give the offsets.
static constexpr int64_t kMostTable = 16384;
//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

bool ContractionKernel::hasLongRuns(const Factor &factor) const {
  return isInRuns(factor.reduction) && !factor.reduction.empty() &&
         factor.reduction.back().size >= lanes / 2;
}

bool ContractionKernel::needsTable(const Factor &factor, bool isPacked,
                                   bool packsRuns) const {
  if (factor.reduction.size() <= 1 || (isPacked && packsRuns))
    return false;
  return !isPacked || (factor.inputs.size() == 1 && fold.n <= kMostTable);
}

Value ContractionKernel::fillTable(const Factor &factor) {
  Value table = b.getScratch(b.getIndexType(), fold.n);
  b.loop(b.index(0), b.index(fold.n), 1, [&](Value k) {
    SmallVector<Value> at = b.delinearize(k, getSizes(factor.reduction));
    b.store(getLoopOffset(b, factor.reduction, at, 0), table, k);
  });
  return table;
}

void ContractionKernel::fillPositions(Value table, unsigned access) {
  b.loop(firstRow, endRow, 1, [&](Value row) {
    SmallVector<Value> at = b.delinearize(row, getSizes(rows.loops));
    b.store(getLoopOffset(b, rows.loops, at, access), table,
            b.sub(row, firstRow));
  });
}

Value ContractionKernel::getRowOffset(Value row, Value table, unsigned access) {
  if (table)
    return b.load(table, b.getIndexType(), b.sub(row, firstRow));
  return getLoopOffset(
      b, rows.loops,
      rows.loops.empty() ? ArrayRef<Value>() : ArrayRef<Value>(row), access);
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
  Value packed = b.mul(b.sub(panel, firstPacked), config.panelStride);
  for (int64_t v = 0; v < config.tileVectors; ++v) {
    vectors.push_back(
        getPanelVector(b.add(b.mul(panel, config.tileVectors), v)));
    vectors.back().packed = b.add(packed, v * lanes);
  }
  return vectors;
}

PanelVector ContractionKernel::getPanelVector(Value vectorIndex) {
  PanelVector vector;
  Value exists;
  if (config.vectorCount % config.tileVectors != 0) {
    exists = b.less(vectorIndex, b.index(config.vectorCount));
    vectorIndex = b.min(vectorIndex, b.index(config.vectorCount - 1));
  }
  SmallVector<int64_t> sizes = getSizes(columns.loops);
  int64_t inner = sizes.back();
  sizes.back() = config.rowVectors;
  SmallVector<Value> at = b.delinearize(vectorIndex, sizes);
  at.back() = b.mul(at.back(), lanes);
  if (config.masked) {
    vector.count = b.min(b.sub(b.index(inner), at.back()), b.index(lanes));
    if (exists)
      vector.count = b.select(exists, vector.count, b.index(0));
  }
  for (unsigned leaf = 0; leaf < columns.inputs.size(); ++leaf)
    vector.leafOffsets.push_back(
        b.add(columnBase[leaf], getLoopOffset(b, columns.loops, at, leaf)));
  unsigned access = getResultAccess(columns);
  for (size_t i = 0; i < epilogue.inputs.size(); ++i)
    vector.inputOffsets.push_back(
        getLoopOffset(b, columns.loops, at, access++));
  vector.outputOffset = getLoopOffset(b, columns.loops, at, access);
  return vector;
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

void ContractionKernel::emitKBlock(Value panel, ArrayRef<PanelVector> vectors,
                                   const KBlock &kBlock) {
  int64_t restRows = rows.size % config.tileRows,
          last = config.vectorCount % config.tileVectors;
  // If loads limit the speed, masks would slow down all tiles, so only the last
  // tile uses masks.
  bool masksLast =
      config.masked && config.kBlocksOutside && columns.loops.size() == 1;
  SmallVector<PanelVector> whole(vectors);
  if (masksLast)
    for (PanelVector &vector : whole)
      vector.count = Value();
  auto emitVectors = [&](Value row, int64_t rowCount) {
    auto emit = [&](ArrayRef<PanelVector> vectors) {
      emitTile(row, rowCount, panel, vectors, kBlock);
    };
    if (last == 0 && !masksLast)
      emit(vectors);
    else // compute no vectors beyond the last one
      b.when(
          b.equal(panel, b.index(config.panels - 1)),
          [&] { emit(last ? vectors.take_front(last) : vectors); },
          [&] { emit(whole); });
  };
  b.loop(firstRow, endRow, config.tileRows, [&](Value row) {
    Value end = b.add(row, config.tileRows);
    if (config.rowsPacked && !config.rowsAlongRows)
      b.when(b.equal(panel, firstPanel),
             [&] { packRowsAlongReduction(row, b.min(end, endRow), kBlock); });
    if (restRows == 0)
      emitVectors(row, config.tileRows);
    else
      b.when(
          b.less(b.index(rows.size), end), [&] { emitVectors(row, restRows); },
          [&] { emitVectors(row, config.tileRows); });
  });
}

void ContractionKernel::emitPanelByKBlocks(Value panel, const Chunk &chunk) {
  SmallVector<PanelVector> vectors = getPanelVectors(panel);
  SmallVector<PanelVector> nextVectors =
      getPanelVectors(b.min(b.add(panel, 1), b.sub(endPanel, b.index(1))));
  b.loop(chunk.start, chunk.end, config.kBlockSize, [&](Value start) {
    Value end = b.min(b.add(start, config.kBlockSize), chunk.end);
    KBlock kBlock{chunk, start, end};
    Value isLast = b.equal(end, chunk.end);
    kBlock.next = {b.select(isLast, chunk.start, end), {}};
    for (auto [here, there] : llvm::zip_equal(vectors, nextVectors)) {
      PanelVector vector = here;
      for (auto [x, y] : llvm::zip_equal(vector.leafOffsets, there.leafOffsets))
        x = b.select(isLast, y, x);
      kBlock.next.vectors.push_back(vector);
    }
    packColumns(panel, kBlock);
    emitKBlock(panel, vectors, kBlock);
  });
}

void ContractionKernel::emitChunk(const Chunk &chunk) {
  if (config.rowsPacked && config.rowsAlongRows)
    packRowsAlongRows(chunk);
  if (config.kBlocksOutside) {
    b.loop(chunk.start, chunk.end, config.kBlockSize, [&](Value start) {
      Value end = b.min(b.add(start, config.kBlockSize), chunk.end);
      firstPacked = firstPanel;
      b.loop(firstPanel, endPanel, 1, [&](Value panel) {
        emitKBlock(panel, getPanelVectors(panel), {chunk, start, end});
      });
    });
    return;
  }
  if (config.hasKBlocks()) {
    b.loop(firstPanel, endPanel, 1, [&](Value panel) {
      firstPacked = panel;
      emitPanelByKBlocks(panel, chunk);
    });
    return;
  }
  KBlock whole{chunk, chunk.start, chunk.end};
  b.loop(firstPanel, endPanel, config.groupPanels, [&](Value first) {
    firstPacked = first;
    if (config.columnsPacked)
      packColumns(first, whole);
    b.loop(
        first, b.min(b.add(first, config.groupPanels), endPanel), 1,
        [&](Value panel) { emitKBlock(panel, getPanelVectors(panel), whole); });
  });
}

void ContractionKernel::emitStrip(Value rowBlock, Value endRowBlock,
                                  Value firstGroup, Value endGroup) {
  SmallVector<int64_t> sizes = getSizes(batch);
  sizes.push_back(config.rowBlocks);
  SmallVector<Value> at = b.delinearize(rowBlock, sizes);
  firstRow = b.mul(at.pop_back_val(), config.blockRows);
  Value size = b.mul(b.sub(endRowBlock, rowBlock), config.blockRows);
  endRow = b.min(b.add(firstRow, size), b.index(rows.size));
  firstPanel = b.mul(firstGroup, config.groupPanels);
  endPanel = b.min(b.mul(endGroup, config.groupPanels), b.index(config.panels));
  rowBase.clear();
  columnBase.clear();
  unsigned access = 0;
  for (Factor *factor : {&rows, &columns})
    for (unsigned leaf : factor->inputs)
      (factor == &rows ? rowBase : columnBase)
          .push_back(b.add(getLoopOffset(b, batch, at, access++),
                           fold.inputs[leaf].constant));
  inputBase.clear();
  for (const Access &input : epilogue.inputs)
    inputBase.push_back(
        b.add(getLoopOffset(b, batch, at, access++), input.constant));
  outputBase =
      b.add(getLoopOffset(b, batch, at, access), fold.outputs[0].constant);
  if (rowPositions)
    fillPositions(rowPositions, 0);
  access = getResultAccess(rows);
  for (Value positions : inputPositions)
    fillPositions(positions, access++);
  if (outputPositions)
    fillPositions(outputPositions, access);
  if (fold.n <= fold.chunk) {
    emitChunk({b.index(0), b.index(fold.n)});
    return;
  }
  b.loop(b.index(0), b.index(fold.n), fold.chunk, [&](Value start) {
    emitChunk({start, b.min(b.add(start, fold.chunk), b.index(fold.n))});
  });
}

void ContractionKernel::emitStrips() {
  Value begin = b.getBegin(), end = b.getEnd();
  Value endBlock = b.div(b.add(end, config.groups - 1), config.groups);
  b.loop(b.div(begin, config.groups), endBlock, config.stripBlocks,
         [&](Value rowBlock) {
           // A strip contains several row blocks only if each block has one
           // group.
           Value endRowBlock =
               b.min(b.add(rowBlock, config.stripBlocks), endBlock);
           Value first = b.mul(rowBlock, config.groups);
           Value lower = b.max(b.sub(begin, first), b.index(0));
           Value upper = b.min(b.sub(end, first), b.index(config.groups));
           b.loop(lower, upper, config.stripGroups, [&](Value group) {
             emitStrip(rowBlock, endRowBlock, group,
                       b.min(b.add(group, config.stripGroups), upper));
           });
         });
}

void ContractionKernel::expand() {
  int64_t panelWidth = config.tileVectors * lanes;
  if (config.rowsPacked)
    block =
        b.getScratch(type, llvm::divideCeil(config.span, config.kBlockSize) *
                               config.rowKBlockStride);
  if (config.columnsPacked)
    panelBuffer = b.getScratch(type, config.groupPanels * config.panelStride);
  if (config.hasKBlocks())
    kBlockSums = b.getScratch(
        type, config.stripRows * panelWidth *
                  (config.kBlocksOutside ? config.stripGroups : 1));
  if (fold.n > fold.chunk)
    totals = b.getScratch(type, config.stripRows * config.stripGroups *
                                    config.groupPanels * panelWidth);
  if (rows.loops.size() > 1) {
    if (!config.rowsPacked)
      rowPositions = b.getScratch(b.getIndexType(), config.stripRows);
    for (size_t i = 0; i < epilogue.inputs.size(); ++i)
      inputPositions.push_back(
          b.getScratch(b.getIndexType(), config.stripRows));
    outputPositions = b.getScratch(b.getIndexType(), config.stripRows);
  }
  if (needsTable(rows, config.rowsPacked,
                 config.rowsAlongRows || hasLongRuns(rows)))
    rowTable = fillTable(rows);
  if (needsTable(columns, config.columnsPacked, config.transposed))
    columnTable = fillTable(columns);
  emitStrips();
}

static LogicalResult expand(HostBuilder &b, Contraction contraction) {
  if (failed(contraction.matchFactors()))
    return failure();
  std::optional<TileConfig> config =
      chooseTileConfig(contraction.getShape(), b.getLevel(), b.isShared());
  if (!config)
    return failure();
  contraction.settleFactors(config->swapsFactors);
  contraction.noteTiles(config->describe());
  b.setWork(config->items, config->grain);
  ContractionKernel(b, std::move(contraction), *config).expand();
  return success();
}

LogicalResult repro::cpu::expandContraction(HostBuilder &b, FoldOp op) {
  return expand(b, Contraction(b, op));
}

LogicalResult repro::cpu::expandScope(HostBuilder &b,
                                      memref::AllocaScopeOp scope) {
  Block &body = scope.getBodyRegion().front();
  auto fold = *body.getOps<FoldOp>().begin();
  auto generic = *body.getOps<linalg::GenericOp>().begin();
  if (failed(expand(b, Contraction(b, fold, generic))))
    return fold.emitError("expected a product of two factors, each with "
                          "dimensions of its own, in a scope");
  return success();
}
