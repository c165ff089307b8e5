//===- ContractionResults.cpp - Stores the results of tiles ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the order of (F3): adds each chunk to the total of the earlier chunks,
// and the total to the initial value.
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

Value ContractionKernel::loadInit(Value offset, LaneMask mask) {
  const Access &output = fold.outputs[0];
  if (Value init = fold.getConstantInit(b, 0, lanes))
    return init;
  return b.convertFloat(b.loadVector(output.buffer, output.element, offset,
                                     columns.loops.back().coefficients.back(),
                                     lanes, mask),
                        type);
}

Value ContractionKernel::getResult(Value total, Value offset, LaneMask mask) {
  return b.canonicalizeNaN(
      arith::AddFOp::create(b, loadInit(offset, mask), total));
}

Value ContractionKernel::applyEpilogue(Value total, const ResultRow &row,
                                       const PanelVector &vector,
                                       LaneMask mask) {
  BodyVectorizer body(b, lanes, mask);
  // (F7) The epilogue reads rounded results, as if they had been stored in the
  // output's element type and loaded again.
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
  // The value is already rounded to the storage type, but is kept as f32
  // because not all targets can shuffle vectors of storage types.
  bool isStorage = epilogue.output.element.getIntOrFloatBitWidth() < 32;
  return isStorage ? b.convertFloat(stored, b.getF32Type()) : stored;
}

SmallVector<Value>
ContractionKernel::applyEpilogue(ArrayRef<Value> totals,
                                 ArrayRef<ResultRow> resultRows,
                                 const PanelVector &vector, bool isEdge) {
  auto apply = [&](LaneMask mask) {
    SmallVector<Value> results;
    for (auto [total, row] : llvm::zip_equal(totals, resultRows))
      results.push_back(applyEpilogue(total, row, vector, mask));
    return results;
  };
  if (!vector.count)
    return apply({});
  auto applyMasked = [&] { return apply(b.getMask(vector.count, lanes)); };
  if (isEdge)
    return applyMasked();
  return b.choose(
      b.equal(vector.count, b.index(lanes)), [&] { return apply({}); },
      applyMasked);
}

void ContractionKernel::writeVector(ArrayRef<Value> values,
                                    ArrayRef<ResultRow> resultRows,
                                    const PanelVector &vector,
                                    ArrayRef<RowPlaces> places) {
  const Access &output = fold.outputs[0];
  int64_t distance = columns.loops.back().coefficients.back();
  auto write = [&](LaneMask mask) {
    for (auto [value, row] : llvm::zip_equal(values, resultRows)) {
      Value offset = b.add(row.output, vector.outputOffset);
      Value result = epilogue.op ? value : getResult(value, offset, mask);
      b.storeVector(b.convertFloat(result, output.element), output.buffer,
                    offset, distance, mask);
    }
  };
  // The masks also prevent reads of the initial values beyond the buffer.
  auto writeMasked = [&] {
    b.when(b.less(b.index(0), vector.count),
           [&] { write(b.getMask(vector.count, lanes)); });
  };
  if (places.empty()) {
    if (vector.count)
      writeMasked();
    else
      write(distance == 1 ? LaneMask() : b.getMask(b.index(lanes), lanes));
    return;
  }
  auto writeFull = [&] {
    if (llvm::all_of(places, [](const RowPlaces &at) { return at.step; })) {
      writeAlongRows(values, resultRows, vector, places);
      return;
    }
    auto writeApart = [&] { write({}); };
    if (places.size() == 1)
      writeApart();
    else
      b.when(
          places[0].condition,
          [&] { writeAlongRows(values, resultRows, vector, places[0]); },
          writeApart);
  };
  if (!vector.count) {
    writeFull();
    return;
  }
  b.when(b.equal(vector.count, b.index(lanes)), writeFull, writeMasked);
}

