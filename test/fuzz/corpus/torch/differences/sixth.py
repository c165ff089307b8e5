# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

INPUTS = [
    ("float64", (), "normal", 518558),
]


def f(x0):
    v0 = F.hardsigmoid(x0)
    return (v0,)
