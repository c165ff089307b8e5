//===- ContractionResults.cpp - From totals of tiles to results -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/ContractionKernel.h"
#include "Codegen/Common/BodyVectorizer.h"

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
    int64_t distance = columns.loops.back().coefficients.back();
    auto prefetchRow = [&](int64_t row, int64_t count) {
      ResultRow resultRow = getResultRow(b.add(tile.row, row));
      for (const PanelVector &vector : tile.vectors) {
        for (int64_t lane = 0; lane < count; ++lane)
          b.prefetch(fold.outputs[0].buffer,
                     b.add(b.add(resultRow.output, vector.outputOffset),
                           lane * distance),
                     /*isWrite=*/true);
        for (auto [i, input] : llvm::enumerate(epilogue.inputs))
          if (getInputStep(i) == 1)
            b.prefetch(input.buffer,
                       b.add(resultRow.inputs[i], vector.inputOffsets[i]),
                       /*isWrite=*/false);
      }
    };
    if (distance == 1) {
      for (int64_t x = 0; x < tile.rowCount; ++x)
        prefetchRow(x, 1);
    } else if (getStepAlongRows(tile) != 0) {
      prefetchRow(0, lanes);
      prefetchRow(tile.rowCount - 1, lanes);
    }
  };
  auto prefetch = [&] {
    if (fold.n <= fold.chunk) {
      prefetchOutputs();
      return;
    }
    b.when(b.less(b.index(0), tile.kBlock.chunk.start), prefetchTotals);
    b.when(b.equal(tile.kBlock.chunk.end, b.index(fold.n)), prefetchOutputs);
  };
  if (!config.hasKBlocks())
    prefetch();
  else
    b.when(b.equal(tile.kBlock.end, tile.kBlock.chunk.end), prefetch);
}

int64_t ContractionKernel::getStepAlongRows(const Tile &tile) const {
  if (tile.rowCount == 1 || tile.rowCount > lanes || rows.loops.empty() ||
      columns.loops.back().coefficients.back() <= 2)
    return 0;
  int64_t step = rows.loops.back().coefficients.back();
  return step == 1 || step == 2 ? step : 0;
}

Value ContractionKernel::getTotalsOffset(const Tile &tile) {
  Value number = b.add(b.mul(b.sub(tile.panel, firstPanel), config.stripTiles),
                       tile.number);
  return b.mul(number, config.tileRows * config.tileVectors * lanes);
}

ResultRow ContractionKernel::getResultRow(Value row) {
  ResultRow result;
  unsigned access = getResultAccess(rows);
  for (auto [i, base] : llvm::enumerate(inputBase))
    result.inputs.push_back(b.add(
        base,
        getRowOffset(row, inputPositions.empty() ? Value() : inputPositions[i],
                     access++)));
  result.output = b.add(outputBase, getRowOffset(row, outputPositions, access));
  return result;
}

