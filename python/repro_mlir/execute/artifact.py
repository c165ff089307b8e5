# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Takes artifacts apart; the format is described in lib/Runtime/Artifact.h."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from .buffers import Tensor

MACHINES = ("x86-64", "aarch64")
_HEADER_BYTES, _SECTION_BYTES = 40, 24
_OBJECT, _PLAN, _CONSTANTS = 1, 2, 3


class Space(IntEnum):
    """What a buffer of a launch is part of."""

    STATE = 0
    INPUT = 1
    OUTPUT = 2
    ARENA = 3
    CONSTANT = 4


@dataclass
class Launch:
    """One call of a kernel: its number, and (space, index, byte offset) of each buffer."""

    kernel: int
    check: bool
    buffers: list[tuple[Space, int, int]]


@dataclass
class Contents:
    """Everything that an artifact holds."""

    machine: str
    level: str = ""
    objects: list[bytes] = field(default_factory=list)
    constants: bytes = b""
    arena_bytes: int = 0
    scratch_bytes: int = 0
    states: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    kernels: list[tuple[str, int, int]] = field(default_factory=list)  # name, work items, grain
    messages: list[str] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)


class _Stream:
    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    def u32(self) -> int:
        return self._number("<I", 4)

    def u64(self) -> int:
        return self._number("<Q", 8)

    def string(self) -> str:
        length = self.u32()
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _number(self, code: str, size: int) -> int:
        self._at += size
        return struct.unpack_from(code, self._data, self._at - size)[0]


def read_artifact(artifact: bytes) -> Contents:
    """Takes an artifact apart.

    Raises:
        ValueError: it is none, or it is cut short.
    """
    if len(artifact) < _HEADER_BYTES or artifact[:8] != b"reproart":
        raise ValueError(f"not an artifact: expected 'reproart' at its start, got {artifact[:8]!r}")
    version, machine, size, _, sections, _ = struct.unpack_from("<IIQQII", artifact, 8)
    if version != 1:
        raise ValueError(f"artifact of format version {version}, expected 1")
    if size != len(artifact) or machine >= len(MACHINES):
        raise ValueError(f"damaged artifact: expected {size} bytes, got {len(artifact)}")
    try:
        return _read_sections(artifact, Contents(MACHINES[machine]), sections)
    except struct.error as error:
        raise ValueError(f"damaged artifact: {error}") from None


def _read_sections(artifact: bytes, contents: Contents, sections: int) -> Contents:
    for i in range(sections):
        kind, _, offset, length = struct.unpack_from("<IIQQ", artifact, _HEADER_BYTES + _SECTION_BYTES * i)
        data = artifact[offset : offset + length]
        if kind == _OBJECT:
            contents.objects.append(data)
        elif kind == _CONSTANTS:
            contents.constants = data
        elif kind == _PLAN:
            _read_plan(_Stream(data), contents)
    return contents


def _read_plan(stream: _Stream, contents: Contents) -> None:
    contents.level = stream.string()
    contents.arena_bytes = stream.u64()
    contents.scratch_bytes = stream.u64()
    groups = (("state", contents.states), ("input", contents.inputs), ("output", contents.outputs))
    counts = [stream.u32() for _ in groups]
    for (role, tensors), count in zip(groups, counts, strict=True):
        for index in range(count):
            name, element = stream.string(), stream.string()
            stream.u64()
            shape = tuple(stream.u64() for _ in range(stream.u32()))
            tensors.append(Tensor(role, index, name, element, shape))
    contents.kernels = [(stream.string(), stream.u64(), stream.u64()) for _ in range(stream.u32())]
    contents.messages = [stream.string() for _ in range(stream.u32())]
    for _ in range(stream.u32()):
        kernel, flags = stream.u32(), stream.u32()
        buffers = [(Space(stream.u32()), stream.u32(), stream.u64()) for _ in range(stream.u32())]
        contents.launches.append(Launch(kernel, bool(flags & 1), buffers))
