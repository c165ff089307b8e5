//===- VectorMachine.h - Formulas on the host's vectors --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The machine (type parameter M of Formulas.h) that computes values, eight at a
// time, with GCC's vector extension. Compile with -ffp-contract=off.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TOOLS_FUNCTIONS_VECTORMACHINE_H
#define REPRO_TOOLS_FUNCTIONS_VECTORMACHINE_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace mlir::repro::functions {

struct VectorMachine {
  typedef double F64 __attribute__((vector_size(64)));
  typedef int64_t I64 __attribute__((vector_size(64)));
  typedef uint64_t U64 __attribute__((vector_size(64)));
  typedef float Floats __attribute__((vector_size(32)));
  /// Eight f32 values, stored as f64. The formulas apply only exact operations
  /// to them, which have the same results in f64 as in f32.
  struct F32 {
    F64 wide;
  };
  using Mask = I64;

  static F32 constant(float v) { return {constant(double(v))}; }
  static F64 widen(F32 a) { return a.wide; }
  static F32 narrow(F64 a) {
    return {__builtin_convertvector(__builtin_convertvector(a, Floats), F64)};
  }
  static F32 abs(F32 a) { return {abs(a.wide)}; }
  static F32 copysign(F32 a, F32 s) { return {copysign(a.wide, s.wide)}; }
  static Mask lt(F32 a, F32 b) { return a.wide < b.wide; }
  static Mask eq(F32 a, F32 b) { return a.wide == b.wide; }
  static Mask unequal(F32 a, F32 b) { return a.wide != b.wide; }
  static F32 select(Mask m, F32 a, F32 b) { return {m ? a.wide : b.wide}; }

  static F64 constant(double v) { return v - F64{}; }
  static I64 constant(int64_t v) { return v - I64{}; }
  static F64 fma(F64 a, F64 b, F64 c) {
    for (int l = 0; l < 8; ++l)
      a[l] = __builtin_fma(a[l], b[l], c[l]);
    return a;
  }
  static F64 sqrt(F64 a) {
    for (int l = 0; l < 8; ++l)
      a[l] = __builtin_sqrt(a[l]);
    return a;
  }
  static I64 bits(F64 a) { return I64(a); }
  static F64 real(I64 a) { return F64(a); }
  static F64 toReal(I64 a) { return __builtin_convertvector(a, F64); }
  static F64 abs(F64 a) { return F64(I64(a) & constant(INT64_MAX)); }
  static F64 copysign(F64 a, F64 s) {
    return F64((I64(a) & constant(INT64_MAX)) | (I64(s) & constant(INT64_MIN)));
  }
  static Mask lt(F64 a, F64 b) { return a < b; }
  static Mask le(F64 a, F64 b) { return a <= b; }
  static Mask eq(F64 a, F64 b) { return a == b; }
  static Mask ieq(I64 a, I64 b) { return a == b; }
  static Mask ine(I64 a, I64 b) { return a != b; }
  static Mask both(Mask a, Mask b) { return a & b; }
  static Mask either(Mask a, Mask b) { return a | b; }
  static Mask unequal(F64 a, F64 b) { return a != b; }
  static Mask differ(Mask a, Mask b) { return a ^ b; }
  static Mask roundsApart(F64 a, F64 b) {
    F64 x = narrow(a).wide, y = narrow(b).wide;
    return (x < y) | (y < x);
  }
  static F64 select(Mask m, F64 a, F64 b) { return m ? a : b; }
  static I64 iselect(Mask m, I64 a, I64 b) { return m ? a : b; }
  static I64 shl(I64 a, int n) { return I64(U64(a) << n); }
  static I64 shr(I64 a, int n) { return I64(U64(a) >> n); }
  static I64 shlv(I64 a, I64 n) { return I64(U64(a) << U64(n)); }
  static F32 rsqrtEstimate(F32 a) {
    Floats s = __builtin_convertvector(a.wide, Floats);
    for (int l = 0; l < 8; ++l)
      s[l] = __builtin_sqrtf(s[l]);
    return {__builtin_convertvector(1.0f / s, F64)};
  }
  static F32 load(const float *p) {
    Floats s;
    std::memcpy(&s, p, sizeof(s));
    return {__builtin_convertvector(s, F64)};
  }
  static void store(float *p, F32 a) {
    Floats s = __builtin_convertvector(a.wide, Floats);
    std::memcpy(p, &s, sizeof(s));
  }
  static bool any(Mask m) {
    bool r = false;
    for (int l = 0; l < 8; ++l)
      r |= m[l] != 0;
    return r;
  }
  template <typename Turn, typename Slow>
  static Turn ifAny(Mask m, Turn ordinary, Slow slow) {
    if (__builtin_expect(any(m), 0)) {
      Turn other = slow();
      ordinary.r = select(m, other.r, ordinary.r);
      ordinary.t = select(m, other.t, ordinary.t);
    }
    return ordinary;
  }
};

} // namespace mlir::repro::functions

#endif // REPRO_TOOLS_FUNCTIONS_VECTORMACHINE_H
