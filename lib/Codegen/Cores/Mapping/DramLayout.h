//===- DramLayout.h - The tensors of a plan in the DRAM ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_DRAMLAYOUT_H
#define REPRO_CODEGEN_CORES_MAPPING_DRAMLAYOUT_H

#include "Target/ManyCore.h"
#include "dialects/Launch/IR/Launch.h"

namespace mlir::repro::cores {

/// A state, an input, an output or a constant of a plan, or its arena.
struct DramTensor {
  Value buffer;
  std::string name; ///< empty if it has none
  StringRef kind;   ///< "state", "input", "output", "temporary", "constant"
  int64_t address;  ///< in the DRAM of all chips, which is one range
  int64_t bytes;
};

/// Returns the tensors of a plan in the order of their addresses.
std::vector<DramTensor> listTensors(launch::PlanOp plan,
                                    const ManyCore &machine);

/// Returns the bytes of the DRAM by which one tensor can grow; 0 if the tensors
/// do not fit.
int64_t getFreeDram(launch::PlanOp plan, const ManyCore &machine);

/// Emits an error that names the largest tensor if the tensors of the plan do
/// not fit into the DRAM of the machine.
LogicalResult verifyDram(launch::PlanOp plan, const ManyCore &machine);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_DRAMLAYOUT_H
