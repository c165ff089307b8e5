# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs device code on the PTX emulator and compares the bits of the results with those of the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.formats import canonical, to_bits
from repro_mlir.compilation import gpu as device_code
from repro_mlir.execute.ptx import Emulation
from repro_mlir.reference.interpreter import import_array
from repro_mlir.reference.program import ParsedProgram
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.plan import read_plan

from support import kit


def emulation(code: device_code.DeviceCode) -> Emulation:
    """Returns an emulation of device code whose buffers, except constants, are filled with 0xa5, so that reading a
    buffer before it is written changes results."""
    plan = read_plan(code.plan, "gpu", code.arch)
    made = Emulation(TargetCode(code.arch, None, code.ptx.encode(), plan, code.constants))
    for (space, _), array in made.buffers.items():
        if space != "constant":
            array[:] = 0xA5
    return made


def run(program: str, inputs: Sequence[np.ndarray], arch: str, **options: object) -> kit.Outcome:
    """Runs a program's device code on the emulator. Returns the new states and the outputs as bits, or the step's
    failure (E1)."""
    return run_code(device_code.compile(program, arch), kit.read(program), inputs, **options)


def run_code(
    code: device_code.DeviceCode, known: ParsedProgram, inputs: Sequence[np.ndarray], **options: object
) -> kit.Outcome:
    """Like `run`, for a program that has been compiled and parsed before."""
    made = emulation(code)
    states = [("state", i) for i in range(known.num_state)]
    given = states + [("input", i) for i in range(len(inputs) - known.num_state)]
    for key, array, kind in zip(given, inputs, known.body.argument_types, strict=True):
        value = import_array(array, kind, "argument")
        if key[0] == "state":
            value = canonical(value, kind.element)
        bits = np.ascontiguousarray(to_bits(value, kind.element))
        made.buffers[key][: bits.nbytes] = bits.reshape(-1).view(np.uint8)
    before = {key: made.buffers[key].copy() for key in given}
    try:
        made.run(**options)
    except StepFailed as error:
        for key, old in before.items():
            assert np.array_equal(old, made.buffers[key]), "(E1) a failed step changed its state"
        return error
    for key in given[known.num_state :]:
        assert np.array_equal(before[key], made.buffers[key]), "a step changed its input"
    rooms = [made.buffers[key] for key in states]
    rooms += [made.buffers["output", i] for i in range(len(known.result_types) - known.num_state)]
    results = []
    for room, kind in zip(rooms, known.result_types, strict=True):
        shape, width = tuple(kind.shape or ()), kind.element.bits_dtype.itemsize
        bits = room[: int(np.prod(shape)) * width].view(f"u{width}")
        results.append(bits.reshape(shape))
    return results


def check(
    program: str, inputs: Sequence[np.ndarray], arch: str, want: kit.Outcome | None = None, **options: object
) -> None:
    """Raises kit.Mismatch if device code returns other bits than the reference interpreter. `want` is the interpreter's
    outcome, if it is already known."""
    want = kit.reference(program, inputs) if want is None else want
    kit.compare(kit.read(program), want, run(program, inputs, arch, **options), arch)
