//===- PlanReader.h - What a plan says --------------------------*- C++ -*-===//
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

/// The plan of a module; an error if it has none.
FailureOr<launch::PlanOp> findPlan(ModuleOp module);

/// A plan with the bytes of the constants that its kernels read.
struct TranslatedPlan {
  ::repro_runtime::Plan plan;
  std::string constants;
};

/// Sets what only the target knows of a kernel, from its first launch.
using DescribeKernel =
    function_ref<LogicalResult(launch::DispatchOp, ::repro_runtime::Kernel &)>;

/// Translates the `launch.plan` of a module.
FailureOr<TranslatedPlan> translatePlan(ModuleOp module,
                                        ::repro_runtime::Processor processor,
                                        DescribeKernel describe);

/// Finds where the buffers of a plan lie.
class PlanReader {
public:
  explicit PlanReader(launch::PlanOp plan) : plan(plan) {}

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
