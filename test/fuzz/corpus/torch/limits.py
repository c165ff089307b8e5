# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("bfloat16", (2, 4), "small", 601375),
    ("float32", (5, 2), "special", 240807),
    ("float32", (3, 4), "special", 289635),
]


def f(x0, x1, x2):
    v0 = torch.nan_to_num(torch.log10(x0))
    v1 = F.softshrink(x1)
    v2 = torch.lgamma(x2)
    return (v0, v1, v2)
