# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the programs of steps with compressed gradients: their bits, identities and refusals."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from compressed_steps import compressed, imported
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.execute.microbatches import compile_step
from repro_mlir.gradient_compression import QSGD, OneBit, PowerSGD, TopK, compress_gradients
from repro_mlir.program.imported import Microbatches
from repro_mlir.program.microbatches import MicrobatchError, MicrobatchProgram, microbatch_program_of, read_microbatches
from repro_mlir.verification.operators import OperatorGraph, Tracer

SHAPES: dict[str, tuple[int, ...]] = {"a": (6, 5), "b": (), "c": (3,)}
COUNT = 4


def gradients() -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    return [draw.standard_normal((COUNT, *shape)).astype(np.float32) for shape in SHAPES.values()]


def test_state_is_of_each_microbatch_or_of_the_step() -> None:
    program = compressed(OneBit(), {"w": (2, 3)}, COUNT)
    assert program.own == (3,)
    assert [str(kind) for kind in program.state][3:] == [
        "gradient_compression.residual.w: 4x2x3xf32",
        "gradient_compression.mean_residual.w: 2x3xf32",
    ]
    assert [kind.shape for kind in program.part.outputs] == [(2, 3), (2, 3)]
    assert [kind.shape for kind in program.sums] == [(2, 3)]


def test_uncompressed_gradients_are_unchanged() -> None:
    """PowerSGD leaves vectors as they are, and every method leaves tensors without elements as they are."""
    program = compressed(PowerSGD(1), {"a": (6, 5), "b": (30,)}, COUNT)
    plain = compressed(None, {"a": (6, 5), "b": (30,)}, COUNT)
    draw = np.random.default_rng(1)
    given = [draw.standard_normal((COUNT, *shape)).astype(np.float32) for shape in ((6, 5), (30,))]
    first, second = ({}, {})  # type: dict[str, np.ndarray], dict[str, np.ndarray]
    for step, found in ((program, first), (plain, second)):
        state = step.initial_state()
        compile_step(step, "cpu", 1)(state, *given)
        found |= state
    assert first["b"].tobytes() == second["b"].tobytes() and first["a"].tobytes() != second["a"].tobytes()
    names = [kind.name for kind in compressed(TopK(0.5), {"a": (6, 5), "z": (0, 4)}, COUNT).state]
    assert names == ["a", "z", "seed", "step", "gradient_compression.residual.a"]


def test_B4_identity_and_bytes() -> None:
    program, plain = compressed(TopK(0.5), SHAPES, COUNT), compressed(None, SHAPES, COUNT)
    assert program.data.startswith(b"repro-microbatches-v2\0") and plain.data.startswith(b"repro-microbatches-v1\0")
    again = read_microbatches(program.data)
    assert (again.hash, again.own, again.data) == (program.hash, program.own, program.data)
    hashes = {each.hash for each in (program, plain, compressed(TopK(0.4), SHAPES, COUNT))}
    assert len(hashes) == 3
    assert dataclasses.replace(plain, cut=plain.cut).hash == plain.hash


@pytest.mark.parametrize("place", range(22, 22 + 8 * 12))
def test_damaged_bytes(place: int) -> None:
    """A flipped bit in the numbers before the stored programs causes an error, or changes the step that is read."""
    data = bytearray(compressed(TopK(0.5), {"a": (6, 5)}, COUNT, random=False).data)
    data[place] ^= 1
    try:
        found = read_microbatches(bytes(data))
    except MicrobatchError:
        return
    assert found.data == bytes(data)


@pytest.mark.parametrize(
    "own, message",
    [
        ((9,), "positions"),
        ((5, 4), "ascending"),
        ((0,), "a first dimension of . microbatches"),
        ((), "that takes the state"),
    ],
)
def test_positions_that_do_not_fit(own: tuple[int, ...], message: str) -> None:
    program = compressed(TopK(0.5), SHAPES, COUNT)
    with pytest.raises(ReproError, match=message):
        dataclasses.replace(program, own=own)


@pytest.mark.parametrize("method", [TopK(0.3), OneBit(), QSGD(4, 7), PowerSGD(1)], ids=str)
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.diagonal
def test_the_step_as_one_program(method: Any, accumulate: int) -> None:
    """Disputes unroll a step into one program. The program returns the bits of the step, and operators of the
    compression name the gradient that they compress."""
    program, given = compressed(method, SHAPES, COUNT, accumulate), gradients()
    state = program.initial_state()
    compile_step(program, "cpu", 1)(state, *given)
    graph = OperatorGraph(program)
    found = Tracer(graph, "reference").results([*program.initial, *given])
    for kind, array in zip(program.state, found, strict=True):
        assert array.tobytes() == state[kind.name].tobytes(), kind
    origins = {operator.location for operator in graph.operators}
    assert any("compression of a" in each for each in origins) and not any(each.startswith("-") for each in origins)


