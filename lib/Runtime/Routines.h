//===- Routines.h - Exact routines that kernels call ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_ROUTINES_H
#define REPRO_RUNTIME_ROUTINES_H

extern "C" {

/// (S1) Returns a * b + c with a single rounding, in integer arithmetic, for
/// machines without an fma instruction.
double repro_fma(double a, double b, double c);

/// (S4) Returns the exact remainder of x / y, with the sign of x even if the
/// remainder is zero.
double repro_fmod(double x, double y);
}

#endif // REPRO_RUNTIME_ROUTINES_H
