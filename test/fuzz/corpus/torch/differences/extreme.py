# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (3, 2), "special", 366110),
]


def f(x0):
    v0 = torch.max(x0)
    v1 = torch.expm1(v0)
    return (v1,)
