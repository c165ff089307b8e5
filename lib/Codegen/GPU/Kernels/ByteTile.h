//===- ByteTile.h - Tiles of matrix instructions on bytes -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles for the instructions that multiply byte matrices of 16 x 32 and 32 x 8
// and add the products in i32. Shared memory holds the bytes in the order in
// which the instructions read them. A part has the bytes of one factor's rows
// for a step of 32 elements of K. A part consists of lines of 16 words, each
// line for two rows r and r + 8. Four threads share a line: words 4 t to 4 t +
// 3 are the slot of thread t, with two words of each row. The order of elements
// along K does not matter, because it is the same in both factors. Rows after
// the last one are copies of it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H
#define REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H

#include "Codegen/GPU/Kernels/DeviceBuilder.h"
#include "Target/ByteMatrices.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::repro::device {

/// The tile of kTile x kTile results that a thread block of 2 x 2 warps
/// computes. A warp computes a quarter, with kHigh x kWide instructions of 16 x
/// 8 results. The rows of factor 0 are rows of the result, and those of factor
/// 1 are its columns.
class ByteTile {
public:
  static constexpr int64_t kTile = 64, kThreads = 128, kHigh = 2, kWide = 4;
  /// kQuad is the number of results that each thread has from one instruction,
  /// and kResults the number that it has from all instructions.
  static constexpr int64_t kQuad = 4, kResults = kHigh * kWide * kQuad;
  /// A step: the number of elements along K that one instruction multiplies.
  static constexpr int64_t kStep = repro_target::byteMatrixDepth;
  /// The number of 32-bit words of a line (two rows) and of a slot (the words
  /// of one thread).
  static constexpr int64_t kLine = 16, kSlot = 4;
  /// The number of 32-bit words of a part (one step of a factor), which
  /// consists of one slot for each thread.
  static constexpr int64_t kPart = kTile / 2 * kLine;
  static_assert(kPart == kThreads * kSlot);

  /// Sets the launch of the kernel. Allocates two buffers in shared memory,
  /// each of `words` 32-bit words for a slice of K.
  ByteTile(DeviceBuilder &b, int64_t batchSize, ArrayRef<int64_t> sizes,
           int64_t words, int64_t blocksPerProcessor);

  /// Returns the first of the two rows of `line`.
  static Value getUpperRow(KernelBuilder &b, Value line);
  /// Returns the four words of a slot, given two words of each of its two rows,
  /// in the order of the registers of an instruction.
  static SmallVector<Value> fillSlot(unsigned f, ArrayRef<Value> upper,
                                     ArrayRef<Value> lower);

  /// Emits the loop over slices and returns the final state. `read` returns the
  /// values that this thread copies, `store` writes them to a buffer, and
  /// `compute` returns the state after a slice.
  SmallVector<Value> forSlices(
      int64_t slices, ValueRange inits,
      function_ref<SmallVector<Value>(Value slice)> read,
      function_ref<void(ArrayRef<Value> values, Value buffer)> store,
      function_ref<SmallVector<Value>(Value slice, Value buffer, ValueRange)>
          compute);

  /// `storeSlot` stores this thread's slot of a part. `loadSlots` returns the
  /// registers for the thread's results: for factor 0, a slot per row of
  /// instructions; for factor 1, a slot per two columns of instructions.
  void storeSlot(Value slot, Value buffer, int64_t part);
  SmallVector<SmallVector<Value>> loadSlots(unsigned f, Value buffer,
                                            int64_t part);

  /// Adds the products of a step to the `kResults` sums. The sums of an
  /// instruction are adjacent; instructions are in row-major order. `half`
  /// selects the first or the second word of each row: 16 of the 32 elements.
  void multiply(ArrayRef<SmallVector<Value>> rows,
                ArrayRef<SmallVector<Value>> columns,
                MutableArrayRef<Value> sums, std::optional<int64_t> half = {},
                std::array<NVVM::MMATypes, 2> types = {NVVM::MMATypes::s8,
                                                       NVVM::MMATypes::s8});

  /// A row or column of this thread's results.
  struct Line {
    Value place;  ///< clamped to the last row or column
    Value exists; ///< null: always
  };
  /// Returns row `number` (below 2 kHigh) of this thread's results if f = 0, or
  /// column `number` (below 2 kWide) if f = 1.
  Line getLine(unsigned f, int64_t number);
  /// Returns the index in the tile of the row or column that `getLine` returns.
  Value getLineOfTile(unsigned f, int64_t number);
  static int64_t getRow(int64_t result) {
    return result / (kWide * kQuad) * 2 + result % kQuad / 2;
  }
  static int64_t getColumn(int64_t result) {
    return result / kQuad % kWide * 2 + result % 2;
  }
  /// Emits the code of `store`, to run if both the row and the column exist.
  void whenExists(const Line &row, const Line &column,
                  function_ref<void()> store);

  /// The position of the current block and thread, and both buffers.
  Value thread, batchIndex, begin[2], buffers;

private:
  DeviceBuilder &b;
  int64_t sizes[2], words;
  Value warpBegin[2], group, member;
};

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_BYTETILE_H
