//===- ByteTile.h - Tiles of matrix instructions on bytes -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instructions that multiply byte matrices of 16 x 32 and 32 x 8 add products
// in i32. Shared memory stores the bytes in the order in which the instructions
// read them. A part contains the bytes of one factor's tile rows for a step of
// 32 elements of K. The part consists of lines of 16 words, each for the rows r
// and r + 8. Four threads share a line; thread t uses words 4 t to
// 4 t + 3, its slot: two words of each row. The order of elements along K is
// irrelevant because it is the same in both factors. Rows beyond the last one
// repeat the last one.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H
#define REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H

#include "Codegen/GPU/Kernels/DeviceBuilder.h"
#include "Target/ByteMatrices.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::repro::device {

/// A thread block of 2 x 2 warps that computes a tile of kTile x kTile results.
/// A warp computes a quarter with kHigh x kWide instructions of 16 x 8 results.
/// The rows of factor 0 are rows of the result; those of factor 1 are its
/// columns.
class ByteTile {
public:
  static constexpr int64_t kTile = 64, kThreads = 128, kHigh = 2, kWide = 4;
  /// The number of results per thread of one instruction, and of all
  /// instructions.
  static constexpr int64_t kQuad = 4, kResults = kHigh * kWide * kQuad;
  /// The number of elements along K that one instruction multiplies, which is a
  /// step.
  static constexpr int64_t kStep = repro_target::byteMatrixDepth;
  /// The number of 32-bit words of a line, which contains two rows, and of a
  /// slot, which contains the words of one thread.
  static constexpr int64_t kLine = 16, kSlot = 4;
  /// The number of words of a part, which contains one step of a factor: one
  /// slot per thread.
  static constexpr int64_t kPart = kTile / 2 * kLine;
  static_assert(kPart == kThreads * kSlot);

  /// Sets the launch. Shared memory contains two buffers of `words` words, each
  /// for a slice of K.
  ByteTile(DeviceBuilder &b, int64_t batchSize, ArrayRef<int64_t> sizes,
           int64_t words, int64_t blocksPerProcessor);

  /// Returns the first of the two rows of a line.
  static Value getUpperRow(KernelBuilder &b, Value line);
  /// Returns the four words of a slot from two words of each of its two rows.
  static SmallVector<Value> fillSlot(unsigned f, ArrayRef<Value> upper,
                                     ArrayRef<Value> lower);

  /// Emits the loop over slices: `read` returns the values that the thread
  /// copies, `store` writes them to a buffer, and `compute` updates the state.
  SmallVector<Value> forSlices(
      int64_t slices, ValueRange inits,
      function_ref<SmallVector<Value>(Value slice)> read,
      function_ref<void(ArrayRef<Value> values, Value buffer)> store,
      function_ref<SmallVector<Value>(Value slice, Value buffer, ValueRange)>
          compute);

  /// Stores the thread's slot of a part, and loads the slots for its results:
  /// one per row of instructions for factor 0, or one per two columns of
  /// instructions for factor 1.
  void storeSlot(Value slot, Value buffer, int64_t part);
  SmallVector<SmallVector<Value>> loadSlots(unsigned f, Value buffer,
                                            int64_t part);

  /// Adds the products of a step to the `kResults` sums, which are numbered by
  /// the instruction's row and column, then by register. `half` selects the
  /// first or the second word of each row, that is 16 of the 32 elements.
  void multiply(ArrayRef<SmallVector<Value>> rows,
                ArrayRef<SmallVector<Value>> columns,
                MutableArrayRef<Value> sums, std::optional<int64_t> half = {},
                std::array<NVVM::MMATypes, 2> types = {NVVM::MMATypes::s8,
                                                       NVVM::MMATypes::s8});

  /// A row or column of the thread's results.
  struct Line {
    Value place;  ///< clamped to the last row or column
    Value exists; ///< null: always
  };
  /// Returns row 0 to 2 kHigh - 1, or column 0 to 2 kWide - 1, of the thread.
  Line getLine(unsigned f, int64_t number);
  /// Like `getLine`, but counts rows or columns from the first one of the tile.
  Value getLineOfTile(unsigned f, int64_t number);
  static int64_t getRow(int64_t result) {
    return result / (kWide * kQuad) * 2 + result % kQuad / 2;
  }
  static int64_t getColumn(int64_t result) {
    return result / kQuad % kWide * 2 + result % 2;
  }
  /// Emits `store` for the case that both the row and the column exist.
  void whenExists(const Line &row, const Line &column,
                  function_ref<void()> store);

  /// Values of the current block and thread.
  Value thread, batchIndex, begin[2], buffers;

private:
  DeviceBuilder &b;
  int64_t sizes[2], words;
  Value warpBegin[2], group, member;
};

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H
