//===- ByteTile.h - Results by instructions on bytes ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instructions that multiply matrices of bytes, 16 x 32 and 32 x 8, add up
// products in i32. Bytes lie in shared memory as the instructions take them: a
// part, the bytes of the tile's rows of a factor in a step of 32 elements of K,
// has lines of 16 words, each of a pair of rows r and r + 8. Thread t of the
// four that share a line takes words 4 t to 4 t + 3, its slot: two words of
// each row. Which k that is for the instruction does not matter, as it is the
// same in both factors. Rows beyond the last repeat it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H
#define REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H

#include "Codegen/GPU/Kernels/DeviceBuilder.h"
#include "Target/ByteMatrices.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::repro::device {

/// A block of 2 x 2 warps that computes a tile of kTile x kTile results, a warp
/// a quarter of it: kHigh x kWide instructions of 16 x 8 results. Factor 0 has
/// the rows of the results, factor 1 their columns as its rows.
class ByteTile {
public:
  static constexpr int64_t kTile = 64, kThreads = 128, kHigh = 2, kWide = 4;
  /// Results of an instruction and of all that a thread has.
  static constexpr int64_t kQuad = 4, kResults = kHigh * kWide * kQuad;
  /// Elements of a step of K.
  static constexpr int64_t kStep = repro_target::byteMatrixDepth;
  /// Words of a line and of a slot.
  static constexpr int64_t kLine = 16, kSlot = 4;
  /// Words of a part: a slot for each thread.
  static constexpr int64_t kPart = kTile / 2 * kLine;
  static_assert(kPart == kThreads * kSlot);

  /// Sets the launch; `words` is what shared memory has of a slice of K. Slices
  /// take turns in two buffers.
  ByteTile(DeviceBuilder &b, int64_t batchSize, ArrayRef<int64_t> sizes,
           int64_t words, int64_t blocksPerProcessor);

  /// The first of the two rows of a line.
  static Value getUpperRow(KernelBuilder &b, Value line);
  /// The four words of a slot, given two words of each of the two rows.
  static SmallVector<Value> fillSlot(unsigned f, ArrayRef<Value> upper,
                                     ArrayRef<Value> lower);

  /// Runs through the slices: `read` gives what the thread copies of a slice,
  /// `store` writes that into a buffer, and `compute` continues the state.
  SmallVector<Value> forSlices(
      int64_t slices, ValueRange inits,
      function_ref<SmallVector<Value>(Value slice)> read,
      function_ref<void(ArrayRef<Value> values, Value buffer)> store,
      function_ref<SmallVector<Value>(Value slice, Value buffer, ValueRange)>
          compute);

  /// Writes the thread's slot of a part, and reads those of its results: a slot
  /// for each instruction in a column of them, or for two in a row.
  void storeSlot(Value slot, Value buffer, int64_t part);
  SmallVector<SmallVector<Value>> loadSlots(unsigned f, Value buffer,
                                            int64_t part);

  /// Adds the products of a step to the sums, `kResults` of them, which are
  /// numbered by row and column of instructions, and register. The step has
  /// 16 or 32 elements: with `half` the first or the second word of each row.
  void multiply(ArrayRef<SmallVector<Value>> rows,
                ArrayRef<SmallVector<Value>> columns,
                MutableArrayRef<Value> sums, std::optional<int64_t> half = {},
                std::array<NVVM::MMATypes, 2> types = {NVVM::MMATypes::s8,
                                                       NVVM::MMATypes::s8});

  /// A row or column of the thread's results.
  struct Line {
    Value place;  ///< at most that of the last one
    Value exists; ///< null: for sure
  };
  /// The rows 0 to 2 kHigh - 1, or columns 0 to 2 kWide - 1, of the thread.
  Line getLine(unsigned f, int64_t number);
  /// The same, counted from the tile's first.
  Value getLineOfTile(unsigned f, int64_t number);
  static int64_t getRow(int64_t result) {
    return result / (kWide * kQuad) * 2 + result % kQuad / 2;
  }
  static int64_t getColumn(int64_t result) {
    return result / kQuad % kWide * 2 + result % 2;
  }
  /// Runs `store` where both exist.
  void whenExists(const Line &row, const Line &column,
                  function_ref<void()> store);

  /// Of the block and thread.
  Value thread, batchIndex, begin[2], buffers;

private:
  DeviceBuilder &b;
  int64_t sizes[2], words;
  Value warpBegin[2], group, member;
};

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H
