# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Functions and training steps that run_speed.py times on a GPU, compiled by us and in PyTorch's eager mode.

Needs only PyTorch and NumPy: the measuring machine does not have our package, only the prepared directory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from gradients import Function, GivenGradient, with_gradient
from training_models import GPT, ResNet18


@dataclass(frozen=True)
class Argument:
    """An input of a function: f32 numbers that are uniform in [-0.5, 0.5), or i64 numbers from 0 to `bound` - 1."""

    shape: tuple[int, ...]
    bound: int | None = None


@dataclass(frozen=True)
class Call:
    """A function of tensors.

    Attributes:
      name: unique name.
      group: the kind of function, such as "matmul".
      function: the timed function.
      arguments: its inputs.
      flops, bytes: the minimum numbers of floating-point operations and of bytes moved in one call; only the number
        that limits the speed is set.
      digits: the number of digits in exact contractions (K4); 0 for contractions that round.
      blocks: the name of a block format (Q4) in benchmarks/block_cases.py; empty for none.
    """

    name: str
    group: str
    function: Function
    arguments: tuple[Argument, ...]
    flops: float = 0
    bytes: float = 0
    digits: int = 0
    blocks: str = ""


@dataclass(frozen=True)
class Training:
    """A training step: the model returns the loss of a batch.

    Attributes:
      name: unique name.
      model: returns a new model.
      optimizer: returns a new optimizer for a model's parameters.
      arguments: the batch.
      flops: floating-point operations of the matrix products in one step.
      check: whether the results on the GPU are compared with those on the CPU.
    """

    name: str
    model: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    arguments: tuple[Argument, ...]
    flops: float
    check: bool = True


class Module(nn.Module):
    """Wraps a function as a module, so that it can be captured."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self._function(*arguments)


_BYTE_BLOCKS = ("mxint8", "mxfp6", "mxfp6 e2m3", "mxfp4", "nvfp4")


def _product(layout: str) -> Function:
    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.mm(left.t() if layout[0] == "T" else left, right.t() if layout[1] == "T" else right)

    return product


def _products(sizes: tuple[int, ...]) -> list[Call]:
    shapes = [(size, size, size) for size in sizes]
    largest = min(max(sizes), 4096)
    if max(sizes) >= 4096:
        # GPT-2 124M with 4096 tokens: the QKV projection and both MLP layers. Then two products with one or two small
        # dimensions.
        shapes += [(4096, 2304, 768), (4096, 3072, 768), (4096, 768, 3072), (768, 768, 8192), (16, 4096, 4096)]
    exact = [
        Call(
            f"matmul {largest} NT, {digits} digits",
            "exact matmul",
            _product("NT"),
            (Argument((largest, largest)),) * 2,
            flops=2.0 * largest**3,
            digits=digits,
        )
        for digits in (2, 3)
    ]
    in_blocks = [
        Call(
            f"matmul {size} NT, {blocks}",
            "block matmul",
            _product("NT"),
            (Argument((size, size)),) * 2,
            flops=2.0 * size**3,
            blocks=blocks,
        )
        # The product for mxfp8 is smaller: kernels for f8 compute one result per thread, so a large one would take too
        # long.
        for blocks, size in [("mxfp8", min(largest, 1024)), *((name, largest) for name in _BYTE_BLOCKS)]
    ]
    return [*exact, *in_blocks] + [
        Call(
            f"matmul {m if m == n == k else f'{m}x{n}x{k}'} {layout}",
            "matmul",
            _product(layout),
            (Argument((k, m) if layout[0] == "T" else (m, k)), Argument((n, k) if layout[1] == "T" else (k, n))),
            flops=2.0 * m * n * k,
        )
        for m, n, k in shapes
        for layout in ("NN", "NT", "TN", "TT")
    ]


def _convolution(part: str, kernel: int, stride: int) -> Function:
    padding = kernel // 2
    if part == "forward":
        return lambda image, weight: torch.conv2d(image, weight, None, stride, padding)
    wanted = part == "input gradient"

    def backward(image: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        sizes = [stride, stride], [padding, padding], [1, 1], False, [0, 0], 1
        results = torch.ops.aten.convolution_backward(
            gradient, image, weight, None, *sizes, [wanted, not wanted, False]
        )
        return results[0 if wanted else 1]

    return backward


def _convolutions(batch: int, shapes: tuple[tuple[int, int, int, int, int], ...]) -> list[Call]:
    calls = []
    for channels, image, filters, kernel, stride in shapes:
        size = -(-image // stride)
        x, w = Argument((batch, channels, image, image)), Argument((filters, channels, kernel, kernel))
        y = Argument((batch, filters, size, size))
        taps = f"{kernel}x{kernel}" + (f"/{stride}" if stride > 1 else "")
        for part in ("forward", "input gradient", "weight gradient"):
            calls.append(
                Call(
                    f"conv {taps} {channels}@{image} to {filters} {part}",
                    "convolution",
                    _convolution(part, kernel, stride),
                    (x, w) if part == "forward" else (x, w, y),
                    flops=2.0 * batch * filters * size * size * channels * kernel * kernel,
                )
            )
    return calls


def _rows(rows: int, columns: int) -> list[Call]:
    matrix, vector = Argument((rows, columns)), Argument((columns,))
    size = 4.0 * rows * columns

    def softmax(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[-1:], weight, bias)

    def gelu(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)

    name = f"{rows}x{columns}"
    return [
        Call(f"softmax {name}", "rows", softmax, (matrix,), bytes=2 * size),
        Call(f"softmax {name}, gradient", "rows", with_gradient(softmax), (matrix, matrix), bytes=5 * size),
        Call(f"layernorm {name}", "rows", layer_norm, (matrix, vector, vector), bytes=2 * size),
        Call(
            f"layernorm {name}, gradient",
            "rows",
            with_gradient(layer_norm),
            (matrix, matrix, vector, vector),
            bytes=5 * size,
        ),
        Call(f"gelu {name}", "elementwise", gelu, (matrix,), bytes=2 * size),
        Call(f"sum {name}", "rows", lambda x: x.sum(), (matrix,), bytes=size),
        Call(f"column sum {name}", "rows", lambda x: x.sum(0), (matrix,), bytes=size),
    ]


def calls(tiny: bool) -> list[Call]:
    """Returns all functions to time. With `tiny`, only a few small ones, for a run without a GPU."""
    if tiny:
        return [*_products((32,)), *_convolutions(1, ((3, 8, 4, 3, 1),)), *_rows(4, 40)]
    return [
        *_products((512, 1024, 2048, 4096, 8192)),
        *_convolutions(
            32,
            ((64, 56, 64, 3, 1), (64, 56, 128, 3, 2), (256, 14, 256, 3, 1), (512, 7, 512, 3, 1), (256, 56, 64, 1, 1)),
        ),
        *_rows(8192, 1024),
        *_rows(4096, 50257)[:2],
    ]


class _Update(nn.Module):
    """A loss with one parameter matrix. The gradient of the matrix is the input, so the training step consists only of
    the update."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(rows, columns))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = GivenGradient.apply(self.value, gradient)
        return result


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    fused = next(model.parameters()).is_cuda
    return torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


