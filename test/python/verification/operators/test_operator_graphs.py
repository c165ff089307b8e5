# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operator graph of a program, and programs extracted from it that contain only some of its operators."""

from __future__ import annotations

import blake3
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from repro_mlir import ir, passmanager
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.numerics.formats import element_type, to_bits
from repro_mlir.compilation import cpu
from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.verification.executors import compile_step
from repro_mlir.verification.operators import OperatorGraph, Tracer
from repro_mlir.verification.operators.commitments import commit_operators
from repro_mlir.verification.operators.extraction import extract
from repro_mlir.verification.operators.tracing import value_hash
from support import catalogue, random_programs
from support.every_operator import every_operator, inputs


def verify(program: Program) -> None:
    with ir.Context():
        passmanager.PassManager.parse("builtin.module(repro-verify-canonical)").run(
            ir.Module.parse(program.text).operation
        )


def arguments(program: Program, given: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Converts the inputs of a catalogue case to the arrays that the package's API takes."""
    arrays = []
    for array, kind in zip(given, (*program.state, *program.inputs), strict=True):
        array = np.asarray(array)
        if array.dtype != kind.dtype and element_type(kind.element).is_storage:
            array = to_bits(array.astype(np.float32), element_type(kind.element)).view(kind.dtype)
        arrays.append(array.astype(kind.dtype, copy=False))
    return arrays


@pytest.fixture(scope="module")
def graph() -> OperatorGraph:
    program = every_operator()
    verify(program)
    return OperatorGraph(program)


@pytest.fixture(scope="module")
def arrays(graph: OperatorGraph) -> list[np.ndarray]:
    return [*graph.program.initial, *inputs(1)[0]]


def test_operators_name_their_operands(graph: OperatorGraph) -> None:
    assert [operator.index for operator in graph.operators] == list(range(len(graph.operators)))
    gather = next(o for o in graph.operators if any(v.name == "rows" or v.position == 6 for v in o.inputs))
    # A tensor that the body of `gather` reads is an input of the operator, too; constants in the body are not.
    assert {(v.producer, v.position) for v in gather.inputs} >= {(None, 0), (None, 6)}
    for operator in graph.operators:
        assert not any(value.inline for value in operator.inputs)
        assert all(value.producer is None or value.producer < operator.index for value in operator.operands)
    by_name = {operator.name: operator for operator in graph.operators}
    assert by_name["tensor.empty"].outputs == () and by_name["arith.constant"].outputs != ()
    assert by_name["cf.assert"].outputs == () and len(by_name["cf.assert"].inputs) == 1
    assert by_name["repro.sort"].line is not None


@pytest.mark.parametrize("target", ["cpu:x86-64-v2", "cpu"])
def test_every_value_on_a_compiled_target(graph: OperatorGraph, arrays: list[np.ndarray], target: str) -> None:
    if target.removeprefix("cpu:") not in ("cpu", *cpu.runnable_levels()):
        pytest.skip(f"this machine does not run {target}")
    reference = {o.index: values for o, values in Tracer(graph).run(arrays)}
    compiled = {o.index: values for o, values in Tracer(graph, target, 2).run(arrays)}
    assert reference.keys() == compiled.keys() == set(range(len(graph.operators)))
    for operator in graph.operators:
        pairs = zip(operator.outputs, reference[operator.index], compiled[operator.index], strict=True)
        assert all(value_hash(v, a) == value_hash(v, b) for v, a, b in pairs), operator


def test_single_operators(graph: OperatorGraph, arrays: list[np.ndarray]) -> None:
    known = dict(zip(graph.arguments, arrays, strict=True))
    for operator, values in Tracer(graph).run(arrays):
        known.update(zip(operator.outputs, values, strict=True))
        alone = extract(graph, operator.index, operator.index + 1)
        verify(alone.program)
        assert alone.inputs == operator.inputs and alone.outputs == operator.outputs
        outputs = compile_step(alone.program, "reference", 1)({}, *(known[value] for value in alone.inputs))[1].values()
        for value, array, want in zip(operator.outputs, outputs, values, strict=True):
            assert value_hash(value, array) == value_hash(value, want), operator


def test_parts_are_canonical_and_keep_lines(graph: OperatorGraph) -> None:
    for begin, end in ((0, 20), (7, 9), (20, len(graph.operators))):
        part = extract(graph, begin, end)
        verify(part.program)
        lines = {operator.line for operator in OperatorGraph(part.program).operators}
        assert {o.line for o in graph.operators[begin:end] if not o.inline} <= lines
    for begin, end in ((-1, 3), (4, 4), (0, len(graph.operators) + 1)):
        with pytest.raises(ReproError, match="expected a range of operators"):
            extract(graph, begin, end)


def test_lines_are_not_part_of_the_identity(graph: OperatorGraph) -> None:
    text = graph.program.text
    with ir.Context():
        without = str(ir.Module.parse(text).operation.get_asm(enable_debug_info=False))
        located = str(ir.Module.parse(text).operation.get_asm(enable_debug_info=True))
    assert "loc(" in located and "loc(" not in without
    assert examine(to_bytes(without)).identity == examine(to_bytes(located)).identity == graph.program.hash
    assert all(o.line is not None for o in OperatorGraph(read_signature(to_bytes(located))).operators)


def test_an_override_determines_later_operators(graph: OperatorGraph, arrays: list[np.ndarray]) -> None:
    honest = commit_operators(graph, Tracer(graph), arrays)
    target = next(o for o in graph.operators if o.name == "repro.random")

    def override(operator, values):
        return (np.zeros_like(values[0]),) if operator == target else values

    changed = commit_operators(graph, Tracer(graph, override=override), arrays)
    different = [i for i, (a, b) in enumerate(zip(honest.claims, changed.claims, strict=True)) if a != b]
    assert different[0] == target.index and len(different) > 5
    assert honest.claims[target.index].inputs == changed.claims[target.index].inputs
    assert honest.root != changed.root
    with pytest.raises(ReproError, match="expected the target reference"):
        Tracer(graph, "cpu", override=override)


def test_a_failed_check_has_no_values() -> None:
    case = next(case for case in catalogue.scatters() if case.name == "scatter-outside-5")
    graph = OperatorGraph(read_signature(to_bytes(case.program)))
    for target in ("reference", "cpu"):
        with pytest.raises(StepFailed):
            list(Tracer(graph, target).run(arguments(graph.program, case.inputs)))


def test_bytes_that_are_not_a_program() -> None:
    with pytest.raises(ReproError, match="expected a canonical program"):
        read_signature(to_bytes("module {}"))
    with pytest.raises(ReproError, match="expected a stored program"):
        Program(b"module { foo", (), (), (), 0, ())


def test_a_program_without_operators() -> None:
    text = "func.func @main(%x: tensor<f32>) -> (tensor<f32>) attributes {repro.num_state = 0 : i64} {\n"
    graph = OperatorGraph(read_signature(to_bytes(text + "  return %x : tensor<f32>\n}\n")))
    trees = [commit_operators(graph, Tracer(graph, *target), [np.float32(1)]) for target in ((), ("cpu", 2))]
    assert trees[0].root == trees[1].root
    assert trees[0].levels == [[blake3.blake3().digest()]]


@given(random_programs.programs())
@settings(max_examples=10, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(case: catalogue.Case) -> None:
    graph = OperatorGraph(read_signature(to_bytes(case.program)))
    given = arguments(graph.program, case.inputs)
    reference = commit_operators(graph, Tracer(graph), given)
    assert commit_operators(graph, Tracer(graph, "cpu", 2), given).root == reference.root
