# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (6, 5), "special", 1033099),
    ("float32", (4, 5), "small", 336311),
]


def f(x0, x1):
    v0 = F.linear(x0, x1, None)
    v1 = torch.topk(v0, 6, dim=0, largest=True)[0]
    return (v1,)
