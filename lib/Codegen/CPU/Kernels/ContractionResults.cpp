//===- ContractionResults.cpp - From totals of tiles to results -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

void ContractionKernel::prefetchResults(const Tile &tile) {
  auto prefetchTotals = [&] {
    Value base = getTotalsOffset(tile);
    for (size_t i = 0; i < tile.rowCount * tile.vectors.size(); ++i)
      b.prefetch(totals, b.add(base, i * lanes), /*isWrite=*/true);
  };
  auto prefetchOutputs = [&] {
    if (columns.loops.back().coefficients.back() != 1)
      return;
    for (int64_t x = 0; x < tile.rowCount; ++x) {
      Value rowOffset = getOutputOffset(b.add(tile.row, x));
      for (const PanelVector &vector : tile.vectors)
        b.prefetch(fold.outputs[0].buffer,
                   b.add(rowOffset, vector.outputOffset), /*isWrite=*/true);
    }
  };
  auto prefetch = [&] {
    if (fold.n <= fold.chunk) {
      prefetchOutputs();
      return;
    }
    b.when(b.less(b.index(0), tile.part.chunk.start), prefetchTotals);
    b.when(b.equal(tile.part.chunk.end, b.index(fold.n)), prefetchOutputs);
  };
  if (!hasParts())
    prefetch();
  else
    b.when(b.equal(tile.part.end, tile.part.chunk.end), prefetch);
}

Value ContractionKernel::getTotalsOffset(const Tile &tile) {
  Value number =
      b.add(b.mul(b.sub(tile.panel, firstPanel), stripTiles), tile.number);
  return b.mul(number, tileRows * tileVectors * lanes);
}

Value ContractionKernel::getOutputOffset(Value row) {
  return b.add(outputBase,
               getRowOffset(row, outputPositions, rows.leaves.size()));
}

void ContractionKernel::finishTile(const Tile &tile, ArrayRef<Value> sums) {
  if (fold.n <= fold.chunk) {
    writeResults(tile, sums);
    return;
  }
  Value base = getTotalsOffset(tile);
  const Chunk &chunk = tile.part.chunk;
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
            [&] { writeResults(tile, results); },
            [&] { storeTotals(results); });
      });
}

Value ContractionKernel::getResult(Value total, Value offset, LaneMask mask) {
  const Access &output = fold.outputs[0];
  Value init = fold.getConstantInit(b, 0, lanes);
  if (!init)
    init = b.convertFloat(b.loadVector(output.buffer, output.element, offset,
                                       columns.loops.back().coefficients.back(),
                                       lanes, mask),
                          type);
  Value result = arith::AddFOp::create(b, init, total);
  return b.canonicalizeNaN(result);
}

void ContractionKernel::writeVector(ArrayRef<Value> totals,
                                    ArrayRef<Value> rowOffsets,
                                    const PanelVector &vector, bool alongRows) {
  const Access &output = fold.outputs[0];
  auto write = [&](LaneMask mask) {
    for (auto [total, rowOffset] : llvm::zip_equal(totals, rowOffsets)) {
      Value offset = b.add(rowOffset, vector.outputOffset);
      Value result =
          b.convertFloat(getResult(total, offset, mask), output.element);
      b.storeVector(result, output.buffer, offset,
                    columns.loops.back().coefficients.back(), mask);
    }
  };
  auto writeFull = [&] {
    if (alongRows)
      writeAlongRows(totals, rowOffsets[0], vector);
    else
      write({});
  };
  if (!masked) {
    writeFull();
    return;
  }
  b.when(b.equal(vector.count, b.index(lanes)), writeFull, [&] {
    // Beyond the end there is nothing to read either.
    b.when(b.less(b.index(0), vector.count),
           [&] { write(b.getMask(vector.count, lanes)); });
  });
}

void ContractionKernel::writeAlongRows(ArrayRef<Value> totals, Value first,
                                       const PanelVector &vector) {
  const Access &output = fold.outputs[0];
  Value offset = b.add(first, vector.outputOffset);
  SmallVector<Value> results;
  for (auto [x, total] : llvm::enumerate(totals))
    results.push_back(getResult(total, b.add(offset, x), {}));
  // Storage types are not shuffled: not all targets move vectors of them.
  results.resize(lanes, ub::PoisonOp::create(b, results[0].getType()));
  for (auto [lane, values] : llvm::enumerate(b.transpose(std::move(results)))) {
    Value column =
        b.add(offset, lane * columns.loops.back().coefficients.back());
    // Vectors of a power of two of lanes.
    int64_t rows = totals.size();
    for (int64_t x = 0, count; x < rows; x += count) {
      count = llvm::bit_floor(uint64_t(rows - x));
      Value part = vector::ExtractStridedSliceOp::create(b, values, x, count,
                                                         /*stride=*/1);
      b.storeVector(b.convertFloat(part, output.element), output.buffer,
                    b.add(column, x), 1);
    }
  }
}

void ContractionKernel::writeResults(const Tile &tile, ArrayRef<Value> totals) {
  int64_t rowCount = tile.rowCount;
  SmallVector<Value> rowOffsets;
  for (int64_t x = 0; x < rowCount; ++x)
    rowOffsets.push_back(getOutputOffset(b.add(tile.row, x)));
  auto writeAll = [&](bool alongRows) {
    for (auto [v, vector] : llvm::enumerate(tile.vectors)) {
      SmallVector<Value> ofVector;
      for (int64_t x = 0; x < rowCount; ++x)
        ofVector.push_back(totals[x * tile.vectors.size() + v]);
      writeVector(ofVector, rowOffsets, vector, alongRows);
    }
  };
  // Where the results of neighbouring rows lie next to each other, those of
  // neighbouring columns far apart.
  if (rowCount == 1 || rowCount > lanes || rows.loops.empty() ||
      rows.loops.back().coefficients.back() != 1 ||
      columns.loops.back().coefficients.back() == 1) {
    writeAll(false);
    return;
  }
  Value distance = b.sub(rowOffsets.back(), rowOffsets.front());
  b.when(
      b.equal(distance, b.index(rowCount - 1)), [&] { writeAll(true); },
      [&] { writeAll(false); });
}
