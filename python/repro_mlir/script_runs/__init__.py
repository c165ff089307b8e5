# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs training scripts: yields their batches for verification, and finds differences of their runs between two
targets, or a target and PyTorch."""
