# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Core plans with Thumb kernels compute the bits of the simulator, in Unicorn."""

import dataclasses
from pathlib import Path

import core_plan
import numpy as np
import pytest
from core_plan import Acquire, Check, Copy, Release, Run, Send
from repro_mlir.base.errors import CompileError, StepFailed
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.compilation import cores
from repro_mlir.compilation.cores import read_machine
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.cores import CoresBackend
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.steps import StepInterpreter
from support import catalogue, kit
from support.builder import Builder
from support.cores import machine
from support.predicted import product
from thumb_cores import CheckFailed, ThumbMachine

ROOT = Path(__file__).parents[2]
LEVEL = "thumbv7em"


def compare(
    program: bytes, folder: Path, states: list[np.ndarray], inputs: list[np.ndarray], seed: int = 1
) -> ThumbMachine:
    """Runs a step of one mapping onto four cores, as host code in the simulator and as Thumb code, and compares events
    and bits."""
    four = read_machine(machine(folder, core={"data_bytes": 262144, "code_bytes": 131072}))
    host, thumb = (cores.compile(program, four, level) for level in (native_level(), LEVEL))
    assert core_plan.read(host).same_mapping(core_plan.read(thumb))
    simulated = CoresBackend(host)
    simulated.timeline = True
    expected = [kind.empty() for kind in simulated.outputs]
    after = [np.array(state, order="C") for state in states]
    message = ""
    try:
        simulated.run(after, inputs, expected)
    except StepFailed as error:
        message = str(error)
    found = ThumbMachine(thumb, folder / "made", counts=True)
    found.states = [np.array(state, order="C") for state in states]
    found.outputs = [kind.empty() for kind in simulated.outputs]
    try:
        found.step([np.ascontiguousarray(value) for value in inputs], seed)
    except CheckFailed as error:
        assert message == str(error)
        assert [value.tobytes() for value in found.states] == [value.tobytes() for value in states], "(E1)"
        return found
    assert not message
    assert [value.tobytes() for value in found.states] == [value.tobytes() for value in after]
    assert [value.tobytes() for value in found.outputs] == [value.tobytes() for value in expected]
    compare_events(found, simulated.report["timeline"])
    return found


def compare_events(found: ThumbMachine, timeline: list[dict]) -> None:
    """Each core executes the same operations in the same order, and makes the same transfers."""
    for number, program in enumerate(found.plan.programs):
        kinds = [type(operation) for operation in program.operations]
        executed = found.runs[program.core]
        intervals = [each for each in timeline if each["core"] == number]
        ordered = [each["op"] for each in intervals if each["kind"] in ("run", "synchronize")]
        assert [i for i in executed if kinds[i] in (Run, Release, Acquire, Check)] == ordered
        transfers = sorted(each["op"] for each in intervals if each["kind"] == "transfer")
        assert [i for i in executed if kinds[i] in (Copy, Send)] == transfers


def training(path: str, batch: int) -> tuple[Program, list[list[np.ndarray]]]:
    """Returns the step of an example with a batch of another size, and the inputs of one step."""
    found = load_training(str(ROOT / "examples" / path))
    batches = (tuple(tensor[:batch] for tensor in tensors) for tensors in found.batches)
    return capture_steps(dataclasses.replace(found, batches=batches), 1)


def test_a_training_step(tmp_path: Path) -> None:
    """A step of digits_cnn on four cores. Without REPRO_TESTS=all, the batch is small."""
    program, (inputs,) = training("digits_cnn.py", 64 if kit.EVERYTHING else 2)
    states = [value.copy() for value in program.initial]
    found = compare(program.data, tmp_path, states, inputs)
    outputs = [kind.empty() for kind in program.outputs]
    StepInterpreter(program.data).run(states, inputs, outputs)
    assert [value.tobytes() for value in (*found.states, *found.outputs)] == [
        value.tobytes() for value in (*states, *outputs)
    ]


def folds() -> list[catalogue.Case]:
    """Returns the folds of the catalogue; without REPRO_TESTS=all, some of each kind."""
    made = (
        catalogue.contractions,
        catalogue.convolutions,
        catalogue.exact_contractions,
        catalogue.reductions,
        catalogue.any_order_folds,
        catalogue.sequential_folds,
    )
    return [case for cases in made for case in list(cases())[slice(None) if kit.EVERYTHING else slice(2, None, 61)]]


@pytest.mark.parametrize("case", folds(), ids=lambda case: case.name)
def test_folds_of_the_catalogue(case: catalogue.Case, tmp_path: Path) -> None:
    known = kit.read(case.program)
    assert known.num_state == 0
    arrays = [kit.public(array, kind) for array, kind in zip(case.inputs, known.body.argument_types, strict=True)]
    found = compare(to_bytes(case.program), tmp_path, [], arrays, seed=2)
    results = [kit.bits(value, kind) for value, kind in zip(found.outputs, known.result_types, strict=True)]
    kit.compare(known, kit.reference(case.program, case.inputs), results, "thumb cores")


def test_multicasts(tmp_path: Path) -> None:
    """A product of matrices whose cores send elements to each other."""
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    found = compare(to_bytes(product(16)), tmp_path, [], [x, -x])
    assert any(isinstance(operation, Send) for each in found.plan.programs for operation in each.operations)


def test_code_that_does_not_fit(tmp_path: Path) -> None:
    """The size of the code is that of Thumb, and the message names the largest kernels."""
    b = Builder()
    x = b.argument((8,), "f32")
    bodies = [f"%r0 = repro.{name} %x0 : f32" for name in ("exp", "sin", "log")]
    data = to_bytes(b.program(*(b.elementwise(body, x, element="f32") for body in bodies)))

    def compile(code_bytes: int) -> bytes:
        return cores.compile(data, read_machine(machine(tmp_path, core={"code_bytes": code_bytes})), LEVEL)

    needed = max(program.code for program in core_plan.read(compile(65536)).programs)
    assert needed > 1024
    compile(needed)
    message = rf"expected code that fits into the {needed - 1} code bytes .* need {needed} bytes for {LEVEL}, and the "
    with pytest.raises(CompileError, match=rf"{message}largest are 'tile_\d+' with \d+"):
        compile(needed - 1)
