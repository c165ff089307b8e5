# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs for a Cortex-M4 compute the bits of the reference interpreter, in Unicorn."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.numerics.formats import canonical
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.compilation import microcontroller
from repro_mlir.frontends.torch.capture.inference import capture_inference
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.program import program_of, read_signature
from repro_mlir.reference.interpreter import import_array
from repro_mlir.reference.steps import StepInterpreter
from support import catalogue, kit
from support import inputs as values
from support.builder import Builder
from thumb import FLASH, Thumb, link, sections, symbols

EXAMPLE = Path(__file__).parents[2] / "examples" / "microcontroller" / "network.py"
EVERY = 1 if kit.EVERYTHING else 23
"""The catalogue has hundreds of programs; a prime step takes some of each kind."""


def outcome(case: catalogue.Case, folder: Path) -> kit.Outcome:
    """Returns the outcome of a program of the catalogue on the microcontroller."""
    known = kit.read(case.program)
    program = read_signature(to_bytes(case.program))
    library = microcontroller.compile(program, "case")
    kinds = known.body.argument_types
    arrays = [kit.public(array, kind) for array, kind in zip(case.inputs, kinds, strict=True)]
    for i, kind in enumerate(kinds[: known.num_state]):
        if kind.element.is_float:
            arrays[i] = kit.public(canonical(import_array(arrays[i], kind, "state"), kind.element), kind)
    thumb = Thumb(library, program, folder)
    thumb.write(0, arrays[: known.num_state])
    thumb.write(1, arrays[known.num_state :])
    if failed := thumb.step():
        assert all(map(np.array_equal, thumb.read(0), arrays[: known.num_state])), (
            "(E1) a failed step changed its state"
        )
        return StepFailed(library.plan.message(failed))
    results = [*thumb.read(0), *thumb.read(2)]
    return [kit.bits(value, kind) for value, kind in zip(results, known.result_types, strict=True)]


@pytest.mark.parametrize("case", catalogue.cases()[::EVERY], ids=lambda case: case.name)
def test_programs_of_the_catalogue(case: catalogue.Case, tmp_path: Path) -> None:
    kit.compare(kit.read(case.program), kit.reference(case.program, case.inputs), outcome(case, tmp_path), "thumb")


