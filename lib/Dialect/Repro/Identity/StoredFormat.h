//===- StoredFormat.h - Constants of the program format ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_STOREDFORMAT_H
#define REPRO_IDENTITY_STOREDFORMAT_H

#include "llvm/ADT/StringRef.h"

namespace mlir::repro {

/// The first bytes of a stored program. These bytes contain line ends, so that
/// a reader detects a transfer that has converted line ends.
inline constexpr llvm::StringRef kFileMagic("\x89repro-mlir\r\n\x1a\n\0", 16);
inline constexpr uint32_t kFileVersion = 1;

/// The first bytes of the body, and so of the bytes that the identity (H2)
/// hashes.
inline constexpr llvm::StringRef kBodyMagic("repro-program-v2\0", 17);

/// The first bytes that are hashed for the identity of a symbolic program (H4).
inline constexpr llvm::StringRef kSymbolicMagic("repro-symbolic-v1\0", 18);

/// The sections of a stored program, in their order.
enum class Section : uint32_t {
  body,     ///< the bytes that the identity hashes
  names,    ///< names of arguments and results
  messages, ///< messages of assertions
  origins   ///< source names and lines of operations
};
inline constexpr unsigned kNumSections = 4;

} // namespace mlir::repro

#endif // REPRO_IDENTITY_STOREDFORMAT_H
