//===- ContractionDevice.cpp - Tiled fma folds ----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread block computes a tile of bm times bn results; each thread computes
// tm times tn of them in registers. The block reads both factors into shared
// memory, in slices of bk elements along K. Threads read the next slice while
// they compute with the current one, even across the end of a chunk. Each
// result adds its elements in ascending order (F1), whatever the tiles are.
// Either one block processes the chunks (F3) of a result in sequence, or each
// chunk has its own block and a second kernel adds the chunks in order.
//
// After the end of a chunk, a slice contains -0 for one factor and +0 for the
// other: adding their product changes no accumulator.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Contraction.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"
#include "Codegen/GPU/Kernels/DeviceTileConfig.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

namespace {
/// Describes how the threads of a block read a slice of a factor: each thread
/// reads groups of kVector elements that are consecutive along K
/// (`alongReduction`) or along the factor's own dimension.
struct Slice {
  const Factor *factor;
  unsigned firstAccess; ///< first access of its leaves in the batch's loops
  int64_t extent;       ///< tile extent in the factor's own dimension
  bool alongReduction;
  bool vectorized; ///< a group is one access
  double pad;
  int64_t begin; ///< offset in each of the two buffers in shared memory
  /// Returns the distance in shared memory between elements that are adjacent
  /// along K, with padding to avoid bank conflicts.
  int64_t getPitch() const { return extent + kVector; }

  /// A group of elements that the current thread reads.
  struct Group {
    Value own, k; ///< position of the first element in the tile
    Value exists; ///< null: always
    /// For each access (one for the group, or one per element): the offset in
    /// each input of the factor, without the part that depends on K.
    SmallVector<SmallVector<Value>> offsets;
  };
  SmallVector<Group> groups;
};

class ContractionDevice : public Contraction {
public:
  /// `contraction` must be settled: `settleFactors(tile.swapsFactors)` was
  /// called.
  ContractionDevice(DeviceBuilder &b, Contraction contraction,
                    const DeviceTileConfig &tile);
  bool isSplit() const { return tile.splits > 1; }
  int64_t getChunks() const { return llvm::divideCeil(fold.n, fold.chunk); }
  int64_t getResults() const { return batchSize * rows.size * columns.size; }
  int64_t getElementBytes() const { return type.getIntOrFloatBitWidth() / 8; }
  /// Returns the size in bytes of the workspace for the totals or for the sums
  /// of all chunks; 0 if there is only one chunk.
  int64_t getWorkspaceBytes() const;
  void expandTiles(int64_t workspace);
  void expandSums(int64_t workspace);

private:
  bool areAligned(ArrayRef<CollapsedDim> loops, unsigned access) const;
  void chooseSlice(Slice &slice, const Factor &factor, unsigned firstAccess,
                   int64_t extent, double pad);
  void locateSlice(Slice &slice, Value begin);
  SmallVector<Value> readSlice(const Slice &slice, Value k, Value end);
  Value readGroup(const Slice &slice, const Slice::Group &group, Value k,
                  Value end);
  void storeSlice(const Slice &slice, ArrayRef<Value> values, Value buffer);
  /// Returns `sums` after adding the products of the slice in `buffer`. Calls
  /// `before` for each k before the products of k are added.
  SmallVector<Value> compute(Value buffer, ValueRange sums,
                             function_ref<void(int64_t k)> before);
  void fillBuffer(Value start, Value end);
  SmallVector<Value> computeChunk(Value start, Value end, Value stop,
                                  Value &buffer);

  /// Return the row and the column of vector `i` of this thread's results.
  Value getRow(int64_t i);
  Value getColumn(int64_t i);
  int64_t getVectors() const { return tile.tm * tile.tn / kVector; }
  /// Calls `store` once for the vector if `whole`, which means that all its
  /// elements are results; otherwise once for each element that is a result.
  void storeChecked(Value vector, Value row, Value column, bool whole,
                    function_ref<void(Value value, Value column)> store);
  void storeResult(int64_t i, Value total);
  Value finishResult(Value total, Value offset, int64_t lanes);
  Value getOutputOffset(Value row, Value column);
  void storeChunk(ArrayRef<Value> sums, Value chunk);
  void addChunk(ArrayRef<Value> sums, Value start, Value end);

