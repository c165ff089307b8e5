# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (1, 1, 2, 3), "normal", 0),
]


def f(x0):
    v0 = F.interpolate(x0, scale_factor=1.3, mode="bicubic", align_corners=False)
    return (v0,)
