//===- ByteMatrices.h - Sizes of byte matrix instructions -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_BYTEMATRICES_H
#define REPRO_TARGET_BYTEMATRICES_H

#include <cstdint>

namespace repro_target {

/// The number of elements along K that one instruction on byte matrices
/// multiplies.
inline constexpr int64_t byteMatrixDepth = 32;

/// The minimum number of rows, and of columns, of a product that uses byte
/// matrices: with fewer, most of a tile would be unused.
inline constexpr int64_t fewestByteMatrixRows = 8;

} // namespace repro_target

#endif // REPRO_TARGET_BYTEMATRICES_H
