//===- ByteFormats.h - Small float formats as bytes -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversion to i8 of byte formats, the float formats of at most 8 bits that no
// target supports. Changes the types of all operations. Conversions between
// these formats and other numbers become arithmetic with the bits of (S3).
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_BYTEFORMATS_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_BYTEFORMATS_H

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::repro {

/// Converts byte formats, and tensors of them, to i8.
struct ByteFormatConverter : TypeConverter {
  ByteFormatConverter();

  /// Whether `op` has no byte format in its types, its regions or, if it is a
  /// function, its signature.
  bool isWithoutByteFormats(Operation *op) const;
};

/// Adds patterns that convert all operations except those on block formats.
void populateByteFormatPatterns(const ByteFormatConverter &converter,
                                RewritePatternSet &patterns);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_BYTEFORMATS_H