@dataclass(frozen=True)
class _Gpt:
    layers: int = 12
    heads: int = 12
    width: int = 768
    length: int = 1024
    vocabulary: int = 50257

    def training(self, name: str, batch: int, check: bool) -> Training:
        weights = self.layers * 12 * self.width**2 + self.width * self.vocabulary
        attention = self.layers * 2 * 2 * self.length * self.width
        tokens = Argument((batch, self.length), self.vocabulary)
        return Training(
            name,
            lambda: GPT(self.layers, self.heads, self.width, self.length, self.vocabulary),
            _adamw,
            (tokens, tokens),
            3.0 * batch * self.length * (2 * weights + attention),
            check,
        )


def trainings(tiny: bool) -> list[Training]:
    """Returns all training steps to time. With `tiny`, only a few small ones."""
    if tiny:
        rows = Argument((4, 40))
        return [
            Training("AdamW 160", lambda: _Update(4, 40), _adamw, (rows,), 0),
            _Gpt(layers=1, heads=2, width=16, length=8, vocabulary=32).training("GPT tiny 2x8", 2, True),
        ]
    size = Argument((10000, 1000))
    images = Argument((128, 3, 32, 32)), Argument((128,), 10)
    return [
        Training("AdamW 10M", lambda: _Update(10000, 1000), _adamw, (size,), 0),
        _Gpt().training("GPT-2 124M 1x1024", 1, True),
        _Gpt().training("GPT-2 124M 4x1024", 4, False),
        # The forward pass of one image takes 0.5554e9 multiply-adds (3x3 stem, 32x32 images).
        Training("ResNet-18 128", ResNet18, _sgd, images, 3.0 * 2 * 0.5554e9 * 128),
    ]
