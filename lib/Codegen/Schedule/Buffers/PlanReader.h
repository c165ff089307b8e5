//===- PlanReader.h - What a planned main says ------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H

#include "Runtime/Artifact.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Reads what all targets' plans have in common from the `main` that
/// `repro-plan-buffers` left.
class PlanReader {
public:
  explicit PlanReader(ModuleOp module);

  /// States, inputs, outputs, the arena's size and the messages.
  LogicalResult readTensors(::repro_runtime::Plan &plan);
  /// The place of a buffer that `launch` passes to its kernel; a constant gets
  /// one at the first use.
  FailureOr<::repro_runtime::BufferRef> locate(Operation *launch, Value buffer);

  func::FuncOp getMain() const { return main; }
  SymbolTable &getSymbols() { return symbols; }
  /// The bytes of the constants that have a place.
  std::string takeConstants() { return std::move(constants); }

private:
  ModuleOp module;
  SymbolTable symbols;
  func::FuncOp main;
  /// Numbers of the arguments of `main` at which each kind begins.
  int64_t inputs = 0, outputs = 0, arena = 0;
  llvm::DenseMap<Operation *, uint64_t> offsets;
  std::string constants;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PLANREADER_H
