# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Proofs of a computation: receipts, disputes that find the first wrong operator, and differences between targets."""
