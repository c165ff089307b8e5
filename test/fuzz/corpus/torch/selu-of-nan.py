# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (4, 4, 4, 6), "special", 923337),
]


def f(x0):
    v0 = F.selu(x0)
    v1 = torch.maximum(v0, v0)
    return (v1,)
