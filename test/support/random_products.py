# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random chains of products of matrices, each generated from a number. On a machine of many cores, their pieces form
grids, whose rows and columns read the same elements."""

from __future__ import annotations

import random

import numpy as np

from support import inputs as values
from support.builder import COLUMN, Builder, order
from support.catalogue import Case

_ORDERS = (COLUMN, order(8, 4), "#repro.exact<digits = 2>", "#repro.exact<digits = 3>")


def program(seed: int) -> Case:
    """Returns the program with the number `seed`: one to three products, with an element-wise function after some."""
    choose = random.Random(f"product {seed}")
    b = Builder()
    zero = b.constant("0.0", None, "f32")
    rows, depth = choose.randint(1, 40), choose.randint(1, 40)
    left = b.argument((rows, depth), "f32")
    results = []
    for _ in range(choose.randint(1, 3)):
        columns = choose.randint(1, 40)
        transposed = choose.random() < 0.3
        right = b.argument((columns, depth) if transposed else (depth, columns), "f32")
        (zeros,) = b.generic((rows, columns), [], "", "f32", yields=[zero.name])
        factors = [(left, "d0, d2"), (right, "d1, d2" if transposed else "d2, d1")]
        body = "%r0 = math.fma %x0, %x1, %a0 : f32"
        (left,) = b.fold(choose.choice(_ORDERS), "ppr", factors, [(zeros, "d0, d1")], body)
        if choose.random() < 0.5:
            left = b.elementwise("%r0 = arith.addf %x0, %x0 : f32", left, element="f32")
        depth = columns
        results.append(left)
    arrays = (values.random(v.element, v.shape or (), choose.getrandbits(16)) for v in b.arguments)
    return Case(f"product-{seed}", b.program(*results), tuple(map(np.asarray, arrays)))
