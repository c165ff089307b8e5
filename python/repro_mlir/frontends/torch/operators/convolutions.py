# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's convolutions and their gradients as `repro.convolution`: rule (K2) of docs/reference/numerics.md.

A transposed convolution, which is also the input gradient of a strided convolution, is a convolution with a dilated
input. A weight gradient is a convolution that takes the batch as its channel dimension and the output gradient as its
kernel, so that it folds over (batch, output height, output width).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.known_shapes import is_empty
from repro_mlir.frontends.torch.base.repro_operations import Builder, define

aten = torch.ops.aten


# --- The operation ---


def _eager(
    x: torch.Tensor,
    kernel: torch.Tensor,
    init: torch.Tensor,
    strides: Sequence[int],
    padding_low: Sequence[int],
    padding_high: Sequence[int],
    input_dilation: Sequence[int],
    kernel_dilation: Sequence[int],
    window_reversal: Sequence[bool],
    feature_groups: int,
    batch_groups: int,
) -> torch.Tensor:
    """Computes `repro.convolution` with PyTorch's convolution; inserts zeros between the elements of a dilated
    input."""
    for dim, step in enumerate(input_dilation, 2):
        dilated = list(x.shape)
        dilated[dim] = max((x.shape[dim] - 1) * step + 1, 0)
        positions = torch.arange(0, dilated[dim], step)
        x = x.new_zeros(dilated).index_copy(dim, positions, x)
    both = zip(reversed(padding_low), reversed(padding_high), strict=True)
    x = aten.constant_pad_nd(x, [amount for pair in both for amount in pair], 0)
    kernel = kernel.flip([dim for dim, reverse in enumerate(window_reversal, 2) if reverse])
    if batch_groups > 1:
        x = x.reshape(batch_groups, -1, *x.shape[1:]).transpose(0, 1).flatten(1, 2)
    zeros = [0] * len(strides)
    groups = feature_groups * batch_groups
    return init + aten.convolution(x, kernel, None, strides, zeros, kernel_dilation, False, zeros, groups)


def _write(
    build: Builder,
    x: Any,
    kernel: Any,
    init: Any,
    *attributes: Any,
) -> Sequence[Any]:
    *windows, window_reversal, feature_groups, batch_groups = attributes
    names = ("strides", "padding_low", "padding_high", "input_dilation", "kernel_dilation")
    reversal = ", ".join(str(value).lower() for value in window_reversal)
    return build.create(
        "repro.convolution",
        [[x, kernel, init]],
        build.types,
        {name: build.attribute(f"array<i64: {', '.join(map(str, v))}>") for name, v in zip(names, windows, strict=True)}
        | {
            "window_reversal": build.attribute(f"array<i1: {reversal}>"),
            "feature_groups": build.i64(feature_groups),
            "batch_groups": build.i64(batch_groups),
        },
    )


_CONVOLUTION = define(
    "convolution(Tensor input, Tensor kernel, Tensor init, int[] strides, int[] padding_low, int[] padding_high, "
    "int[] input_dilation, int[] kernel_dilation, bool[] window_reversal, int feature_groups, int batch_groups) "
    "-> Tensor",
    eager=_eager,
    meta=lambda x, kernel, init, *_: init.new_empty(init.shape),
    write=_write,
)


def _convolve(x: torch.Tensor, kernel: torch.Tensor, init: torch.Tensor, *windows: Any) -> torch.Tensor:
    if is_empty(x) or is_empty(kernel):
        # A fold over no elements returns its init operand.
        return init.clone()
    result: torch.Tensor = _CONVOLUTION(x, kernel, init, *windows)
    return result


# --- PyTorch's convolutions ---


def _per_dimension(values: Sequence[int], count: int) -> list[int]:
    return list(values) * (count if len(values) == 1 else 1)


