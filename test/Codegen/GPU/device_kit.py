# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs device code on the PTX emulator and compares every bit with the reference interpreter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from repro_mlir import emulator
from repro_mlir.reference.errors import StepError
from repro_mlir.reference.formats import canonical, to_bits
from repro_mlir.reference.interpreter import import_array
from repro_mlir.reference.program import read_program
from repro_mlir.runtime import device_code

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "differential"))
import kit


def _device_bytes(count: int) -> np.ndarray:
    """`count` bytes of 0xa5, 256-byte aligned, of at least one byte."""
    room = np.full(max(count, 1) + 256, 0xA5, np.uint8)
    skip = -room.ctypes.data % 256
    return room[skip : skip + max(count, 1)]


def launch(code: device_code.DeviceCode, tensors: dict[str, list[np.ndarray]], **options: object) -> int:
    """Runs all launches of a step on the bytes of its tensors; returns the error word (E1)."""
    module = emulator.load(code.ptx)
    spaces = {
        **tensors,
        "arena": [_device_bytes(code.plan["arena_bytes"])],
        "constant": [_device_bytes(len(code.constants))],
    }
    spaces["constant"][0][: len(code.constants)] = np.frombuffer(code.constants, np.uint8)
    word = np.zeros(1, np.int64)
    memory = emulator.Memory()
    error = memory.add(word, "error word")
    bases = {
        (space, i): memory.add(array, f"{space} {i}")
        for space, arrays in spaces.items()
        for i, array in enumerate(arrays)
    }
    for one in code.plan["launches"]:
        kernel = code.plan["kernels"][one["kernel"]]
        pointers = [bases[space, i] + offset for space, i, offset in one["args"]] + [error]
        module.launch(
            kernel["name"],
            one["grid"],
            kernel["block"],
            kernel["shared"],
            np.array(pointers, np.uint64).tobytes(),
            memory,
            **options,  # type: ignore[arg-type]
        )
    return int(word[0])


def run(program: str, inputs: Sequence[np.ndarray], arch: str, **options: object) -> kit.Outcome:
    """What the device code of a program gives: new states and outputs as bits, or the failure of the step."""
    known = read_program(program)
    code = device_code.compile(program, arch)
    kinds = known.body.argument_types
    tensors: dict[str, list[np.ndarray]] = {"state": [], "input": [], "output": []}
    for i, (array, kind) in enumerate(zip(inputs, kinds, strict=True)):
        value = import_array(array, kind, "argument")
        if i < known.num_state:
            value = canonical(value, kind.element)
        bits = np.ascontiguousarray(to_bits(value, kind.element))
        room = _device_bytes(bits.nbytes)
        room[: bits.nbytes] = bits.reshape(-1).view(np.uint8)
        tensors["state" if i < known.num_state else "input"].append(room)
    for one in code.plan["outputs"]:
        tensors["output"].append(_device_bytes(one["bytes"]))
    before = [array.copy() for array in tensors["state"] + tensors["input"]]
    word = launch(code, tensors, **options)
    if word:
        for old, new in zip(before, tensors["state"] + tensors["input"], strict=True):
            assert np.array_equal(old, new), "(E1) a failed step changed its state"
        return StepError(code.plan["messages"][word - 1])
    for old, new in zip(before[known.num_state :], tensors["input"], strict=True):
        assert np.array_equal(old, new), "a step changed its input"
    results = []
    for room, kind in zip(tensors["state"] + tensors["output"], known.result_types, strict=True):
        shape, width = tuple(kind.shape or ()), max(kind.element.width // 8, 1)
        bits = room[: int(np.prod(shape)) * width].view(f"u{width}")
        results.append(bits.reshape(shape))
    return results


def check(program: str, inputs: Sequence[np.ndarray], arch: str, **options: object) -> None:
    """kit.Mismatch unless the device code gives the interpreter's bits."""
    kit.compare(read_program(program), kit.reference(program, inputs), run(program, inputs, arch, **options), arch)
