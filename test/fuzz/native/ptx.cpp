//===- ptx.cpp - Fuzzes the emulator's reader of PTX ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Emulator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  repro_emulator::Module::load({reinterpret_cast<const char *>(data), size}, "",
                               error);
  return 0;
}
