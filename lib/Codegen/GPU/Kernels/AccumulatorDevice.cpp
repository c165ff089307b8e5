//===- AccumulatorDevice.cpp - (M4) by matrix instructions ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread block of 2 x 2 warps computes a tile of the result with mma.sync,
// whose sums are those of the rule (M3). The thread block reads both factors in
// slices along K into shared memory, as 32-bit words of one, two or four
// elements that are adjacent along K. Threads read the next slice while the
// warps multiply the current one.
//
// An instruction adds one block of products (M1), or two in ascending order of
// K. Zeros pad the last block of products: a product of zeros has no exponent
// and adds nothing. The last block of products never consists of zeros only,
// because that would change a sum of -0 to +0.
//
// The instruction ignores the f32 bits that tf32 lacks. If an element of a tile
// has such bits set, the first kernel stores no results for the tile, and a
// second kernel computes them with integer arithmetic.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/AccumulatorChain.h"
#include "Codegen/Common/Contraction.h"
#include "Codegen/Common/StructuredKernels.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;
using repro_target::MatrixElement;
using repro_target::MatrixRounding;
using repro_target::MatrixRule;
using repro_target::MatrixUnit;

namespace {
constexpr int64_t kTileThreads = 128;
/// kFour is the number of words along K that a thread reads at once, and the
/// number of threads that share a row of an instruction's operand. kMostWords
/// is the maximum number of words in a row of a slice.
constexpr int64_t kFour = 4, kMostWords = 16;
/// The rows and columns of the result of one mma.sync instruction.
constexpr int64_t kRows = 16, kColumns = 8;
/// Large tiles require at least this number of rows and of columns.
constexpr int64_t kLargeProduct = 96;
/// The fraction bits of an f32 that tf32 lacks.
constexpr int64_t kLowBits = 0x1fff;

class AccumulatorDevice : public Contraction {
public:
  AccumulatorDevice(DeviceBuilder &b, FoldOp op)
      : Contraction(b, op), b(b), rule(cast<FdpaAttr>(op.getOrderAttr())) {}
  LogicalResult match();
  /// Whether elements are f32, whose low bits must be checked while the first
  /// kernel runs.
  bool isChecked() const { return elements[0] == MatrixElement::TF32; }
  int64_t getNumTiles() const;
  /// Builds the first kernel. If elements are checked, `flags` is the offset of
  /// the flags in the workspace: one word for each tile, nonzero if the tile
  /// has no results yet.
  void expand(int64_t flags);
  /// Builds the second kernel, which computes the tiles whose flag is nonzero.
  void expandInIntegers(int64_t flags);

private:
  const Factor &getFactor(unsigned f) const { return f ? columns : rows; }
  const Access &getAccess(unsigned f) const {
    return fold.inputs[getFactor(f).inputs[0]];
  }
  /// Return the number of elements along K in a slice, and in four words.
  int64_t getSlice() const { return words * packed; }
  int64_t getGroup() const { return kFour * packed; }
  /// Returns the distance in words between rows of a slice in shared memory.
  /// The padding puts the rows that an instruction reads into different banks.
  int64_t getPitch() const { return words + kFour; }
  bool chooseSlice();
  void chooseTile();
  void beginBlock(int64_t blocksPerProcessor);
  /// Returns the offset in factor `f` of the first element of row or column
  /// `at`.
  Value locate(unsigned f, Value at);
  void chooseGroups(unsigned f);
  void readSlice(unsigned f, Value slice, bool isLast,
                 SmallVector<Value> &values);
  /// Reads this thread's words of a slice of both factors. If elements are
  /// checked, one more value is appended: the bits that tf32 lacks.
  SmallVector<Value> readSlices(Value slice, bool isLast);
  void storeSlices(ArrayRef<Value> values, Value buffer);
  /// Adds the products of the first `count` elements along K of a slice to
  /// `sums`.
  void multiply(Value buffer, int64_t count, MutableArrayRef<Value> sums);
  void multiply(ArrayRef<Value> left, ArrayRef<Value> right,
                MutableArrayRef<Value> sums);
  /// Convert f32 values to accumulator registers and back. A register holds one
  /// f32 or two f16.
  SmallVector<Value> pack(ArrayRef<Value> values);
  SmallVector<Value> unpack(ArrayRef<Value> sums);
  /// Calls `handle` for each sum of the thread, with the number of the sum, its
  /// offset in the output, and an i1 that is true if the sum is a result. The
  /// i1 is null if the sum is always a result.
  void forSums(function_ref<void(int64_t, Value offset, Value exists)> handle);
  Value readInit(Value offset);
  void storeResult(Value result, Value offset);
  void storeResults(ArrayRef<Value> totals);
  /// Sets the flag of the tile if any thread of the block has seen bits that
  /// tf32 lacks. Returns whether no thread has seen any.
  Value noteLowBits(Value seen, int64_t flags);

