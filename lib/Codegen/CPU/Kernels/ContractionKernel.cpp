//===- ContractionKernel.cpp - fma folds in register tiles ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"

#include "Codegen/CPU/Kernels/StructuredKernels.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

/// Most rows of an item: a chunk of 512 of them is a MiB, half of a second
/// cache.
static constexpr int64_t kBlockRows = 528;
/// Most columns of a strip: the rows are packed once for all of them. Fewer
/// where their totals are kept from chunk to chunk.
static constexpr int64_t kStripColumns = 2048, kChunkedStripColumns = 1024;
/// Vectors of neighbouring panels that are packed together where they are not
/// taken in parts: what is read of one k lies side by side.
static constexpr int64_t kGroupVectors = 8;
/// Most elements of K whose offsets a table holds where it can be done without.
static constexpr int64_t kMostTable = 16384;
/// Most bytes of a panel's part: they stay in a first cache of 48 KiB while all
/// rows of the block pass by, also where another thread of the core uses half.
static constexpr int64_t kPartBytes = 16384;
/// Addresses this far apart fall into one set of a first-level cache.
static constexpr int64_t kWayBytes = 4096;
/// What results that lie next to each other are worth, as lanes in use.
static constexpr double kContiguous = 1.1;
/// The time of copying an element, as that of a vector's multiply-add.
static constexpr double kPackingCost = 0.75;
/// The time of copying it alone, as that of one in a vector.
static constexpr double kOneByOne = 3;
/// What is left of the rate where the lanes of a vector of results go to so few
/// sets of a first-level cache that a tile's lines do not stay there.
static constexpr double kFewSets = 0.8;
/// The time of a row with an address of its own beside that of its
/// multiply-adds with one vector; as many vectors as a tile may have hide it.
static constexpr double kOwnAddresses = 2;
/// At least between packed panels, tiles and rows of whole chunks, in elements:
/// powers of two would fall into few sets of a cache.
static constexpr int64_t kSlack = 16;

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

double ContractionKernel::rateVectors(const Factor &vectors,
                                      const Factor &other) const {
  if (vectors.loops.empty())
    return 0;
  const CollapsedDim &inner = vectors.loops.back();
  // Part of the lanes that are results.
  double rate = double(inner.size) / llvm::alignTo(inner.size, lanes);
  int64_t apart = inner.coefficients.back() * type.getIntOrFloatBitWidth() / 8;
  if (inner.coefficients.back() == 1)
    rate *= kContiguous;
  else if (std::gcd(apart, kWayBytes) >= kWayBytes / 4)
    rate *= kFewSets;
  double packing = 1.0 / other.size;
  bool severalLoops = other.loops.size() > 1;
  if (!canStayInPlace(other)) {
    bool oneByOne = severalLoops && !isInRuns(other);
    packing += (oneByOne ? kOneByOne : 1) / vectors.size;
  } else if (severalLoops) {
    int64_t most = getMostVectors();
    int64_t count =
        std::min<int64_t>(most, llvm::divideCeil(vectors.size, lanes));
    rate /= 1 + kOwnAddresses * (1.0 / count - 1.0 / most);
  }
  return rate / (1 + kPackingCost * lanes * packing);
}

LogicalResult ContractionKernel::match() {
  if (failed(matchFactors()))
    return failure();
  lanes = b.getNativeLanes(type);
  // fma(x, y, acc) = fma(y, x, acc)
  if (rateVectors(rows, columns) > rateVectors(columns, rows))
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

int64_t ContractionKernel::getMostVectors() const {
  return b.getLanes() >= 16 ? 4 : 2;
}

void ContractionKernel::chooseTiles() {
  int64_t inner = columns.loops.back().size;
  rowVectors = llvm::divideCeil(inner, lanes);
  vectorCount = columns.size / inner * rowVectors;
  // Accumulators that the registers hold, 32 of 512 bits, else 16, besides the
  // vectors and an element of a row.
  int64_t target = b.getLanes();
  int64_t accumulators = target >= 16 ? 24 : target >= 8 ? 12 : 8;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t vectors = std::min(getMostVectors(), vectorCount); vectors >= 1;
       --vectors) {
    int64_t most = std::min<int64_t>(accumulators / vectors, 12);
    // Multiply-adds of a row; four loads take the time of one, and fewer than
    // eight wait for each other.
    auto getCost = [&](int64_t count) {
      double sums = most * count;
      double loads = (most + count) / sums;
      return count * (1 + loads / 4) * std::max(1.0, 8 / sums);
    };
    int64_t rest = vectorCount % vectors;
    double cost =
        vectorCount / vectors * getCost(vectors) + (rest ? getCost(rest) : 0);
    if (cost >= least)
      continue;
    least = cost;
    tileVectors = vectors;
    tileRows = most;
  }
  if (rows.size < tileRows) {
    tileRows = rows.size;
    tileVectors = std::min<int64_t>(accumulators / tileRows, 8);
  }
  tileVectors = std::min(tileVectors, vectorCount);
  panels = llvm::divideCeil(vectorCount, tileVectors);
  masked = inner % lanes != 0 || vectorCount % tileVectors != 0;
}

