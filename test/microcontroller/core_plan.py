# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads core plans, as docs/reference/core-plan.md defines them."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

STATE, INPUT, OUTPUT, ARENA, CONSTANT, LOCAL, REMOTE = range(7)
"""The memories of a place."""

Core = tuple[int, int]
_T = TypeVar("_T")


class Place(NamedTuple):
    memory: int
    index: int
    offset: int


class Copy(NamedTuple):
    source: Place
    target: Place
    element_bytes: int
    extents: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


class Wait(NamedTuple):
    transfer: int


class Run(NamedTuple):
    kernel: int
    offsets: tuple[int, ...]


class Send(NamedTuple):
    source: int
    bytes: int
    cores: tuple[Core, ...]
    target: int
    counter: int


class Release(NamedTuple):
    cores: tuple[Core, ...]
    counter: int


class Acquire(NamedTuple):
    counter: int
    count: int


class Check(NamedTuple):
    offset: int
    words: int


Operation = Copy | Wait | Run | Send | Release | Acquire | Check


@dataclass(frozen=True)
class Kernel:
    name: str
    items: int
    scratch: int
    code: int
    cycles: int
    has_checks: bool
    buffers: tuple[tuple[int, int], ...]
    """The bytes and the access (1 read, 2 write, 3 both) of each buffer."""


@dataclass(frozen=True)
class Program:
    core: Core
    bytes: int
    code: int
    scratch: tuple[int, int]
    error: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class CorePlan:
    machine: dict[str, Any]
    level: str
    states: tuple[tuple[str, str, tuple[int, ...]], ...]
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    arena: int
    constants: bytes
    messages: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    programs: tuple[Program, ...]
    objects: tuple[bytes, ...]

    def kernels_of(self, program: Program) -> set[int]:
        """Returns the numbers of the kernels that a core runs."""
        return {each.kernel for each in program.operations if isinstance(each, Run)}

    def same_mapping(self, other: CorePlan) -> bool:
        """Whether two plans differ at most in the level and the code of the kernels, with its work items and sizes."""
        plain = [
            dataclasses.replace(
                plan,
                level="",
                objects=(),
                kernels=tuple(dataclasses.replace(kernel, items=0, scratch=0, code=0) for kernel in plan.kernels),
                programs=tuple(dataclasses.replace(program, code=0) for program in plan.programs),
            )
            for plan in (self, other)
        ]
        return plain[0] == plain[1]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        self._at += size
        assert self._at <= len(self._data), "the plan is cut short"
        return self._data[self._at - size : self._at]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def text(self) -> str:
        return self.take(self.u32()).decode()

    def blob(self) -> bytes:
        return self.take(self.u64())

    def list(self, each: Callable[[], _T]) -> tuple[_T, ...]:
        return tuple(each() for _ in range(self.u32()))

    def numbers(self) -> tuple[int, ...]:
        count = self.u32()
        return struct.unpack(f"<{count}Q", self.take(8 * count))

    def core(self) -> Core:
        return self.u32(), self.u32()

    def place(self) -> Place:
        return Place(self.u32(), self.u32(), self.u64())

    def tensor(self) -> tuple[str, str, tuple[int, ...]]:
        return self.text(), self.text(), self.numbers()

    def kernel(self) -> Kernel:
        name = self.text()
        items, scratch, code, cycles = (self.u64() for _ in range(4))
        return Kernel(name, items, scratch, code, cycles, bool(self.u32()), self.list(lambda: (self.u64(), self.u32())))

    def operation(self) -> Operation:
        kind = self.u32()
        if kind == 0:
            source, target, size = self.place(), self.place(), self.u32()
            return Copy(source, target, size, self.numbers(), self.numbers(), self.numbers())
        if kind == 1:
            return Wait(self.u32())
        if kind == 2:
            return Run(self.u32(), self.numbers())
        if kind == 3:
            return Send(self.u64(), self.u64(), self.list(self.core), self.u64(), self.u32())
        if kind == 4:
            return Release(self.list(self.core), self.u32())
        if kind == 5:
            return Acquire(self.u32(), self.u32())
        assert kind == 6, f"an operation of kind {kind}"
        return Check(self.u64(), self.u64())

    def program(self) -> Program:
        core = self.core()
        size, code, offset, scratch, error = (self.u64() for _ in range(5))
        return Program(core, size, code, (offset, scratch), error, self.list(self.operation))

    def plan(self) -> CorePlan:
        assert self.take(12) == b"reprocore\0\0\0" and self.u32() == 1
        self.u64()
        plan = CorePlan(
            json.loads(self.text()),
            self.text(),
            self.list(self.tensor),
            self.list(self.tensor),
            self.list(self.tensor),
            self.u64(),
            self.blob(),
            self.list(self.text),
            self.list(self.kernel),
            self.list(self.program),
            self.list(self.blob),
        )
        assert self._at == len(self._data), "bytes after the end of the plan"
        return plan


def read(data: bytes) -> CorePlan:
    """Returns the plan of these bytes, which the compiler has checked."""
    return _Reader(data).plan()
