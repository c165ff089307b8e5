//===- BlockDevice.cpp - Block contractions (Q4) by matrix instructions ---===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matrix instructions on bytes compute the exact sum of a block of integers;
// each thread then continues the f32 chain of its results (Q4). A slice of K
// contains several blocks or a part of one. With an odd number of blocks of 16
// elements, the last slice contains one block, which is read twice and added
// once. An i16 consists of two digits: the unsigned lower byte and the signed
// higher byte. Products of digits p and q with equal p + q are added to one
// sum.
//
// If no sum can be too large, sums start from the bits of a float whose unit in
// the last place is one unit of the products. Adding to the bits then adds to
// the float, and subtracting the start leaves the sum as an f32. GPUs convert
// i32 to f32 at a fraction of the rate of this subtraction.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/GPU/Kernels/ByteTile.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"
#include "Target/ByteMatrices.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

namespace {
class BlockDevice {
  static constexpr int64_t kTile = ByteTile::kTile, kStep = ByteTile::kStep;

public:
  BlockDevice(DeviceBuilder &b, BlockContractionOp op);
  LogicalResult match();
  void expand();

private:
  Value getOffset(const Access &access, Value row, Value column);
  SmallVector<Value> loadSlots(unsigned f, Value k);
  SmallVector<Value> readSlice(Value slice);
  void storeSlice(ArrayRef<Value> values, Value buffer);
  SmallVector<Value> compute(Value slice, Value buffer, ValueRange state);
  /// Adds block `number` of the slice to the chain of each result and returns
  /// the new totals. `sums` has the sums of the block's products.
  SmallVector<Value> addBlock(Value buffer, int64_t number,
                              ArrayRef<Value> sums, ValueRange totals);
  /// Adds the products of a step (kStep elements of K) to `sums`, or those of
  /// one half of the step if `half` is given.
  void multiply(Value buffer, int64_t step, std::optional<int64_t> half,
                MutableArrayRef<Value> sums);
  Value getDot(ArrayRef<Value> sums, int64_t result);
  void storeResults(ValueRange totals);

  Value i32(int64_t value) { return b.constant(b.getI32IntegerAttr(value)); }
  Value f32(float value) { return b.constant(b.getF32FloatAttr(value)); }
  /// Returns the number of parts in a slice. A part has one digit of the codes
  /// of one factor in one step (see ByteTile::kPart).
  int64_t getParts() const { return steps * (digits[0] + digits[1]); }
  int64_t getPart(unsigned f, int64_t step, int64_t digit) const {
    return f * steps * digits[0] + step * digits[f] + digit;
  }
  /// Returns the initial sums: kResults sums for each value of p + q, where p
  /// is the index of a digit of the first factor and q of one of the second.
  SmallVector<Value> getStarts() {
    SmallVector<Value> starts(ByteTile::kResults, i32(start));
    starts.append((digits[0] + digits[1] - 2) * ByteTile::kResults, i32(0));
    return starts;
  }
  /// Return the number of a factor's scales in a slice, and how many of them
  /// each thread copies.
  int64_t getScales() const { return kTile * sliceBlocks; }
  int64_t getThreadScales() const {
    return llvm::divideCeil(getScales(), ByteTile::kThreads);
  }

  DeviceBuilder &b;
  BlockContractionOp op;
  MemRefType results;
  int64_t rank, k;
  int64_t block; ///< elements per block
  int64_t steps; ///< per slice
  int64_t slices, sliceBlocks;
  int64_t blockSlices; ///< per block; 1 if a slice contains whole blocks
  bool endsInHalf;     ///< the last slice is half of a step
  Access codes[2], scales[2], output;
  int64_t sizes[2];
  int64_t digits[2]; ///< per code
  /// `origin` is 1.5 times the power of two whose unit in the last place is one
  /// unit of the products, and `start` has the bits of `origin`. Both are 0 if
  /// sums may be too large.
  float origin = 0;
  int32_t start = 0;
  std::optional<ByteTile> tile;
  SmallVector<Value> batch; ///< batch coordinates
  Value slotBegin[2][2];    ///< offsets of the slot's two rows at K = 0
  SmallVector<Value> scaleBegin[2], scaleNumber[2], scalePlace[2];
};
} // namespace

