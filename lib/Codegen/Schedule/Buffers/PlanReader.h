//===- PlanReader.h - What a plan says --------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H

#include "Runtime/Artifact.h"
#include "dialects/Launch/IR/Launch.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// The plan of a module; an error if it has none.
FailureOr<launch::PlanOp> findPlan(ModuleOp module);

/// Reads what all targets' plans have in common.
class PlanReader {
public:
  explicit PlanReader(launch::PlanOp plan) : plan(plan) {}

  /// States, inputs, outputs, the arena's size and the messages.
  void readTensors(::repro_runtime::Plan &result);
  /// The place of a buffer that a launch passes to its kernel; a constant gets
  /// one at the first use.
  FailureOr<::repro_runtime::BufferRef> locate(Value buffer);

  /// The bytes of the constants that have a place.
  std::string takeConstants() { return std::move(constants); }

private:
  launch::PlanOp plan;
  llvm::DenseMap<Operation *, uint64_t> offsets;
  std::string constants;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
