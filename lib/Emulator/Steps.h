//===- Steps.h - Kernels before register allocation -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_STEPS_H
#define REPRO_EMULATOR_STEPS_H

#include "Emulator/Kernel.h"

namespace repro_emulator {

/// The number of a virtual register.
using Value = uint32_t;
constexpr Value noValue = ~0u;

/// The kind of value that a virtual register holds, and its size.
struct ValueInfo {
  enum Source : uint8_t {
    Register,
    Constant,
    SpecialRegister,
    KernelParameter
  };
  Source source = Register;
  uint8_t bytes = 0; // per lane; a predicate has 4
  bool isPredicate = false;
  uint64_t bits = 0; // the constant, or the parameter's offset
  Special special = Special::ThreadX;
  uint8_t parameterBytes = 0;
  bool isSigned = false;
};

/// An instruction whose operands are virtual registers.
struct Step {
  Kind kind = Kind::Pure;
  int line = 0;
  Compute compute = nullptr;
  std::vector<Value> results, sources;
  Value guard = noValue;
  bool guardNegated = false;
  uint32_t target = noValue;    // the label of a branch
  Detail detail;                // without registers and targets
  std::vector<uint32_t> labels; // brx.idx targets
};

/// The steps of a kernel, in which all calls are inlined.
struct StepProgram {
  std::vector<Step> steps;
  std::vector<ValueInfo> values;
  /// For each label, the index of the step that follows it.
  std::vector<uint32_t> labels;
};

/// Assigns a location in the frame to each register. Registers that are never
/// live at the same time may share a location. Sets the code, the details and
/// the slots of `kernel`.
void allocateRegisters(StepProgram program, Kernel &kernel);

} // namespace repro_emulator

#endif // REPRO_EMULATOR_STEPS_H
