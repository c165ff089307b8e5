//===- Driver.cpp - State of the stand-in driver --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace repro_stub;

Driver &repro_stub::driver() {
  static Driver instance;
  return instance;
}

void Driver::configure() {
  initialized = true;
  if (const char *text = std::getenv("REPRO_STUB_CAPABILITY"))
    std::sscanf(text, "%d.%d", &major, &minor);
  // The class of matrix unit (M3) is that of the device, not that of the code's
  // target.
  const char *unit = std::getenv("REPRO_STUB_MATRIX_UNIT");
  matrixUnit = unit ? unit : "sm_" + std::to_string(10 * major + minor);
  options.matrixUnit = {matrixUnit.data(), matrixUnit.size()};
  if (const char *text = std::getenv("REPRO_STUB_MEMORY"))
    memoryBytes = std::strtoull(text, nullptr, 10);
  const char *checked = std::getenv("REPRO_STUB_CHECKED");
  options.checked = checked && *checked == '1';
  options.threads = std::thread::hardware_concurrency();
  if (const char *text = std::getenv("REPRO_STUB_THREADS"))
    options.threads = std::strtoul(text, nullptr, 10);
  // The emulator detects races only if it uses a single host thread.
  if (options.checked || options.threads < 1)
    options.threads = 1;
}

int repro_stub::injected(const char *name) {
  static const bool parsed = [] {
    const char *text = std::getenv("REPRO_STUB_FAIL");
    while (text && *text) {
      char function[64];
      Failure failure;
      int length = 0;
      if (std::sscanf(text, "%63[^=]=%d%n", function, &failure.code, &length) !=
          2)
        break;
      text += length;
      if (*text == '@')
        failure.from = std::strtol(text + 1, const_cast<char **>(&text), 10);
      if (*text == ',')
        ++text;
      driver().failures[function] = failure;
    }
    return true;
  }();
  (void)parsed;
  auto found = driver().failures.find(name);
  if (found == driver().failures.end())
    return Success;
  Failure &failure = found->second;
  return ++failure.calls >= failure.from ? failure.code : Success;
}

int repro_stub::enqueue(Work work) {
  if (driver().recording) {
    driver().recording->push_back(std::move(work));
    return Success;
  }
  return work();
}

bool repro_stub::isAllocated(uint64_t address, uint64_t bytes) {
  auto &allocations = driver().allocations;
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return false;
  auto [start, size] = *std::prev(after);
  return address - start <= size && bytes <= size - (address - start);
}
