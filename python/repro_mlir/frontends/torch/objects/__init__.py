# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The user's objects, to which a program is tied.

`binding` and `device_tensors` connect model and optimizer with the program's state; `captured_program` describes the
arguments of a program. `watch`, `read_values` and `kept_tensors` notice what the user changes between two steps.
"""
