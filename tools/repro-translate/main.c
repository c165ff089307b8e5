/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include "CAPI/Repro.h"

int main(int argc, char **argv) { return reproTranslateMain(argc, argv); }
