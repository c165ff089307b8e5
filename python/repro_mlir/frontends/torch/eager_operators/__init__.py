# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operators that PyTorch itself executes in a step, and what its kernels define about their bits.

`causes` names the causes of different bits, `classes` assigns a cause to each operator, `recording` runs a step and
lists its operators, and `refusals` finds those that the compiler refuses.
"""
