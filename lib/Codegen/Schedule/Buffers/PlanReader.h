//===- PlanReader.h - Translates launch plans -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H

#include "Runtime/Plan.h"
#include "dialects/Launch/IR/Launch.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Returns the launch plan of a module. Emits an error unless there is exactly
/// one.
FailureOr<launch::PlanOp> findPlan(ModuleOp module);

/// A launch plan, and the bytes of the constants that its kernels read.
struct TranslatedPlan {
  ::repro_runtime::Plan plan;
  std::string constants;
};

/// Sets those fields of a kernel that depend on the target, given the first
/// launch of this kernel.
using DescribeKernel =
    function_ref<LogicalResult(launch::DispatchOp, ::repro_runtime::Kernel &)>;

/// Translates the `launch.plan` of a module to the form that artifacts store.
FailureOr<TranslatedPlan> translatePlan(ModuleOp module,
                                        ::repro_runtime::Processor processor,
                                        DescribeKernel describe);

/// Translates the plan's states, inputs, outputs, arena size and messages.
void translateTensors(launch::PlanOpInterface plan,
                      ::repro_runtime::Plan &result);

/// Finds where the buffers of a plan are located.
class PlanReader {
public:
  explicit PlanReader(launch::PlanOpInterface plan) : plan(plan) {}

  /// Returns the location of a buffer of the plan, or of a view of one.
  /// Assigns a location to a constant at its first use.
  FailureOr<::repro_runtime::BufferRef> locate(Value buffer);

  /// Returns the bytes of all constants that have a location.
  std::string takeConstants() { return std::move(constants); }

private:
  launch::PlanOpInterface plan;
  llvm::DenseMap<Operation *, uint64_t> offsets;
  std::string constants;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
