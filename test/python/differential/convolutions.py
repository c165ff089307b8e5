# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro.convolution (K2): programs of it as imported text, what it means in NumPy, and PyTorch's forms of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import inputs as values
import numpy as np
from builder import tensor
from repro_mlir import ir
from repro_mlir.passmanager import PassManager


@dataclass(frozen=True)
class Window:
    """The attributes of a repro.convolution, those of a window one per spatial dimension."""

    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    input_dilation: tuple[int, ...]
    kernel_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]
    feature_groups: int = 1
    batch_groups: int = 1

    def extents(self, data: Sequence[int], window: Sequence[int]) -> tuple[int, ...]:
        """The spatial extents of the result."""
        found = []
        for i, (n, k) in enumerate(zip(data, window, strict=True)):
            padded = (n and (n - 1) * self.input_dilation[i] + 1) + self.low[i] + self.high[i]
            last = (k - 1) * self.kernel_dilation[i]
            found.append(0 if padded <= last else (padded - 1 - last) // self.strides[i] + 1)
        return tuple(found)

    def result_shape(self, x: Sequence[int], w: Sequence[int]) -> tuple[int, ...]:
        return (x[0] // self.batch_groups, w[0], *self.extents(x[2:], w[2:]))


def literal(x: np.ndarray, w: np.ndarray, init: np.ndarray, by: Window) -> np.ndarray:
    """The sum that the operation is, in float64 or int64 and in no special order."""
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
                    break  # There is no such element, not even a zero.
                element.append(where // by.input_dilation[i])
                position.append(w.shape[2 + i] - 1 - at if by.reversal[i] else at)
            else:
                inside = all(0 <= i < n for i, n in zip(element, x.shape[2:], strict=True))
                image = images[(..., *element)] if inside else np.zeros(images.shape[:3], x.dtype)
                with np.errstate(invalid="ignore"):
                    parts[(..., *result)] += np.einsum("ngc,goc->ngo", image, kernels[(..., *position)])
    return init + total


# Text ----------------------------------------------------------------------------------------------------------------


class Imported:
    """Collects the operations of one imported @main."""

    def __init__(self) -> None:
        self._arguments: list[str] = []
        self._lines: list[str] = []
        self._types: dict[str, tuple[tuple[int, ...], str]] = {}

    def _name(self, value: str) -> str:
        return f"{value} : {self.type(value)}"

    def type(self, value: str) -> str:
        return tensor(*self._types[value])

    def shape(self, value: str) -> tuple[int, ...]:
        return self._types[value][0]

    def argument(self, shape: Sequence[int], element: str) -> str:
        value = f"%arg{len(self._arguments)}"
        self._types[value] = (tuple(shape), element)
        self._arguments.append(f"{value}: {self.type(value)}")
        return value

    def op(self, shape: Sequence[int], element: str, text: str) -> str:
        """An operation with one result, whose type `text` has as {}."""
        value = f"%v{len(self._lines)}"
        self._types[value] = (tuple(shape), element)
        self._lines.append(f"{value} = {text.replace('{}', self.type(value))}")
        return value

    def _empty(self, shape: Sequence[int], element: str) -> str:
        return self.op(shape, element, "tensor.empty() : {}")

    def transpose(self, x: str, order: Sequence[int]) -> str:
        shape, element = [self.shape(x)[i] for i in order], self._types[x][1]
        out = self._empty(shape, element)
        text = f"linalg.transpose ins({self._name(x)}) outs({out} : {{}}) permutation = {order}"
        return self.op(shape, element, text)

    def zeros(self, shape: Sequence[int], element: str) -> str:
        zero = f"%zero{len(self._lines)}"
        literal_zero = "0" if element.startswith("i") else "0.0"
        out = self._empty(shape, element)
        self._lines.append(f"{zero} = arith.constant {literal_zero} : {element}")
        return self.op(shape, element, f"linalg.fill ins({zero} : {element}) outs({out} : {{}}) -> {{}}")

    def channels(self, bias: str, shape: Sequence[int]) -> str:
        """`bias` at every position of each channel."""
        out = self._empty(shape, self._types[bias][1])
        dims = [i for i in range(len(shape)) if i != 1]
        text = f"linalg.broadcast ins({self._name(bias)}) outs({out} : {{}}) dimensions = {dims}"
        return self.op(shape, self._types[bias][1], text)

    def exchange(self, w: str, groups: int) -> str:
        """From [groups * I, O, *window] to [groups * O, I, *window]."""
        inputs, outputs, *window = self.shape(w)
        element = self._types[w][1]
        if groups == 1:
            return self.transpose(w, [1, 0, *range(2, 2 + len(window))])
        split = (groups, inputs // groups, outputs, *window)
        apart = f"[[0, 1], {', '.join(f'[{2 + i}]' for i in range(1 + len(window)))}]"
        text = f"tensor.expand_shape {w} {apart} output_shape {list(split)} : {self.type(w)} into {{}}"
        turned = self.transpose(self.op(split, element, text), [0, 2, 1, *range(3, 3 + len(window))])
        whole = (groups * outputs, inputs // groups, *window)
        return self.op(whole, element, f"tensor.collapse_shape {turned} {apart} : {self.type(turned)} into {{}}")

    def convolution(self, x: str, w: str, init: str, by: Window) -> str:
        shape = by.result_shape(self.shape(x), self.shape(w))
        reversal = str(list(by.reversal)).lower()
        return self.op(
            shape,
            self._types[init][1],
            f"repro.convolution strides = {list(by.strides)} padding_low = {list(by.low)} "
            f"padding_high = {list(by.high)} input_dilation = {list(by.input_dilation)} "
            f"kernel_dilation = {list(by.kernel_dilation)} window_reversal = {reversal} "
            f"feature_groups = {by.feature_groups} batch_groups = {by.batch_groups} "
            f"ins({x}, {w} : {self.type(x)}, {self.type(w)}) outs({self._name(init)}) -> {{}}",
        )

    def canonical(self, *results: str) -> str:
        """The canonical program that returns `results`."""
        types = ", ".join(self.type(value) for value in results)
        body = "\n".join(self._lines)
        text = (
            f"func.func @main({', '.join(self._arguments)}) -> ({types}) attributes {{repro.num_state = 0 : i64}} {{\n"
            f"{body}\nreturn {', '.join(results)} : {types}\n}}"
        )
        with ir.Context():
            module = ir.Module.parse(text)
            PassManager.parse("builtin.module(import-linalg,canonical)").run(module.operation)
            return str(module)


# PyTorch's forms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A convolution as PyTorch describes it, or a transposed one."""

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
        along = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        if self.is_transposed:
            return tuple(
                (n - 1) * s + d * (k - 1) + 1 - 2 * p + more
                for (n, k, s, p, d), more in zip(along, self.output_padding, strict=True)
            )
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in along)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Gradient of the result, input, kernel and, where there is one, bias."""
        inputs, outputs = (4, 6) if self.is_transposed else (4, 8)
        outputs = outputs // self.groups * self.groups
        weight = (inputs, outputs // self.groups) if self.is_transposed else (outputs, inputs // self.groups)
        shapes = [(2, outputs, *self.output), (2, inputs, *self.size), (*weight, *self.kernel)]
        if self.has_bias:
            shapes.append((outputs,))
        return tuple(values.random(self.element, shape, seed, 2) for seed, shape in enumerate(shapes))

    def program(self) -> str:
        """The canonical program from `arrays` to result, gradient of the input and gradient of the kernel."""
        b = Imported()
        gradient, x, w, *bias = (b.argument(array.shape, self.element) for array in self.arrays())
        shape = b.shape(gradient)
        init = b.channels(bias[0], shape) if bias else b.zeros(shape, self.element)
        zeros = b.zeros(b.shape(x), self.element)
        if self.is_transposed:
            result = b.convolution(x, b.exchange(w, self.groups), init, self._dilated(self.size, self.output))
            of_x = b.convolution(gradient, w, zeros, self._plain())
            of_w = self._of_weight(b, gradient, x)
        else:
            result = b.convolution(x, w, init, self._plain())
            of_x = b.convolution(gradient, b.exchange(w, self.groups), zeros, self._dilated(self.output, self.size))
            of_w = self._of_weight(b, x, gradient)
        return b.canonical(result, of_x, of_w)

    def _plain(self) -> Window:
        ones, unset = (1,) * len(self.size), (False,) * len(self.size)
        return Window(self.stride, self.padding, self.padding, ones, self.dilation, unset, self.groups)

    def _dilated(self, size: Sequence[int], result: Sequence[int]) -> Window:
        """The transposed convolution from spatial extents `size` to `result`."""
        ones, is_set = (1,) * len(size), (True,) * len(size)
        spans = [(k - 1) * d for k, d in zip(self.kernel, self.dilation, strict=True)]
        low = tuple(span - p for span, p in zip(spans, self.padding, strict=True))
        high = tuple(
            out - 1 + span - (n - 1) * s - before
            for n, out, span, s, before in zip(size, result, spans, self.stride, low, strict=True)
        )
        return Window(ones, low, high, self.stride, self.dilation, is_set, self.groups)

    def _of_weight(self, b: Imported, wide: str, narrow: str) -> str:
        rank = len(self.size) + 2
        ones, unset = (1,) * len(self.size), (False,) * len(self.size)
        along = zip(b.shape(wide)[2:], b.shape(narrow)[2:], self.kernel, self.stride, strict=True)
        high = tuple(
            (k - 1) * d + (n - 1) * s + 1 - extent - p
            for (extent, n, k, s), p, d in zip(along, self.padding, self.dilation, strict=True)
        )
        by = Window(self.dilation, self.padding, high, ones, self.stride, unset, 1, self.groups)
        exchanged = [1, 0, *range(2, rank)]
        x, w = b.transpose(wide, exchanged), b.transpose(narrow, exchanged)
        init = b.zeros(by.result_shape(b.shape(x), b.shape(w)), self.element)
        return b.transpose(b.convolution(x, w, init, by), exchanged)


# spatial extents, kernel, stride, padding, dilation, groups
_LAYERS = {
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
_OF_OTHER_ELEMENTS = {"f64": ("stride", "line"), "bf16": ("plain", "stride", "groups", "volume"), "f16": ("dilation",)}


def layers() -> list[Layer]:
    """Convolutions and transposed ones, with and without bias and output padding, of all element types."""
    found = []
    for name, (size, kernel, *numbers, groups) in _LAYERS.items():
        stride, padding, dilation = ((v,) * len(size) if isinstance(v, int) else v for v in numbers)
        for element in ("f32", "f64", "bf16", "f16"):
            if name not in _OF_OTHER_ELEMENTS.get(element, _LAYERS):
                continue
            for more in (None, 0, 1):
                if more and 1 in stride:
                    continue  # PyTorch has an output padding below the stride only.
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


# Of any kind ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class General:
    """One repro.convolution into an initial operand of its own for each result."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    by: Window
    elements: tuple[str, str, str] = ("f32", "f32", "f32")

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return self.x, self.w, self.by.result_shape(self.x, self.w)

    def program(self) -> str:
        b = Imported()
        x, w, init = (b.argument(shape, element) for shape, element in zip(self.shapes(), self.elements, strict=True))
        return b.canonical(b.convolution(x, w, init, self.by))


def general(count: int, seed: int = 0) -> list[General]:
    """Windows of all kinds of 0 to 3 dimensions, drawn at random."""
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
