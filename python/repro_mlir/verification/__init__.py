# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts of runs, disputes that find the first wrong operator, and the search for the first difference between two
runs."""
