//===- ByteRanges.h - The bytes of parts of buffers -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_BYTERANGES_H
#define REPRO_CODEGEN_CORES_MAPPING_BYTERANGES_H

#include "KernelTiles.h"

namespace mlir::repro::cores {

/// A buffer as a part of a state, an input, an output, a constant or the arena.
struct Place {
  Value root;
  int64_t offset = 0; ///< in bytes
  MemRefType type;

  static Place get(Value buffer);
  bool operator==(const Place &other) const {
    return root == other.root && offset == other.offset && type == other.type;
  }
};

/// The bytes [begin, end) of a root buffer.
struct ByteRange {
  int64_t begin, end;
};

/// Returns the type of a buffer with the given strides, without a layout if the
/// buffer is row-major.
MemRefType getStridedType(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                          Type element);

/// Returns the distance in bytes from the place of the buffer's first element
/// to that of the first element of the box.
int64_t getBoxOffset(MemRefType type, ArrayRef<Interval> box);

/// Returns the bytes of a box in its root buffer, in ascending order. Adjacent
/// ranges are merged.
SmallVector<ByteRange> getByteRanges(const Place &place,
                                     ArrayRef<Interval> box);

/// Calls `found` for each pair of a box of `a` and a box of `b` that have a
/// byte in common. The boxes of `a` may have bytes in common, and so may those
/// of `b`. A pair may be found several times.
void forEachOverlap(const Place &placeA, ArrayRef<Box> a, const Place &placeB,
                    ArrayRef<Box> b,
                    function_ref<void(unsigned, unsigned)> found);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_BYTERANGES_H
