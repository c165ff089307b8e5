//===- StoredBlockFormat.h - Formats of blocks as numbers -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_STOREDBLOCKFORMAT_H
#define REPRO_IDENTITY_STOREDBLOCKFORMAT_H

#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro {

/// Returns the numbers that represent a block format, except its element type,
/// in the identity (H2) (docs/verification/identity.md).
SmallVector<int64_t> getStoredNumbers(BlockFormatAttr format);

/// Returns the block format that `numbers` represent for codes of type
/// `element`; emits an error and returns null if there is none.
BlockFormatAttr
getStoredBlockFormat(function_ref<InFlightDiagnostic()> emitError, Type element,
                     ArrayRef<int64_t> numbers);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_STOREDBLOCKFORMAT_H
