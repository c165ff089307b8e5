//===- ByteTile.cpp - Tiles of matrix instructions on bytes ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Kernels/ByteTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

ByteTile::ByteTile(DeviceBuilder &b, int64_t batchSize, ArrayRef<int64_t> sizes,
                   int64_t words, int64_t blocksPerProcessor)
    : b(b), sizes{sizes[0], sizes[1]}, words(words) {
  int64_t tiles[] = {llvm::divideCeil(sizes[0], kTile),
                     llvm::divideCeil(sizes[1], kTile)};
  LaunchShape launch;
  launch.grid[0] = batchSize * tiles[0] * tiles[1];
  launch.block[0] = kThreads;
  launch.blocksPerProcessor = blocksPerProcessor;
  b.setLaunch(launch);
  buffers = b.createTile(2 * words, b.getI32Type());
  thread = b.getThreadId();
  SmallVector<Value> at =
      b.delinearize(b.getBlockId(), {batchSize, tiles[0], tiles[1]});
  batchIndex = at[0];
  Value warp = b.div(thread, kWarp), lane = b.rem(thread, kWarp);
  for (unsigned f : {0, 1}) {
    begin[f] = b.mul(at[1 + f], kTile);
    warpBegin[f] = b.mul(f ? b.rem(warp, 2) : b.div(warp, 2), kTile / 2);
  }
  group = b.div(lane, 4);
  member = b.rem(lane, 4);
}

Value ByteTile::getUpperRow(KernelBuilder &b, Value line) {
  return b.add(b.mul(b.div(line, 8), 16), b.rem(line, 8));
}

SmallVector<Value> ByteTile::fillSlot(unsigned f, ArrayRef<Value> upper,
                                      ArrayRef<Value> lower) {
  // The order of an instruction's registers: for factor 0, they alternate
  // between the two rows; for factor 1, those of the upper row come first.
  if (f == 0)
    return {upper[0], lower[0], upper[1], lower[1]};
  return {upper[0], upper[1], lower[0], lower[1]};
}

SmallVector<Value> ByteTile::forSlices(
    int64_t slices, ValueRange inits,
    function_ref<SmallVector<Value>(Value)> read,
    function_ref<void(ArrayRef<Value>, Value)> store,
    function_ref<SmallVector<Value>(Value, Value, ValueRange)> compute) {
  store(read(b.index(0)), b.index(0));
  b.barrier();
  SmallVector<Value> state{b.index(0)};
  llvm::append_range(state, inits);
  state = b.loop(b.index(0), b.index(slices), 1, state,
                 [&](Value slice, ValueRange carried) {
                   Value next = b.add(slice, 1);
                   Value isMore = b.less(next, b.index(slices));
                   Value other = b.sub(b.index(words), carried[0]);
                   SmallVector<Value> onTheWay =
                       b.chooseOrAny(isMore, [&] { return read(next); });
                   SmallVector<Value> result{other};
                   llvm::append_range(result, compute(slice, carried[0],
                                                      carried.drop_front()));
                   store(onTheWay, other);
                   b.barrier();
                   return result;
                 });
  return SmallVector<Value>(ArrayRef<Value>(state).drop_front());
}

void ByteTile::storeSlot(Value slot, Value buffer, int64_t part) {
  b.storeAligned(slot, buffers,
                 b.add(b.add(buffer, b.mul(thread, kSlot)), part * kPart));
}

SmallVector<SmallVector<Value>> ByteTile::loadSlots(unsigned f, Value buffer,
                                                    int64_t part) {
  Value line = b.add(b.div(warpBegin[f], 2), group);
  Value at = b.add(buffer, b.add(b.mul(line, kLine), b.mul(member, kSlot)));
  SmallVector<SmallVector<Value>> slots;
  for (int64_t pair = 0; pair < kTile / 2 / 16; ++pair) {
    Value loaded =
        b.loadAligned(buffers, b.getI32Type(),
                      b.add(at, part * kPart + pair * 8 * kLine), kSlot);
    slots.emplace_back();
    for (int64_t e = 0; e < kSlot; ++e)
      slots.back().push_back(vector::ExtractOp::create(b, loaded, e));
  }
  return slots;
}

void ByteTile::multiply(ArrayRef<SmallVector<Value>> rows,
                        ArrayRef<SmallVector<Value>> columns,
                        MutableArrayRef<Value> sums,
                        std::optional<int64_t> half,
                        std::array<NVVM::MMATypes, 2> types) {
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(kQuad, b.getI32Type()));
  int64_t first = half.value_or(0), registers = half ? 1 : 2;
  for (int64_t high = 0; high < kHigh; ++high)
    for (int64_t wide = 0; wide < kWide; ++wide) {
      ArrayRef<Value> row = rows[high], column = columns[wide / 2];
      MutableArrayRef<Value> sum =
          sums.slice((high * kWide + wide) * kQuad, kQuad);
      Value product = NVVM::MmaOp::create(
          b, type, row.slice(2 * first, 2 * registers),
          column.slice(wide % 2 * 2 + first, registers), ArrayRef<Value>(sum),
          ArrayRef<int64_t>{16, 8, 16 * registers}, std::nullopt,
          NVVM::MMAIntOverflow::wrapped, types,
          std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
      for (int64_t e = 0; e < kQuad; ++e)
        sum[e] = LLVM::ExtractValueOp::create(b, product, e);
    }
}

Value ByteTile::getLineOfTile(unsigned f, int64_t number) {
  if (f == 0)
    return b.add(b.add(warpBegin[0], group), 8 * number);
  return b.add(b.add(warpBegin[1], b.mul(member, 2)),
               number / 2 * 8 + number % 2);
}

ByteTile::Line ByteTile::getLine(unsigned f, int64_t number) {
  Line line{b.add(begin[f], getLineOfTile(f, number)), Value()};
  if (sizes[f] % kTile) {
    line.exists = b.less(line.place, b.index(sizes[f]));
    line.place = b.min(line.place, b.index(sizes[f] - 1));
  }
  return line;
}

void ByteTile::whenExists(const Line &row, const Line &column,
                          function_ref<void()> store) {
  Value exists = row.exists ? row.exists : column.exists;
  if (row.exists && column.exists)
    exists = arith::AndIOp::create(b, row.exists, column.exists);
  if (exists)
    b.when(exists, store);
  else
    store();
}
