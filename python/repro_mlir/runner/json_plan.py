# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses the launch plans of bundles of format 1, which are JSON (docs/reference/bundle.md)."""

from __future__ import annotations

from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import foreign
from repro_mlir.runner.plan import SPACES, Kernel, Launch, Plan, check_plan


def _number(value: Any, where: str) -> None:
    shapes.number(0)(value, where)
    if value >= 1 << 32:
        raise ReproError(f"{where}: expected a number below 2^32")


def _text(value: Any, where: str) -> None:
    shapes.text(value, where)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ReproError(f"{where}: expected text that is UTF-8")


def _fixed(*parts: shapes.Shape) -> shapes.Shape:
    """Returns a check for an array with exactly these parts."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) != len(parts):
            raise ReproError(f"{where}: expected an array of {len(parts)}")
        for part, each in zip(parts, value, strict=True):
            part(each, where)

    return check


_SIZE = shapes.number(0)
_TRIPLE = _fixed(_number, _number, _number)
_TENSOR = shapes.record(
    {"name": _text, "element": shapes.choice(*ELEMENTS), "shape": shapes.array(_SIZE), "bytes": _SIZE}
)
_ARGUMENT = _fixed(shapes.choice(*SPACES), _SIZE, _SIZE)
_SHAPE = shapes.record(
    {
        "arena_bytes": _SIZE,
        "states": shapes.array(_TENSOR),
        "inputs": shapes.array(_TENSOR),
        "outputs": shapes.array(_TENSOR),
        "messages": shapes.array(_text),
        "kernels": shapes.array(shapes.record({"name": _text, "block": _TRIPLE, "shared": _number})),
        "launches": shapes.array(shapes.record({"kernel": _SIZE, "grid": _TRIPLE, "args": shapes.array(_ARGUMENT)})),
    }
)


def read_json_plan(value: Any, constant_size: int, where: str) -> Plan:
    """Converts a parsed JSON value to a plan.

    Args:
      value: a value of the format in docs/reference/bundle.md.
      constant_size: the size in bytes of the target's constants, which are not in the plan.
      where: the name of the plan in messages.
    Raises:
      ReproError: the value has another format, or an index, an offset or a size is out of range.
    """
    _SHAPE(value, f"{where}: the launch plan")
    states, inputs, outputs = (tuple(map(_tensor, value[key])) for key in ("states", "inputs", "outputs"))
    kernels = tuple(Kernel(k["name"], block=_triple(k["block"]), shared=k["shared"]) for k in value["kernels"])
    launches = tuple(
        # Format 1 does not record which launches depend on the checks.
        Launch(each["kernel"], False, tuple(map(_triple, each["args"])), _triple(each["grid"]))
        for each in value["launches"]
    )
    messages = tuple(value["messages"])
    plan = Plan("gpu", value["arena_bytes"], constant_size, states, inputs, outputs, messages, kernels, launches)
    try:
        check_plan(plan)
    except ValueError as error:
        raise ReproError(f"{where}: the launch plan is damaged ({foreign(str(error))})") from None
    return plan


def _tensor(value: Any) -> TensorType:
    kind = TensorType(value["name"], value["element"], tuple(value["shape"]))
    if value["bytes"] != kind.nbytes:
        raise ReproError(f"{kind.name}: expected a buffer of {kind.nbytes} bytes, got {value['bytes']}")
    return kind


def _triple(values: Any) -> Any:
    x, y, z = values
    return x, y, z
