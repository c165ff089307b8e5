# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operators that PyTorch itself executes in a step, and what its kernels define about their bits.

`causes` names the causes of different bits, `classes` assigns a cause to each operator, `steps` and `recording` run a
step and list its operators, `refusals` finds those that the compiler refuses, and `snapshots` restores the user's
objects.
"""
