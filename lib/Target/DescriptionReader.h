//===- DescriptionReader.h - Reads entries of machine files -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads JSON from strangers. Time and memory grow only with the bytes of the
// text, which are limited.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_DESCRIPTIONREADER_H
#define REPRO_TARGET_DESCRIPTIONREADER_H

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace mlir::repro {

/// The maximum size of a description.
inline constexpr size_t mostFileBytes = 65536;

/// Sets `error` to the message.
LogicalResult fail(std::string &error, const Twine &message);

/// Quotes the beginning of a text from the file, on one line, for an error
/// message.
std::string quote(StringRef text);

/// Returns the text of a regular file of limited size.
FailureOr<std::string> readFileText(StringRef path, std::string &error);

/// Parses an object in which no key occurs twice.
FailureOr<llvm::json::Object> parseObject(StringRef text, std::string &error);

/// Checks that every key of `object` is in `keys`, and that `object` has every
/// key in `required`. `place` is the beginning of the error messages.
LogicalResult checkKeys(const llvm::json::Object &object, const Twine &place,
                        ArrayRef<StringRef> keys, ArrayRef<StringRef> required,
                        std::string &error);

/// Returns the member `value` of an entry, which also has a `source`.
FailureOr<const llvm::json::Value *> readEntry(const llvm::json::Value &entry,
                                               const Twine &place,
                                               std::string &error);

/// Returns the machine with that name, or null.
template <typename T>
const T *findByName(ArrayRef<T> machines, StringRef name) {
  const T *found = llvm::find_if(
      machines, [&](const T &machine) { return machine.name == name; });
  return found == machines.end() ? nullptr : found;
}

/// Returns the names, separated by ", ".
template <typename T>
std::string listNames(ArrayRef<T> machines) {
  return llvm::join(
      llvm::map_range(machines, [](const T &machine) { return machine.name; }),
      ", ");
}

} // namespace mlir::repro

#endif // REPRO_TARGET_DESCRIPTIONREADER_H