@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_L1_each_microbatch_is_compressed_alone(accumulate: int) -> None:
    """The residuals of microbatches do not depend on how many microbatches are computed per leaf (B2)."""
    found = []
    for each in (1, accumulate):
        program = compressed(TopK(0.3), SHAPES, COUNT, each)
        state = program.initial_state()
        compile_step(program, "cpu", 1)(state, *gradients())
        found.append(state["gradient_compression.residual.a"].tobytes())
    assert found[0] == found[1]


def test_R1_sites_follow_those_of_the_step() -> None:
    """Sites of the compression begin after all sites of the step, including those in nested regions, such as
    branches."""
    step = imported({"w": (4,), "v": (3,)})
    lines = [
        "%k = tensor.extract %n0[] : tensor<i64>",
        "%p = arith.constant true",
        "%d = scf.if %p -> tensor<4xf32> {",
        "%o = tensor.empty() : tensor<4xf32>",
        "%u = repro.random uniform site = 5 ins(%k, %k : i64, i64) outs(%o : tensor<4xf32>) -> tensor<4xf32>",
        "scf.yield %u : tensor<4xf32>",
        "} else {",
        "scf.yield %c0 : tensor<4xf32>",
        "}",
    ]
    head, rest = step.text.split("%m0 = repro.reduce_microbatches %c0")
    text = head + "\n".join(lines) + "\n%m0 = repro.reduce_microbatches %d" + rest
    found = compress_gradients(dataclasses.replace(step, text=text), QSGD())
    program = microbatch_program_of(found, Microbatches(COUNT), [0, 1])
    assert re.findall(r"site = (\d+)", program.part.text) == ["5", "6", "7"]


def refused(given: Any, method: Any, message: str) -> None:
    with pytest.raises(ReproError) as found:
        compress_gradients(given, method)
    assert message in str(found.value)


def test_gradients_that_cannot_be_compressed_are_refused() -> None:
    refused(imported({"w": (4,)}, "f64"), TopK(), "the gradient of w: expected f32 for top_k, got f64")
    refused(imported({"w": (4,)}, "bf16"), TopK(), "expected f32 for top_k, got bf16")
    refused(imported({"w": (4,)}), PowerSGD(1), "expected a gradient that power_sgd compresses, got w")
    refused(imported({"w": (4, 4)}), PowerSGD(2), "expected a gradient that power_sgd compresses")
    refused(imported({"w": (0,)}), OneBit(), "expected a gradient that one_bit compresses")
    refused(imported({"w": (4,)}, random=False), QSGD(), "qsgd draws random numbers: expected a program with seed")
    named = {"w": (4,), "gradient_compression.residual.w": (4,)}
    refused(
        imported(named), TopK(), "the step has a state tensor gradient_compression.residual.w, a name that top_k needs"
    )
    unnamed = imported({"w": (4,)})
    text = unnamed.text.replace(' gradient = "w"', "")
    refused(
        dataclasses.replace(unnamed, text=text),
        TopK(),
        "expected a gradient that top_k compresses, got none",
    )


def split(body: str, options: str = "own=1") -> MicrobatchProgram:
    """Returns a step with the state `w`, and the state `e` of each microbatch."""
    kind = "tensor<4xf32>"
    text = (
        f"func.func @main(%w: {kind}, %e: {kind}, %g: tensor<1x4xf32>) -> ({kind}, {kind}) attributes "
        f"{{repro.num_state = 2 : i64}} {{\n%x = tensor.collapse_shape %g [[0, 1]] : tensor<1x4xf32> into {kind}\n"
        f"{body}\n}}\n"
    )
    types = tuple(TensorType(name, "f32", (4,)) for name in "we")
    zeros = (np.zeros(4, np.float32),) * 2
    step = dataclasses.replace(
        imported({"w": (4,)}, random=False),
        text=text,
        state=types,
        initial=zeros,
        own=(1,),
    )
    return microbatch_program_of(step, Microbatches(2), [0])


def test_B5_state_of_microbatches() -> None:
    reduced = "%m = repro.reduce_microbatches %x : tensor<4xf32>\n"
    program = split(f"{reduced}return %m, %x : tensor<4xf32>, tensor<4xf32>")
    state = program.initial_state()
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    compile_step(program, "cpu", 1)(state, given)
    assert state["e"].tolist() == given.tolist() and state["w"].tolist() == given.mean(0).tolist()
    with pytest.raises(ReproError, match=r"\(B5\) the new state of a microbatch depends on a result of"):
        split(f"{reduced}return %m, %m : tensor<4xf32>, tensor<4xf32>")
    with pytest.raises(ReproError, match=r"\(B3\) the new state 0 depends on a microbatch"):
        split(f"{reduced}return %e, %x : tensor<4xf32>, tensor<4xf32>")
