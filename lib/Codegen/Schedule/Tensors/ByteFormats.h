//===- ByteFormats.h - Small float formats as bytes -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversion of the float formats of at most 8 bits to i8: the types of all
// operations, and the arithmetic of conversions between these formats and other
// numbers, with the bits of (S3).
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_BYTEFORMATS_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_BYTEFORMATS_H

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::repro {

/// Converts formats of at most 8 bits, and tensors of them, to i8.
struct ByteFormatConverter : TypeConverter {
  ByteFormatConverter();

  /// Whether `op` has no such format in its types, its regions or, for a
  /// function, its signature.
  bool isWithoutByteFormats(Operation *op) const;
};

/// Adds the patterns that convert every operation except those of the block
/// formats.
void populateByteFormatPatterns(const ByteFormatConverter &converter,
                                RewritePatternSet &patterns);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_BYTEFORMATS_H
