//===- artifact.cpp - Fuzzes the reader of artifacts ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runtime/Artifact.h"

#include <cstdlib>
#include <cstring>

using namespace repro_runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  Artifact first;
  readArtifact({bytes.data(), bytes.size()}, first);
  // After the mutated bytes have been read as they are, their size and checksum
  // fields are corrected, so that the reader continues to the plan.
  constexpr size_t sizeAt = 16, sumAt = 24, bodyAt = 32;
  if (size < bodyAt)
    return 0;
  uint64_t whole = size;
  uint64_t sum = checksum(bytes.data() + bodyAt, size - bodyAt);
  std::memcpy(&bytes[sizeAt], &whole, sizeof whole);
  std::memcpy(&bytes[sumAt], &sum, sizeof sum);
  Artifact second;
  if (readArtifact({bytes.data(), bytes.size()}, second).empty()) {
    Artifact third;
    std::string again = writeArtifact(second);
    if (!readArtifact({again.data(), again.size()}, third).empty())
      std::abort();
  }
  return 0;
}
