//===- FloatEnvironment.h - Floating-point settings of (V2) -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_FLOATENVIRONMENT_H
#define REPRO_RUNTIME_FLOATENVIRONMENT_H

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace repro_runtime {

/// (V2) Sets the floating-point control register of the thread: round to
/// nearest even, keep subnormals. The destructor restores the caller's setting.
class FloatEnvironment {
public:
#if defined(__x86_64__)
  FloatEnvironment() : saved(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatEnvironment() { _mm_setcsr(saved); }

private:
  uint32_t saved;
#elif defined(__aarch64__)
  FloatEnvironment() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(uint64_t(0)));
  }
  ~FloatEnvironment() { __asm__ volatile("msr fpcr, %0" : : "r"(saved)); }

private:
  uint64_t saved;
#else
#error "(V2) is not written for this machine"
#endif
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;
};

} // namespace repro_runtime

#endif // REPRO_RUNTIME_FLOATENVIRONMENT_H
