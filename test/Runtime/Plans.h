//===- Plans.h - Plans made by hand -----------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TEST_RUNTIME_PLANS_H
#define REPRO_TEST_RUNTIME_PLANS_H

#include "Runtime/Plan.h"

namespace repro_runtime {

/// Returns a launch plan for a CPU with buffers of every kind: state, inputs,
/// outputs, constants and the arena.
inline Plan makeHostPlan() {
  Plan plan;
  plan.arenaBytes = 64;
  plan.constantBytes = 16;
  plan.states = {{"w", "bf16", {3, 5}}};
  plan.inputs = {{"\xc3\xa9", "i1", {0, 7}}};
  plan.outputs = {{"", "f64", {}}};
  plan.messages = {"", "model.py:1: \xe2\x88\x9e"};
  plan.kernels = {{"k", 7, 3, 128}, {"k2", 0, 1, 0}};
  plan.launches = {{1,
                    true,
                    {{Space::State, 0, 30},
                     {Space::Input, 0, 0},
                     {Space::Output, 0, 8},
                     {Space::Arena, 0, 64},
                     {Space::Constant, 0, 16}}},
                   {0, false, {}}};
  return plan;
}

inline Plan makeDevicePlan() {
  Plan plan = makeHostPlan();
  plan.processor = Processor::GPU;
  plan.kernels = {{"k", 0, 0, 0, {32, 4, 8}, 4096},
                  {"k2", 0, 0, 0, {1, 1, 1}, 0}};
  for (Launch &launch : plan.launches)
    launch.grid = {4, 1, 65535};
  return plan;
}

} // namespace repro_runtime

#endif // REPRO_TEST_RUNTIME_PLANS_H