  Value i32(int64_t value) { return b.constant(b.getI32IntegerAttr(value)); }

  DeviceBuilder &b;
  const FdpaAttr rule;
  const MatrixUnit *unit = nullptr;
  MatrixElement elements[2];
  bool toF16 = false;
  int64_t packed = 0, words = 0; ///< elements per word, words per row
  int64_t high = 0, wide = 0;    ///< rows and columns of instructions per warp
  int64_t extents[2];            ///< rows and columns of the tile
  bool isAlong[2], isVector[2];
  int64_t batchSize = 1;
  // The position of this thread block and thread, and the buffers in shared
  // memory.
  Value thread, batchIndex, begin[2], warpBegin[2], group, member, buffers;
  struct Group {
    Value own, part; ///< row or column in the tile, group of four words in K
    Value base;      ///< its offset in the buffer at the slice's first K
  };
  SmallVector<Group> groups[2];
};
} // namespace

static std::optional<MatrixElement> getMatrixElement(Type type) {
  if (type.isF16())
    return MatrixElement::F16;
  if (type.isBF16())
    return MatrixElement::BF16;
  if (type.isF32())
    return MatrixElement::TF32;
  if (isa<Float8E4M3FNType>(type))
    return MatrixElement::E4M3;
  if (isa<Float8E5M2Type>(type))
    return MatrixElement::E5M2;
  return std::nullopt;
}

static SumRounding getRounding(MatrixRounding rounding) {
  switch (rounding) {
  case MatrixRounding::ToF32:
    return SumRounding::rz_f32;
  case MatrixRounding::ToE8M13:
    return SumRounding::rz_e8m13;
  case MatrixRounding::ToF16:
    return SumRounding::rne_f16;
  }
  llvm_unreachable("a rounding");
}

