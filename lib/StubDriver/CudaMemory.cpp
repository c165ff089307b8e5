//===- CudaMemory.cpp - Entry points: memory ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace repro_stub;

namespace {

int copy(void *to, const void *from, uint64_t device, uint64_t other,
         size_t bytes) {
  if (!isAllocated(device, bytes) || (other && !isAllocated(other, bytes)))
    return InvalidValue;
  return enqueue([=] {
    std::memmove(to, from, bytes);
    return Success;
  });
}

template <typename Type>
Type *pointer(uint64_t address) {
  return reinterpret_cast<Type *>(address);
}

} // namespace

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return call("cuMemAlloc_v2", [&] {
    Driver &d = driver();
    if (!bytes)
      return InvalidValue;
    size_t rounded = (bytes + 255) / 256 * 256;
    if (rounded > d.memoryBytes - d.allocatedBytes)
      return OutOfMemory;
    void *memory = std::aligned_alloc(256, rounded);
    if (!memory)
      return OutOfMemory;
    // Fill new memory (at most its first 64 MiB) with NaNs, so that code that
    // reads memory before writing it fails.
    std::memset(memory, 0xff, std::min<size_t>(rounded, 64 << 20));
    reproEmulatorMemoryAdd(d.memory, memory, bytes,
                           MlirStringRef{"device memory", 13});
    *address = reinterpret_cast<uint64_t>(memory);
    d.allocations[*address] = bytes;
    d.allocatedBytes += rounded;
    return Success;
  });
}

EXPORT int cuMemFree_v2(uint64_t address) {
  return call("cuMemFree_v2", [&] {
    Driver &d = driver();
    auto found = d.allocations.find(address);
    if (found == d.allocations.end())
      return InvalidValue;
    d.allocatedBytes -= (found->second + 255) / 256 * 256;
    reproEmulatorMemoryRemove(d.memory, pointer<void>(address));
    std::free(pointer<void>(address));
    d.allocations.erase(found);
    return Success;
  });
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes,
                                void *) {
  return call("cuMemcpyHtoDAsync_v2",
              [&] { return copy(pointer<void>(to), from, to, 0, bytes); });
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
  return call("cuMemcpyDtoHAsync_v2",
              [&] { return copy(to, pointer<void>(from), from, 0, bytes); });
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes,
                                void *) {
  return call("cuMemcpyDtoDAsync_v2", [&] {
    return copy(pointer<void>(to), pointer<void>(from), to, from, bytes);
  });
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes,
                           void *) {
  return call("cuMemsetD8Async", [&]() -> int {
    if (!isAllocated(to, bytes))
      return InvalidValue;
    return enqueue([=] {
      std::memset(pointer<void>(to), value, bytes);
      return Success;
    });
  });
}