  DeviceBuilder &b;
  const DeviceTileConfig tile;
  int64_t batchSize;
  Slice left, right;
  VectorType vectorType;
  Value workspace;
  Value buffers; ///< two in shared memory, each with a slice of both factors
  int64_t bufferSize;
  bool outputVectorized = false;
  // The position of the current block and thread.
  Value thread, block, batchIndex, rowBegin, columnBegin, threadRow,
      threadColumn;
  SmallVector<Value> batchAt;
};
} // namespace

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

ContractionDevice::ContractionDevice(DeviceBuilder &b, Contraction contraction,
                                     const DeviceTileConfig &tile)
    : Contraction(std::move(contraction)), b(b), tile(tile),
      batchSize(getProduct(getSizes(batch))) {
  vectorType = VectorType::get({kVector}, type);
  chooseSlice(left, rows, 0, tile.bm, -0.0);
  chooseSlice(right, columns, rows.inputs.size(), tile.bn, 0.0);
  left.begin = 0;
  right.begin = tile.bk * left.getPitch();
  bufferSize = right.begin + tile.bk * right.getPitch();
  const Access &output = fold.outputs[0];
  int64_t bytes =
      getStorageType(output.element).getIntOrFloatBitWidth() / 8 * kVector;
  unsigned rowAccess = rows.inputs.size(), columnAccess = columns.inputs.size();
  outputVectorized =
      !columns.loops.empty() &&
      columns.loops.back().coefficients[columnAccess] == 1 &&
      columns.loops.back().size % kVector == 0 &&
      output.constant % kVector == 0 && areAligned(rows.loops, rowAccess) &&
      areAligned(ArrayRef(columns.loops).drop_back(), columnAccess) &&
      areAligned(batch, rowAccess + columnAccess) &&
      b.getAlignment(fold.op.getOutputs()[0]) % std::min<int64_t>(bytes, 16) ==
          0;
}

/// Whether an access moves by multiples of kVector elements along all `loops`.
bool ContractionDevice::areAligned(ArrayRef<CollapsedDim> loops,
                                   unsigned access) const {
  return llvm::all_of(loops, [&](const CollapsedDim &loop) {
    return loop.coefficients[access] % kVector == 0;
  });
}

void ContractionDevice::chooseSlice(Slice &slice, const Factor &factor,
                                    unsigned firstAccess, int64_t extent,
                                    double pad) {
  slice.factor = &factor;
  slice.firstAccess = firstAccess;
  slice.extent = extent;
  slice.pad = pad;
  // Choose the direction of groups so that adjacent threads read adjacent
  // elements.
  auto stepsByOne = [&](ArrayRef<CollapsedDim> loops, unsigned leaf) {
    return !loops.empty() && loops.back().coefficients[leaf] == 1;
  };
  slice.alongReduction = false;
  for (unsigned leaf = factor.inputs.size(); leaf-- > 0;)
    if (fold.inputs[factor.inputs[leaf]].isMemory())
      slice.alongReduction =
          stepsByOne(factor.reduction, leaf) && !stepsByOne(factor.loops, leaf);
  ArrayRef<CollapsedDim> inner =
      slice.alongReduction ? factor.reduction : factor.loops;
  ArrayRef<CollapsedDim> outer =
      slice.alongReduction ? factor.loops : factor.reduction;
  slice.vectorized = !inner.empty() && inner.back().size % kVector == 0 &&
                     (!slice.alongReduction || fold.chunk % kVector == 0);
  for (auto [leaf, number] : llvm::enumerate(factor.inputs)) {
    const Access &access = fold.inputs[number];
    if (!access.isMemory())
      continue;
    int64_t bytes =
        getStorageType(access.element).getIntOrFloatBitWidth() / 8 * kVector;
    slice.vectorized &=
        stepsByOne(inner, leaf) && access.constant % kVector == 0 &&
        areAligned(inner.drop_back(), leaf) && areAligned(outer, leaf) &&
        areAligned(batch, firstAccess + leaf) &&
        b.getAlignment(fold.op->getOperand(number)) %
                std::min<int64_t>(bytes, 16) ==
            0;
  }
}

