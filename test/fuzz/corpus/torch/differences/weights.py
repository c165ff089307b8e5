# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (1, 2, 1), "special", 1),
]


def f(x0):
    v0 = F.interpolate(x0, size=(5,), mode="linear", align_corners=False)
    return (v0,)
