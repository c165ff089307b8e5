//===- plan.cpp - Fuzzes the reader of launch plans -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runtime/Plan.h"

#include <cstdlib>

using namespace repro_runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  Plan plan;
  // A plan has only one encoding, so a plan that can be read must be written as
  // the same bytes.
  if (readPlan({bytes.data(), bytes.size()}, plan).empty() &&
      writePlan(plan) != bytes)
    std::abort();
  return 0;
}
