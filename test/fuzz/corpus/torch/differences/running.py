# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (2, 2, 2), "special", 28971),
    ("int64", (2, 5, 2), "below 2", 861673),
]


def f(x0, x1):
    v0 = torch.take_along_dim(x0, x1, 1)
    v1 = torch.cumsum(v0, 2)
    v2 = torch.cumprod(v1, 1)
    return (v2,)
