//===- Architecture.cpp - The devices that code is made for ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Lowering/Architecture.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::repro;

static const Architecture architectures[] = {
    {"sm_75", 75}, {"sm_80", 80},   {"sm_86", 86},   {"sm_89", 89},
    {"sm_90", 90}, {"sm_100", 100}, {"sm_120", 120},
};

ArrayRef<Architecture> mlir::repro::getArchitectures() { return architectures; }

const Architecture *mlir::repro::findArchitecture(StringRef name) {
  for (const Architecture &architecture : architectures)
    if (architecture.name == name)
      return &architecture;
  return nullptr;
}

std::string mlir::repro::listArchitectures() {
  return llvm::join(llvm::map_range(architectures,
                                    [](const Architecture &architecture) {
                                      return architecture.name.str();
                                    }),
                    ", ");
}
