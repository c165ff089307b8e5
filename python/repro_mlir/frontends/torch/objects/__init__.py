# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The connection between a program and the user's objects from which it was captured.

`binding` and `device_tensors` connect model and optimizer with the program's state; `captured_program` describes the
arguments of a program. `watch`, `read_values` and `kept_tensors` detect what the user changes between two steps.
"""
