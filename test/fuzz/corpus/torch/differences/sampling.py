# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (1, 1, 2, 2), "special", 0),
    ("float32", (1, 2, 3, 2), "unit", 0),
]


def f(x0, x1):
    v0 = F.grid_sample(x0, x1 * 3 - 1.5, "bilinear", "border", align_corners=False)
    return (v0,)
