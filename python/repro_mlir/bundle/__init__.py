# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Bundles, which are programs as files for machines without the compiler: their writer, and a substitute for CUDA."""
