# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Convolutions and their gradients as plain convolutions: rule (K2) of docs/numerics.md.

A transposed convolution, which is also the input gradient of a strided one, is split into stride phases, so that
no zero is ever inserted. A weight gradient is a convolution whose channel is the batch and whose kernel is the
output gradient, so that it folds over (batch, output height, output width).
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def _per_dimension(values: Sequence[int], count: int) -> list[int]:
    return list(values) * (count if len(values) == 1 else 1)


def _pad(x: torch.Tensor, low: Sequence[int], high: Sequence[int]) -> torch.Tensor:
    """Pads the spatial dimensions of `x` with zeros; a negative amount cuts off."""
    for index, (before, after) in enumerate(zip(low, high, strict=True)):
        begin, end = max(-before, 0), max(-after, 0)
        if begin or end:
            x = x.narrow(2 + index, begin, x.shape[2 + index] - begin - end)
    amounts = [max(v, 0) for pair in reversed(list(zip(low, high, strict=True))) for v in pair]
    return aten.constant_pad_nd(x, amounts, 0) if any(amounts) else x


def _plain(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """`aten.convolution` without transposition, in the forms that torch-mlir lowers."""
    spatial = x.dim() - 2
    if groups > 1 and spatial == 1:
        result = _plain(x.unsqueeze(2), weight.unsqueeze(2), bias, [1, *stride], [0, *padding], [1, *dilation], groups)
        return result.squeeze(2)
    if groups > 1 and spatial == 3:
        parts = zip(
            x.chunk(groups, 1),
            weight.chunk(groups, 0),
            bias.chunk(groups, 0) if bias is not None else [None] * groups,
            strict=True,
        )
        return torch.cat([_plain(a, w, b, stride, padding, dilation, 1) for a, w, b in parts], 1)
    return aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * spatial, groups)


