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

/// Returns the plan of a module; emits an error if there is none.
FailureOr<launch::PlanOp> findPlan(ModuleOp module);

/// A plan and the bytes of the constants that its kernels read.
struct TranslatedPlan {
  ::repro_runtime::Plan plan;
  std::string constants;
};

/// Sets the target-specific fields of a kernel, from its first launch.
using DescribeKernel =
    function_ref<LogicalResult(launch::DispatchOp, ::repro_runtime::Kernel &)>;

/// Translates the `launch.plan` of a module.
FailureOr<TranslatedPlan> translatePlan(ModuleOp module,
                                        ::repro_runtime::Processor processor,
                                        DescribeKernel describe);

/// Locates the buffers of a plan.
class PlanReader {
public:
  explicit PlanReader(launch::PlanOp plan) : plan(plan) {}

  /// Returns the location of a buffer that a launch passes to its kernel; a
  /// constant is assigned a location at its first use.
  FailureOr<::repro_runtime::BufferRef> locate(Value buffer);

  /// Returns the bytes of all constants that have a location.
  std::string takeConstants() { return std::move(constants); }

private:
  launch::PlanOp plan;
  llvm::DenseMap<Operation *, uint64_t> offsets;
  std::string constants;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