void ContractionKernel::writeAlongRows(ArrayRef<Value> values,
                                       ArrayRef<ResultRow> resultRows,
                                       const PanelVector &vector,
                                       ArrayRef<RowPlaces> places) {
  SmallVector<Value> results;
  for (auto [value, row] : llvm::zip_equal(values, resultRows))
    results.push_back(
        epilogue.op
            ? value
            : getResult(value, b.add(row.output, vector.outputOffset), {}));
  // These values have type f32 even if the output has a storage type: not all
  // targets can shuffle vectors of storage types.
  results.resize(lanes, ub::PoisonOp::create(b, results[0].getType()));
  results = b.transpose(std::move(results));
  Value first = b.add(resultRows.front().output, vector.outputOffset);
  Value last = b.add(resultRows.back().output, vector.outputOffset);
  auto writeTo = [&](const RowPlaces &place) {
    for (auto [lane, result] : llvm::enumerate(results)) {
      int64_t column = lane * columns.loops.back().coefficients.back();
      writeRowsOfLane(result, values.size(), b.add(first, column),
                      b.add(last, column), place);
    }
  };
  if (places.size() == 1)
    writeTo(places[0]);
  else
    b.when(
        places[0].condition, [&] { writeTo(places[0]); },
        [&] { writeTo(places[1]); });
}

void ContractionKernel::writeRowsOfLane(Value rows, int64_t rowCount,
                                        Value first, Value last,
                                        const RowPlaces &place) {
  const Access &output = fold.outputs[0];
  auto store = [&](Value begin, Value end, Value offset) {
    b.storeLanes(b.convertFloat(rows, output.element), output.buffer, offset,
                 place.step, begin, end);
  };
  Value end = b.index(rowCount);
  if (place.neighbours) {
    store(b.index(0), place.neighbours, first);
    store(place.neighbours, end, b.add(last, -(rowCount - 1) * place.step));
    return;
  }
  if (place.step != 1) {
    store(b.index(0), end, first);
    return;
  }
  // Stores parts whose number of lanes is a power of two.
  for (int64_t x = 0, count; x < rowCount; x += count) {
    count = llvm::bit_floor(uint64_t(rowCount - x));
    Value part = vector::ExtractStridedSliceOp::create(b, rows, x, count,
                                                       /*stride=*/1);
    b.storeVector(b.convertFloat(part, output.element), output.buffer,
                  b.add(first, x), 1);
  }
}

void ContractionKernel::writeResults(const Tile &tile, ArrayRef<Value> totals) {
  int64_t rowCount = tile.rowCount;
  SmallVector<ResultRow> resultRows;
  for (int64_t x = 0; x < rowCount; ++x)
    resultRows.push_back(getResultRow(b.add(tile.row, x)));
  // Tiles at an edge are few, so their code should be short, not fast.
  bool isEdge = rowCount < config.tileRows ||
                int64_t(tile.vectors.size()) < config.tileVectors;
  SmallVector<RowPlaces> places;
  if (!isEdge)
    places = getRowPlaces(tile, resultRows);
  for (auto [v, vector] : llvm::enumerate(tile.vectors)) {
    SmallVector<Value> values;
    for (int64_t x = 0; x < rowCount; ++x)
      values.push_back(totals[x * tile.vectors.size() + v]);
    if (epilogue.op)
      values = applyEpilogue(values, resultRows, vector, isEdge);
    writeVector(values, resultRows, vector, places);
  }
}

SmallVector<ContractionKernel::RowPlaces>
ContractionKernel::getRowPlaces(const Tile &tile,
                                ArrayRef<ResultRow> resultRows) {
  int64_t rowCount = tile.rowCount, step = getStepAlongRows(tile);
  if (step == 0)
    return {RowPlaces()};
  if (rows.loops.size() == 1)
    return {RowPlaces{step}};
  auto isNeighbour = [&](int64_t row) {
    Value distance = b.sub(resultRows[row].output, resultRows[0].output);
    return b.equal(distance, b.index(row * step));
  };
  RowPlaces together{step};
  together.condition = isNeighbour(rowCount - 1);
  // The rows may continue on the next line of an image, so that the results lie
  // in two runs. Separate code for this case is faster only with mask
  // registers.
  if (b.getLanes() < 8 || rows.loops.back().size < rowCount - 1)
    return {together, RowPlaces()};
  Value neighbours = b.index(1);
  for (int64_t x = 1; x < rowCount - 1; ++x)
    neighbours = b.select(isNeighbour(x), b.index(x + 1), neighbours);
  return {together, RowPlaces{step, neighbours}};
}
