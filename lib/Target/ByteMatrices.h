//===- ByteMatrices.h - What instructions on bytes serve --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_BYTEMATRICES_H
#define REPRO_TARGET_BYTEMATRICES_H

#include <cstdint>

namespace repro_target {

/// Elements of K that an instruction on matrices of bytes takes.
inline constexpr int64_t byteMatrixDepth = 32;

/// Rows, and columns, that a product has at least: fewer leave most of a tile
/// without work.
inline constexpr int64_t fewestByteMatrixRows = 8;

} // namespace repro_target

#endif // REPRO_TARGET_BYTEMATRICES_H
