# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The launch plan of device code: which kernels run on which buffers, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ReproError
from ...numerics.tensors import TensorType
from ...printing import foreign

SPACES = ("state", "input", "output", "arena", "constant")
"""What a buffer of a launch is part of."""


@dataclass(frozen=True)
class Buffer:
    """A state, input or output in device memory."""

    kind: TensorType
    size: int  # bytes


@dataclass(frozen=True)
class Kernel:
    """An entry point of the code and how its threads are laid out."""

    name: str
    block: tuple[int, int, int]
    shared: int  # bytes of dynamic shared memory


@dataclass(frozen=True)
class Launch:
    """One launch: kernel number, grid, and (space, number in the space, byte offset) of each buffer argument."""

    kernel: int
    grid: tuple[int, int, int]
    arguments: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Plan:
    """All launches of a step, in order.

    A kernel takes the addresses of its buffers and, last, that of the error word: an i64 that is zero before the step
    and becomes the number of a message + 1 where a check fails (E1).
    """

    arena_size: int
    constant_size: int
    states: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    messages: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]

    def buffers(self, space: str) -> tuple[Buffer, ...]:
        """The buffers of "state", "input" or "output"."""
        return {"state": self.states, "input": self.inputs, "output": self.outputs}[space]


def read_plan(plan: Any, constant_size: int, where: str) -> Plan:
    """The plan from its JSON form (docs/bundle.md).

    Args:
      plan: the parsed JSON.
      constant_size: bytes of the constants beside the plan.
      where: names the plan in messages.
    Raises:
      ReproError: a part is missing, of another type, or names a kernel or a byte that does not exist.
    """
    try:
        states, inputs, outputs = (
            tuple(
                Buffer(TensorType(t["name"], t["element"], tuple(map(_whole, t["shape"]))), _whole(t["bytes"]))
                for t in plan[key]
            )
            for key in ("states", "inputs", "outputs")
        )
        kernels = tuple(Kernel(str(k["name"]), _triple(k["block"]), _whole(k["shared"])) for k in plan["kernels"])
        launches = tuple(
            Launch(
                _whole(launch["kernel"]),
                _triple(launch["grid"]),
                tuple((str(space), _whole(index), _whole(offset)) for space, index, offset in launch["args"]),
            )
            for launch in plan["launches"]
        )
        messages = tuple(map(str, plan["messages"]))
        result = Plan(_whole(plan["arena_bytes"]), constant_size, states, inputs, outputs, messages, kernels, launches)
    except (KeyError, TypeError, ValueError) as error:
        raise ReproError(f"{where}: the launch plan is damaged ({type(error).__name__}: {error})") from None
    _check(result, where)
    return result


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"expected a whole number from 0 to 2^63 - 1, got {foreign(repr(value))}")
    return value


def _triple(values: Sequence[Any]) -> tuple[int, int, int]:
    x, y, z = map(_whole, values)
    if min(x, y, z) < 1:
        raise ValueError(f"expected three numbers of at least 1, got {list(values)}")
    return x, y, z


def _check(plan: Plan, where: str) -> None:
    sizes = {
        "state": [buffer.size for buffer in plan.states],
        "input": [buffer.size for buffer in plan.inputs],
        "output": [buffer.size for buffer in plan.outputs],
        "arena": [plan.arena_size],
        "constant": [plan.constant_size],
    }
    for number, launch in enumerate(plan.launches):
        if not 0 <= launch.kernel < len(plan.kernels):
            raise ReproError(f"{where}: launch {number} is of kernel {launch.kernel}, of {len(plan.kernels)}")
        for space, index, offset in launch.arguments:
            if space not in sizes or not 0 <= index < len(sizes[space]) or not 0 <= offset <= sizes[space][index]:
                raise ReproError(
                    f"{where}: launch {number} reads at {space} {index}, byte {offset}, which does not exist"
                )
