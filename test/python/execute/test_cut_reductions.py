# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(T4) Sums that are cut at chunks among cores have the bits of the reference interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from support import catalogue
from support.cores import check

SHAPES = ((3 * 8192 + 1,), (5 * 8192,), (9, 4096), (3, 70000))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("zeros", [False, True])
def test_t4_sums_of_whole_tensors(shape: tuple[int, ...], zeros: bool) -> None:
    b = catalogue.Builder()
    x, init = b.argument(shape, "f32"), b.argument((), "f32")
    order = f"#repro.order<chunk = 8192, lanes = 64, run = {len(shape)}, totals = refold>"
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    step = "%r0 = arith.addf %a0, %x0 : f32"
    program = b.program(*b.fold(order, "r" * len(shape), [(x, dims)], [(init, "")], step))
    random = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    array = np.full(shape, -0.0, np.float32) if zeros else random
    report = check(program, (array, np.array(-0.0, np.float32)), "tiny-2x2").report
    # Several cores compute chunks.
    assert sum(core["run"] > 0 for core in report["cores"]) > 1
