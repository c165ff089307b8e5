# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The backend of `torch.compile`: the graphs of Dynamo as programs, and calls of these programs on tensors."""