bool ContractionKernel::isElement(const Factor &factor) const {
  return factor.numOperations == 0 && factor.inputs.size() == 1 &&
         fold.inputs[factor.inputs[0]].isMemory();
}

bool ContractionKernel::canStayInPlace(const Factor &factor) const {
  if (!isElement(factor) || factor.loops.empty())
    return false;
  int64_t step = std::abs(factor.loops.back().coefficients[0]);
  // Neighbouring pixels of an image lie in the same lines.
  if (factor.reduction.size() > 1 && step < lanes &&
      std::abs(factor.reduction.back().coefficients[0]) < lanes)
    return true;
  // Rows whose distance has a large power of two as a factor fall into few sets
  // of a cache.
  int64_t bytes = step * type.getIntOrFloatBitWidth() / 8;
  return isAlongReduction(factor) && factor.loops.size() == 1 &&
         std::gcd(bytes, kWayBytes) <= kWayBytes / 8;
}

void ContractionKernel::choosePacking() {
  span = std::min(fold.chunk, fold.n);
  // What one chunk of K spans in memory decides on whether the pages and lines
  // that a factor is read from stay at hand.
  auto getReach = [&](const Factor &factor) -> int64_t {
    if (factor.reduction.empty())
      return 0;
    return std::abs(factor.reduction.back().coefficients[0]) * 4 *
           std::min(span, factor.reduction.back().size);
  };
  rowsAlongRows = !isInRuns(rows) && rows.loops.size() == 1;
  bool staysInPlace = canStayInPlace(rows);
  rowsInPlace = staysInPlace && rows.loops.size() == 1;
  rowsPacked =
      !staysInPlace &&
      (!isElement(rows) || vectorCount > 6 ||
       (!isAlongReduction(rows) && vectorCount > 4 && getReach(rows) > 131072));
  int64_t step = columns.loops.back().coefficients[0];
  bool contiguous = isElement(columns) && step == 1;
  columnsPacked = !contiguous ||
                  (masked && lanes * type.getIntOrFloatBitWidth() < 256) ||
                  (rows.size > 24 && columns.reduction.size() <= 1 &&
                   getReach(columns) > 65536);
  transposed = columnsPacked && !contiguous && columns.numOperations <= 3 &&
               isInRuns(columns) && !columns.reduction.empty() &&
               columns.reduction.back().size >= lanes / 2 &&
               llvm::any_of(llvm::seq<unsigned>(columns.inputs.size()),
                            [&](unsigned leaf) {
                              int64_t step =
                                  columns.loops.back().coefficients[leaf];
                              return step != 0 && step != 1;
                            });
  int64_t bytes = tileVectors * lanes * type.getIntOrFloatBitWidth() / 8;
  // Whole lines, which are fetched and transposed together.
  partSize =
      columnsPacked && rows.size > tileRows
          ? std::min<int64_t>(span, llvm::alignDown(kPartBytes / bytes,
                                                    b.getLineElements(type)))
          : span;
  // Transposing writes whole vectors of K.
  panelStride =
      tileVectors * lanes * (partSize + (transposed ? lanes : 0)) + kSlack;
}

