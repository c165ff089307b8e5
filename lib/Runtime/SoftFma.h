//===- SoftFma.h - fma where the machine has none ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_SOFTFMA_H
#define REPRO_RUNTIME_SOFTFMA_H

/// (S1) a * b + c, rounded once, in integer arithmetic: kernels for machines
/// without an fma instruction call it for f64.
extern "C" double repro_fma(double a, double b, double c);

#endif // REPRO_RUNTIME_SOFTFMA_H
