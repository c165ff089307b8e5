# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Image resizing with given scale factors that differ from the quotients of the sizes, compared with that of eager
PyTorch."""

from typing import Any

import torch
import torch.nn.functional as F
from operator_checks import check, gradients

aten = torch.ops.aten


def test_indices_beyond_the_image_are_bounded() -> None:
    nearest = {
        1: (aten.upsample_nearest1d.default, aten._upsample_nearest_exact1d.default),
        2: (aten.upsample_nearest2d.default, aten._upsample_nearest_exact2d.default),
        3: (aten.upsample_nearest3d.default, aten._upsample_nearest_exact3d.default),
    }
    for rank, operators in nearest.items():
        x = torch.arange(3**rank, dtype=torch.float32).reshape(1, 1, *[3] * rank)
        functions: dict[str, Any] = {
            str(each): gradients(lambda v, each=each, rank=rank: each(v, [5] * rank, *[1.5] * rank))
            for each in operators
        }
        check(functions, x, rtol=0, atol=0)
    x = torch.linspace(0, 1, 24).reshape(1, 2, 3, 4)
    check({"bilinear": gradients(lambda v: aten.upsample_bilinear2d.default(v, [7, 9], False, 1.5, 2.0))}, x)


def test_scale_factors_as_given_and_recomputed() -> None:
    x = torch.linspace(-1, 1, 35).reshape(1, 1, 5, 7)
    functions = {
        f"{mode} {factor} {is_new}": lambda v, mode=mode, factor=factor, is_new=is_new: F.interpolate(
            v, scale_factor=factor, mode=mode, recompute_scale_factor=is_new
        )
        for mode, factor in (("nearest-exact", 1.7), ("bilinear", 0.6))
        for is_new in (False, True)
    }
    check(functions, x)


def test_a_dimension_that_keeps_its_size_is_copied() -> None:
    x = torch.linspace(-1, 1, 2 * 3 * 5).reshape(1, 2, 3, 5)
    results = check({"copied": gradients(lambda v: F.interpolate(v, scale_factor=(1.3, 1.7), mode="bilinear"))}, x)
    assert results[0].shape[2] == 3
    (line,) = check({"line": lambda v: F.interpolate(v, scale_factor=1.3, mode="linear")}, x[0, :, :, :3])
    assert torch.equal(line, x[0, :, :, :3])


def test_nearest_elements_of_a_size_that_stays_or_doubles() -> None:
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    functions = {
        str(factor): gradients(lambda v, factor=factor: F.interpolate(v, scale_factor=factor))
        for factor in (1.3, 2.3, (1.2, 2.0), (1.0, 1.1), 1.7)
    }
    functions["line"] = lambda v: F.interpolate(v[0], scale_factor=1.2)
    functions["exact"] = lambda v: F.interpolate(v, scale_factor=2.3, mode="nearest-exact")
    check(functions, x, rtol=0, atol=0)
