# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces the user's Python function to a functional ATen graph.

`tracing` runs the function in two stages. The other modules replace what a graph cannot contain: random numbers by
numbered sites, control flow by both branches, complex and unsigned numbers by real and signed ones, `x[mask]` by all
rows and a mask. `recording` records which Python code ran during the trace.
"""
