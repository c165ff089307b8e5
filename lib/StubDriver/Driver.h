//===- Driver.h - State of the stand-in driver ----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_STUBDRIVER_DRIVER_H
#define REPRO_STUBDRIVER_DRIVER_H

#include "CAPI/Emulator.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace repro_stub {

/// The values of CUresult that the stand-in returns.
enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  InvalidHandle = 400,
  NotFound = 500,
  IllegalAddress = 700,
  MisalignedAddress = 716,
  LaunchFailed = 719,
};

using Work = std::function<int()>;
using Graph = std::vector<Work>;

/// A failure that REPRO_STUB_FAIL injects into an entry point.
struct Failure {
  int code = 0;
  long from = 1; // the first call that fails
  long calls = 0;
};

/// The state of the stand-in driver and its device.
struct Driver {
  bool initialized = false;
  int major = 9, minor = 0;
  uint64_t memoryBytes = 16ull << 30, allocatedBytes = 0;
  ReproEmulatorMemory memory = reproEmulatorMemoryCreate();
  ReproEmulatorOptions options = {1, false, ReproEmulatorLockstep, 0, {}};
  std::string matrixUnit;
  std::map<uint64_t, uint64_t> allocations; // address to size in bytes
  std::map<std::string, Failure> failures;
  Graph *recording = nullptr;

  void configure();
};

/// Returns the driver of this process.
Driver &driver();

/// Returns the failure that REPRO_STUB_FAIL injects into this call, or Success.
int injected(const char *name);

/// Runs an entry point other than cuInit. Returns the injected failure if there
/// is one, NotInitialized before cuInit, and otherwise the result of `work`.
template <typename Function>
int call(const char *name, Function work) {
  if (int code = injected(name))
    return code;
  return driver().initialized ? static_cast<int>(work()) : NotInitialized;
}

/// Runs the work of a stream immediately, or records it if a capture is active.
int enqueue(Work work);

/// Whether the bytes are within one allocation.
bool isAllocated(uint64_t address, uint64_t bytes);

} // namespace repro_stub

#endif // REPRO_STUBDRIVER_DRIVER_H
