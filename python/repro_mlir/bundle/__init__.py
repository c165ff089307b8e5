# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Bundles: files with programs for machines that do not have the compiler. This folder has the writer of bundles, and a
substitute for the CUDA driver that runs bundles without a GPU."""
