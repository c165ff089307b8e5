# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (2, 3), "special", 3),
    ("bool", (2, 3), "normal", 4),
    ("float32", (3,), "normal", 5),
    ("int8", (7,), "normal", 6),
    ("int8", (7,), "normal", 7),
    ("int8", (), "normal", 796108),
]


def f(x0, x1, x2, x3, x4, x5):
    v0 = -1.5 % x0
    v1 = 0.5 // x0
    v2 = torch.where(x1, x2, x2)
    v3 = torch.gcd(x3, x4)
    v4 = torch.topk(x5, 0)[0]
    return (v0, v1, v2, v3, v4)
