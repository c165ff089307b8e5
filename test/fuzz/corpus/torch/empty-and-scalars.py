# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (7, 0, 4), "normal", 479749),
    ("float64", (), "special", 3),
    ("uint8", (2, 0, 2, 1), "normal", 54279),
    ("int8", (3,), "normal", 5),
]


def f(x0, x1, x2, x3):
    v0 = torch.sum(x0, dim=[-2], keepdim=False)
    v1 = torch.hypot(x1, x1)
    v2 = x2.squeeze(0)
    v3 = x3 * x3
    return (v0, v1, v2, v3)
