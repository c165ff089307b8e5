# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Bundles: programs as files for machines without the compiler. Contains their writer, and the runner inside them."""
