# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The backend of `torch.compile`: converts Dynamo's graphs to programs and calls these programs on tensors."""
