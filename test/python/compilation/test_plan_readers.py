# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The C++ library and the Python package, which each have a reader of launch plans and artifacts, accept the same files
and refuse the same damaged files."""

import random
import struct

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.compilation import cpu
from repro_mlir.compilation import gpu as device_code
from repro_mlir.execute.artifact import checksum, read_artifact
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.runner.plan import read_plan, write_plan
from support import kit, random_programs

NUMBERS = (0, 1, 2, 4, 5, 64, 0xFF, 0xFFFF, 1 << 31, 0xFFFFFFFF)


def mended(artifact: bytes) -> bytes:
    """Returns a changed artifact with the size and the checksum in its head corrected."""
    head, body = artifact[:16], artifact[32:]
    return head + struct.pack("<QQ", len(artifact), checksum(body)) + body


def with_plan(artifact: bytes, plan: bytes) -> bytes:
    """Returns the artifact with its launch plan replaced by `plan`, which must have the same size."""
    at = artifact.index(b"reproplan\0")
    return mended(artifact[:at] + plan + artifact[at + len(plan) :])


def refusals(artifact: bytes) -> tuple[str, str]:
    """Reads an artifact with the C++ executor and with Python. Returns the error message of each, or "" if it accepts
    the artifact."""
    said = []
    for read, error in ((CpuBackend, ValueError), (read_artifact, ReproError)):
        try:
            read(artifact)
        except error as refusal:
            said.append(str(refusal))
        else:
            said.append("")
    return said[0], said[1]


@pytest.mark.parametrize("number", range(8))
def test_the_compiler_and_python_write_the_same_bytes(number: int) -> None:
    program = random_programs.program(number).program
    for level in kit.levels():
        artifact = cpu.compile(program, level)
        contents = read_artifact(artifact)
        assert contents.level == level and write_plan(contents.plan) in artifact
    for architecture in ("sm_75", "sm_90"):
        plan = device_code.compile(program, architecture).plan
        assert write_plan(read_plan(plan, "gpu", "plan")) == plan


def test_both_refuse_the_same_plans() -> None:
    artifact = cpu.compile(random_programs.program(0).program, "x86-64-v2")
    plan = write_plan(read_artifact(artifact).plan)
    draw, outcomes = random.Random(1), set()
    for _ in range(400):
        changed = bytearray(plan)
        at = draw.randrange(len(plan) - 3)
        changed[at : at + 4] = struct.pack("<I", draw.choice(NUMBERS))
        by_executor, by_python = refusals(with_plan(artifact, bytes(changed)))
        # Names with unprintable characters are an exception: only Python refuses them.
        if "expected a tensor's name" not in by_python:
            assert bool(by_executor) == bool(by_python), (at, by_executor, by_python)
            outcomes.add(bool(by_executor))
    assert outcomes == {True, False}


SECTIONS, TABLE, SECTION = 32, 40, 24


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (SECTIONS, 0),
        (SECTIONS, 0xFFFFFFFF),
        (SECTIONS + 4, 1),
        (TABLE, 0),
        (TABLE, 5),
        (TABLE, 2),  # the section of object code becomes a second plan
        (TABLE + 4, 1),
        (TABLE + 8, 65),
        (TABLE + 8, 0xFFFFFFC0),
        (TABLE + 16, 0xFFFFFFFF),
    ],
)
def test_both_refuse_the_same_tables_of_sections(at: int, value: int) -> None:
    artifact = bytearray(cpu.compile(random_programs.program(0).program, "x86-64-v2"))
    artifact[at : at + 4] = struct.pack("<I", value)
    assert all("damaged artifact" in said for said in refusals(mended(bytes(artifact))))


@pytest.mark.parametrize("at", [0, 8, 12, 16, 24, 100])
def test_both_refuse_the_same_heads(at: int) -> None:
    artifact = bytearray(cpu.compile(random_programs.program(0).program, "x86-64-v2"))
    artifact[at] ^= 0x41
    assert all("artifact" in said for said in refusals(bytes(artifact)))
    assert all("artifact" in said for said in refusals(bytes(artifact[: at + 1])))
