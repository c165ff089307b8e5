# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("bfloat16", (1, 1, 5, 6), "normal", 10),
    ("bfloat16", (1, 2, 3, 2), "unit", 10),
]


def f(x0, x1):
    v0 = F.grid_sample(x0, x1 * 3 - 1.5, "nearest", "zeros", align_corners=False)
    return (v0,)
