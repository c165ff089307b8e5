//===- float-environment.cpp - The control register of (V2) ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/runtime-float-environment
//
//===----------------------------------------------------------------------===//

#include "Runtime/Executor.h"
#include "Runtime/FloatEnvironment.h"

#include "Expect.h"

#include <cfenv>
#include <set>

using namespace repro_runtime;

/// `half` is half a unit in the last place of 1: sums with it depend on the
/// rounding mode. `smallest` is the smallest normal number: half of it is 0 if
/// subnormals are flushed.
static volatile double one = 1.0, half = 0x1p-53, smallest = 0x1p-1022;

/// Not inlined, so that the compiler cannot move these operations across a
/// change of the control register.
__attribute__((noinline)) static bool isDefault() {
  return one + half == 1.0 && -one - half == -1.0 && smallest * 0.5 != 0.0;
}

__attribute__((noinline)) static bool isSpoiled() {
  bool keepsSubnormals = false;
#if defined(__x86_64__)
  keepsSubnormals = smallest * 0.5 != 0.0;
#endif
  return one + half > 1.0 && !keepsSubnormals;
}

/// Sets a rounding mode and a treatment of subnormals that no step may use.
static void spoil() {
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() |
             0x8040); // results and operands: subnormals become zero
#endif
  EXPECT(!isDefault() && isSpoiled());
}

static void testScope() {
  {
    FloatEnvironment environment;
    EXPECT(isDefault());
    // The end of the scope undoes this change.
    std::fesetround(FE_DOWNWARD);
  }
  EXPECT(isSpoiled());
}

/// A kernel that writes 1 for each work item that runs in the environment of
/// (V2). Its check fails if the second buffer is not 0.
static void look(char *const *buffers, char *, int64_t *error, int64_t begin,
                 int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    buffers[0][i] = isDefault();
  if (buffers[1][0])
    __atomic_store_n(error, 1, __ATOMIC_RELAXED);
}

/// Runs steps from a caller whose environment is not that of (V2): kernels on
/// the caller's thread and on workers use that of (V2), and the caller's
/// environment is restored, even if a step fails.
static void testSteps() {
  constexpr uint64_t items = 4096;
  Plan plan;
  plan.states = {{"x", "i8", {items}}, {"fails", "i8", {}}};
  plan.messages = {"it fails"};
  plan.kernels = {{"look", items, 1, 0}};
  plan.launches = {{0, false, {{Space::State, 0, 0}, {Space::State, 1, 0}}}};
  for (unsigned threads : {1, 4}) {
    Executor executor(plan, {}, {look}, threads);
    for (char fails : {0, 1}) {
      std::vector<char> found(items);
      char *buffers[] = {found.data(), &fails};
      EXPECT(executor.run(buffers) == (fails ? "it fails" : ""));
      EXPECT(isSpoiled());
      EXPECT(std::set<char>(found.begin(), found.end()) == std::set<char>{1});
    }
  }
}

int main() {
  EXPECT(isDefault());
  spoil();
  testScope();
  testSteps();
}
