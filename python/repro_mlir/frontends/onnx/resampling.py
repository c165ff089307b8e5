# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators that resize images.

An image is resized axis by axis. The source positions and weights of an output element depend only on the sizes: they
are computed here in f64, and the program contains the indices and weights as constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axes_of
from repro_mlir.frontends.onnx.nodes import Call, Operator, constant, sized

_COORDINATES: dict[str, Callable[[int, float, int, int], float]] = {
    "half_pixel": lambda x, scale, n, count: (x + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda x, scale, n, count: n / 2 * (1 - count / (scale * n)) + (x + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda x, scale, n, count: -0.5 if scale * n == 1 else (x + 0.5) / scale - 0.5,
    "align_corners": lambda x, scale, n, count: 0.0 if scale * n == 1 else x * (n - 1) / (scale * n - 1),
    "asymmetric": lambda x, scale, n, count: x / scale,
}
"""For each coordinate mode, a function that returns the input position of output element x, given x, the scale and both
extents."""

_NEAREST: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}
_MODES = ("nearest", "linear", "cubic")


@dataclass(frozen=True)
class _Axis:
    """Describes how one axis is resized, from `extent` to `count` elements."""

    axis: int
    extent: int
    count: int
    scale: float
    region: tuple[float, float] | None = None

    def coordinates(self, mode: str) -> list[float]:
        """Returns the input position for each output element."""
        if mode != "tf_crop_and_resize":
            return [_COORDINATES[mode](x, self.scale, self.extent, self.count) for x in range(self.count)]
        if self.region is None:
            raise OnnxError("expected the input roi for tf_crop_and_resize, got nothing")
        start, end = self.region
        last = self.extent - 1
        if self.count == 1:
            return [(start + end) * last / 2]
        return [start * last + x * (end - start) * last / (self.count - 1) for x in range(self.count)]


def _axes(call: Call, x: torch.Tensor) -> list[_Axis]:
    chosen = axes_of(call.attribute("axes", [*range(x.dim())]), x.dim())
    if call.version < 11:
        roi, scales, sizes = None, call.numbers(1), None
    else:
        roi, scales, sizes = call.numbers(1), call.numbers(2), call.numbers(3)
    extents = [x.shape[axis] for axis in chosen]
    policy = call.choice("keep_aspect_ratio_policy", "stretch", "stretch", "not_larger", "not_smaller")
    if sizes:
        counts = sizes
        scales = [count / max(extent, 1) for count, extent in zip(sizes, extents, strict=True)]
        if policy != "stretch":
            scale = (min if policy == "not_larger" else max)(scales)
            scales = [scale] * len(extents)
            counts = [math.floor(scale * extent + 0.5) for extent in extents]
    elif scales:
        counts = [math.floor(extent * scale) for extent, scale in zip(extents, scales, strict=True)]
    else:
        raise OnnxError("expected scales or sizes, got neither")
    if not all(scale > 0 and math.isfinite(scale) for scale in scales):
        raise OnnxError(f"expected scales above 0, got {scales[:8]}")
    found, shape = [], [*x.shape]
    for i, axis in enumerate(chosen):
        region = (roi[i], roi[len(chosen) + i]) if roi else None
        found.append(_Axis(axis, extents[i], counts[i], scales[i], region))
        shape[axis] = counts[i]
    sized(shape)
    return found


def _cubic(distance: float, a: float) -> float:
    t = abs(distance)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0


def _taps(
    axis: _Axis, x: float, weigh: Callable[[float], float], reach: int, antialias: bool, exclude: bool
) -> list[tuple[int, float]]:
    """Returns the index and weight of each input element that contributes to the output element at position `x`."""
    scale = min(axis.scale, 1.0) if antialias else 1.0
    left = math.ceil(x) - 1
    first = math.floor(-reach / scale) + 1
    found = [(left + i, weigh((left + i - x) * scale)) for i in range(first, 2 - first)]
    if exclude:
        found = [(i, weight if 0 <= i < axis.extent else 0.0) for i, weight in found]
    total = sum(weight for _, weight in found)
    if (exclude or antialias) and total:
        found = [(i, weight / total) for i, weight in found]
    return [(min(max(i, 0), axis.extent - 1), weight) for i, weight in found]


def _interpolated(x: torch.Tensor, axis: int, taps: list[list[tuple[int, float]]]) -> torch.Tensor:
    """Computes each output element along an axis as the sum of its `taps`: pairs of input index and weight."""
    total = None
    for column in zip(*taps, strict=True):
        shape = [-1 if i == axis else 1 for i in range(x.dim())]
        weights = constant([weight for _, weight in column], x.dtype).reshape(shape)
        part = x.index_select(axis, constant([i for i, _ in column])) * weights
        total = part if total is None else total + part
    assert total is not None
    return total


def _resize(call: Call) -> torch.Tensor:
    x = call.tensor()
    mode = call.choice("mode", "nearest", *_MODES)
    # Before version 11 the coordinate and rounding modes were fixed.
    coordinates = "half_pixel" if call.version >= 11 else "asymmetric"
    nearest = "round_prefer_floor" if call.version >= 11 else "floor"
    coordinates = call.choice("coordinate_transformation_mode", coordinates, *_COORDINATES, "tf_crop_and_resize")
    nearest = call.choice("nearest_mode", nearest, *_NEAREST)
    antialias, exclude = bool(call.attribute("antialias", 0)), bool(call.attribute("exclude_outside", 0))
    a = call.attribute("cubic_coeff_a", -0.75)
    inner = x
    outside: list[tuple[int, list[bool]]] = []
    for axis in _axes(call, x):
        points = axis.coordinates(coordinates)
        if coordinates == "tf_crop_and_resize":
            outside.append((axis.axis, [not 0 <= point <= axis.extent - 1 for point in points]))
        if points == [*range(axis.extent)]:
            continue
        if not points or axis.extent == 0:
            raise OnnxError(f"expected extents above 0, got {axis.extent} resized to {len(points)}")
        if mode == "nearest":
            index = [min(max(_NEAREST[nearest](point), 0), axis.extent - 1) for point in points]
            inner = inner.index_select(axis.axis, constant(index))
            continue
        # With antialiasing, each element of a smaller output combines many input elements.
        call.spend(math.ceil(4 / min(axis.scale, 1.0)) if antialias else 4)
        if mode == "linear":
            taps = [_taps(axis, p, lambda t: max(1 - abs(t), 0.0), 1, antialias, exclude) for p in points]
        else:
            taps = [_taps(axis, p, lambda t: _cubic(t, a), 2, antialias, exclude) for p in points]
        wide = inner if inner.is_floating_point() else inner.to(torch.float32)
        inner = _interpolated(wide, axis.axis, taps)
    if any(any(flags) for _, flags in outside):
        mask = constant(False, torch.bool)
        for axis_number, flags in outside:
            shape = [-1 if i == axis_number else 1 for i in range(x.dim())]
            mask = torch.logical_or(mask, constant(flags, torch.bool).reshape(shape))
        value = call.attribute("extrapolation_value", 0.0)
        inner = torch.where(mask, constant(value, inner.dtype), inner)
    return inner if inner.dtype is x.dtype else torch.round(inner).to(x.dtype)


def _upsample(call: Call) -> torch.Tensor:
    x = call.tensor()
    scales = call.numbers(1, "scales") or []
    counts = sized([math.floor(extent * scale) for extent, scale in zip(x.shape, scales, strict=True)])
    mode = call.choice("mode", "nearest", "nearest", "linear")
    for i, (count, scale) in enumerate(zip(counts, scales, strict=True)):
        axis = _Axis(i, x.shape[i], count, scale)
        points = axis.coordinates("asymmetric")
        if points == [*range(axis.extent)]:
            continue
        if mode == "nearest":
            x = x.index_select(i, constant([min(math.floor(point), axis.extent - 1) for point in points]))
        else:
            x = _interpolated(x, i, [_taps(axis, p, lambda t: max(1 - abs(t), 0.0), 1, False, False) for p in points])
    return x


def _grid_sample(call: Call) -> torch.Tensor:
    mode = call.choice("mode", "linear", "linear", "bilinear", "nearest", "cubic", "bicubic")
    padding = call.choice("padding_mode", "zeros", "zeros", "border", "reflection")
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return F.grid_sample(
        call.tensor(0), call.tensor(1), names.get(mode, mode), padding, bool(call.attribute("align_corners", 0))
    )


RESAMPLING: dict[str, Operator] = {
    "GridSample": _grid_sample,
    "Resize": _resize,
    "Upsample": _upsample,
}