int64_t ContractionDevice::getWorkspaceBytes() const {
  if (isSplit())
    return tile.splits * getResults() * getElementBytes();
  if (getChunks() > 1)
    return tile.rowTiles * tile.columnTiles * batchSize * tile.bm * tile.bn *
           getElementBytes();
  return 0;
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

void ContractionDevice::locateSlice(Slice &slice, Value begin) {
  const Factor &factor = *slice.factor;
  SmallVector<Value> base;
  for (unsigned leaf = 0; leaf < factor.inputs.size(); ++leaf)
    base.push_back(
        b.add(getLoopOffset(b, batch, batchAt, slice.firstAccess + leaf),
              fold.inputs[factor.inputs[leaf]].constant));
  int64_t across = slice.alongReduction ? tile.bk : slice.extent;
  int64_t groups = slice.extent * tile.bk / kVector;
  assert(tile.getThreads() % (across / kVector) == 0 && "incomplete lines");
  int64_t accesses = slice.alongReduction || slice.vectorized ? 1 : kVector;
  // Reads after the end return the last elements, which are not used.
  int64_t last =
      factor.size - (slice.vectorized && !slice.alongReduction ? kVector : 1);
  for (int64_t first = 0; first < groups; first += tile.getThreads()) {
    Slice::Group group;
    if (first + tile.getThreads() > groups)
      group.exists = b.less(b.add(thread, first), b.index(groups));
    // The threads read whole lines of the tile, so that successive groups of a
    // thread are a constant distance apart.
    Value inner = b.mul(b.rem(thread, across / kVector), kVector);
    Value outer =
        b.add(b.div(thread, across / kVector), first / (across / kVector));
    group.own = slice.alongReduction ? outer : inner;
    group.k = slice.alongReduction ? inner : outer;
    for (int64_t e = 0; e < accesses; ++e) {
      Value at = b.add(b.add(begin, group.own), e);
      if (factor.size % slice.extent != 0 || group.exists)
        at = b.min(at, b.index(last));
      SmallVector<Value> coordinates =
          b.delinearize(at, getSizes(factor.loops));
      SmallVector<Value> offsets;
      for (unsigned leaf = 0; leaf < factor.inputs.size(); ++leaf)
        offsets.push_back(b.add(
            base[leaf], getLoopOffset(b, factor.loops, coordinates, leaf)));
      group.offsets.push_back(offsets);
    }
    slice.groups.push_back(group);
  }
}

Value ContractionDevice::readGroup(const Slice &slice,
                                   const Slice::Group &group, Value k,
                                   Value end) {
  const Factor &factor = *slice.factor;
  bool hasTail = fold.chunk % tile.bk != 0 || fold.n % tile.bk != 0;
  Value pad = b.constant(b.getFloatAttr(type, slice.pad));
  k = b.add(k, group.k);
  // Loads `lanes` elements from position `at` of K on, with the offsets of
  // access `e`.
  auto read = [&](Value at, unsigned e, int64_t lanes) -> Value {
    Value isInside;
    if (hasTail)
      isInside = b.less(at, end);
    if (hasTail || group.exists)
      at =
          b.min(at, b.index(fold.n - std::max<int64_t>(
                                         slice.alongReduction ? lanes : 1, 1)));
    SmallVector<Value> coordinates =
        b.delinearize(at, getSizes(factor.reduction));
    Value value = computeFactor(factor, lanes, [&](unsigned leaf) {
      const Access &access = fold.inputs[factor.inputs[leaf]];
      Value offset =
          b.add(group.offsets[e][leaf],
                getLoopOffset(b, factor.reduction, coordinates, leaf));
      return lanes ? b.loadAligned(access.buffer, access.element, offset, lanes)
                   : b.load(access.buffer, access.element, offset);
    });
    if (!isInside)
      return value;
    return b.select(isInside, value, lanes ? b.broadcast(pad, lanes) : pad);
  };
  if (slice.vectorized)
    return read(k, 0, kVector);
  SmallVector<Value> elements;
  for (int64_t e = 0; e < kVector; ++e)
    elements.push_back(slice.alongReduction ? read(b.add(k, e), 0, 0)
                                            : read(k, e, 0));
  return vector::FromElementsOp::create(b, vectorType, elements);
}

SmallVector<Value> ContractionDevice::readSlice(const Slice &slice, Value k,
                                                Value end) {
  SmallVector<Value> values;
  for (const Slice::Group &group : slice.groups)
    values.push_back(readGroup(slice, group, k, end));
  return values;
}

void ContractionDevice::storeSlice(const Slice &slice, ArrayRef<Value> values,
                                   Value buffer) {
  for (auto [group, value] : llvm::zip_equal(slice.groups, values)) {
    auto store = [&, &group = group, value = value] {
      Value at = b.add(b.add(b.mul(group.k, slice.getPitch()), group.own),
                       slice.begin);
      at = b.add(at, buffer);
      if (!slice.alongReduction) {
        b.storeAligned(value, buffers, at);
        return;
      }
      for (int64_t e = 0; e < kVector; ++e)
        memref::StoreOp::create(
            b, vector::ExtractOp::create(b, value, e).getResult(), buffers,
            b.add(at, e * slice.getPitch()));
    };
    if (group.exists)
      b.when(group.exists, store);
    else
      store();
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// A warp is 4 by 8 threads. The rows and columns that a thread loads in one
/// access to shared memory are adjacent to each other and to those of the next
/// threads.
static constexpr int64_t kWarpRows = 4, kWarpColumns = 8;

static int64_t getRowGroup(const DeviceTileConfig &tile) {
  return std::min(tile.tm, kVector);
}

Value ContractionDevice::getRow(int64_t i) {
  int64_t row = i / (tile.tn / kVector), group = getRowGroup(tile);
  return b.add(b.add(rowBegin, threadRow),
               row / group * group * kWarpRows + row % group);
}

Value ContractionDevice::getColumn(int64_t i) {
  int64_t column = i % (tile.tn / kVector);
  return b.add(b.add(columnBegin, threadColumn),
               column * kVector * kWarpColumns);
}

SmallVector<Value>
ContractionDevice::compute(Value buffer, ValueRange carried,
                           function_ref<void(int64_t k)> before) {
  SmallVector<Value> sums(carried);
  int64_t group = getRowGroup(tile);
  for (int64_t k = 0; k < tile.bk; ++k) {
    before(k);
    SmallVector<Value> rowValues, columnValues;
    auto load = [&](const Slice &slice, Value own, int64_t first,
                    int64_t count) {
      Value at =
          b.add(b.add(buffer, own), slice.begin + k * slice.getPitch() + first);
      return b.loadAligned(buffers, type, at, count);
    };
    for (int64_t i = 0; i < tile.tm; i += group) {
      Value values = load(left, threadRow, i * kWarpRows, group);
      for (int64_t e = 0; e < group; ++e) {
        Value value = vector::ExtractOp::create(b, values, e);
        rowValues.push_back(
            tile.sumLanes == 1 ? value : b.broadcast(value, tile.sumLanes));
      }
    }
    for (int64_t i = 0; i < tile.tn; i += kVector) {
      Value values = load(right, threadColumn, i * kWarpColumns, kVector);
      if (tile.sumLanes != 1)
        columnValues.push_back(values);
      else
        for (int64_t e = 0; e < kVector; ++e)
          columnValues.push_back(vector::ExtractOp::create(b, values, e));
    }
    int64_t columns = columnValues.size();
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = math::FmaOp::create(b, rowValues[i / columns],
                                columnValues[i % columns], sum);
  }
  return sums;
}

/// Stores the slice that begins at `start` in the first of the two buffers.
void ContractionDevice::fillBuffer(Value start, Value end) {
  storeSlice(left, readSlice(left, start, end), b.index(0));
  storeSlice(right, readSlice(right, start, end), b.index(0));
  b.barrier();
}

/// (F1), (F4) Returns the sums of the products from index `start` to `end` of
/// the reduction dimension, which are one chunk. `buffer` is the offset of the
/// chunk's first slice in shared memory, and is set to the offset of the next
/// chunk's first slice. `stop` is the end of the last chunk of this block.
SmallVector<Value> ContractionDevice::computeChunk(Value start, Value end,
                                                   Value stop, Value &buffer) {
  Value zero =
      b.zero(getLaneType(type, tile.sumLanes == 1 ? 0 : tile.sumLanes));
  SmallVector<Value> state{buffer};
  state.append(getVectors() * kVector / tile.sumLanes, zero);
  bool isWhole = fold.chunk % tile.bk == 0;
  state = b.loop(start, end, tile.bk, state, [&](Value k, ValueRange carried) {
    Value next = b.add(k, tile.bk), nextEnd = stop;
    if (!isWhole) {
      next = b.min(next, end);
      nextEnd =
          b.select(b.less(next, end), end, b.min(b.add(end, fold.chunk), stop));
    }
    Value isMore = b.less(next, stop);
    Value other = b.sub(b.index(bufferSize), carried[0]);
    // Loads one factor of the next slice during each half of the current one,
    // so that fewer registers wait for loads.
    SmallVector<Value> onTheWay;
    auto read = [&](const Slice &slice) {
      onTheWay = b.chooseOrAny(isMore,
                               [&] { return readSlice(slice, next, nextEnd); });
    };
    SmallVector<Value> result{other};
    llvm::append_range(
        result, compute(carried[0], carried.drop_front(), [&](int64_t at) {
          if (at == 0) {
            read(left);
          } else if (at == tile.bk / 2) {
            storeSlice(left, onTheWay, other);
            read(right);
          }
        }));
    storeSlice(right, onTheWay, other);
    b.barrier();
    return result;
  });
  buffer = state[0];
  SmallVector<Value> sums(llvm::drop_begin(state));
  if (tile.sumLanes != 1)
    return sums;
  SmallVector<Value> vectors;
  for (size_t i = 0; i < sums.size(); i += kVector)
    vectors.push_back(vector::FromElementsOp::create(
        b, vectorType, ValueRange(sums).slice(i, kVector)));
  return vectors;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void ContractionDevice::storeChecked(Value vector, Value row, Value column,
                                     bool whole,
                                     function_ref<void(Value, Value)> store) {
  bool rowsEnd = rows.size % tile.bm != 0;
  bool columnsEnd = columns.size % tile.bn != 0;
  auto storeColumns = [&] {
    if (whole) { // the caller guarantees that no vector crosses the end
      if (!columnsEnd)
        return store(vector, column);
      return b.when(b.less(column, b.index(columns.size)),
                    [&] { store(vector, column); });
    }
    for (int64_t e = 0; e < kVector; ++e) {
      Value at = b.add(column, e);
      auto storeElement = [&] {
        store(vector::ExtractOp::create(b, vector, e), at);
      };
      if (columnsEnd)
        b.when(b.less(at, b.index(columns.size)), storeElement);
      else
        storeElement();
    }
  };
  if (rowsEnd)
    b.when(b.less(row, b.index(rows.size)), storeColumns);
  else
    storeColumns();
}

Value ContractionDevice::getOutputOffset(Value row, Value column) {
  unsigned rowAccess = rows.inputs.size(), columnAccess = columns.inputs.size();
  Value offset =
      b.add(getLoopOffset(b, batch, batchAt, rowAccess + columnAccess),
            fold.outputs[0].constant);
  offset = b.add(offset, getLoopOffset(b, rows.loops,
                                       b.delinearize(row, getSizes(rows.loops)),
                                       rowAccess));
  return b.add(offset,
               getLoopOffset(b, columns.loops,
                             b.delinearize(column, getSizes(columns.loops)),
                             columnAccess));
}

/// (F3) Returns the initial value plus the total, converted to the element type
/// of the output.
Value ContractionDevice::finishResult(Value total, Value offset,
                                      int64_t lanes) {
  const Access &output = fold.outputs[0];
  Value init = fold.getConstantInit(b, 0, lanes);
  if (!init) {
    init = lanes ? b.loadAligned(output.buffer, output.element, offset, lanes)
                 : b.load(output.buffer, output.element, offset);
    init = b.convertFloat(init, type);
  }
  Value result = arith::AddFOp::create(b, init, total);
  return b.convertFloat(b.canonicalizeNaN(result), output.element);
}

void ContractionDevice::storeResult(int64_t i, Value total) {
  const Access &output = fold.outputs[0];
  Value row = getRow(i);
  storeChecked(total, row, getColumn(i), outputVectorized,
               [&](Value value, Value column) {
                 Value offset = getOutputOffset(row, column);
                 if (outputVectorized)
                   b.storeAligned(finishResult(value, offset, kVector),
                                  output.buffer, offset);
                 else
                   b.store(finishResult(value, offset, 0), output.buffer,
                           offset);
               });
}

/// Stores the sums of a chunk in the workspace, which holds the sums of all
/// chunks.
void ContractionDevice::storeChunk(ArrayRef<Value> sums, Value chunk) {
  int64_t n = columns.size;
  bool whole = n % kVector == 0;
  Value base = b.mul(b.add(b.mul(chunk, batchSize), batchIndex), rows.size);
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value row = getRow(i);
    storeChecked(sum, row, getColumn(i), whole, [&](Value value, Value column) {
      Value at = b.add(b.mul(b.add(base, row), n), column);
      if (whole)
        b.storeAligned(value, workspace, at);
      else
        b.store(value, workspace, at);
    });
  }
}

/// (F3) Adds a chunk to the totals in the workspace, or stores the results if
/// it is the last chunk. Few vectors are processed at a time, because the sums
/// take many registers.
void ContractionDevice::addChunk(ArrayRef<Value> sums, Value start, Value end) {
  Value isFirst = b.equal(start, b.index(0));
  Value isLast = b.equal(end, b.index(fold.n));
  // Totals start from -0, because -0 + x is x for every x.
  Value none = b.broadcast(b.constant(b.getFloatAttr(type, -0.0)), kVector);
  constexpr int64_t together = 4;
  for (int64_t first = 0; first < getVectors(); first += together) {
    int64_t count = std::min(together, getVectors() - first);
    auto getSlot = [&](int64_t i) {
      Value number = b.add(b.mul(block, getVectors()), first + i);
      return b.mul(b.add(b.mul(number, tile.getThreads()), thread), kVector);
    };
    SmallVector<Value> totals = b.choose(
        isFirst, [&] { return SmallVector<Value>(count, none); },
        [&] {
          SmallVector<Value> loaded;
          for (int64_t i = 0; i < count; ++i)
            loaded.push_back(
                b.loadAligned(workspace, type, getSlot(i), kVector));
          return loaded;
        });
    for (int64_t i = 0; i < count; ++i)
      totals[i] = arith::AddFOp::create(b, totals[i], sums[first + i]);
    b.when(
        isLast,
        [&] {
          for (int64_t i = 0; i < count; ++i)
            storeResult(first + i, totals[i]);
        },
        [&] {
          for (int64_t i = 0; i < count; ++i)
            b.storeAligned(totals[i], workspace, getSlot(i));
        });
  }
}

void ContractionDevice::expandTiles(int64_t workspaceOffset) {
  LaunchShape launch;
  launch.grid[0] = tile.splits * batchSize * tile.rowTiles * tile.columnTiles;
  launch.block[0] = tile.getThreads();
  launch.blocksPerProcessor = tile.blocksPerProcessor;
  b.setLaunch(launch);
  if (int64_t bytes = getWorkspaceBytes())
    workspace =
        b.getWorkspace(type, bytes / getElementBytes(), workspaceOffset);
  thread = b.getThreadId();
  block = b.getBlockId();
  SmallVector<Value> at = b.delinearize(
      block, {tile.splits, batchSize, tile.rowTiles, tile.columnTiles});
  batchIndex = at[1];
  batchAt = b.delinearize(batchIndex, getSizes(batch));
  rowBegin = b.mul(at[2], tile.bm);
  columnBegin = b.mul(at[3], tile.bn);
  int64_t warpColumns = tile.bn / tile.tn / kWarpColumns;
  Value warp = b.div(thread, kWarpRows * kWarpColumns);
  Value lane = b.rem(thread, kWarpRows * kWarpColumns);
  threadRow = b.add(b.mul(b.div(warp, warpColumns), kWarpRows * tile.tm),
                    b.mul(b.div(lane, kWarpColumns), getRowGroup(tile)));
  threadColumn = b.add(b.mul(b.rem(warp, warpColumns), kWarpColumns * tile.tn),
                       b.mul(b.rem(lane, kWarpColumns), kVector));
  buffers = b.createTile(2 * bufferSize, type);
  locateSlice(left, rowBegin);
  locateSlice(right, columnBegin);
  Value n = b.index(fold.n), buffer = b.index(0);
  if (isSplit()) {
    Value start = b.mul(at[0], fold.chunk);
    Value end = b.min(b.add(start, fold.chunk), n);
    fillBuffer(start, end);
    storeChunk(computeChunk(start, end, end, buffer), at[0]);
    return;
  }
  fillBuffer(b.index(0), b.index(fold.chunk));
  if (getChunks() == 1) {
    for (auto [i, sum] :
         llvm::enumerate(computeChunk(b.index(0), n, n, buffer)))
      storeResult(i, sum);
    return;
  }
  b.loop(b.index(0), n, fold.chunk, {buffer},
         [&](Value start, ValueRange carried) {
           Value end = b.min(b.add(start, fold.chunk), n);
           Value row = carried[0];
           addChunk(computeChunk(start, end, n, row), start, end);
           return SmallVector<Value>{row};
         });
}

/// (F3) Emits the kernel that adds the chunks of each result in order.
void ContractionDevice::expandSums(int64_t workspaceOffset) {
  workspace = b.getWorkspace(type, tile.splits * getResults(), workspaceOffset);
  SmallVector<int64_t> sizes{batchSize, rows.size, columns.size};
  b.forEachItem([&](Value item) {
    Value total = b.load(workspace, type, item);
    for (int64_t chunk = 1; chunk < tile.splits; ++chunk)
      total = arith::AddFOp::create(
          b, total, b.load(workspace, type, b.add(item, chunk * getResults())));
    SmallVector<Value> at = b.delinearize(item, sizes);
    batchAt = b.delinearize(at[0], getSizes(batch));
    Value offset = getOutputOffset(at[1], at[2]);
    b.store(finishResult(total, offset, 0), fold.outputs[0].buffer, offset);
  });
  b.setWork(getResults(), 1);
}

/// Returns the settled contraction and its tiling. Fails if the fold is not a
/// contraction.
static FailureOr<std::pair<Contraction, DeviceTileConfig>>
match(DeviceBuilder &b, FoldOp op) {
  Contraction contraction(b, op);
  if (failed(contraction.matchFactors()))
    return failure();
  DeviceTileConfig tile =
      chooseDeviceTileConfig(contraction.getShape(), b.getArchitecture());
  contraction.settleFactors(tile.swapsFactors);
  return std::make_pair(std::move(contraction), tile);
}

LogicalResult device::expandContraction(DeviceKernelFactory &factory,
                                        FoldOp op) {
  int64_t workspace = 0;
  bool isSplit = false;
  LogicalResult matched = factory.tryCreate<FoldOp>(
      "", [&](DeviceBuilder &b, FoldOp copy) -> LogicalResult {
        auto matched = match(b, copy);
        if (failed(matched))
          return failure();
        auto &[contraction, tile] = *matched;
        contraction.noteTiles(tile.describe());
        ContractionDevice kernel(b, std::move(contraction), tile);
        isSplit = kernel.isSplit();
        if (int64_t bytes = kernel.getWorkspaceBytes())
          workspace = factory.getWorkspace().allocate(bytes);
        kernel.expandTiles(workspace);
        return success();
      });
  if (succeeded(matched) && isSplit)
    factory.create<FoldOp>("sums", [&](DeviceBuilder &b, FoldOp copy) {
      auto matched = match(b, copy);
      auto &[contraction, tile] = *matched;
      ContractionDevice kernel(b, std::move(contraction), tile);
      kernel.expandSums(workspace);
    });
  return matched;
}
