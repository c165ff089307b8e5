//===- DescriptionReader.cpp - Reads entries of machine files -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/DescriptionReader.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::repro;

/// The maximum nesting of JSON values, which limits the recursion of the
/// parser.
static constexpr unsigned deepestNesting = 8;

LogicalResult mlir::repro::fail(std::string &error, const Twine &message) {
  error = message.str();
  return failure();
}

std::string mlir::repro::quote(StringRef text) {
  constexpr size_t most = 60;
  std::string quoted = "'";
  llvm::raw_string_ostream stream(quoted);
  llvm::printEscapedString(text.take_front(most), stream);
  stream << (text.size() > most ? "...'" : "'");
  return quoted;
}

/// Counts the members of all objects in the tree. If the text has more members,
/// some object has a key twice.
static size_t countMembers(const llvm::json::Value &value) {
  size_t count = 0;
  if (const llvm::json::Object *object = value.getAsObject())
    for (const auto &member : *object)
      count += 1 + countMembers(member.second);
  if (const llvm::json::Array *array = value.getAsArray())
    for (const llvm::json::Value &element : *array)
      count += countMembers(element);
  return count;
}

FailureOr<llvm::json::Object> mlir::repro::parseObject(StringRef text,
                                                       std::string &error) {
  if (text.size() > mostFileBytes)
    return fail(error, "expected at most " + Twine(mostFileBytes) +
                           " bytes, got " + Twine(text.size()));
  unsigned depth = 0;
  size_t members = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      inString = c != '"';
      continue;
    }
    inString = c == '"';
    members += c == ':';
    if (c == '{' || c == '[') {
      if (++depth > deepestNesting)
        return fail(error, "expected at most " + Twine(deepestNesting) +
                               " nested objects");
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    std::string reason = llvm::toString(value.takeError());
    return fail(error, "expected JSON: " + StringRef(reason).split('\n').first);
  }
  if (countMembers(*value) != members)
    return fail(error, "expected each key of an object once");
  llvm::json::Object *object = value->getAsObject();
  if (!object)
    return fail(error, "expected an object");
  return std::move(*object);
}

LogicalResult mlir::repro::checkKeys(const llvm::json::Object &object,
                                     const Twine &place,
                                     ArrayRef<StringRef> keys,
                                     ArrayRef<StringRef> required,
                                     std::string &error) {
  SmallVector<StringRef> unknown;
  for (const auto &member : object)
    if (!llvm::is_contained(keys, StringRef(member.first)))
      unknown.push_back(member.first);
  // Sort the names, because the iteration order of a JSON object depends on
  // hashes.
  llvm::sort(unknown);
  if (!unknown.empty())
    return fail(error, place + "unknown key " + quote(unknown.front()) +
                           ", expected one of " + llvm::join(keys, ", "));
  for (StringRef key : required)
    if (!object.get(key))
      return fail(error, place + "expected the key '" + key + "'");
  return success();
}

FailureOr<std::string> mlir::repro::readFileText(StringRef path,
                                                 std::string &error) {
  // Reading a device or a pipe might never end, so accept only regular files.
  if (!llvm::sys::fs::is_regular_file(path))
    return fail(error, "expected a file that describes a machine");
  uint64_t bytes = 0;
  if (llvm::sys::fs::file_size(path, bytes) || bytes > mostFileBytes)
    return fail(error, "expected at most " + Twine(mostFileBytes) + " bytes");
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                  /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(error, buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

FailureOr<const llvm::json::Value *>
mlir::repro::readEntry(const llvm::json::Value &entry, const Twine &place,
                       std::string &error) {
  const llvm::json::Object *object = entry.getAsObject();
  if (!object)
    return fail(error, place + "expected an object with 'value' and 'source'");
  if (failed(checkKeys(*object, place, {"value", "source"}, {"value", "source"},
                       error)))
    return failure();
  std::optional<StringRef> source = object->getString("source");
  if (!source || source->trim().empty())
    return fail(error, place + "expected a source that says where the value "
                               "is from");
  return object->get("value");
}
