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

/// The beginning of a stored program. The line ends show damage by transfers
/// that change them.
inline constexpr llvm::StringRef kFileMagic("\x89repro-mlir\r\n\x1a\n\0", 16);
inline constexpr uint32_t kFileVersion = 1;

/// The beginning of the body, and so of what the identity (H2) hashes.
inline constexpr llvm::StringRef kBodyMagic("repro-program-v2\0", 17);
/// That of the first identity, which nothing is stored with.
inline constexpr llvm::StringRef kFirstBodyMagic("repro-program-v1\0", 17);

/// The beginning of what the identity of a symbolic program (H4) hashes.
inline constexpr llvm::StringRef kSymbolicMagic("repro-symbolic-v1\0", 18);

/// The parts of a stored program, in their order.
enum class Section : uint32_t {
  body,     ///< the bytes that the identity hashes
  names,    ///< of arguments and results
  messages, ///< of assertions
  origins   ///< names and lines that operations come from
};
inline constexpr unsigned kNumSections = 4;

} // namespace mlir::repro

#endif // REPRO_IDENTITY_STOREDFORMAT_H
