# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The indices that max-pooling returns, in windows with NaNs, only -inf, or padding, compared with those of PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from operator_checks import check, gradients

_INF, _NAN = float("inf"), float("nan")
_IMAGE = torch.tensor(
    [[[[1.0, 2, -_INF, _NAN, 5], [_NAN, _NAN, -_INF, 1, 2], [-_INF, -_INF, -_INF, 4, 4], [_NAN, 2, -_INF, -_INF, 0]]]]
)

_POOLS = {
    "overlapping": lambda x: F.max_pool2d(x, 2, 1, return_indices=True),
    "tiles": lambda x: F.max_pool2d(x[..., :4], 2, return_indices=True),
    "padded": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
    "dilated": lambda x: F.max_pool2d(x, 2, 1, 1, dilation=2, return_indices=True),
    "beyond": lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True, return_indices=True),
    "one dimension": lambda x: F.max_pool1d(x[0], 2, 2, 1, return_indices=True),
    "three dimensions": lambda x: F.max_pool3d(
        x[None], (1, 2, 2), (1, 2, 2), (0, 1, 1), (1, 2, 1), return_indices=True
    ),
    "without positions": lambda x: F.max_pool2d(x, 2, 2, 1),
    "adaptive": lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
    "drawn": lambda x: F.fractional_max_pool2d(
        x, 2, output_size=2, return_indices=True, _random_samples=torch.tensor([[[0.3, 0.6]]])
    ),
}


def test_positions_in_windows() -> None:
    check(_POOLS, _IMAGE)
    check(_POOLS, torch.full_like(_IMAGE, -_INF))
    check({"f64": lambda x: F.max_pool2d(x, 2, 2, 1, return_indices=True)}, _IMAGE.double())
    check({"bf16": lambda x: F.max_pool2d(x, 2, 2, 1, return_indices=True)}, _IMAGE.bfloat16())


def test_gradients_of_windows() -> None:
    check({name: gradients(function) for name, function in _POOLS.items()}, _IMAGE)


def test_windows_of_integers() -> None:
    for kind in (torch.int8, torch.int32, torch.uint8):
        least = torch.iinfo(kind).min
        image = torch.tensor([[[least, least, 3], [least, least, 3]]], dtype=kind)
        check({"integers": lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True)}, image)