def _near(random: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Returns numbers whose bits differ from those of x in the lowest places, and in the exponent by at most 2."""
    steps = random.integers(-2, 3, x.size).astype(np.int64) * (1 << 52) + random.integers(-3, 4, x.size)
    return (x.view(np.int64) + steps).view(np.float64)


def test_arithmetic_of_f64(tmp_path: Path) -> None:
    """The processor has no instruction for f64. The operands are arbitrary bits, sums that cancel, products near the
    least numbers, and halfway cases."""
    random = np.random.default_rng(5)
    count = 1500
    bits = random.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    ordinary = random.standard_normal(count)
    small = ordinary * 2.0 ** random.integers(-1080, -960, count)
    whole = random.integers(-(1 << 53), 1 << 53, count).astype(np.float64) / 2.0 ** random.integers(0, 4, count)
    special = values.special("f64")
    with np.errstate(all="ignore"):
        x = np.concatenate([bits, ordinary, ordinary, small, whole, np.repeat(special, special.size)])
        y = np.concatenate(
            [
                bits[::-1],
                _near(random, -ordinary),
                ordinary[::-1],
                small[::-1] * 1e300,
                np.float64(1) / 3 * whole,
                np.tile(special, special.size),
            ]
        )
        z = np.concatenate(
            [
                _near(random, -bits * bits[::-1]),
                bits,
                _near(random, -ordinary * ordinary[::-1]),
                _near(random, small),
                -whole * whole,
                np.roll(np.tile(special, special.size), 3),
            ]
        )
    b = Builder()
    a, c, e = (b.argument(x.shape, "f64") for _ in range(3))
    bodies = [
        ("%r0 = arith.addf %x0, %x1 : f64", "f64"),
        ("%r0 = arith.subf %x0, %x1 : f64", "f64"),
        ("%r0 = arith.mulf %x0, %x1 : f64", "f64"),
        ("%r0 = arith.divf %x0, %x1 : f64", "f64"),
        ("%r0 = math.fma %x0, %x1, %x2 : f64", "f64"),
        ("%r0 = arith.truncf %x0 : f64 to f32", "f32"),
    ]
    results = [b.elementwise(body, a, c, e, element=element) for body, element in bodies]
    case = catalogue.Case("f64", b.program(*results), (x, y, z))
    kit.compare(kit.read(case.program), kit.reference(case.program, case.inputs), outcome(case, tmp_path), "thumb")


def test_elements_that_two_loop_indices_read(tmp_path: Path) -> None:
    """Vectors of other processors read such elements once. Here a vector has one lane."""
    b = Builder()
    x = b.argument((3, 5), "f32")
    result = b.generic((3, 9), [(x, "d0, d1 floordiv 2")], "%r0 = arith.addf %x0, %x0 : f32", "f32")[0]
    case = catalogue.Case("pairs", b.program(result), (np.arange(15, dtype=np.float32).reshape(3, 5),))
    kit.compare(kit.read(case.program), kit.reference(case.program, case.inputs), outcome(case, tmp_path), "thumb")


@pytest.fixture(scope="module")
def training() -> tuple[Program, list[list[np.ndarray]]]:
    return capture_steps(load_training(str(EXAMPLE)), 3)


@pytest.fixture(scope="module")
def library(training: tuple[Program, list[list[np.ndarray]]]) -> microcontroller.StepLibrary:
    return microcontroller.compile(training[0], "network")


def test_training_steps(training, library, tmp_path: Path) -> None:
    program, steps = training
    thumb = Thumb(library, program, tmp_path)
    thumb.write(0, program.initial)
    interpreter = StepInterpreter(program.data)
    state = [value.copy() for value in program.initial]
    outputs = [kind.empty() for kind in program.outputs]
    for arrays in steps:
        thumb.write(1, arrays)
        assert thumb.step() == 0
        interpreter.run(state, arrays, outputs)
        assert [x.tobytes() for x in thumb.read(0)] == [x.tobytes() for x in state]
        assert [x.tobytes() for x in thumb.read(2)] == [x.tobytes() for x in outputs]


def test_inference(tmp_path: Path) -> None:
    """Inference only reads its state, which stays in flash."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10), torch.nn.Softmax(-1))
    x = torch.randn(1, 64)
    program = program_of(capture_inference(model, x))
    library = microcontroller.compile(program, "net")
    assert "int net_step(const net_state *state, const net_inputs *inputs," in library.header
    thumb = Thumb(library, program, tmp_path, counts=True)
    outputs = [kind.empty() for kind in program.outputs]
    StepInterpreter(program.data).run(list(program.initial), [x.numpy()], outputs)
    thumb.write(1, [x.numpy()])
    assert thumb.step(initial=True) == 0
    assert [value.tobytes() for value in thumb.read(2)] == [value.tobytes() for value in outputs]
    # Many more instructions than docs/guides/microcontroller.md states would be a fault.
    assert 2368 < thumb.instructions < 100_000


def test_a_failed_check_leaves_the_state(training, library, tmp_path: Path) -> None:
    program, ((*others, classes), *_) = training
    thumb = Thumb(library, program, tmp_path)
    thumb.write(0, program.initial)
    thumb.write(1, [*others, classes + 10])
    failed = thumb.step()
    assert "index" in library.plan.message(failed)
    assert f" {failed}: {library.plan.message(failed)}\n" in library.header
    assert [x.tobytes() for x in thumb.read(0)] == [x.tobytes() for x in program.initial]
    thumb.write(1, [*others, classes])
    assert thumb.step() == 0


def test_objects_need_nothing(library, tmp_path: Path) -> None:
    """The object has no writable data, refers to no symbol, and defines two."""
    every = symbols(library.object)
    assert [name for name, _, _, section in every if name and section == 0] == []
    assert {name for name, _, binding, _ in every if binding} == {"network_step", "network_initial"}
    sizes = {name: len(data) for name, kind, _, data, _ in sections(library.object) if kind in (1, 8)}
    assert sizes[".data"] == 0 if ".data" in sizes else True
    assert ".bss" not in sizes
    # The linker's padding comes on top.
    flash = len(link(library, tmp_path)[0])
    assert library.code + library.constants <= flash <= library.code + library.constants + 64


def test_code_runs_at_every_address(library, tmp_path: Path) -> None:
    assert link(library, tmp_path)[0] == link(library, tmp_path, FLASH + 0x12340)[0]


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "_x", "x" * 65, "é"])
def test_names_that_c_refuses(training, name: str) -> None:
    with pytest.raises(ReproError, match="expected a name of 1 to 64 letters"):
        microcontroller.compile(training[0], name)


def test_names_of_members(training) -> None:
    kind = training[0].state[0]
    tensors = [dataclasses.replace(kind, name=name) for name in ("a.b", "a_b", "a/b", "0.x", "for", "", "a*/b")]
    assert microcontroller.member_names(tensors) == ["a_b", "a_b_2", "a_b_3", "_0_x", "for_", "tensor", "a_b_4"]
