# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses artifacts; lib/Runtime/Artifact.h describes the format."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.runner.plan import Plan, read_plan

MACHINES = ("x86-64", "aarch64")
_MAGIC, _VERSION = b"reproart", 2
_HEADER_BYTES, _SECTION_BYTES, _ALIGNMENT = 40, 24, 64
_BODY_START = 32
_OBJECT, _PLAN, _CONSTANTS, _LEVEL = 1, 2, 3, 4


@dataclass(frozen=True)
class ArtifactContents:
    """The contents of an artifact."""

    machine: str
    level: str
    plan: Plan
    objects: tuple[bytes, ...]
    constants: bytes


def checksum(data: bytes) -> int:
    """Returns a checksum like FNV-1a, but over 64-bit words; each step also xors the upper half of the value into the
    lower half. Zeros pad the last word."""
    value, mask = 0xCBF29CE484222325, (1 << 64) - 1
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        value = (value ^ word) * 0x100000001B3 & mask
        value ^= value >> 32
    return value


def read_artifact(artifact: bytes) -> ArtifactContents:
    """Parses an artifact.

    Raises:
      ReproError: the bytes are not an artifact, or they are damaged.
    """
    if len(artifact) < _HEADER_BYTES or not artifact.startswith(_MAGIC):
        raise ReproError(f"not an artifact: expected 'reproart' at its start, got {artifact[:8]!r}")
    version, machine, size, expected, count, padding = struct.unpack_from("<IIQQII", artifact, len(_MAGIC))
    if version != _VERSION:
        raise ReproError(f"expected an artifact of format version {_VERSION}, got version {version}")
    if machine >= len(MACHINES):
        raise ReproError(f"expected an artifact for {' or '.join(MACHINES)}, got machine number {machine}")
    if size != len(artifact):
        raise ReproError(f"damaged artifact: expected {size} bytes, got {len(artifact)}")
    if (found := checksum(artifact[_BODY_START:])) != expected:
        raise ReproError(f"damaged artifact: expected checksum {expected}, got {found}")
    if padding or count > (len(artifact) - _HEADER_BYTES) // _SECTION_BYTES:
        raise ReproError("damaged artifact: its table of sections is incomplete")
    sections: dict[int, list[bytes]] = {kind: [] for kind in (_OBJECT, _PLAN, _CONSTANTS, _LEVEL)}
    for i in range(count):
        kind, padding, offset, length = struct.unpack_from("<IIQQ", artifact, _HEADER_BYTES + _SECTION_BYTES * i)
        if padding or kind not in sections or offset % _ALIGNMENT or offset + length > len(artifact):
            raise ReproError(f"damaged artifact: section {i} is of unknown kind, misaligned or beyond the end")
        sections[kind].append(artifact[offset : offset + length])
    if not sections[_OBJECT] or any(len(sections[kind]) != 1 for kind in (_PLAN, _CONSTANTS, _LEVEL)):
        raise ReproError("damaged artifact: expected object code, and one plan, one section of constants and one level")
    ((plan_bytes,), (constants,), (level,)) = (sections[kind] for kind in (_PLAN, _CONSTANTS, _LEVEL))
    plan = read_plan(plan_bytes, "cpu", "artifact")
    if plan.constant_size != len(constants):
        raise ReproError(f"damaged artifact: expected constants of {plan.constant_size} bytes, got {len(constants)}")
    return ArtifactContents(
        MACHINES[machine], level.decode(errors="replace"), plan, tuple(sections[_OBJECT]), constants
    )
