# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The runs of training scripts: their batches for verification, and their differences between targets and PyTorch."""
