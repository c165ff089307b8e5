/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* Mistakes of either kind, which must be reported before the silence of the sanitizers says anything. */

#include <stdlib.h>

int write_behind(int size) {
  volatile char *bytes = malloc(size);
  bytes[size] = 1;
  return bytes[0];
}

int shift_negative(int count) { return -count << count; }
