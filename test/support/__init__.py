# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Helpers shared by several test folders: programs, their writer, the comparison of targets with the interpreter."""
