//===- print-core-plan.cpp - Prints a plan of many cores ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints the plan in the file that the first argument names, for the tests of
// the emission.
//
// REQUIRES: native-tests
// RUN: not %native/simulator-print-core-plan %s 2>&1 | FileCheck %s
// CHECK: not a core plan
//
//===----------------------------------------------------------------------===//

#include "Simulator/CorePlan.h"

#include <fstream>
#include <iostream>
#include <iterator>

using namespace repro_simulator;

static std::ostream &operator<<(std::ostream &stream, Core core) {
  return stream << "(" << core.x << "," << core.y << ")";
}

static std::ostream &operator<<(std::ostream &stream, const Place &place) {
  return stream << uint32_t(place.memory) << ":" << place.index << "+"
                << place.offset;
}

template <typename T>
static std::ostream &operator<<(std::ostream &stream,
                                const std::vector<T> &elements) {
  stream << "[";
  for (size_t i = 0; i < elements.size(); ++i)
    stream << (i ? " " : "") << elements[i];
  return stream << "]";
}

static void print(const Copy &copy) {
  std::cout << "copy " << copy.from << " to " << copy.to << " bytes "
            << copy.elementBytes << " extents " << copy.extents << " strides "
            << copy.fromStrides << " " << copy.toStrides;
}

static void print(const Wait &wait) { std::cout << "wait " << wait.transfer; }

static void print(const Run &run) {
  std::cout << "run " << run.kernel << " at " << run.offsets;
}

static void print(const Send &send) {
  std::cout << "send " << send.bytes << " at " << send.from << " to "
            << send.cores << " at " << send.to << " counter " << send.counter;
}

static void print(const Release &release) {
  std::cout << "release " << release.counter << " to " << release.cores;
}

static void print(const Acquire &acquire) {
  std::cout << "acquire " << acquire.counter << " count " << acquire.count;
}

static void print(const Check &check) {
  std::cout << "check " << check.words << " at " << check.offset;
}

static void print(const char *kind, const std::vector<Tensor> &tensors) {
  for (const Tensor &tensor : tensors)
    std::cout << kind << " '" << tensor.name << "' " << tensor.element << " "
              << tensor.shape << "\n";
}

static void print(const CorePlan &plan) {
  std::cout << "level " << plan.level << ", machine of " << plan.machine.size()
            << " bytes, " << plan.objects.size() << " objects\n";
  print("state", plan.states);
  print("input", plan.inputs);
  print("output", plan.outputs);
  std::cout << "arena " << plan.arenaBytes << " constants "
            << plan.constants.size() << "\n";
  for (const std::string &message : plan.messages)
    std::cout << "message '" << message << "'\n";
  for (const TileKernel &kernel : plan.kernels) {
    std::cout << "kernel " << kernel.name << " items " << kernel.items
              << " scratch " << kernel.scratchBytes << " code "
              << kernel.codeBytes << " cycles " << kernel.cycles
              << (kernel.hasChecks ? " checks" : "") << " buffers";
    for (const KernelBuffer &buffer : kernel.buffers)
      std::cout << " " << buffer.bytes << ":" << buffer.access;
    std::cout << "\n";
  }
  for (const CoreProgram &program : plan.programs) {
    std::cout << "program " << program.core << " local " << program.localBytes
              << " code " << program.codeBytes << " scratch "
              << program.scratchOffset << "+" << program.scratchBytes
              << " error " << program.errorOffset << "\n";
    for (const CoreOp &op : program.ops) {
      std::cout << "  ";
      std::visit([](const auto &op) { print(op); }, op);
      std::cout << "\n";
    }
  }
}

int main(int count, char **arguments) {
  std::ifstream file(count > 1 ? arguments[1] : "", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  CorePlan plan;
  if (Error error = readCorePlan({bytes.data(), bytes.size()}, plan);
      !error.empty()) {
    std::cerr << error << "\n";
    return 1;
  }
  print(plan);
}
