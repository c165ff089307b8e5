//===- OperationTables.cpp - The operation tables of this CPU -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Operations.h"

using namespace repro_emulator;

#if defined(__x86_64__)

#include <cpuid.h>

extern const OperationTable repro_emulator_operations_v2;
extern const OperationTable repro_emulator_operations_v3;
extern const OperationTable repro_emulator_operations_v4;

/// Whether the CPU has LZCNT and F16C. Both belong to x86-64-v3, but older
/// compilers cannot query them by name.
static bool hasLzcntAndF16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) &&
         __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}

const OperationTable *const *repro_emulator::getOperationTables() {
  static const OperationTable *tables[4] = {&repro_emulator_operations_v2};
  static const bool once = [] {
    size_t count = 1;
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
              hasLzcntAndF16c();
    if (v3)
      tables[count++] = &repro_emulator_operations_v3;
    if (v3 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      tables[count++] = &repro_emulator_operations_v4;
    return true;
  }();
  (void)once;
  return tables;
}

#else

extern const OperationTable repro_emulator_operations_generic;

const OperationTable *const *repro_emulator::getOperationTables() {
  static const OperationTable *tables[2] = {&repro_emulator_operations_generic};
  return tables;
}

#endif
