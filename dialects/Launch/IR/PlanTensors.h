//===- PlanTensors.h - The arguments of plans -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text and the verification of a plan's states, inputs, outputs and arena,
// which all operations with PlanOpInterface share.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_PLANTENSORS_H
#define REPRO_LAUNCH_PLANTENSORS_H

#include "dialects/Launch/IR/Launch.h"

namespace mlir::repro::launch {

/// Parses `states(...) inputs(...) outputs(...) arena(...)`, and adds the
/// attributes that contain the counts and names.
ParseResult parsePlanTensors(OpAsmParser &parser, OperationState &result,
                             SmallVectorImpl<OpAsmParser::Argument> &arguments);
void printPlanTensors(OpAsmPrinter &printer, PlanOpInterface plan);

/// Parses the body of a plan, which may be empty.
ParseResult parsePlanBody(OpAsmParser &parser, OperationState &result,
                          ArrayRef<OpAsmParser::Argument> arguments);

LogicalResult verifyPlanTensors(PlanOpInterface plan);

} // namespace mlir::repro::launch

#endif // REPRO_LAUNCH_PLANTENSORS_H
