# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (2,), "special", 442543),
]


def f(x0):
    v0 = torch.prod(x0)
    return (v0,)
