# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (3, 1), "special", 553918),
]


def f(x0):
    v0 = torch.digamma(x0)
    return (v0,)