BlockDevice::BlockDevice(DeviceBuilder &b, BlockContractionOp op)
    : b(b), op(op), results(cast<MemRefType>(op.getOutputs()[0].getType())),
      rank(results.getRank()),
      k(cast<MemRefType>(op.getInputs()[0].getType()).getDimSize(rank - 1)),
      block(std::min<int64_t>(op.getBlock(), k)),
      sizes{results.getDimSize(rank - 2), results.getDimSize(rank - 1)} {}

LogicalResult BlockDevice::match() {
  if (!b.getArchitecture().hasByteMatrices || !op.getFractionBits() ||
      results.getNumElements() == 0 ||
      std::min(sizes[0], sizes[1]) < repro_target::fewestByteMatrixRows)
    return failure();
  // A block must consist of whole steps or be half of a step.
  if (k == 0 || k % block || (block % kStep && block != kStep / 2))
    return failure();
  AffineMap identity = b.getMultiDimIdentityMap(rank);
  constexpr int64_t kAccess = 8;       // elements
  constexpr int64_t kLargestI16 = 448; // if no magnitudes are given
  int64_t largest = block;
  for (unsigned f : {0, 1}) {
    Value operand = op.getInputs()[2 * f];
    codes[f] = b.getAccess(operand, identity);
    scales[f] = b.getAccess(op.getInputs()[2 * f + 1], identity);
    ArrayRef<int64_t> coefficients = codes[f].coefficients;
    digits[f] = codes[f].element.isInteger(8) ? 1 : 2;
    if (op.getMagnitudes())
      largest *= (*op.getMagnitudes())[f];
    else
      largest *= digits[f] == 1 ? -INT8_MIN : kLargestI16;
    if (!codes[f].linear || coefficients.back() != 1 ||
        codes[f].constant % kAccess ||
        llvm::any_of(coefficients.drop_back(),
                     [](int64_t step) { return step % kAccess; }) ||
        b.getAlignment(operand) % (kAccess * digits[f]))
      return failure();
  }
  output = b.getAccess(op.getOutputs()[0], identity);

  // A slice has two steps, or one if blocks (or K, for short blocks) have an
  // odd number of steps.
  steps = (block > kStep ? block : k) % (2 * kStep) ? 1 : 2;
  slices = llvm::divideCeil(k, steps * kStep);
  endsInHalf = k % kStep;
  sliceBlocks = std::max<int64_t>(steps * kStep / block, 1);
  blockSlices = std::max<int64_t>(block / (steps * kStep), 1);
  if (largest < int64_t(1) << 22) {
    origin = std::ldexp(1.5f, 23 - int(*op.getFractionBits()));
    start = llvm::bit_cast<int32_t>(origin);
  }
  return success();
}

