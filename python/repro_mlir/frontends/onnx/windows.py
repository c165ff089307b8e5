# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators that slide a window over images, and matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.nodes import Call, Operator, constant

_AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


class Window:
    """A window that slides over images: its extents, strides, dilations and padding for images of given extents.

    Attributes:
      before, after: the padding of each spatial dimension, in elements, at the start and at the end.
    """

    def __init__(self, call: Call, kernel: Sequence[int], extents: Sequence[int]) -> None:
        rank = len(extents)
        self.kernel = [*kernel]
        self.strides: list[int] = call.attribute("strides", [1] * rank)
        self.dilations: list[int] = call.attribute("dilations", [1] * rank)
        if {len(self.kernel), len(self.strides), len(self.dilations)} != {rank} or min(self.strides, default=1) < 1:
            raise OnnxError(f"expected a kernel, strides and dilations for {rank} spatial dimensions")
        auto = call.choice("auto_pad", "NOTSET", *_AUTO)
        if auto == "NOTSET":
            pads = call.attribute("pads", [0] * 2 * rank)
            self.before, self.after = [*pads[:rank]], [*pads[rank:]]
            return
        self.before, self.after = [0] * rank, [0] * rank
        if auto.startswith("SAME"):
            for i, extent in enumerate(extents):
                reach = self.dilations[i] * (self.kernel[i] - 1) + 1
                total = max((-(-extent // self.strides[i]) - 1) * self.strides[i] + reach - extent, 0)
                halves = (total // 2, total - total // 2)
                self.before[i], self.after[i] = halves if auto == "SAME_UPPER" else halves[::-1]

    def padded(self, x: torch.Tensor, value: float = 0) -> torch.Tensor:
        """Pads the image by `before` and `after` elements of this value."""
        if not any((*self.before, *self.after)):
            return x
        pairs = [*zip(self.before, self.after, strict=True)]
        return F.pad(x, [width for pair in reversed(pairs) for width in pair], value=value)

    def grow_for_ceiling(self, extents: Sequence[int]) -> list[int]:
        """Increases `after` by the padding that ceil_mode needs for a last, partly filled window; returns the
        increases."""
        more = []
        for i, extent in enumerate(extents):
            whole = extent + self.before[i] + self.after[i]
            reach = self.dilations[i] * (self.kernel[i] - 1) + 1
            count = -(-max(whole - reach, 0) // self.strides[i]) + 1
            if (count - 1) * self.strides[i] >= extent + self.before[i]:
                count -= 1
            more.append(max((count - 1) * self.strides[i] + reach - whole, 0))
            self.after[i] += more[-1]
        return more


def _convolve(call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    window = Window(call, weight.shape[2:], x.shape[2:])
    symmetric = window.before == window.after
    x = x if symmetric else window.padded(x)
    rank = x.dim() - 2
    return torch.convolution(
        x, weight, bias, window.strides, window.before if symmetric else [0] * rank, window.dilations, False,
        [0] * rank, call.attribute("group", 1),
    )  # fmt: skip


def _conv(call: Call) -> torch.Tensor:
    return _convolve(call, call.tensor(0), call.tensor(1), call.optional(2))


def _conv_transpose(call: Call) -> torch.Tensor:
    x, weight, bias = call.tensor(0), call.tensor(1), call.optional(2)
    rank = x.dim() - 2
    strides = call.attribute("strides", [1] * rank)
    dilations = call.attribute("dilations", [1] * rank)
    beyond = call.attribute("output_padding", [0] * rank)
    shape = call.attribute("output_shape")
    auto = call.choice("auto_pad", "NOTSET", *_AUTO)
    pads = call.attribute("pads", [0] * 2 * rank)
    whole = [
        strides[i] * (x.shape[2 + i] - 1) + dilations[i] * (weight.shape[2 + i] - 1) + 1 for i in range(rank)
    ]  # fmt: skip
    if shape is not None or auto.startswith("SAME"):
        wanted = shape[-rank:] if shape is not None else [x.shape[2 + i] * strides[i] for i in range(rank)]
        totals = [whole[i] + beyond[i] - wanted[i] for i in range(rank)]
        halves = [total // 2 for total in totals]
        rest = [total - half for total, half in zip(totals, halves, strict=True)]
        pads = [*halves, *rest] if auto == "SAME_UPPER" else [*rest, *halves]
    # The pads of a transposed convolution apply to its result, so the entire result is computed and the pads are cut
    # off.
    result = torch.convolution(
        x, weight, None, strides, [0] * rank, dilations, True, [0] * rank, call.attribute("group", 1)
    )
    widths = [(-pads[i], beyond[i] - pads[rank + i]) for i in range(rank)]
    if any(low or high for low, high in widths):
        result = F.pad(result, [width for pair in reversed(widths) for width in pair])
    return result if bias is None else result + bias.reshape([-1, *[1] * rank])


def _windows(call: Call, x: torch.Tensor, window: Window, value: float) -> list[torch.Tensor]:
    """Returns, for each position in the window, the elements of the padded image at that position."""
    call.spend(math.prod(window.kernel))
    x = window.padded(x, value)
    rank = x.dim() - 2
    counts = [
        (x.shape[2 + i] - window.dilations[i] * (window.kernel[i] - 1) - 1) // window.strides[i] + 1
        for i in range(rank)
    ]
    found = []
    for place in range(math.prod(window.kernel)):
        part = x
        for i in reversed(range(rank)):
            place, offset = divmod(place, window.kernel[i])
            first = offset * window.dilations[i]
            last = first + (counts[i] - 1) * window.strides[i] + 1
            part = part[(slice(None),) * (2 + i) + (slice(first, last, window.strides[i]),)]
        found.append(part)
    return found


def _max_pool(call: Call) -> Any:
    x = call.tensor()
    window = Window(call, call.attribute("kernel_shape"), x.shape[2:])
    if call.attribute("ceil_mode", 0):
        window.grow_for_ceiling(x.shape[2:])
    lowest = -math.inf if x.is_floating_point() else float(torch.iinfo(x.dtype).min)
    if not call.wants(1):
        rank = x.dim() - 2
        small = all(2 * low <= size for low, size in zip(window.before, window.kernel, strict=True))
        if x.is_floating_point() and small and window.before == window.after:
            pool: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
            return pool(x, window.kernel, window.strides, window.before, window.dilations)
        parts = _windows(call, x, window, lowest)
        result = parts[0]
        for part in parts[1:]:
            result = torch.maximum(result, part)
        return result
    extents = [*x.shape[2:]]
    if call.attribute("storage_order", 0):
        place = [math.prod(extents[:i]) for i in range(len(extents))]
    else:
        place = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
    positions = constant([*range(x.shape[0] * x.shape[1])]).reshape(*x.shape[:2], *[1] * len(extents))
    positions = positions * math.prod(extents)
    for i, extent in enumerate(extents):
        shape = [-1 if j == 2 + i else 1 for j in range(x.dim())]
        positions = positions + (constant([*range(extent)]) * place[i]).reshape(shape)
    values = torch.stack(_windows(call, x, window, lowest), -1)
    index = torch.argmax(values, -1, keepdim=True)
    where = torch.stack(_windows(call, positions, window, 0), -1)
    return torch.gather(values, -1, index).squeeze(-1), torch.gather(where, -1, index).squeeze(-1)


def _average_pool(call: Call) -> torch.Tensor:
    x = call.tensor()
    window = Window(call, call.attribute("kernel_shape"), x.shape[2:])
    given = [*zip(window.before, window.after, strict=True)]
    if call.attribute("ceil_mode", 0):
        window.grow_for_ceiling(x.shape[2:])
    ones = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    if call.attribute("count_include_pad", 0):
        ones = F.pad(ones, [width for pair in reversed(given) for width in pair], value=1)
        window_after = [high - pair[1] for high, pair in zip(window.after, given, strict=True)]
        counts = _total(call, ones, window, [0] * len(given), window_after)
    else:
        counts = _total(call, ones, window, window.before, window.after)
    return _total(call, x, window, window.before, window.after) / counts


def _total(call: Call, x: torch.Tensor, window: Window, before: list[int], after: list[int]) -> torch.Tensor:
    """Returns the sum of each window of the image after the image has been padded by `before` and `after` elements."""
    own = window.before, window.after
    window.before, window.after = before, after
    try:
        return torch.stack(_windows(call, x, window, 0), -1).sum(-1)
    finally:
        window.before, window.after = own


def _lp_pool(call: Call) -> torch.Tensor:
    x, p = call.tensor(), call.attribute("p", 2)
    window = Window(call, call.attribute("kernel_shape"), x.shape[2:])
    if call.attribute("ceil_mode", 0):
        window.grow_for_ceiling(x.shape[2:])
    total = torch.stack(_windows(call, torch.abs(x) ** p, window, 0), -1).sum(-1)
    return total ** (1 / p)


def _global(function: Callable[..., torch.Tensor]) -> Operator:
    def run(call: Call) -> torch.Tensor:
        x = call.tensor()
        return function(x, [*range(2, x.dim())], True)

    return run


def _global_lp(call: Call) -> torch.Tensor:
    x, p = call.tensor(), call.attribute("p", 2)
    return (torch.abs(x) ** p).sum([*range(2, x.dim())], True) ** (1 / p)


def _max_unpool(call: Call) -> torch.Tensor:
    x, index = call.tensor(0), call.tensor(1)
    rank = x.dim() - 2
    kernel, strides = call.attribute("kernel_shape"), call.attribute("strides", [1] * rank)
    pads = call.attribute("pads", [0] * 2 * rank)
    shape = [(x.shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i in range(rank)]
    own = [*x.shape[:2], *shape]
    wanted = call.numbers(2) or own
    flat = torch.zeros(math.prod(own), dtype=x.dtype).scatter(0, index.reshape(-1), x.reshape(-1)).reshape(own)
    return F.pad(flat, [width for i in reversed(range(2, 2 + rank)) for width in (0, wanted[i] - own[i])])


def _col2im(call: Call) -> torch.Tensor:
    x, image, block = call.tensor(), call.numbers(1) or [], call.numbers(2) or []
    window = Window(call, block, image)
    call.spend(math.prod(block))
    n, rows = x.shape[:2]
    channels = rows // math.prod(block)
    padded = [extent + low + high for extent, low, high in zip(image, window.before, window.after, strict=True)]
    counts = [
        (padded[i] - window.dilations[i] * (block[i] - 1) - 1) // window.strides[i] + 1 for i in range(len(block))
    ]
    x = x.reshape(n, channels, math.prod(block), *counts)
    total = torch.zeros([n, channels, *padded], dtype=x.dtype)
    for place in range(math.prod(block)):
        part, rest = x[:, :, place], place
        widths: list[int] = []
        for i in reversed(range(len(block))):
            rest, offset = divmod(rest, block[i])
            first = offset * window.dilations[i]
            # Inserts zeros between the elements, so that their distance is the stride; `widths` then moves them by this
            # position in the window.
            spread = part.new_zeros([*part.shape[: 3 + i], window.strides[i], *part.shape[3 + i :]])
            part = torch.cat([part.unsqueeze(3 + i), spread.narrow(3 + i, 1, window.strides[i] - 1)], 3 + i)
            part = part.flatten(2 + i, 3 + i)
            part = part.narrow(2 + i, 0, (counts[i] - 1) * window.strides[i] + 1)
            widths += [first, padded[i] - first - part.shape[2 + i]]
        total = total + F.pad(part, widths)
    for i, extent in enumerate(image):
        total = total.narrow(2 + i, window.before[i], extent)
    return total


def _gemm(call: Call) -> torch.Tensor:
    a, b, c = call.tensor(0), call.tensor(1), call.optional(2)
    a = a.T if call.attribute("transA", 0) else a
    b = b.T if call.attribute("transB", 0) else b
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if not a.is_floating_point():
        if alpha != int(alpha) or beta != int(beta):
            raise OnnxError(f"expected whole numbers as alpha and beta for integers, got {alpha} and {beta}")
        alpha, beta = int(alpha), int(beta)
    if c is not None:
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)
    product = a @ b
    return product if alpha == 1 else product * alpha


def _matmul(call: Call) -> torch.Tensor:
    return torch.matmul(call.tensor(0), call.tensor(1))


def _det(call: Call) -> torch.Tensor:
    return torch.linalg.det(call.tensor())


WINDOWS: dict[str, Operator] = {
    "AveragePool": _average_pool,
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Det": _det,
    "Gemm": _gemm,
    "GlobalAveragePool": _global(torch.mean),
    "GlobalLpPool": _global_lp,
    "GlobalMaxPool": _global(torch.amax),
    "LpPool": _lp_pool,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