LogicalResult AccumulatorDevice::match() {
  unit = b.getArchitecture().matrixUnit;
  if (!unit || failed(matchFactors()))
    return failure();
  // Adjacent threads write adjacent columns, so exchange rows and columns if
  // the results of adjacent rows are contiguous.
  settleFactors(!rows.loops.empty() &&
                rows.loops.back().coefficients.back() == 1);
  for (unsigned f : {0, 1}) {
    std::optional<MatrixElement> element =
        getMatrixElement(getAccess(f).element);
    if (!element || !getAccess(f).isMemory())
      return failure();
    elements[f] = *element;
  }
  if (elements[0] != elements[1] &&
      !(isFloat8(elements[0]) && isFloat8(elements[1])))
    return failure();
  toF16 = rule.getRound() == SumRounding::rne_f16;
  // For rules that add c late, mma.sync converts f8 to f16, which changes the
  // exponents of the subnormals of one f8 type. The change matters only in
  // products of both f8 types, so such products are not supported.
  std::optional<MatrixRule> native = unit->getRule(elements[0], toF16);
  if (elements[0] != elements[1] && native && native->late)
    return failure();
  packed = 32 / getAccess(0).element.getIntOrFloatBitWidth();
  // Zeros pad K to a multiple of four words. A block of products must have at
  // least four words, so that the last block does not consist of padding only.
  bool isUnit =
      native && rule.getTerms() == native->terms &&
      rule.getTerms() >= getGroup() && rule.getFraction() == native->fraction &&
      rule.getRound() == getRounding(native->rounding) &&
      rule.getFloor() == native->floor && rule.getLate() == native->late;
  if (!isUnit || !chooseSlice())
    return failure();
  batchSize = getProduct(getSizes(batch));
  chooseTile();
  for (unsigned f : {0, 1}) {
    const Factor &factor = getFactor(f);
    auto stepsByOne = [](ArrayRef<CollapsedDim> loops) {
      return !loops.empty() && loops.back().coefficients[0] == 1;
    };
    auto areAligned = [&](ArrayRef<CollapsedDim> loops, unsigned access) {
      return llvm::all_of(loops, [&](const CollapsedDim &loop) {
        return loop.coefficients[access] % getGroup() == 0;
      });
    };
    isAlong[f] = stepsByOne(factor.reduction) && !stepsByOne(factor.loops);
    isVector[f] =
        isAlong[f] && factor.reduction.back().size % getGroup() == 0 &&
        areAligned(ArrayRef(factor.reduction).drop_back(), 0) &&
        areAligned(factor.loops, 0) && areAligned(batch, f) &&
        getAccess(f).constant % getGroup() == 0 &&
        b.getAlignment(fold.op->getOperand(factor.inputs[0])) % 16 == 0;
  }
  return success();
}

/// Chooses the longest slice for which every chunk ends at the end of a slice.
/// Returns false if there is none.
bool AccumulatorDevice::chooseSlice() {
  for (words = kMostWords; words >= 2 * kFour; words /= 2)
    if (fold.chunk >= fold.n || fold.chunk % getSlice() == 0)
      return true;
  return false;
}

