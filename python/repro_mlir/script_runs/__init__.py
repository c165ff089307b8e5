# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs training scripts: yields their batches for verification, and finds differences between the runs of a script on
two targets, or on a target and in PyTorch."""
