# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts and stored programs of a run whose state contains a block-scaled tensor: verifying, disputing and comparing
them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import Receipt, ReceiptOptions, compile
from repro_mlir.base.numerics.tensors import check_canonical
from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import to_bytes
from repro_mlir.verification.difference.sides import TargetSide, find_difference
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.verification.operators import OperatorGraph, Tracer
from repro_mlir.verification.receipts.recorder import Recorder
from repro_mlir.verification.receipts.verification import verify
from support.block_programs import Form, dequantized, packed, quantized, unpacked
from support.builder import Builder
from support.dispute_runs import faulty_tracer

STEPS, WRONG = 6, 4
SHAPE = (4, 32)


def step_program(element: str = "f4E2M1FN", is_packed: bool = False) -> Program:
    """Returns a step of gradient descent on block-scaled weights with stochastic rounding. Its output is the
    dequantized weights.

    With `is_packed`, two codes share a byte (Q7).
    """
    form = Form(element, 1, 16, "power_scale<rule = rceil>", "direction = sr, bits = 8")
    b = Builder()
    held = b.argument((4, 16), "i8") if is_packed else b.argument(SHAPE, element)
    scales = b.argument(form.scale_shape(SHAPE), "f8E8M0FNU")
    number, gradient = b.argument((), "i64"), b.argument(SHAPE, "f32")
    values = dequantized(b, form, unpacked(b, held, SHAPE[-1]) if is_packed else held, scales)
    moved = b.elementwise("%r0 = arith.subf %x0, %x1 : f32", values, gradient, element="f32")
    n = b.extract(number)
    one = b.constant("1", None, "i64")
    following = b.op(f"arith.addi {n.name}, {one.name} : i64", None, "i64")
    result = b.from_elements((), following)
    new_codes, new_scales = quantized(b, form, moved, key=(3, one, n))
    new_held = packed(b, new_codes) if is_packed else new_codes
    read = read_signature(to_bytes(b.program(new_held, new_scales, result, moved, states=3)))
    kinds = [
        dataclasses.replace(kind, name=name)
        for kind, name in zip(read.state, ("codes", "scales", "number"), strict=True)
    ]
    mask = (1 << int(element[1])) - 1
    codes = np.arange(64, dtype=np.int8).reshape(4, 16) if is_packed else (np.arange(128) & mask).astype(np.uint8)
    initial = (
        codes.reshape(held.shape or ()), np.full(form.scale_shape(SHAPE), 127, np.uint8),
        np.array(0),
    )  # fmt: skip
    return dataclasses.replace(read, state=tuple(kinds), initial=initial)


def gradients() -> list[list[np.ndarray]]:
    random = np.random.default_rng(1)
    return [[random.standard_normal(SHAPE, np.float32)] for _ in range(STEPS)]


@pytest.fixture(scope="module", params=["bytes", "packed"])
def program(request: pytest.FixtureRequest) -> Program:
    return step_program(is_packed=request.param == "packed")


@pytest.fixture(scope="module")
def receipt(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.receipt"
    executable = compile(program, "reference")
    recorder = Recorder(ReceiptOptions(path, checkpoint_every=2), program, "reference", 1)
    for given in gradients():
        inputs = recorder.take(program, given)
        _, outputs = executable(recorder.state, *inputs)
        recorder.commit(inputs, list(outputs.values()))
    recorder.seal()
    recorder.close()
    return path


def test_verified(receipt: Path, program: Program) -> None:
    found = verify(receipt, target="reference")
    assert found.steps == STEPS and found.sealed
    verify(receipt, "5", "reference")
    assert Receipt(receipt).program.state == program.state
    assert [kind.element for kind in program.state][1:] == ["f8E8M0FNU", "i64"]


def run(program: Program, graph: OperatorGraph, wrong: Tracer | None = None) -> RecordedRun:
    right = Tracer(graph)

    def tracer(now: int) -> Tracer:
        return wrong if wrong is not None and now == WRONG else right

    return RecordedRun(
        program, gradients(), lambda now, arrays: tracer(now).results(arrays), graph=graph, tracer=tracer
    )


@pytest.mark.parametrize(("name", "bit"), [("repro.quantize", 2), ("repro.dequantize", 30)])
def test_disputed(program: Program, name: str, bit: int) -> None:
    """A dispute finds the wrong operator, which the referee recomputes alone."""
    dispute(program, name, bit)


@pytest.mark.parametrize("name", ["repro.pack_codes", "repro.unpack_codes"])
def test_Q7_disputed(name: str) -> None:
    dispute(step_program(is_packed=True), name, 2)


def dispute(program: Program, name: str, bit: int) -> None:
    graph = OperatorGraph(program)
    operator = next(each for each in graph.operators if each.name == name)
    cheat = faulty_tracer(graph, operator.index, bit)
    runs = run(program, graph), run(program, graph, cheat)
    verdict = settle(*(LocalChannel(Prover(each)) for each in runs))
    assert (verdict.wrong, verdict.step) == (("B",), WRONG)
    assert verdict.operator is not None and verdict.operator.index == operator.index


def test_compared(program: Program) -> None:
    graph = OperatorGraph(program)
    operator = next(each for each in graph.operators if each.name == "repro.quantize")

    class Faulty(TargetSide):
        """Runs each step with one flipped bit in a code."""

        def results(self, arrays):
            return faulty_tracer(graph, operator.index, 8).results(arrays)

        def values(self, arrays):
            yield from faulty_tracer(graph, operator.index, 8).run(arrays)

    taken = iter(gradients())
    right = TargetSide(graph, "reference")
    assert find_difference(graph, (right, TargetSide(graph, "reference")), lambda: next(taken), 3) is None
    taken = iter(gradients())
    found = find_difference(graph, (right, Faulty(graph, "reference")), lambda: next(taken), 3)
    assert found is not None and found.step == 1 and found.operators[0].operator == operator
    assert found.operators[0].tensor.element.count == 1 and found.operators[0].tensor.element.ulps == 1


@pytest.mark.parametrize("element", ["f4E2M1FN", "f6E3M2FN", "f6E2M3FN", "f8E4M3FN"])
def test_program_files(element: str, tmp_path: Path) -> None:
    """A file packs several codes into a byte. Reading it gives one byte per code."""
    program = step_program(element)
    program.save(tmp_path / "step.repro")
    read = Program.load(tmp_path / "step.repro")
    assert read.hash == program.hash and read.state == program.state
    for a, b, kind in zip(read.initial, program.initial, program.state, strict=True):
        assert (a == b).all()
        check_canonical(a, kind, "file")
    state, outputs = compile(read, "reference")(read.initial_state(), *gradients()[0])
    again, same = compile(program, "reference")(program.initial_state(), *gradients()[0])
    assert all((state[name] == again[name]).all() for name in state)
    # Compares bytes, because NaN, which is among the values, does not equal itself.
    assert all(outputs[name].tobytes() == same[name].tobytes() for name in outputs)
    for kind in program.state:
        check_canonical(state[kind.name], kind, "state")


def test_V4_states_with_other_bits_above_the_code() -> None:
    """(V4) The unused high bits of a code in an array of the user are cleared before a step."""
    program = step_program()
    state = program.initial_state()
    state["codes"] |= 0x30
    found, _ = compile(program, "reference")(state, *gradients()[0])
    wanted, _ = compile(program, "reference")(program.initial_state(), *gradients()[0])
    assert (found["codes"] == wanted["codes"]).all() and found["codes"].max() < 16
