//===- CorePlans.h - Core plans made by hand --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TEST_SIMULATOR_COREPLANS_H
#define REPRO_TEST_SIMULATOR_COREPLANS_H

#include "Simulator/CorePlan.h"

namespace repro_simulator {

/// Returns a plan of two cores with each operation and each memory. Its code is
/// not an object.
inline CorePlan makeCorePlan() {
  CorePlan plan;
  plan.machine = "{}";
  plan.level = "x86-64-v2";
  plan.states = {{"w", "f32", {4, 8}}};
  plan.inputs = {{"\xc3\xa9", "i8", {16}}};
  plan.outputs = {{"", "f64", {}}};
  plan.arenaBytes = 128;
  plan.constants = std::string(64, '\x01');
  plan.messages = {"model.py:1: \xe2\x88\x9e"};
  plan.kernels = {{"k", 7, 128, 300, 1000, true, {{64, 1}, {32, 2}}},
                  {"k2", 0, 0, 0, 0, false, {}}};
  plan.objects = {"code", ""};

  // A tile of 4 x 4 elements of the state.
  Copy load{{Memory::State, 0, 16},
            {Memory::Local, 0, 0},
            4,
            {4, 4},
            {32, 4},
            {16, 4}};
  CoreProgram sender{{0, 0}, 1024, 350, 512, 128, 1016, {}};
  sender.ops = {
      load,
      Wait{0},
      Copy{{Memory::Constant, 0, 56}, {Memory::Local, 0, 96}, 8, {}, {}, {}},
      Wait{1},
      Run{0, {0, 64}},
      Send{64, 32, {{1, 2}}, 992, 5},
      Copy{{Memory::Local, 0, 64}, {Memory::Arena, 0, 120}, 1, {8}, {1}, {1}},
      Wait{3},
      Wait{2},
      Release{{{1, 2}, {0, 0}}, 4000000000},
      Acquire{4000000000, 1}};
  CoreProgram receiver{{1, 2}, 1024, 0, 0, 0, 1008, {}};
  // The first half of the sender's tile, as two columns.
  Copy remote{{Memory::Remote, 0, 0},
              {Memory::Local, 0, 0},
              4,
              {2, 4},
              {4, 16},
              {16, 4}};
  receiver.ops = {Acquire{5, 1},  Acquire{4000000000, 1},
                  Check{1000, 3}, Run{1, {}},
                  remote,         Wait{0}};
  plan.programs = {sender, receiver};
  return plan;
}

} // namespace repro_simulator

#endif // REPRO_TEST_SIMULATOR_COREPLANS_H
