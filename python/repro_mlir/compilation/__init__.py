# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""From canonical programs to code: for CPUs, for GPUs, and what is kept of it on disk."""
