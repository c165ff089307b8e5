//===- Routines.h - Exact routines that kernels call ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_ROUTINES_H
#define REPRO_RUNTIME_ROUTINES_H

extern "C" {

/// (S1) a * b + c, rounded once, in integer arithmetic: for machines without an
/// fma instruction.
double repro_fma(double a, double b, double c);

/// (S4) the exact remainder with the sign of x, also for zero.
double repro_fmod(double x, double y);
}

#endif // REPRO_RUNTIME_ROUTINES_H
