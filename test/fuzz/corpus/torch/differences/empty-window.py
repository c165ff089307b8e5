# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float32", (1, 3, 1, 7), "normal", 403238),
]


def f(x0):
    v0 = F.max_pool2d(x0, 2, None, 1, 2, True, return_indices=True)[1]
    return (v0,)