void AccumulatorDevice::chooseTile() {
  auto setTile = [&](int64_t newHigh, int64_t newWide) {
    high = newHigh;
    wide = newWide;
    extents[0] = 2 * kRows * high;
    extents[1] = 2 * kColumns * wide;
    return batchSize * llvm::divideCeil(rows.size, extents[0]) *
           llvm::divideCeil(columns.size, extents[1]);
  };
  // Large tiles have many sums. They are not used with chunks, whose totals
  // would double the number of registers. They have fewer rows if c is added
  // late: ptxas then also keeps f16 factors and the halves' sums in registers.
  bool isLarge = rows.size >= kLargeProduct && columns.size >= kLargeProduct &&
                 fold.chunk >= fold.n &&
                 setTile(rule.getLate() ? 2 : 4, 8) >=
                     b.getArchitecture().multiprocessors / 2;
  if (!isLarge)
    setTile(2, 4);
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

Value AccumulatorDevice::locate(unsigned f, Value at) {
  const Factor &factor = getFactor(f);
  Value start = b.add(
      getLoopOffset(b, batch, b.delinearize(batchIndex, getSizes(batch)), f),
      getAccess(f).constant);
  return b.add(start,
               getLoopOffset(b, factor.loops,
                             b.delinearize(at, getSizes(factor.loops)), 0));
}

/// Chooses which groups of four words of a slice this thread reads: adjacent
/// threads read adjacent memory.
void AccumulatorDevice::chooseGroups(unsigned f) {
  int64_t parts = words / kFour;
  for (int64_t first = 0; first < extents[f] * parts; first += kTileThreads) {
    Value item = b.add(thread, first);
    Group group;
    group.own = isAlong[f] ? b.div(item, parts) : b.rem(item, extents[f]);
    group.part = isAlong[f] ? b.rem(item, parts) : b.div(item, extents[f]);
    // Instead of rows or columns after the end, the last one is read again. The
    // results of such copies are not stored.
    Value at = b.add(begin[f], group.own);
    if (getFactor(f).size % extents[f])
      at = b.min(at, b.index(getFactor(f).size - 1));
    group.base = locate(f, at);
    groups[f].push_back(group);
  }
}

void AccumulatorDevice::readSlice(unsigned f, Value slice, bool isLast,
                                  SmallVector<Value> &values) {
  const Factor &factor = getFactor(f);
  const Access &access = getAccess(f);
  Type stored = getStorageType(access.element);
  auto four = VectorType::get({kFour}, b.getI32Type());
  /// Reads `lanes` elements that are adjacent along K. Elements after the end
  /// of K are +0.
  auto read = [&](const Group &group, Value k, int64_t lanes) -> Value {
    Value isInside;
    if (isLast) {
      isInside = b.less(k, b.index(fold.n));
      k = b.min(k, b.index(fold.n - lanes));
    }
    Value offset =
        b.add(group.base,
              getLoopOffset(b, factor.reduction,
                            b.delinearize(k, getSizes(factor.reduction)), 0));
    Value bits = lanes > 1 ? b.loadAligned(access.buffer, stored, offset, lanes)
                           : b.load(access.buffer, stored, offset);
    return isInside ? b.select(isInside, bits, b.zero(bits.getType())) : bits;
  };
  auto toWord = [&](Value bits) -> Value {
    if (packed == 1)
      return arith::BitcastOp::create(b, b.getI32Type(), bits);
    return arith::ExtUIOp::create(b, b.getI32Type(), bits);
  };
  for (const Group &group : groups[f]) {
    Value first =
        b.add(b.mul(slice, getSlice()), b.mul(group.part, getGroup()));
    if (isVector[f]) {
      values.push_back(
          vector::BitCastOp::create(b, four, read(group, first, getGroup())));
      continue;
    }
    SmallVector<Value> found;
    for (int64_t k = 0; k < getGroup(); k += packed) {
      Value word = toWord(read(group, b.add(first, k), 1));
      for (int64_t e = 1; e < packed; ++e) {
        Value next = toWord(read(group, b.add(first, k + e), 1));
        word = arith::OrIOp::create(
            b, word, arith::ShLIOp::create(b, next, i32(32 / packed * e)));
      }
      found.push_back(word);
    }
    values.push_back(vector::FromElementsOp::create(b, four, found));
  }
}

SmallVector<Value> AccumulatorDevice::readSlices(Value slice, bool isLast) {
  SmallVector<Value> values;
  for (unsigned f : {0, 1})
    readSlice(f, slice, isLast, values);
  if (isChecked()) {
    Value all = values[0];
    for (Value other : ArrayRef(values).drop_front())
      all = arith::OrIOp::create(b, all, other);
    Value word = i32(0);
    for (int64_t e = 0; e < kFour; ++e)
      word =
          arith::OrIOp::create(b, word, vector::ExtractOp::create(b, all, e));
    values.push_back(arith::AndIOp::create(b, word, i32(kLowBits)));
  }
  return values;
}

void AccumulatorDevice::storeSlices(ArrayRef<Value> values, Value buffer) {
  for (unsigned f : {0, 1})
    for (const Group &group : groups[f]) {
      Value row = b.add(b.mul(group.own, getPitch()), b.mul(group.part, kFour));
      b.storeAligned(values.front(), buffers,
                     b.add(b.add(buffer, row), f * extents[0] * getPitch()));
      values = values.drop_front();
    }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Emits one mma.sync. The number of words in `right` determines how many
/// elements of K the instruction covers.
void AccumulatorDevice::multiply(ArrayRef<Value> left, ArrayRef<Value> right,
                                 MutableArrayRef<Value> sums) {
  SmallVector<Value> operands(left);
  llvm::append_range(operands, right);
  if (elements[0] == MatrixElement::F16)
    for (Value &word : operands)
      word = LLVM::BitcastOp::create(
          b, VectorType::get({packed}, b.getF16Type()), word);
  llvm::append_range(operands, sums);
  // The name of LLVM's intrinsic contains the element types, because the
  // operands of most element types are 32-bit words.
  auto getName = [&](unsigned f) {
    return std::string(repro_target::matrixElementNames[unsigned(elements[f])]);
  };
  std::string result = toF16 ? "f16" : "f32";
  std::string types = getName(0);
  if (elements[0] == MatrixElement::F16)
    types = result + "." + result;
  else if (isFloat8(elements[0]))
    types = result + "." + getName(0) + "." + getName(1) + "." + result;
  std::string depth = std::to_string(getGroup() * int64_t(right.size()));
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), llvm::to_vector(ValueRange(sums).getTypes()));
  Value product =
      LLVM::CallIntrinsicOp::create(
          b, type,
          b.getStringAttr("llvm.nvvm.mma.m16n8k" + depth + ".row.col." + types),
          operands)
          .getResult(0);
  for (auto [e, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(b, product, e);
}

void AccumulatorDevice::multiply(Value buffer, int64_t count,
                                 MutableArrayRef<Value> sums) {
  auto load = [&](unsigned f, int64_t own, int64_t word) {
    Value row = b.add(b.add(warpBegin[f], group), own + f * extents[0]);
    Value at =
        b.add(b.add(buffer, b.mul(row, getPitch())), b.add(member, word));
    return b.load(buffers, b.getI32Type(), at);
  };
  int64_t perProduct = toF16 ? 2 : 4;
  for (int64_t k = 0; k < count;) {
    int64_t four = k / packed;
    SmallVector<int64_t> fours{four};
    bool hasOne = count - k <= getGroup();
    if (isFloat8(elements[0]) || (unit->hasDepth16() && !hasOne))
      fours.push_back(four + kFour);
    k += getGroup() * int64_t(fours.size());
    // If only one group of elements remains, the other group of the instruction
    // is zeros. The zeros come first, so that they are not the last block.
    if (hasOne)
      std::reverse(fours.begin(), fours.end());
    SmallVector<SmallVector<Value>> left, right;
    for (int64_t i = 0; i < high; ++i) {
      left.emplace_back();
      for (int64_t word : fours)
        for (int64_t half : {0, 1})
          left.back().push_back(load(0, kRows * i + 8 * half, word));
    }
    for (int64_t j = 0; j < wide; ++j) {
      right.emplace_back();
      for (int64_t word : fours)
        right.back().push_back(load(1, kColumns * j, word));
    }
    for (int64_t i = 0; i < high; ++i)
      for (int64_t j = 0; j < wide; ++j)
        multiply(left[i], right[j],
                 sums.slice((i * wide + j) * perProduct, perProduct));
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void AccumulatorDevice::forSums(
    function_ref<void(int64_t, Value, Value)> handle) {
  struct Line {
    Value offset, exists;
  };
  SmallVector<Line> lines[2];
  auto addLine = [&](unsigned f, Value at) {
    const Factor &factor = getFactor(f);
    Line line;
    if (factor.size % extents[f]) {
      line.exists = b.less(at, b.index(factor.size));
      at = b.min(at, b.index(factor.size - 1));
    }
    line.offset = getLoopOffset(b, factor.loops,
                                b.delinearize(at, getSizes(factor.loops)), 1);
    lines[f].push_back(line);
  };
  Value first[2];
  for (unsigned f : {0, 1})
    first[f] = b.add(begin[f], warpBegin[f]);
  for (int64_t i = 0; i < 2 * high; ++i)
    addLine(0, b.add(b.add(first[0], group), 8 * i));
  for (int64_t i = 0; i < 2 * wide; ++i)
    addLine(1, b.add(b.add(first[1], b.mul(member, 2)), i / 2 * 8 + i % 2));
  Value start = b.add(
      getLoopOffset(b, batch, b.delinearize(batchIndex, getSizes(batch)), 2),
      fold.outputs[0].constant);
  for (int64_t i = 0; i < high; ++i)
    for (int64_t j = 0; j < wide; ++j)
      for (int64_t e = 0; e < 4; ++e) {
        const Line &row = lines[0][2 * i + e / 2];
        const Line &column = lines[1][2 * j + e % 2];
        Value exists = row.exists ? row.exists : column.exists;
        if (row.exists && column.exists)
          exists = arith::AndIOp::create(b, row.exists, column.exists);
        handle((i * wide + j) * 4 + e,
               b.add(b.add(start, row.offset), column.offset), exists);
      }
}

Value AccumulatorDevice::readInit(Value offset) {
  if (Value init = fold.getConstantInit(b, 0, /*lanes=*/0))
    return init;
  const Access &output = fold.outputs[0]; // (F7)
  return b.convertFloat(b.load(output.buffer, output.element, offset),
                        b.getF32Type());
}

SmallVector<Value> AccumulatorDevice::pack(ArrayRef<Value> values) {
  if (!toF16)
    return SmallVector<Value>(values);
  Type f16 = b.getF16Type();
  SmallVector<Value> sums;
  for (size_t i = 0; i < values.size(); i += 2)
    sums.push_back(vector::FromElementsOp::create(
        b, VectorType::get({2}, f16),
        ValueRange{b.convertFloat(values[i], f16),
                   b.convertFloat(values[i + 1], f16)}));
  return sums;
}

SmallVector<Value> AccumulatorDevice::unpack(ArrayRef<Value> sums) {
  if (!toF16)
    return SmallVector<Value>(sums);
  SmallVector<Value> values;
  for (Value sum : sums)
    for (int64_t e : {0, 1})
      values.push_back(
          b.convertFloat(vector::ExtractOp::create(b, sum, e), b.getF32Type()));
  return values;
}

void AccumulatorDevice::storeResult(Value result, Value offset) {
  const Access &output = fold.outputs[0];
  b.store(b.convertFloat(b.canonicalizeNaN(result), output.element),
          output.buffer, offset);
}

void AccumulatorDevice::storeResults(ArrayRef<Value> totals) {
  forSums([&](int64_t i, Value offset, Value exists) {
    auto store = [&] {
      Value result = totals[i];
      if (rule.getStart() == SumStart::zero) // (F3)
        result = arith::AddFOp::create(b, readInit(offset), result);
      storeResult(result, offset);
    };
    if (exists)
      b.when(exists, store);
    else
      store();
  });
}

Value AccumulatorDevice::noteLowBits(Value seen, int64_t flags) {
  for (int64_t distance = kWarp / 2; distance; distance /= 2)
    seen = arith::OrIOp::create(
        b, seen,
        gpu::ShuffleOp::create(b, seen, distance, kWarp, gpu::ShuffleMode::XOR)
            .getShuffleResult());
  b.barrier(); // no thread reads a slice any more
  b.store(seen, buffers, thread);
  b.barrier();
  Value all = i32(0);
  for (int64_t warp = 0; warp < kTileThreads; warp += kWarp)
    all = arith::OrIOp::create(b, all,
                               b.load(buffers, b.getI32Type(), b.index(warp)));
  b.when(b.equal(thread, b.index(0)), [&] {
    b.store(all, b.getWorkspace(b.getI32Type(), getNumTiles(), flags),
            b.getBlockId());
  });
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, all, i32(0));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

int64_t AccumulatorDevice::getNumTiles() const {
  return batchSize * llvm::divideCeil(rows.size, extents[0]) *
         llvm::divideCeil(columns.size, extents[1]);
}

void AccumulatorDevice::beginBlock(int64_t blocksPerProcessor) {
  LaunchShape launch;
  launch.blocksPerProcessor = blocksPerProcessor;
  launch.grid[0] = getNumTiles();
  launch.block[0] = kTileThreads;
  b.setLaunch(launch);
  thread = b.getThreadId();
  int64_t tiles[2];
  for (unsigned f : {0, 1})
    tiles[f] = llvm::divideCeil(getFactor(f).size, extents[f]);
  SmallVector<Value> at =
      b.delinearize(b.getBlockId(), {batchSize, tiles[0], tiles[1]});
  batchIndex = at[0];
  for (unsigned f : {0, 1})
    begin[f] = b.mul(at[1 + f], extents[f]);
}

void AccumulatorDevice::expand(int64_t flags) {
  noteTiles("blocks of " + std::to_string(extents[0]) + " x " +
            std::to_string(extents[1]) + " results and " +
            std::to_string(getSlice()) + " of K by matrix instructions of " +
            std::string(unit->name));
  beginBlock(/*blocksPerProcessor=*/1);
  int64_t bufferSize = (extents[0] + extents[1]) * getPitch();
  buffers = b.createTile(2 * bufferSize, b.getI32Type());
  Value warp = b.div(thread, kWarp), lane = b.rem(thread, kWarp);
  group = b.div(lane, 4);
  member = b.rem(lane, 4);
  for (unsigned f : {0, 1}) {
    warpBegin[f] = b.mul(f ? b.rem(warp, 2) : b.div(warp, 2), extents[f] / 2);
    chooseGroups(f);
  }

  int64_t count = high * wide * 4;
  auto splat = [&](double value) {
    return SmallVector<Value>(count, b.constant(b.getF32FloatAttr(value)));
  };
  SmallVector<Value> first = splat(0);
  if (rule.getStart() == SumStart::init)
    forSums(
        [&](int64_t i, Value offset, Value) { first[i] = readInit(offset); });
  SmallVector<Value> sums = pack(first);
  // Totals start from -0, because -0 + x is x for every x.
  bool hasTotals = fold.chunk < fold.n;
  SmallVector<Value> totals = hasTotals ? splat(-0.0) : SmallVector<Value>();
  auto addToTotals = [&] {
    SmallVector<Value> result;
    for (auto [total, sum] : llvm::zip_equal(totals, unpack(sums)))
      result.push_back(arith::AddFOp::create(b, total, sum));
    return result;
  };
  Value seen = i32(0);
  auto note = [&](ArrayRef<Value> slices) -> Value {
    return isChecked() ? arith::OrIOp::create(b, seen, slices.back()) : seen;
  };

  int64_t whole = fold.n / getSlice(), rest = fold.n % getSlice();
  if (whole) {
    SmallVector<Value> slices = readSlices(b.index(0), /*isLast=*/false);
    seen = note(slices);
    storeSlices(slices, b.index(0));
    b.barrier();
    SmallVector<Value> state{b.index(0), seen};
    llvm::append_range(state, sums);
    llvm::append_range(state, totals);
    auto restore = [&](ValueRange from) {
      seen = from[1];
      sums.assign(from.begin() + 2, from.begin() + 2 + sums.size());
      totals.assign(from.begin() + 2 + sums.size(), from.end());
    };
    state = b.loop(b.index(0), b.index(whole), 1, state,
                   [&](Value slice, ValueRange carried) {
                     restore(carried);
                     Value next = b.add(slice, 1);
                     Value isMore = b.less(next, b.index(whole));
                     Value other = b.sub(b.index(bufferSize), carried[0]);
                     SmallVector<Value> onTheWay = b.chooseOrAny(isMore, [&] {
                       return readSlices(next, /*isLast=*/false);
                     });
                     seen = b.select(isMore, note(onTheWay), seen);
                     multiply(carried[0], getSlice(), sums);
                     if (hasTotals) {
                       Value place = b.rem(next, fold.chunk / getSlice());
                       Value isEnd = b.equal(place, b.index(0));
                       for (auto [total, sum] :
                            llvm::zip_equal(totals, addToTotals()))
                         total = b.select(isEnd, sum, total);
                       for (Value &sum : sums)
                         sum = b.select(isEnd, b.zero(sum.getType()), sum);
                     }
                     storeSlices(onTheWay, other);
                     b.barrier();
                     SmallVector<Value> result{other, seen};
                     llvm::append_range(result, sums);
                     llvm::append_range(result, totals);
                     return result;
                   });
    restore(state);
  }
  if (rest) {
    SmallVector<Value> slices = readSlices(b.index(whole), /*isLast=*/true);
    seen = note(slices);
    storeSlices(slices, b.index(0));
    b.barrier();
    multiply(b.index(0), rest, sums);
  }
  if (hasTotals && fold.n % fold.chunk)
    totals = addToTotals();
  auto store = [&] { storeResults(hasTotals ? totals : unpack(sums)); };
  if (isChecked())
    b.when(noteLowBits(seen, flags), store);
  else
    store();
}

void AccumulatorDevice::expandInIntegers(int64_t flags) {
  // Without this setting, ptxas gives a thread fewer registers, and spills.
  beginBlock(/*blocksPerProcessor=*/4);
  Value flag = b.load(b.getWorkspace(b.getI32Type(), getNumTiles(), flags),
                      b.getI32Type(), b.getBlockId());
  AccumulatorChain chain(b, rule, getAccess(0).element, getAccess(1).element);
  auto compute = [&](Value item) {
    Value at[] = {b.add(begin[0], b.div(item, extents[1])),
                  b.add(begin[1], b.rem(item, extents[1]))};
    Value exists = arith::AndIOp::create(b, b.less(at[0], b.index(rows.size)),
                                         b.less(at[1], b.index(columns.size)));
    b.when(exists, [&] {
      Value offset =
          b.add(getLoopOffset(b, batch,
                              b.delinearize(batchIndex, getSizes(batch)), 2),
                fold.outputs[0].constant);
      for (unsigned f : {0, 1})
        offset = b.add(
            offset, getLoopOffset(
                        b, getFactor(f).loops,
                        b.delinearize(at[f], getSizes(getFactor(f).loops)), 1));
      Value base[] = {locate(0, at[0]), locate(1, at[1])};
      auto load = [&](unsigned f, Value k) {
        ArrayRef<CollapsedDim> loops = getFactor(f).reduction;
        Value own =
            getLoopOffset(b, loops, b.delinearize(k, getSizes(loops)), 0);
        return b.load(getAccess(f).buffer, getAccess(f).element,
                      b.add(base[f], own));
      };
      storeResult(chain.addChunks(
                      fold.n, fold.chunk, readInit(offset),
                      [&](Value k) { return load(0, k); },
                      [&](Value k) { return load(1, k); }),
                  offset);
    });
  };
  b.when(arith::CmpIOp::create(b, arith::CmpIPredicate::ne, flag, i32(0)), [&] {
    b.loop(thread, b.index(extents[0] * extents[1]), kTileThreads, compute);
  });
}

LogicalResult device::expandAccumulators(DeviceKernelFactory &factory,
                                         FoldOp op) {
  std::optional<int64_t> flags;
  auto expand = [&](DeviceBuilder &b, FoldOp copy) {
    AccumulatorDevice kernel(b, copy);
    if (failed(kernel.match()))
      return failure();
    if (kernel.isChecked())
      flags = factory.getWorkspace().allocate(kernel.getNumTiles() *
                                              sizeof(int32_t));
    kernel.expand(flags.value_or(0));
    return success();
  };
  if (failed(factory.tryCreate<FoldOp>("", expand)))
    return failure();
  if (!flags)
    return success();
  return factory.tryCreate<FoldOp>("in_integers",
                                   [&](DeviceBuilder &b, FoldOp copy) {
                                     AccumulatorDevice kernel(b, copy);
                                     if (failed(kernel.match()))
                                       return failure();
                                     kernel.expandInIntegers(*flags);
                                     return success();
                                   });
}
