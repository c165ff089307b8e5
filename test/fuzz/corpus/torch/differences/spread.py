# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("bfloat16", (5, 5), "special", 466542),
]


def f(x0):
    v0 = torch.std(x0, dim=[-1], correction=0)
    return (v0,)
