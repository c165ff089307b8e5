//===- ByteStream.h - Little-endian serialization ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_BYTESTREAM_H
#define REPRO_RUNTIME_BYTESTREAM_H

#include "Plan.h"

namespace repro_runtime {

/// Appends little-endian integers, strings and lists to a string of bytes.
struct ByteWriter {
  std::string bytes;

  void u32(uint64_t value) { integer(value, 4); }
  void u64(uint64_t value) { integer(value, 8); }
  void string(const std::string &text) {
    u32(text.size());
    bytes += text;
  }
  /// Writes the length of the list, then calls `each` to write each element.
  template <typename T, typename Each>
  void list(const std::vector<T> &elements, Each each) {
    u32(elements.size());
    for (const T &element : elements)
      each(element);
  }

private:
  void integer(uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i)
      bytes += static_cast<char>(value >> (8 * i));
  }
};

/// Reads what ByteWriter writes. After a read past the end, `failed` is set and
/// every value is zero.
struct ByteReader {
  Bytes bytes;
  size_t at = 0;
  bool failed = false;

  uint32_t u32() { return uint32_t(integer(4)); }
  uint64_t u64() { return integer(8); }
  std::string string() {
    uint32_t length = u32();
    if (length > bytes.size - at) {
      failed = true;
      return {};
    }
    at += length;
    return std::string(bytes.data + at - length, length);
  }
  /// Reads a list whose elements are at least `least` bytes each, so that the
  /// number of remaining bytes bounds its length before memory is allocated.
  template <typename T, typename Each>
  void list(std::vector<T> &elements, size_t least, Each each) {
    uint32_t count = u32();
    if (count > (bytes.size - at) / least) {
      failed = true;
      return;
    }
    elements.resize(count);
    for (size_t i = 0; i < count && !failed; ++i)
      each(elements[i]);
  }

private:
  uint64_t integer(unsigned size) {
    if (failed || size > bytes.size - at) {
      failed = true;
      return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i)
      value |= uint64_t(static_cast<unsigned char>(bytes.data[at + i]))
               << (8 * i);
    at += size;
    return value;
  }
};

} // namespace repro_runtime

#endif // REPRO_RUNTIME_BYTESTREAM_H
