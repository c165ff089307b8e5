# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro.convolution (K2): its definition in NumPy, programs, and the layers of PyTorch that become such operations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from repro_mlir.program import canonicalize

from support import inputs as values
from support.builder import Builder, Value


@dataclass(frozen=True)
class Window:
    """The attributes of a repro.convolution. Tuples have one entry per spatial dimension."""

    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    input_dilation: tuple[int, ...]
    kernel_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]
    feature_groups: int = 1
    batch_groups: int = 1

    def extents(self, data: Sequence[int], window: Sequence[int]) -> tuple[int, ...]:
        """Returns the spatial extents of the result for those of the data and of the kernel (`window`)."""
        found = []
        for i, (n, k) in enumerate(zip(data, window, strict=True)):
            padded = (n and (n - 1) * self.input_dilation[i] + 1) + self.low[i] + self.high[i]
            last = (k - 1) * self.kernel_dilation[i]
            found.append(0 if padded <= last else (padded - 1 - last) // self.strides[i] + 1)
        return tuple(found)

    def result_shape(self, x: Sequence[int], w: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the result for data of shape `x` and a kernel of shape `w`."""
        return (x[0] // self.batch_groups, w[0], *self.extents(x[2:], w[2:]))


def literal(x: np.ndarray, w: np.ndarray, init: np.ndarray, by: Window) -> np.ndarray:
    """Returns the result by the operation's definition, in float64 or int64 and with sums in no particular order."""
    groups = by.feature_groups * by.batch_groups
    total = np.zeros_like(init)
    kernels = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    parts = total.reshape(init.shape[0], *kernels.shape[:2], *init.shape[2:])
    if by.batch_groups > 1:
        images = np.moveaxis(x.reshape(groups, init.shape[0], *x.shape[1:]), 0, 1)
    else:
        images = x.reshape(init.shape[0], groups, w.shape[1], *x.shape[2:])
    for result in np.ndindex(*init.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            element, position = [], []
            for i, (out, at) in enumerate(zip(result, tap, strict=True)):
                where = out * by.strides[i] + at * by.kernel_dilation[i] - by.low[i]
                if where % by.input_dilation[i]:
                    break  # between elements of the data: adds nothing, not even a zero
                element.append(where // by.input_dilation[i])
                position.append(w.shape[2 + i] - 1 - at if by.reversal[i] else at)
            else:
                inside = all(0 <= i < n for i, n in zip(element, x.shape[2:], strict=True))
                image = images[(..., *element)] if inside else np.zeros(images.shape[:3], x.dtype)
                with np.errstate(invalid="ignore"):
                    parts[(..., *result)] += np.einsum("ngc,goc->ngo", image, kernels[(..., *position)])
    return init + total


# Text ----------------------------------------------------------------------------------------------------------------


def _transpose(b: Builder, x: Value, order: Sequence[int]) -> Value:
    out = b.empty([x.shape[i] for i in order], x.element)
    text = f"linalg.transpose ins({x.name} : {x.type}) outs({out.name} : {out.type}) permutation = {list(order)}"
    return b.op(text, out.shape, out.element)


def _zeros(b: Builder, shape: Sequence[int], element: str) -> Value:
    zero, out = b.constant("0" if element.startswith("i") else "0.0", None, element), b.empty(shape, element)
    return b.call("linalg.fill", [zero], [out])[0]


def _channels(b: Builder, bias: Value, shape: Sequence[int]) -> Value:
    """Broadcasts `bias` to every position of each channel."""
    out, dims = b.empty(shape, bias.element), [i for i in range(len(shape)) if i != 1]
    text = f"linalg.broadcast ins({bias.name} : {bias.type}) outs({out.name} : {out.type}) dimensions = {dims}"
    return b.op(text, shape, bias.element)


def _exchange(b: Builder, w: Value, groups: int) -> Value:
    """Converts [groups * I, O, *window] to [groups * O, I, *window]."""
    inputs, outputs, *window = w.shape
    if groups == 1:
        return _transpose(b, w, [1, 0, *range(2, 2 + len(window))])
    split, whole = (groups, inputs // groups, outputs, *window), (groups * outputs, inputs // groups, *window)
    apart = f"[[0, 1], {', '.join(f'[{2 + i}]' for i in range(1 + len(window)))}]"
    turned = _transpose(b, b.reshape("expand", w, apart, split), [0, 2, 1, *range(3, 3 + len(window))])
    return b.reshape("collapse", turned, apart, whole)


def _convolution(b: Builder, x: Value, w: Value, init: Value, by: Window) -> Value:
    reversal = str(list(by.reversal)).lower()
    text = (
        f"repro.convolution strides = {list(by.strides)} padding_low = {list(by.low)} "
        f"padding_high = {list(by.high)} input_dilation = {list(by.input_dilation)} "
        f"kernel_dilation = {list(by.kernel_dilation)} window_reversal = {reversal} "
        f"feature_groups = {by.feature_groups} batch_groups = {by.batch_groups}"
    )
    return b.call(text, [x, w], [init])[0]


# PyTorch's layers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A convolution or transposed convolution with the parameters that PyTorch's functions have."""

    name: str
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    is_transposed: bool = False
    output_padding: tuple[int, ...] = ()
    element: str = "f32"
    has_bias: bool = True

    @property
    def output(self) -> tuple[int, ...]:
        """The spatial extents of the result."""
        along = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        if self.is_transposed:
            return tuple(
                (n - 1) * s + d * (k - 1) + 1 - 2 * p + more
                for (n, k, s, p, d), more in zip(along, self.output_padding, strict=True)
            )
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in along)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Returns random arrays: the gradient of the result, the input, the kernel and, if there is one, the bias."""
        inputs, outputs = (4, 6) if self.is_transposed else (4, 8)
        outputs = outputs // self.groups * self.groups
        weight = (inputs, outputs // self.groups) if self.is_transposed else (outputs, inputs // self.groups)
        shapes = [(2, outputs, *self.output), (2, inputs, *self.size), (*weight, *self.kernel)]
        if self.has_bias:
            shapes.append((outputs,))
        # `values.random` uses NumPy's exp2, which differs in f64 between processors. For narrower types, rounding hides
        # the difference.
        if self.element == "f64":
            return tuple(values.exact(shape, seed, 2) for seed, shape in enumerate(shapes))
        return tuple(values.random(self.element, shape, seed, 2) for seed, shape in enumerate(shapes))

    def program(self) -> str:
        """Returns the canonical program that computes the result and the gradients of the input and the kernel from
        `arrays`."""
        b = Builder()
        gradient, x, w, *bias = (b.argument(array.shape, self.element) for array in self.arrays())
        init = _channels(b, bias[0], gradient.shape) if bias else _zeros(b, gradient.shape, self.element)
        zeros = _zeros(b, x.shape, self.element)
        exchanged = _exchange(b, w, self.groups)
        if self.is_transposed:
            result = _convolution(b, x, exchanged, init, self._dilated(self.size, self.output))
            of_x = _convolution(b, gradient, w, zeros, self._plain())
            of_w = self._of_weight(b, gradient, x)
        else:
            result = _convolution(b, x, w, init, self._plain())
            of_x = _convolution(b, gradient, exchanged, zeros, self._dilated(self.output, self.size))
            of_w = self._of_weight(b, x, gradient)
        return canonicalize(b.program(result, of_x, of_w))

    def _plain(self) -> Window:
        ones, unset = (1,) * len(self.size), (False,) * len(self.size)
        return Window(self.stride, self.padding, self.padding, ones, self.dilation, unset, self.groups)

    def _dilated(self, size: Sequence[int], result: Sequence[int]) -> Window:
        """Returns the window of a transposed convolution from data with the extents `size` to a result with the extents
        `result`."""
        ones, is_set = (1,) * len(size), (True,) * len(size)
        spans = [(k - 1) * d for k, d in zip(self.kernel, self.dilation, strict=True)]
        low = tuple(span - p for span, p in zip(spans, self.padding, strict=True))
        high = tuple(
            out - 1 + span - (n - 1) * s - before
            for n, out, span, s, before in zip(size, result, spans, self.stride, low, strict=True)
        )
        return Window(ones, low, high, self.stride, self.dilation, is_set, self.groups)

    def _of_weight(self, b: Builder, wide: Value, narrow: Value) -> Value:
        rank = len(self.size) + 2
        ones, unset = (1,) * len(self.size), (False,) * len(self.size)
        along = zip(wide.shape[2:], narrow.shape[2:], self.kernel, self.stride, strict=True)
        high = tuple(
            (k - 1) * d + (n - 1) * s + 1 - extent - p
            for (extent, n, k, s), p, d in zip(along, self.padding, self.dilation, strict=True)
        )
        by = Window(self.dilation, self.padding, high, ones, self.stride, unset, 1, self.groups)
        exchanged = [1, 0, *range(2, rank)]
        x, w = _transpose(b, wide, exchanged), _transpose(b, narrow, exchanged)
        init = _zeros(b, by.result_shape(x.shape, w.shape), self.element)
        return _transpose(b, _convolution(b, x, w, init, by), exchanged)


FORMS = {
    "plain": ((7, 8), (3, 3), 1, 1, 1, 1),
    "stride": ((9, 8), (3, 3), 2, 1, 1, 1),
    "stride_over_kernel": ((9, 10), (1, 2), 3, 0, 1, 1),
    "dilation": ((11, 9), (3, 2), 2, 2, 3, 1),
    "common_factor": ((13, 12), (3, 3), 4, 3, 2, 1),
    "wide_padding": ((4, 5), (2, 2), 2, 3, 1, 1),
    "groups": ((8, 8), (3, 3), 2, 1, 1, 2),
    "depthwise": ((8, 8), (3, 3), 2, 1, 1, 4),
    "cut_off": ((8, 9), (2, 2), (3, 2), 0, 1, 1),
    "line": ((17,), (3,), 2, 1, 2, 1),
    "line_groups": ((17,), (4,), 3, 1, 1, 4),
    "volume": ((5, 6, 4), (2, 3, 2), (2, 1, 2), (0, 1, 1), 1, 1),
    "volume_groups": ((5, 6, 4), (2, 3, 2), 2, 1, 1, 2),
}
"""Spatial extents, kernel, stride, padding, dilation and groups."""

_OF_OTHER_ELEMENTS = {"f64": ("stride", "line"), "bf16": ("plain", "stride", "groups", "volume"), "f16": ("dilation",)}


def layers() -> list[Layer]:
    """Returns convolutions and transposed convolutions, with and without bias and output padding, for all element
    types."""
    found = []
    for name, (size, kernel, *numbers, groups) in FORMS.items():
        stride, padding, dilation = ((v,) * len(size) if isinstance(v, int) else v for v in numbers)
        for element in ("f32", "f64", "bf16", "f16"):
            if name not in _OF_OTHER_ELEMENTS.get(element, FORMS):
                continue
            for more in (None, 0, 1):
                if more and 1 in stride:
                    continue  # PyTorch requires an output padding smaller than the stride.
                padded = () if more is None else (more,) + (0,) * (len(size) - 1)
                has_bias = element != "f32" or groups == 1
                kind = "" if more is None else f"transposed-{more}-"
                found.append(
                    Layer(
                        f"{kind}{name}-{element}", size, kernel, stride, padding, dilation, groups,
                        more is not None, padded, element, has_bias,
                    )
                )  # fmt: skip
    return found


# General windows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class General:
    """A repro.convolution in general form: shapes of data and kernel, window, and element types."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    by: Window
    elements: tuple[str, str, str] = ("f32", "f32", "f32")

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Returns the shapes of data, kernel and initial operand."""
        return self.x, self.w, self.by.result_shape(self.x, self.w)

    def program(self) -> str:
        """Returns the canonical program of the convolution."""
        b = Builder()
        x, w, init = (b.argument(shape, element) for shape, element in zip(self.shapes(), self.elements, strict=True))
        return canonicalize(b.program(_convolution(b, x, w, init, self.by)))


def general(count: int, seed: int = 0) -> list[General]:
    """Returns `count` convolutions with random windows in 0 to 3 dimensions."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int, size: int) -> tuple[int, ...]:
        return tuple(int(v) for v in rng.integers(low, high + 1, size))

    found = []
    for number in itertools.count():
        rank = number % 4
        features, batches = ((1, 1), (2, 1), (1, 3), (1, 1))[number // 4 % 4]
        most = (9, 9, 7, 5)[rank]
        by = Window(
            draw(1, 3, rank), draw(-2, 4, rank), draw(-2, 4, rank), draw(1, 4, rank), draw(1, 3, rank),
            tuple(bool(v) for v in rng.integers(0, 2, rank)), features, batches,
        )  # fmt: skip
        x = (2 * batches, 3 * features, *draw(1, most, rank))
        w = (6, 3, *draw(1, 4, rank))
        case = General(f"random-{number}", x, w, by)
        if 0 < np.prod(case.shapes()[2]) < 20000:
            found.append(case)
        if len(found) == count:
            return found
    raise AssertionError