Value BlockDevice::getOffset(const Access &access, Value row, Value column) {
  SmallVector<Value> at(batch);
  at.append({row, column});
  return b.getOffset(access, at);
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Returns this thread's slot (see ByteTile.h) of the step that begins at
/// element k, for each digit.
SmallVector<Value> BlockDevice::loadSlots(unsigned f, Value k) {
  Value member = b.rem(tile->thread, 4);
  SmallVector<Value> words[2][2]; // indexed by digit and row
  auto load = [&](int64_t row, Value at, int64_t elements) {
    int64_t count = elements / 4 * digits[f];
    auto type = VectorType::get({count}, b.getI32Type());
    Value loaded = vector::BitCastOp::create(
        b, type,
        b.loadAligned(codes[f].buffer, codes[f].element,
                      b.add(slotBegin[row][f], at), elements));
    SmallVector<Value> parts;
    for (int64_t i = 0; i < count; ++i)
      parts.push_back(vector::ExtractOp::create(b, loaded, i));
    if (digits[f] == 1) {
      words[0][row].append(parts);
      return;
    }
    // Takes bytes 0 and 2 of each word as the lower digits, and bytes 1 and 3
    // as the higher digits.
    for (int64_t i = 0; i < count; i += 2)
      for (int64_t digit : {0, 1})
        words[digit][row].push_back(NVVM::PermuteOp::create(
            b, b.getI32Type(), parts[i], parts[i + 1],
            i32(digit ? 0x7531 : 0x6420), NVVM::PermuteMode::DEFAULT));
  };
  for (int64_t row : {0, 1}) {
    if (block >= kStep) {
      load(row, b.add(k, b.mul(member, 8)), 8);
      continue;
    }
    for (int64_t half : {0, 1}) {
      Value at = b.add(k, half * block);
      if (endsInHalf)
        at = b.min(at, b.index(this->k - block));
      load(row, b.add(at, b.mul(member, 4)), 4);
    }
  }
  auto type = VectorType::get({ByteTile::kSlot}, b.getI32Type());
  SmallVector<Value> slots;
  for (int64_t digit = 0; digit < digits[f]; ++digit)
    slots.push_back(vector::FromElementsOp::create(
        b, type, ByteTile::fillSlot(f, words[digit][0], words[digit][1])));
  return slots;
}

/// Returns the words that this thread copies: its slots, then its scales.
SmallVector<Value> BlockDevice::readSlice(Value slice) {
  SmallVector<Value> values;
  for (unsigned f : {0, 1})
    for (int64_t step = 0; step < steps; ++step)
      llvm::append_range(values, loadSlots(f, b.add(b.mul(slice, steps * kStep),
                                                    step * kStep)));
  Value firstBlock =
      blockSlices > 1 ? b.div(slice, blockSlices) : b.mul(slice, sliceBlocks);
  for (unsigned f : {0, 1})
    for (auto [begin, number] :
         llvm::zip_equal(scaleBegin[f], scaleNumber[f])) {
      Value at = firstBlock;
      if (endsInHalf)
        at = b.min(at, b.sub(b.index(k / block - 1), number));
      at = b.add(begin, b.mul(at, scales[f].coefficients.back()));
      values.push_back(arith::BitcastOp::create(
          b, b.getI32Type(), b.load(scales[f].buffer, b.getF32Type(), at)));
    }
  return values;
}

void BlockDevice::storeSlice(ArrayRef<Value> values, Value buffer) {
  for (int64_t part = 0; part < getParts(); ++part)
    tile->storeSlot(values[part], buffer, part);
  values = values.drop_front(getParts());
  auto storeScales = [&] {
    for (unsigned f : {0, 1})
      for (auto [i, place] : llvm::enumerate(scalePlace[f]))
        b.store(values[f * getThreadScales() + i], tile->buffers,
                b.add(buffer, place));
  };
  if (getScales() < ByteTile::kThreads)
    b.when(b.less(tile->thread, b.index(getScales())), storeScales);
  else
    storeScales();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void BlockDevice::multiply(Value buffer, int64_t step,
                           std::optional<int64_t> half,
                           MutableArrayRef<Value> sums) {
  SmallVector<SmallVector<SmallVector<Value>>> slots[2];
  for (unsigned f : {0, 1})
    for (int64_t digit = 0; digit < digits[f]; ++digit)
      slots[f].push_back(tile->loadSlots(f, buffer, getPart(f, step, digit)));
  auto getType = [&](unsigned f, int64_t digit) {
    return digit + 1 < digits[f] ? NVVM::MMATypes::u8 : NVVM::MMATypes::s8;
  };
  for (int64_t p = 0; p < digits[0]; ++p)
    for (int64_t q = 0; q < digits[1]; ++q)
      tile->multiply(
          slots[0][p], slots[1][q],
          sums.slice((p + q) * ByteTile::kResults, ByteTile::kResults), half,
          {getType(0, p), getType(1, q)});
}

/// Returns the dot product of a block for result number `result`, rounded to
/// f32.
Value BlockDevice::getDot(ArrayRef<Value> sums, int64_t result) {
  Value dot = sums[result];
  for (int64_t i = result + ByteTile::kResults, shift = 8;
       i < int64_t(sums.size()); i += ByteTile::kResults, shift += 8)
    dot = arith::AddIOp::create(b, dot,
                                arith::ShLIOp::create(b, sums[i], i32(shift)));
  if (origin)
    return arith::SubFOp::create(
        b, arith::BitcastOp::create(b, b.getF32Type(), dot), f32(origin));
  Value real = arith::SIToFPOp::create(b, b.getF32Type(), dot);
  return arith::MulFOp::create(
      b, real, f32(std::ldexp(1.0f, -int(*op.getFractionBits()))));
}

SmallVector<Value> BlockDevice::addBlock(Value buffer, int64_t number,
                                         ArrayRef<Value> sums,
                                         ValueRange totals) {
  SmallVector<Value> lines[2];
  // A thread's columns are adjacent in pairs, so two column scales are loaded
  // at once.
  for (unsigned f : {0, 1})
    for (int64_t i = 0; i < 2 * (f ? ByteTile::kWide : ByteTile::kHigh);
         i += 1 + f) {
      Value at = b.add(b.add(buffer, tile->getLineOfTile(f, i)),
                       getParts() * ByteTile::kPart +
                           (f * sliceBlocks + number) * kTile);
      Value loaded = b.loadAligned(tile->buffers, b.getI32Type(), at, 1 + f);
      for (unsigned e = 0; e <= f; ++e)
        lines[f].push_back(arith::BitcastOp::create(
            b, b.getF32Type(), vector::ExtractOp::create(b, loaded, e)));
    }
  SmallVector<Value> next;
  for (auto [i, total] : llvm::enumerate(totals)) {
    Value scale = arith::MulFOp::create(b, lines[0][ByteTile::getRow(i)],
                                        lines[1][ByteTile::getColumn(i)]);
    Value dot = getDot(sums, i);
    if (op.getStep() == BlockStep::fused)
      next.push_back(math::FmaOp::create(b, dot, scale, total));
    else
      next.push_back(arith::AddFOp::create(
          b, total, arith::MulFOp::create(b, dot, scale)));
  }
  return next;
}

/// Processes a slice and returns the next state: the totals and, if a block
/// spans several slices, the sums of that block.
SmallVector<Value> BlockDevice::compute(Value slice, Value buffer,
                                        ValueRange state) {
  SmallVector<Value> totals(state.take_front(ByteTile::kResults));
  SmallVector<Value> starts = getStarts(), sums = starts;
  if (blockSlices > 1)
    sums.assign(state.begin() + ByteTile::kResults, state.end());
  int64_t number = 0;
  auto endBlock = [&] {
    totals = addBlock(buffer, number++, sums, totals);
    sums = starts;
  };
  for (int64_t step = 0; step < steps; ++step) {
    if (block < kStep) {
      multiply(buffer, step, /*half=*/0, sums);
      endBlock();
      auto addSecond = [&] {
        multiply(buffer, step, /*half=*/1, sums);
        endBlock();
        return totals;
      };
      // In the last slice, the second half may be missing. It is then skipped,
      // because padding it with zeros could change a sum of -0.
      if (endsInHalf)
        totals = b.choose(b.less(slice, b.index(slices - 1)), addSecond,
                          [first = totals] { return first; });
      else
        addSecond();
      continue;
    }
    multiply(buffer, step, /*half=*/{}, sums);
    if (blockSlices == 1 && (step + 1) * kStep % block == 0)
      endBlock();
  }
  if (blockSlices == 1)
    return totals;
  auto join = [&](ValueRange totals, ValueRange sums) {
    SmallVector<Value> joined(totals);
    llvm::append_range(joined, sums);
    return joined;
  };
  Value inBlock = b.rem(slice, blockSlices);
  return b.choose(
      b.equal(inBlock, b.index(blockSlices - 1)),
      [&] { return join(addBlock(buffer, 0, sums, totals), starts); },
      [&] { return join(totals, sums); });
}

void BlockDevice::storeResults(ValueRange totals) {
  for (int64_t i = 0; i < ByteTile::kResults; ++i) {
    ByteTile::Line row = tile->getLine(0, ByteTile::getRow(i)),
                   column = tile->getLine(1, ByteTile::getColumn(i));
    tile->whenExists(row, column, [&] {
      Value at = getOffset(output, row.place, column.place);
      Value init = b.load(output.buffer, b.getF32Type(), at);
      Value result = arith::AddFOp::create(b, init, totals[i]);
      b.store(b.canonicalizeNaN(result), output.buffer, at);
    });
  }
}

void BlockDevice::expand() {
  ArrayRef<int64_t> outer = results.getShape().drop_back(2);
  int64_t words = getParts() * ByteTile::kPart + 2 * getScales();
  tile.emplace(b, getProduct(outer), sizes, words,
               /*blocksPerProcessor=*/digits[0] + digits[1] > 2 ? 2 : 3);
  batch = b.delinearize(tile->batchIndex, outer);
  Value zero = b.index(0);
  for (unsigned f : {0, 1}) {
    auto limit = [&](Value row) {
      return sizes[f] % kTile ? b.min(row, b.index(sizes[f] - 1)) : row;
    };
    Value upper =
        b.add(tile->begin[f], ByteTile::getUpperRow(b, b.div(tile->thread, 4)));
    for (int64_t half : {0, 1})
      slotBegin[half][f] =
          getOffset(codes[f], limit(b.add(upper, 8 * half)), zero);
    for (int64_t i = 0; i < getThreadScales(); ++i) {
      // If there are more threads than scales, the remaining threads copy
      // scales that other threads copy too.
      Value item = b.add(tile->thread, i * ByteTile::kThreads);
      if (getScales() < ByteTile::kThreads)
        item = b.rem(item, getScales());
      Value own = b.div(item, sliceBlocks), number = b.rem(item, sliceBlocks);
      Value row = b.div(limit(b.add(tile->begin[f], own)), op.getRows()[f]);
      scaleBegin[f].push_back(getOffset(scales[f], row, number));
      scaleNumber[f].push_back(number);
      scalePlace[f].push_back(
          b.add(b.add(b.mul(number, kTile), own),
                getParts() * ByteTile::kPart + f * getScales()));
    }
  }
  SmallVector<Value> state(ByteTile::kResults, f32(0));
  if (blockSlices > 1)
    llvm::append_range(state, getStarts());
  state = tile->forSlices(
      slices, state, [&](Value slice) { return readSlice(slice); },
      [&](ArrayRef<Value> values, Value buffer) { storeSlice(values, buffer); },
      [&](Value slice, Value buffer, ValueRange carried) {
        return compute(slice, buffer, carried);
      });
  storeResults(ValueRange(state).take_front(ByteTile::kResults));
}

LogicalResult device::expandBlockContraction(DeviceKernelFactory &factory,
                                             BlockContractionOp op) {
  auto expandTile = [](DeviceBuilder &b, BlockContractionOp copy) {
    BlockDevice kernel(b, copy);
    if (failed(kernel.match()))
      return failure();
    kernel.expand();
    return success();
  };
  if (succeeded(factory.tryCreate<BlockContractionOp>("", expandTile)))
    return success();
  factory.create<BlockContractionOp>("", expandLiteralBlockContraction);
  return success();
}