def _spread(bias: torch.Tensor | None, like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """(K3) Returns the init operand, of shape `shape` [N, O, *]: element o of `bias` [O] in channel o; zeros without a
    bias."""
    if bias is None:
        return like.new_zeros(shape)
    return bias.reshape(-1, *[1] * (len(shape) - 2)).expand(shape)


def _plain(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    size: Sequence[int] | None = None,
) -> torch.Tensor:
    """Computes an `aten.convolution` that is not transposed.

    Args:
      size: spatial shape of the result, at most the number of windows, which is the default.
    """
    windows = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    ]
    size = windows if size is None else size
    # Each omitted window reduces the high padding by one stride; a negative padding crops elements.
    high = [p - s * (count - n) for p, s, count, n in zip(padding, stride, windows, size, strict=True)]
    ones = [1] * len(size)
    init = _spread(bias, x, [x.shape[0], weight.shape[0], *size])
    unset = [False] * len(size)
    return _convolve(x, weight, init, stride, padding, high, ones, dilation, unset, groups, 1)


def _exchange_channels(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Converts weights from [groups * I, O, *kernel], the layout of a transposed convolution, to
    [groups * O, I, *kernel], the layout of a plain convolution."""
    if groups == 1:
        return weight.transpose(0, 1)
    inputs, outputs, *kernel = weight.shape
    weight = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    return weight.reshape(groups * outputs, inputs // groups, *kernel)


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
    """(K2) Computes a transposed convolution: the input is dilated by `stride`, and the windows are reversed.

    Args:
      x: [N, groups * I, *spatial].
      weight: [groups * I, O, *kernel].
      bias: [groups * O] or None.
      size: spatial shape of the result.
    Returns:
      [N, groups * O, *size].
    """
    low, high = [], []
    for n, k, s, p, d, extent in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, size, strict=True):
        low.append(d * (k - 1) - p)
        high.append(extent - 1 + p - (n - 1) * s)
    kernel = _exchange_channels(weight, groups)
    init = _spread(bias, x, [x.shape[0], kernel.shape[0], *size])
    ones, is_set = [1] * len(size), [True] * len(size)
    return _convolve(x, kernel, init, ones, low, high, stride, dilation, is_set, groups, 1)


def weight_gradient(
    wide: torch.Tensor,
    narrow: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """(K2) Computes the weight gradient as one convolution with stride and dilation exchanged.

    Args:
      wide: [N, groups * A, *], the tensor that the forward kernel slides over.
      narrow: [N, groups * B, *], the tensor with one element per position of the forward kernel.
    Returns:
      [groups * B, A, *kernel].
    """
    # The input ends at the last tap of the last kernel position: a negative padding crops elements that no tap reads.
    high = [
        (m - 1) * s + (k - 1) * d + 1 - n - p
        for n, m, k, s, p, d in zip(wide.shape[2:], narrow.shape[2:], kernel, stride, padding, dilation, strict=True)
    ]
    init = wide.new_zeros([wide.shape[1] // groups, narrow.shape[1], *kernel])
    ones, unset = [1] * len(kernel), [False] * len(kernel)
    x, w = wide.transpose(0, 1), narrow.transpose(0, 1)
    result = _convolve(x, w, init, dilation, padding, high, ones, stride, unset, 1, groups)
    return result.transpose(0, 1)


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
) -> torch.Tensor:
    """Decomposes `aten.convolution`."""
    spatial = x.dim() - 2
    stride, padding, dilation, output_padding = (
        _per_dimension(v, spatial) for v in (stride, padding, dilation, output_padding)
    )
    if not is_transposed:
        return _plain(x, weight, bias, stride, padding, dilation, groups)
    size = [
        (x.shape[2 + i] - 1) * stride[i]
        - 2 * padding[i]
        + dilation[i] * (weight.shape[2 + i] - 1)
        + output_padding[i]
        + 1
        for i in range(spatial)
    ]
    return transposed(x, weight, bias, stride, padding, dilation, size, groups)


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
    """Decomposes `aten.convolution_backward`; returns the gradients of input, weight and bias that `output_mask`
    requests, and None for the others."""
    spatial = x.dim() - 2
    stride, padding, dilation = (_per_dimension(v, spatial) for v in (stride, padding, dilation))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        if is_transposed:
            # With an output padding of a stride or more, the gradient has more windows than the input has elements, so
            # the size of the result is given.
            of_input = _plain(gradient, weight, None, stride, padding, dilation, groups, x.shape[2:])
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
