//===- Support.c - What compiled functions need to be run alone -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f64 fma of levels without one, and with -DMAIN a program that applies
// FUNCTION to chunks of OPERANDS arrays of ELEMENTs from its input.
//
//===----------------------------------------------------------------------===//

#include <math.h>

double repro_fma(double a, double b, double c) { return fma(a, b, c); }

#ifdef MAIN
#include <stdio.h>

enum { kElements = 65536 };
static ELEMENT operands[OPERANDS][kElements], result[kElements];

#if OPERANDS == 1
void FUNCTION(ELEMENT *, ELEMENT *);
#else
void FUNCTION(ELEMENT *, ELEMENT *, ELEMENT *);
#endif

int main(void) {
  while (fread(operands, sizeof(operands), 1, stdin) == 1) {
#if OPERANDS == 1
    FUNCTION(operands[0], result);
#else
    FUNCTION(operands[0], operands[1], result);
#endif
    fwrite(result, sizeof(result), 1, stdout);
  }
  return 0;
}
#endif