void ContractionKernel::chooseItems() {
  int64_t panelWidth = tileVectors * lanes;
  groupPanels =
      hasParts() ? 1
                 : std::clamp<int64_t>(kGroupVectors / tileVectors, 1, panels);
  groups = llvm::divideCeil(panels, groupPanels);
  int64_t tiles = llvm::divideCeil(rows.size, tileRows);
  int64_t batchSize = getProduct(getSizes(batch));
  auto divideRows = [&](int64_t count) {
    blockTiles = llvm::divideCeil(tiles, count);
    rowBlocks = llvm::divideCeil(tiles, blockTiles);
  };
  auto countItems = [&] { return batchSize * rowBlocks * groups; };
  auto getWork = [&] {
    return blockTiles * tileRows * groupPanels * panelWidth * fold.n;
  };
  divideRows(llvm::divideCeil(rows.size, kBlockRows));
  // Enough items for a few threads, none of them tiny.
  while (b.isShared() && countItems() < 8 && getWork() > (1 << 21) &&
         blockTiles > 8)
    divideRows(2 * rowBlocks);
  blockRows = blockTiles * tileRows;
  int64_t most = fold.n > fold.chunk ? kChunkedStripColumns : kStripColumns;
  stripGroups =
      std::clamp<int64_t>(most / (groupPanels * panelWidth), 1, groups);
  // Or of all that have the same columns, which are then packed once.
  int64_t mostRows = (rowsPacked ? 1 : 2) * kBlockRows;
  stripBlocks = groups == 1 && batchSize == 1 && columnsPacked
                    ? std::clamp<int64_t>(mostRows / blockRows, 1, rowBlocks)
                    : 1;
  stripTiles = stripBlocks * blockTiles;
  stripRows = stripBlocks * blockRows;
  // What a tile reads of a part lies side by side, that of the next tile
  // behind it. Packing stores whole vectors: what is beyond the end of a row
  // lies in the slack, or in the next row, which is packed later.
  int64_t slack = std::max(lanes, kSlack);
  rowStride = (rowsAlongRows ? tileRows : 1) * partSize +
              (rowsAlongRows || !hasParts() ? slack : 0);
  rowPartStride = (rowsAlongRows ? stripTiles : stripRows) * rowStride + slack;
  b.setWork(countItems(), (1 << 18) / std::max<int64_t>(getWork(), 1));
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

bool ContractionKernel::hasLongRuns(const Factor &factor) const {
  return isInRuns(factor) && !factor.reduction.empty() &&
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

void ContractionKernel::emitPart(Value panel, ArrayRef<PanelVector> vectors,
                                 const Part &part) {
  int64_t restRows = rows.size % tileRows, last = vectorCount % tileVectors;
  auto emitVectors = [&](Value row, int64_t rowCount) {
    auto emit = [&](int64_t count) {
      emitTile(row, rowCount, panel, vectors.take_front(count), part);
    };
    if (last == 0)
      emit(tileVectors);
    else // Nothing is computed beyond the last vector.
      b.when(
          b.equal(panel, b.index(panels - 1)), [&] { emit(last); },
          [&] { emit(tileVectors); });
  };
  b.loop(firstRow, endRow, tileRows, [&](Value row) {
    Value end = b.add(row, tileRows);
    if (rowsPacked && !rowsAlongRows)
      b.when(b.equal(panel, firstPanel),
             [&] { packRowsAlongReduction(row, b.min(end, endRow), part); });
    if (restRows == 0)
      emitVectors(row, tileRows);
    else
      b.when(
          b.less(b.index(rows.size), end), [&] { emitVectors(row, restRows); },
          [&] { emitVectors(row, tileRows); });
  });
}

void ContractionKernel::emitPanelInParts(Value panel, const Chunk &chunk) {
  SmallVector<PanelVector> vectors = getPanelVectors(panel);
  SmallVector<PanelVector> nextVectors =
      getPanelVectors(b.min(b.add(panel, 1), b.sub(endPanel, b.index(1))));
  auto emit = [&](Value start, bool isFirst) {
    Value end = b.min(b.add(start, partSize), chunk.end);
    Part part{chunk, start, end, isFirst};
    Value isLast = b.equal(end, chunk.end);
    part.next = {b.select(isLast, chunk.start, end), {}};
    for (auto [here, there] : llvm::zip_equal(vectors, nextVectors)) {
      PanelVector vector = here;
      for (auto [x, y] : llvm::zip_equal(vector.leafOffsets, there.leafOffsets))
        x = b.select(isLast, y, x);
      part.next.vectors.push_back(vector);
    }
    packColumns(panel, part);
    emitPart(panel, vectors, part);
  };
  emit(chunk.start, true);
  b.loop(b.add(chunk.start, partSize), chunk.end, partSize,
         [&](Value start) { emit(start, false); });
}

void ContractionKernel::emitChunk(const Chunk &chunk) {
  if (rowsPacked && rowsAlongRows)
    packRowsAlongRows(chunk);
  if (hasParts()) {
    b.loop(firstPanel, endPanel, 1, [&](Value panel) {
      firstPacked = panel;
      emitPanelInParts(panel, chunk);
    });
    return;
  }
  Part whole{chunk, chunk.start, chunk.end, /*isFirst=*/true};
  b.loop(firstPanel, endPanel, groupPanels, [&](Value first) {
    firstPacked = first;
    if (columnsPacked)
      packColumns(first, whole);
    b.loop(
        first, b.min(b.add(first, groupPanels), endPanel), 1,
        [&](Value panel) { emitPart(panel, getPanelVectors(panel), whole); });
  });
}

void ContractionKernel::emitStrip(Value rowBlock, Value endRowBlock,
                                  Value firstGroup, Value endGroup) {
  SmallVector<int64_t> sizes = getSizes(batch);
  sizes.push_back(rowBlocks);
  SmallVector<Value> at = b.delinearize(rowBlock, sizes);
  firstRow = b.mul(at.pop_back_val(), blockRows);
  Value size = b.mul(b.sub(endRowBlock, rowBlock), blockRows);
  endRow = b.min(b.add(firstRow, size), b.index(rows.size));
  firstPanel = b.mul(firstGroup, groupPanels);
  endPanel = b.min(b.mul(endGroup, groupPanels), b.index(panels));
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
  Value endBlock = b.div(b.add(end, groups - 1), groups);
  b.loop(b.div(begin, groups), endBlock, stripBlocks, [&](Value rowBlock) {
    // Several blocks only where each has one group.
    Value endRowBlock = b.min(b.add(rowBlock, stripBlocks), endBlock);
    Value first = b.mul(rowBlock, groups);
    Value lower = b.max(b.sub(begin, first), b.index(0));
    Value upper = b.min(b.sub(end, first), b.index(groups));
    b.loop(lower, upper, stripGroups, [&](Value group) {
      emitStrip(rowBlock, endRowBlock, group,
                b.min(b.add(group, stripGroups), upper));
    });
  });
}

void ContractionKernel::expand() {
  int64_t panelWidth = tileVectors * lanes;
  if (rowsPacked)
    block =
        b.getScratch(type, llvm::divideCeil(span, partSize) * rowPartStride);
  if (columnsPacked)
    panelBuffer = b.getScratch(type, groupPanels * panelStride);
  if (hasParts())
    partSums = b.getScratch(type, stripRows * panelWidth);
  if (fold.n > fold.chunk)
    totals =
        b.getScratch(type, stripRows * stripGroups * groupPanels * panelWidth);
  if (rows.loops.size() > 1) {
    if (!rowsPacked)
      rowPositions = b.getScratch(b.getIndexType(), stripRows);
    for (size_t i = 0; i < epilogue.inputs.size(); ++i)
      inputPositions.push_back(b.getScratch(b.getIndexType(), stripRows));
    outputPositions = b.getScratch(b.getIndexType(), stripRows);
  }
  if (needsTable(rows, rowsPacked, rowsAlongRows || hasLongRuns(rows)))
    rowTable = fillTable(rows);
  if (needsTable(columns, columnsPacked, transposed))
    columnTable = fillTable(columns);
  emitStrips();
}

static LogicalResult expand(ContractionKernel &&kernel) {
  if (failed(kernel.match()))
    return failure();
  kernel.expand();
  return success();
}

LogicalResult repro::cpu::expandContraction(KernelBuilder &b, FoldOp op) {
  return expand(ContractionKernel(b, op));
}

LogicalResult repro::cpu::expandContraction(KernelBuilder &b, FoldOp op,
                                            linalg::GenericOp epilogue) {
  return expand(ContractionKernel(b, op, epilogue));
}
