# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of softmax, cross-entropy and normalizations, each forward and backward together."""

from collections.abc import Callable

import torch
from case import OURS, Case, Contestants, Setting
from gradients import with_gradient
from programs import compiled
from torch.nn import functional as F


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def _batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _build(
    name: str,
    function: Callable[..., torch.Tensor],
    make: Callable[[], tuple[torch.Tensor, ...]],
    setting: Setting,
) -> Contestants:
    torch.manual_seed(0)
    arguments = make()
    both = with_gradient(function)
    arguments = (torch.randn_like(function(*arguments)), *arguments)
    fused = torch.compile(both)
    return {
        OURS: compiled(name, both, arguments, setting),
        "torch": lambda: both(*arguments),
        "torch.compile": lambda: fused(*arguments),
    }


def _rows(rows: int, columns: int) -> list[tuple[str, Callable, Callable, int]]:
    """Returns, for each function: its name, the function, a function that creates its arguments, and the least number
    of accesses (reads and writes) per element."""
    return [
        # The forward pass reads the input and writes the result. The backward pass reads the result and its gradient,
        # and writes the input's gradient.
        (f"softmax {rows}x{columns}", _softmax, lambda: (torch.randn(rows, columns),), 5),
        (
            f"layernorm {rows}x{columns}",
            _layer_norm,
            lambda: (torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)),
            5,
        ),
    ]


def cases() -> list[Case]:
    """Returns benchmarks whose shapes occur in training steps."""
    listed: list[tuple[str, str, Callable, Callable, float]] = []
    for rows, columns in ((4096, 1024), (2048, 384)):
        for name, function, make, passes in _rows(rows, columns):
            listed.append((name, f"[{rows}, {columns}]", function, make, 4.0 * passes * rows * columns))
    for rows, columns in ((2048, 8192), (256, 1000)):
        listed.append(
            (
                f"cross-entropy {rows}x{columns}",
                f"[{rows}, {columns}]",
                F.cross_entropy,
                lambda rows=rows, columns=columns: (torch.randn(rows, columns), torch.randint(columns, (rows,))),
                # The forward pass reads the logits; the backward pass reads them again and writes their gradient.
                4.0 * 3 * rows * columns,
            )
        )
    for shape in ((64, 64, 32, 32), (64, 256, 8, 8), (8, 64, 56, 56)):
        batch, channels, height, width = shape
        listed.append(
            (
                f"batchnorm {'x'.join(map(str, shape))}",
                str(list(shape)),
                _batch_norm,
                lambda shape=shape: (torch.randn(shape), torch.randn(shape[1]), torch.randn(shape[1])),
                # The forward pass reads the input twice and writes the result. The backward pass reads the input and
                # the gradient of the result twice, and writes the input's gradient.
                4.0 * 8 * batch * channels * height * width,
            )
        )
    return [
        Case(
            name,
            "normalization",
            shape,
            lambda setting, name=name, function=function, make=make: _build(name, function, make, setting),
            bytes=moved,
        )
        for name, shape, function, make, moved in listed
    ]
