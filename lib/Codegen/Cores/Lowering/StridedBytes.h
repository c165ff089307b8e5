//===- StridedBytes.h - The bytes of a strided buffer -----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_STRIDEDBYTES_H
#define REPRO_CODEGEN_CORES_STRIDEDBYTES_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::repro::cores {

/// A set of bytes of a memory: `width` bytes from each address that nested
/// loops with constant strides compute.
struct StridedBytes {
  struct Loop {
    int64_t stride, count; // a positive stride, and more than one iteration
  };

  int64_t begin = 0; ///< the first byte
  int64_t end = 0;   ///< the byte after the last one; `begin` if empty
  int64_t width = 0;
  SmallVector<Loop, 3> loops; ///< from the largest stride to the smallest one
  bool hasRepeats = false;    ///< whether elements may share a byte

  /// Returns the bytes of a buffer of static shape and strides that begins at
  /// byte `offset`.
  static StridedBytes get(int64_t offset, MemRefType type);

  static StridedBytes getRange(int64_t offset, int64_t bytes);

  bool isEmpty() const { return begin == end; }

  bool operator==(const StridedBytes &other) const;
};

/// Whether the two sets have a byte in common. The answer is exact.
bool overlap(const StridedBytes &a, const StridedBytes &b);

/// Whether each byte of `inner` is one of `outer`. May return false although it
/// is so.
bool contains(const StridedBytes &outer, const StridedBytes &inner);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_STRIDEDBYTES_H
