# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes a comparison as lines of text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repro_mlir.base.printing import foreign
from repro_mlir.tensor_dumps.comparison import Comparison, ElementPair, TensorDifference

_SHOWN = 10
"""The number of differing tensors, and of tensors that only one side has, of which the text shows each."""

_SHOWN_BARS = 8


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Returns a comparison as a JSON object; an infinite number is the text "inf". If the "unit" of a tensor is "1",
    its "ulps" are differences of integers."""
    found = comparison
    return {
        "equal": found.is_equal,
        "sides": list(found.names),
        "steps": list(found.steps),
        "compared": found.compared,
        "different": found.different,
        "differences": [_tensor_as_json(each) for each in found.differences],
        "only_in": [
            {
                "side": found.names[i],
                "count": found.alone[i],
                "steps": found.missing_steps[i],
                "tensors": [{"step": step, "name": name} for step, name in found.missing[i]],
                "unlisted": found.unlisted[i],
                "ignored_files": found.ignored[i],
            }
            for i in range(2)
        ],
    }


def _tensor_as_json(tensor: TensorDifference) -> dict[str, Any]:
    described: dict[str, Any] = {
        "step": tensor.step,
        "module": tensor.module or None,
        "name": tensor.name,
        "reason": tensor.reason,
        "types": [tensor.first, tensor.second],
    }
    element = tensor.element
    if element is None:
        return described
    return described | {
        "size": tensor.size,
        "count": tensor.count,
        "first": {
            "index": list(element.index),
            "values": [element.first, element.second],
            "bits": [element.first_bits, element.second_bits],
            "ulps": element.ulps,
            "absolute": _number(element.absolute),
            "relative": _number(element.relative),
        },
        "unit": "1" if tensor.are_integers else "ulp",
        "ulps": tensor.ulps,
        "absolute": _number(tensor.absolute),
        "relative": _number(tensor.relative),
        "histogram": [list(bar) for bar in bars_of(tensor)],
    }


def _number(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value


def bars_of(tensor: TensorDifference) -> list[tuple[str, int]]:
    """Returns the histogram of distances as pairs of label and count: equal elements first, without empty bars at
    the end."""
    bars = [("equal", tensor.size - tensor.count)]
    if tensor.histogram[0]:
        bars.append(("0: the signs of zeros", tensor.histogram[0]))
    last = max((i for i, count in enumerate(tensor.histogram) if count), default=0)
    for i in range(1, last + 1):
        low, high = 1 << (i - 1), (1 << i) - 1
        bars.append((str(low) if low == high else f"{_short(low)} to {_short(high)}", tensor.histogram[i]))
    bars += [("one is NaN", tensor.one_nan)] if tensor.one_nan else []
    bars += [("NaNs of different bits", tensor.two_nans)] if tensor.two_nans else []
    unknown = tensor.count - sum(tensor.histogram) - tensor.one_nan - tensor.two_nans
    return bars + ([("different bits", unknown)] if unknown else [])


def _short(number: int) -> str:
    return str(number) if number < 10_000 else f"{number:.1e}"


def text_lines(comparison: Comparison) -> list[str]:
    """Returns the lines of a human-readable report."""
    found = comparison
    told = [f"first    {found.names[0]}{_counted(found, 0)}", f"second   {found.names[1]}{_counted(found, 1)}"]
    different = "1 is different" if found.different == 1 else f"{found.different:,} are different"
    told.append(f"compared {_tensors(found.compared)}, {different}")
    if found.differences:
        told += _first(found.differences[0])
        others = found.differences[1:_SHOWN]
        told += ["then"] if others else []
        told += [f"  {_place(each)}: {_short_description(each)}" for each in others]
        if found.different > _SHOWN:
            told.append(f"  and {_tensors(found.different - _SHOWN, ' more')}")
    for i in range(2):
        if found.alone[i]:
            told += _alone(found, i)
    return told


def _counted(found: Comparison, i: int) -> str:
    notes = [f"{found.steps[i]:,} {'step' if found.steps[i] == 1 else 'steps'}"] if found.steps[i] else []
    notes += [f"{found.ignored[i]:,} other files ignored"] if found.ignored[i] else []
    return f" ({', '.join(notes)})" if notes else ""


def _first(tensor: TensorDifference) -> list[str]:
    told = [] if tensor.step is None else [f"step     {tensor.step}"]
    told += [f"module   {foreign(tensor.module)}"] if tensor.module else []
    element = tensor.element
    if element is None:
        told.append(f"tensor   {_named(tensor.name)}: another {tensor.reason}")
        return [*told, f"  first  {foreign(tensor.first)}", f"  second {foreign(tensor.second)}"]
    far = _distances(tensor.are_integers, element)
    bars = [f"{label}: {count:,}" for label, count in bars_of(tensor) if count]
    if len(bars) > _SHOWN_BARS:
        bars = [*bars[: _SHOWN_BARS - 1], "...", bars[-1]]
    return [
        *told,
        f"tensor   {_named(tensor.name)}: {tensor.first}, {_short_description(tensor)}",
        f"  at     {list(element.index)}",
        f"  first  {element.first_bits}  {element.first}".rstrip(),
        f"  second {element.second_bits}  {element.second}".rstrip() + (f"  ({far})" if far else ""),
        f"  {'apart' if tensor.are_integers else 'ulps':6} {'; '.join(bars)}",
    ]


def _short_description(tensor: TensorDifference) -> str:
    if tensor.element is None:
        return f"another {tensor.reason}: {foreign(tensor.first)} and {foreign(tensor.second)}"
    told = f"{tensor.count:,} of {tensor.size:,} elements differ"
    far = _distances(tensor.are_integers, tensor)
    return f"{told}, by at most {far}" if far else told


def _distances(are_integers: bool, found: ElementPair | TensorDifference) -> str:
    """Returns the distances of an element, or the largest ones of a tensor, as text; empty if there are none."""
    if found.ulps is None:
        return ""
    if are_integers:
        return f"{found.ulps:,}, relative {found.relative:.3g}"
    unit = "ulp" if found.ulps == 1 else "ulps"
    return f"{found.ulps:,} {unit}, absolute {found.absolute:.3g}, relative {found.relative:.3g}"


def _tensors(count: int, more: str = "") -> str:
    return f"{count:,}{more} {'tensor' if count == 1 else 'tensors'}"


def _place(tensor: TensorDifference) -> str:
    return _at(tensor.step, tensor.name)


def _at(step: int | None, name: str) -> str:
    return _named(name) if step is None else f"step {step}, {_named(name)}"


def _named(name: str) -> str:
    return foreign(name) or "(unnamed)"


def _alone(found: Comparison, i: int) -> list[str]:
    told = [f"only in {found.names[i]}: {_tensors(found.alone[i])}"]
    if steps := found.missing_steps[i]:
        told.append(f"  steps {_ranges(steps)}")
    told += [f"  {_at(step, name)}" for step, name in found.missing[i][:_SHOWN]]
    left = len(found.missing[i][_SHOWN:]) + found.unlisted[i]
    return [*told, f"  and {left:,} more"] if left > 0 else told


def _ranges(steps: Sequence[int]) -> str:
    """Returns ascending numbers as text, such as "3, 5 to 9"."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    shown = [str(low) if low == high else f"{low} to {high}" for low, high in runs[:_SHOWN]]
    return ", ".join(shown) + (" and more" if len(runs) > _SHOWN else "")