void ContractionKernel::finishTile(const Tile &tile, ArrayRef<Value> sums) {
  if (fold.n <= fold.chunk) {
    writeResults(tile, sums);
    return;
  }
  Value base = getTotalsOffset(tile);
  const Chunk &chunk = tile.kBlock.chunk;
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

Value ContractionKernel::applyEpilogue(Value total, const ResultRow &row,
                                       const PanelVector &vector,
                                       LaneMask mask) {
  BodyVectorizer body(b, lanes, mask);
  // (F7) as it would be loaded.
  body.map(epilogue.result,
           b.convertFloat(getResult(total, {}, {}), epilogue.result.getType()));
  for (auto [i, input] : llvm::enumerate(epilogue.inputs)) {
    Value offset = b.add(row.inputs[i], vector.inputOffsets[i]);
    int64_t step = getInputStep(i);
    body.map(epilogue.arguments[i],
             step == 0 ? b.load(input.buffer, input.element, offset)
                       : b.loadVector(input.buffer, input.element, offset, step,
                                      lanes, mask));
  }
  Value stored = b.canonicalizeNaN(body.inlineBody(*epilogue.op.getBody())[0]);
  // Rounded already, but vectors of the types for storage are not shuffled.
  bool isStorage = epilogue.output.element.getIntOrFloatBitWidth() < 32;
  return isStorage ? b.convertFloat(stored, b.getF32Type()) : stored;
}

SmallVector<Value>
ContractionKernel::applyEpilogue(ArrayRef<Value> totals,
                                 ArrayRef<ResultRow> resultRows,
                                 const PanelVector &vector) {
  auto apply = [&](LaneMask mask) {
    SmallVector<Value> results;
    for (auto [total, row] : llvm::zip_equal(totals, resultRows))
      results.push_back(applyEpilogue(total, row, vector, mask));
    return results;
  };
  if (!vector.count)
    return apply({});
  return b.choose(
      b.equal(vector.count, b.index(lanes)), [&] { return apply({}); },
      [&] { return apply(b.getMask(vector.count, lanes)); });
}

void ContractionKernel::writeVector(ArrayRef<Value> values,
                                    ArrayRef<ResultRow> resultRows,
                                    const PanelVector &vector,
                                    std::optional<AlongRows> alongRows) {
  const Access &output = fold.outputs[0];
  auto write = [&](LaneMask mask) {
    for (auto [value, row] : llvm::zip_equal(values, resultRows)) {
      Value offset = b.add(row.output, vector.outputOffset);
      Value result = epilogue.op ? value : getResult(value, offset, mask);
      b.storeVector(b.convertFloat(result, output.element), output.buffer,
                    offset, columns.loops.back().coefficients.back(), mask);
    }
  };
  auto writeFull = [&] {
    if (alongRows)
      writeAlongRows(values, resultRows, vector, *alongRows);
    else
      write({});
  };
  if (!vector.count) {
    writeFull();
    return;
  }
  b.when(b.equal(vector.count, b.index(lanes)), writeFull, [&] {
    // Beyond the end there is nothing to read either.
    b.when(b.less(b.index(0), vector.count),
           [&] { write(b.getMask(vector.count, lanes)); });
  });
}

void ContractionKernel::writeAlongRows(ArrayRef<Value> values,
                                       ArrayRef<ResultRow> resultRows,
                                       const PanelVector &vector,
                                       AlongRows alongRows) {
  const Access &output = fold.outputs[0];
  int64_t rowCount = values.size(), step = alongRows.step;
  SmallVector<Value> results;
  for (auto [value, row] : llvm::zip_equal(values, resultRows))
    results.push_back(
        epilogue.op
            ? value
            : getResult(value, b.add(row.output, vector.outputOffset), {}));
  // Floats of storage types are not shuffled: not all targets move vectors of
  // them.
  results.resize(lanes, ub::PoisonOp::create(b, results[0].getType()));
  Value first = b.add(resultRows.front().output, vector.outputOffset);
  Value last = b.add(resultRows.back().output, vector.outputOffset);
  for (auto [lane, values] : llvm::enumerate(b.transpose(std::move(results)))) {
    int64_t column = lane * columns.loops.back().coefficients.back();
    auto store = [&](Value begin, Value end, Value offset) {
      b.storeLanes(b.convertFloat(values, output.element), output.buffer,
                   offset, step, begin, end);
    };
    Value end = b.index(rowCount);
    if (alongRows.neighbours) {
      store(b.index(0), alongRows.neighbours, b.add(first, column));
      store(alongRows.neighbours, end,
            b.add(last, column - (rowCount - 1) * step));
      continue;
    }
    if (step != 1) {
      store(b.index(0), end, b.add(first, column));
      continue;
    }
    // Vectors of a power of two of lanes.
    for (int64_t x = 0, count; x < rowCount; x += count) {
      count = llvm::bit_floor(uint64_t(rowCount - x));
      Value part = vector::ExtractStridedSliceOp::create(b, values, x, count,
                                                         /*stride=*/1);
      b.storeVector(b.convertFloat(part, output.element), output.buffer,
                    b.add(first, column + x), 1);
    }
  }
}

void ContractionKernel::writeResults(const Tile &tile, ArrayRef<Value> totals) {
  int64_t rowCount = tile.rowCount;
  SmallVector<ResultRow> resultRows;
  for (int64_t x = 0; x < rowCount; ++x)
    resultRows.push_back(getResultRow(b.add(tile.row, x)));
  // Of each vector; once, however they are stored.
  SmallVector<SmallVector<Value>> values;
  for (auto [v, vector] : llvm::enumerate(tile.vectors)) {
    SmallVector<Value> ofVector;
    for (int64_t x = 0; x < rowCount; ++x)
      ofVector.push_back(totals[x * tile.vectors.size() + v]);
    values.push_back(epilogue.op ? applyEpilogue(ofVector, resultRows, vector)
                                 : ofVector);
  }
  auto writeAll = [&](std::optional<AlongRows> alongRows) {
    for (auto [ofVector, vector] : llvm::zip_equal(values, tile.vectors))
      writeVector(ofVector, resultRows, vector, alongRows);
  };
  int64_t step = getStepAlongRows(tile);
  if (step == 0) {
    writeAll(std::nullopt);
    return;
  }
  if (rows.loops.size() == 1) {
    writeAll(AlongRows{step, {}});
    return;
  }
  auto isNeighbour = [&](int64_t row) {
    Value distance = b.sub(resultRows[row].output, resultRows[0].output);
    return b.equal(distance, b.index(row * step));
  };
  b.when(
      isNeighbour(rowCount - 1), [&] { writeAll(AlongRows{step, {}}); },
      [&] {
        // With one end of a line of images among the rows the results lie in
        // two places. Only with masks in registers this is worth it.
        if (b.getLanes() < 8 || rows.loops.back().size < rowCount - 1) {
          writeAll(std::nullopt);
          return;
        }
        Value neighbours = b.index(1);
        for (int64_t x = 1; x < rowCount - 1; ++x)
          neighbours = b.select(isNeighbour(x), b.index(x + 1), neighbours);
        writeAll(AlongRows{step, neighbours});
      });
}
