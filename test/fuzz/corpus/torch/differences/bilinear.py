# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (4, 2), "small", 876149),
    ("float32", (4, 2), "special", 682959),
    ("float32", (3, 2, 2), "small", 370998),
]


def f(x0, x1, x2):
    v0 = F.bilinear(x0, x1, x2)
    return (v0,)
