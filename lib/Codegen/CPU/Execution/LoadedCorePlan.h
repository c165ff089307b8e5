//===- LoadedCorePlan.h - Loads core plans into this process ----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOADEDCOREPLAN_H
#define REPRO_CODEGEN_CPU_LOADEDCOREPLAN_H

#include "Codegen/CPU/Execution/LoadedObjects.h"
#include "Simulator/Simulator.h"

namespace mlir::repro {

/// A core plan whose kernels are loaded into this process, ready to simulate.
class LoadedCorePlan {
public:
  /// Returns null and sets `error` if the plan is damaged, does not fit its
  /// machine, or has code for another machine than this one.
  static std::unique_ptr<LoadedCorePlan> create(llvm::StringRef bytes,
                                                std::string &error);

  repro_simulator::Simulator &getSimulator() { return *simulator; }

private:
  /// The objects that the kernels were loaded from.
  std::vector<std::string> bytes;
  std::unique_ptr<LoadedObjects> objects;
  std::unique_ptr<repro_simulator::Simulator> simulator;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOADEDCOREPLAN_H
