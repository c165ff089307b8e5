# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (1, 1, 3, 4), "normal", 0),
    ("float32", (1, 1, 3, 2), "unit", 4),
]


def f(x0, x1):
    v0 = F.grid_sample(x0, x1 * 4 - 2, "nearest", "zeros", align_corners=True)
    v1 = v0 * float("inf")
    return (v1,)
