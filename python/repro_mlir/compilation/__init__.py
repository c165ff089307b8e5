# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compilation of canonical programs for CPUs and GPUs, and the disk cache of compiled code."""
