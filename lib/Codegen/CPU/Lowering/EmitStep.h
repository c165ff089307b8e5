//===- EmitStep.h - A program as one function -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOWERING_EMITSTEP_H
#define REPRO_CODEGEN_CPU_LOWERING_EMITSTEP_H

#include "Codegen/Schedule/Buffers/PlanReader.h"
#include "Target/Level.h"

namespace mlir::repro {

/// A program for a microcontroller.
struct StepObject {
  std::string object;   ///< a relocatable ELF file
  uint64_t codeBytes;   ///< instructions and their literals
  uint64_t constBytes;  ///< other read-only data
  uint64_t memoryBytes; ///< of the structure NAME_memory
};

/// Compiles kernels in the LLVM dialect and their plan to one object, which
/// needs no library. It defines the function
///
///   int NAME_step(NAME_state *, const NAME_inputs *, NAME_outputs *,
///                 NAME_memory *);
///
/// A parameter is a pointer to a structure of C with one array per tensor, in
/// the order of the plan; it is absent if the program has none. The result
/// is 0, or the number of the message of a failed check + 1 (E1). The constant
/// NAME_initial is the first state if `initial` has the bytes of each state.
FailureOr<StepObject> emitStep(ModuleOp module, const TranslatedPlan &plan,
                               StringRef name, ArrayRef<StringRef> initial,
                               const Level &level);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOWERING_EMITSTEP_H