def _exchange_channels(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """From [groups * I, O, *kernel], the layout of a transposed convolution, to [groups * O, I, *kernel], that of a
    plain one."""
    if groups == 1:
        return weight.transpose(0, 1)
    inputs, outputs, *kernel = weight.shape
    weight = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    return weight.reshape(groups * outputs, inputs // groups, *kernel)


@dataclasses.dataclass(frozen=True)
class _Phase:
    """A stride phase along one dimension."""

    first: int
    """Its first tap of the kernel."""
    period: int
    """From tap to tap."""
    dilation: int
    """How far those are apart in the input."""
    low: int
    """The padding of the input before its first element; negative: what is cut off."""
    high: int
    """The same after its last element."""


def _phase(
    residue: int, stride: int, padding: int, dilation: int, kernel: int, extent: int, length: int
) -> _Phase | None:
    """The phase of `length` results whose position is `residue` modulo `stride`; None where it has no taps."""
    common = math.gcd(stride, dilation)
    period = stride // common
    shift = residue + padding
    first = next((k for k in range(min(period, kernel)) if (shift - k * dilation) % stride == 0), None)
    if first is None:
        return None
    reach = (len(range(first, kernel, period)) - 1) * (dilation // common)
    # Where in the input its element 0 begins.
    begin = (shift - first * dilation) // stride - reach
    return _Phase(first, period, dilation // common, -begin, length - 1 + begin + reach - (extent - 1))


def transposed(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    size: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """(K2) a transposed convolution by stride phases.

    Result element h takes the kernel taps k with (h + padding - k * dilation) divisible by stride: which taps these
    are depends only on the phase h mod stride. Each phase is a convolution of stride 1 with its own taps in
    descending order (so that positions of `x` ascend); the phases are interleaved at the end.

    Args:
      x: [N, groups * I, *spatial].
      weight: [groups * I, O, *kernel].
      bias: [groups * O] or None.
      size: spatial shape of the result.
    Returns:
      [N, groups * O, *size].
    """
    spatial = x.dim() - 2
    outputs = weight.shape[1]
    lengths = [-(-extent // step) for extent, step in zip(size, stride, strict=True)]

    phases = [
        [_phase(residue, *along) for residue in range(along[0])]
        for along in zip(stride, padding, dilation, weight.shape[2:], x.shape[2:], lengths, strict=True)
    ]
    # As much as any phase needs, so that `x` is padded once.
    low = [max(0, *(phase.low for phase in along if phase)) for along in phases]
    high = [max(0, *(phase.high for phase in along if phase)) for along in phases]
    padded = _pad(x, low, high)

    def convolve(residues: tuple[int, ...]) -> torch.Tensor:
        chosen = [along[residue] for along, residue in zip(phases, residues, strict=True)]
        taps, cut_low, cut_high, steps = weight, [], [], []
        for index, phase in enumerate(chosen):
            if phase is None:
                shape = [x.shape[0], groups * outputs, *lengths]
                if bias is None:
                    return x.new_zeros(shape)
                return bias.reshape(1, -1, *[1] * spatial).expand(shape)
            taps = taps[(slice(None),) * (2 + index) + (slice(phase.first, None, phase.period),)]
            cut_low.append(phase.low - low[index])
            cut_high.append(phase.high - high[index])
            steps.append(phase.dilation)
        if any(extent > 1 for extent in taps.shape[2:]):
            taps = taps.flip([2 + i for i in range(spatial) if taps.shape[2 + i] > 1])
        taps = _exchange_channels(taps, groups)
        needs_padding = any(phase.low or phase.high for phase in chosen if phase)
        image = _pad(padded, cut_low, cut_high) if needs_padding else x
        return _plain(image, taps, bias, [1] * spatial, [0] * spatial, steps, groups)

    def interleave(prefix: tuple[int, ...]) -> torch.Tensor:
        index = len(prefix)
        if index == spatial:
            return convolve(prefix)
        parts = [interleave((*prefix, residue)) for residue in range(stride[index])]
        if len(parts) == 1:
            return parts[0]
        merged = torch.stack(parts, 3 + index)
        shape = list(parts[0].shape)
        shape[2 + index] *= stride[index]
        return merged.reshape(shape)

    result = interleave(())
    for index, extent in enumerate(size):
        if result.shape[2 + index] != extent:
            result = result.narrow(2 + index, 0, extent)
    return result


def weight_gradient(
    wide: torch.Tensor,
    narrow: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """(K2) the weight gradient as one convolution with stride and dilation exchanged.

    Args:
      wide: [N, groups * A, *]: the side that the kernel slides over.
      narrow: [N, groups * B, *]: the side with one position per kernel position.
    Returns:
      [groups * B, A, *kernel].
    """
    spatial = wide.dim() - 2
    batch, a, b = wide.shape[0], wide.shape[1] // groups, narrow.shape[1] // groups
    # The kernel's last tap at the last position ends here; what lies behind takes no part.
    high = [
        (narrow.shape[2 + i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - wide.shape[2 + i] - padding[i]
        for i in range(spatial)
    ]
    wide = _pad(wide, list(padding), high)
    zeros = [0] * spatial
    if groups == 1:
        result = _plain(wide.transpose(0, 1), narrow.transpose(0, 1), None, dilation, zeros, stride, 1)
        return result.transpose(0, 1)
    axes = range(3, 3 + spatial)
    wide = wide.reshape(batch, groups, a, *wide.shape[2:]).permute(2, 1, 0, *axes)
    wide = wide.reshape(a, groups * batch, *wide.shape[3:])
    narrow = narrow.reshape(batch, groups, b, *narrow.shape[2:]).permute(1, 2, 0, *axes)
    narrow = narrow.reshape(groups * b, batch, *narrow.shape[3:])
    result = _plain(wide, narrow, None, dilation, zeros, stride, groups)
    result = result.reshape(a, groups, b, *kernel).permute(1, 2, 0, *axes)
    return result.reshape(groups * b, a, *kernel)


def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    is_transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """Decomposition of `aten.convolution`; NotImplemented for a convolution that is plain already."""
    spatial = x.dim() - 2
    stride, padding, dilation, output_padding = (
        _per_dimension(v, spatial) for v in (stride, padding, dilation, output_padding)
    )
    if is_transposed:
        size = [
            (x.shape[2 + i] - 1) * stride[i]
            - 2 * padding[i]
            + dilation[i] * (weight.shape[2 + i] - 1)
            + output_padding[i]
            + 1
            for i in range(spatial)
        ]
        return transposed(x, weight, bias, stride, padding, dilation, size, groups)
    if groups > 1 and spatial != 2:
        return _plain(x, weight, bias, stride, padding, dilation, groups)
    return NotImplemented


def convolution_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    is_transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Decomposition of `aten.convolution_backward`: gradients of input, weight and bias, None where not asked for."""
    spatial = x.dim() - 2
    stride, padding, dilation = (_per_dimension(v, spatial) for v in (stride, padding, dilation))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        if is_transposed:
            of_input = _plain(gradient, weight, None, stride, padding, dilation, groups)
        else:
            of_input = transposed(gradient, weight, None, stride, padding, dilation, x.shape[2:], groups)
    if output_mask[1]:
        wide, narrow = (gradient, x) if is_transposed else (x, gradient)
        of_weight = weight_gradient(wide, narrow, weight.shape[2:], stride, padding, dilation, groups)
    if output_mask[2]:
        low = gradient.dtype in (torch.bfloat16, torch.float16)
        wide = gradient.to(torch.float32) if low else gradient
        of_bias = wide.sum([0, *range(2, 2 + spatial)]).to(gradient.dtype)
    return of_input, of_weight, of_bias


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
}
