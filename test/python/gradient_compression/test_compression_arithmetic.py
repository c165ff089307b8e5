# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(L1) to (L6): every target returns the bits of a second implementation in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from compressed_steps import SEED, compressed
from compression_rules import F32, blocks, one_bit, power_sgd, qsgd, top_k, with_feedback
from repro_mlir.base.numerics.philox import random_uniform
from repro_mlir.execute.microbatches import compile_step
from repro_mlir.gradient_compression import QSGD, Blocks, OneBit, PowerSGD, TopK
from repro_mlir.program.microbatches import MicrobatchProgram

COUNT, STEPS = 4, 3
SHAPES: list[tuple[int, ...]] = [(), (7,), (2, 3, 4), (70, 11)]


def targets(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Returns the targets for a tensor of this shape: all of them if it has few elements."""
    return ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator") if 1 < math.prod(shape) < 100 else ("reference", "cpu")


def gradients(shape: tuple[int, ...], kind: str = "normal") -> list[np.ndarray]:
    """Returns the gradients of all microbatches for each step. `kind` is a class of values, such as "ties"."""
    draw = np.random.default_rng(math.prod(shape))
    found = []
    for _ in range(STEPS):
        values = draw.standard_normal((COUNT, *shape)).astype(F32)
        if kind == "ties":
            values = draw.integers(-2, 3, values.shape).astype(F32)
        elif kind == "wide":
            values *= F32(10) ** draw.integers(-12, 12, values.shape).astype(F32)
        elif kind == "special":
            places = draw.integers(0, 40, values.shape)
            for i, value in enumerate((np.nan, np.inf, -np.inf, -0.0, 1e-45, -3e38)):
                values[places == i] = value
        found.append(values)
    return found


def states(program: MicrobatchProgram, given: list[np.ndarray], target: str) -> list[dict[str, np.ndarray]]:
    """Runs steps with the given gradients and returns the state after each."""
    state, found = program.initial_state(), []
    kept = compile_step(program, target, 1).keep(state)
    for values in given:
        kept.step(values)
        kept.fetch()
        found.append({name: array.copy() for name, array in state.items()})
    return found


def mean(parts: list[np.ndarray]) -> np.ndarray:
    """(B2), (B3) Returns the mean of the results of four microbatches."""
    return (((parts[0] + parts[1]) + (parts[2] + parts[3])) / F32(COUNT)).astype(F32)


def require(found: np.ndarray, want: np.ndarray, where: Any) -> None:
    """Requires that `found` has the bits of `want`. First makes the NaNs in `want` canonical, because NumPy's NaNs may
    have any bits."""
    canonical = np.where(np.isnan(want), F32(np.nan), want)
    assert found.tobytes() == np.ascontiguousarray(canonical, F32).tobytes(), (where, found, want)


def check_feedback(method: Any, shape: tuple[int, ...], given: list[np.ndarray], compress: Any) -> None:
    program = compressed(method, {"w": shape}, COUNT)
    for target in targets(shape):
        residual = np.zeros((COUNT, *shape), F32)
        for step, (values, state) in enumerate(zip(given, states(program, given, target), strict=True)):
            pairs = [
                with_feedback(values[p], residual[p], lambda a, p=p, step=step: compress(a, step * COUNT + p))
                for p in range(COUNT)
            ]
            residual = np.stack([lost for _, lost in pairs])
            require(state["w"], mean([found for found, _ in pairs]), (target, step))
            require(state["gradient_compression.residual.w"], residual, (target, step))


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["normal", "ties", "special"])
@pytest.mark.parametrize("fraction", ["0.01", "0.3"])
@pytest.mark.diagonal
def test_L2_top_k(shape: tuple[int, ...], kind: str, fraction: str) -> None:
    check_feedback(TopK(float(fraction)), shape, gradients(shape, kind), lambda a, _: top_k(a, fraction))


def test_L2_the_fraction_is_the_decimal_number() -> None:
    """The fraction is the decimal number 7 / 100, not the f64 0.07, which is larger."""
    found = [TopK(fraction).count(size) for fraction, size in ((0.07, 100), (0.07, 101), (1, 5), (1e-9, 3))]
    assert found == [7, 8, 5, 1]


SPECIAL = [(shape, "special") for shape in SHAPES]


@pytest.mark.parametrize("shape, kind", [*SPECIAL, ((2, 3, 4), "wide"), ((9000,), "normal")])
def test_L3_one_bit(shape: tuple[int, ...], kind: str) -> None:
    given = gradients(shape, kind)
    program = compressed(OneBit(), {"w": shape}, COUNT)
    for target in targets(shape):
        residual, of_mean = np.zeros((COUNT, *shape), F32), np.zeros(shape, F32)
        for values, state in zip(given, states(program, given, target), strict=True):
            pairs = [with_feedback(values[p], residual[p], one_bit) for p in range(COUNT)]
            residual = np.stack([lost for _, lost in pairs])
            found, of_mean = with_feedback(mean([each for each, _ in pairs]), of_mean, one_bit)
            require(state["w"], found, target)
            require(state["gradient_compression.residual.w"], residual, target)
            require(state["gradient_compression.mean_residual.w"], of_mean, target)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels, bucket, kind", [(1, 512, "special"), (4, 8, "normal"), (255, 3, "ties")])
@pytest.mark.diagonal
def test_L4_qsgd(shape: tuple[int, ...], levels: int, bucket: int, kind: str) -> None:
    given = gradients(shape, kind)
    program = compressed(QSGD(levels, bucket), {"w": shape}, COUNT)
    assert [each.name for each in program.state] == ["w", "seed", "step"]
    for target in targets(shape):
        for step, (values, state) in enumerate(zip(given, states(program, given, target), strict=True)):
            parts = [qsgd(values[p], levels, bucket, SEED, 0, step * COUNT + p) for p in range(COUNT)]
            require(state["w"], mean(parts), (target, step))
            assert state["step"] == COUNT * (step + 1)


def test_L4_the_expectation_is_the_gradient() -> None:
    """Tests the mean of 2^14 draws. A draw is one of two neighbouring levels, so its standard deviation is at most half
    a level, and that of the sum is at most 64 levels."""
    gradient = np.random.default_rng(3).standard_normal(64).astype(F32)
    given, program = np.tile(gradient, (1024, 1)), compressed(QSGD(2, 64), {"w": (64,)}, 1024)
    found = states(program, [given] * 16, "cpu")
    level = np.linalg.norm(gradient) / 2
    error = np.mean([state["w"] for state in found], 0) - gradient
    assert np.abs(error).max() < 5 * level * 64 / 2**14


def test_a_level_is_at_most_the_norm() -> None:
    """If the square of an element is subnormal, the root of the square can be less than the element. The element's
    level must still not exceed the maximum."""
    value = F32(4.5e-23)
    norm = np.sqrt(value * value)
    assert value / norm > 1.15
    given = [np.full((COUNT, 1), value)] * 8
    program = compressed(QSGD(1, 1), {"w": (1,)}, COUNT)
    for state in states(program, given, "cpu"):
        assert state["w"][0] == norm


@pytest.mark.parametrize("shape, rank", [((3, 5), 1), ((4, 3, 4), 2), ((70, 11), 3), ((11, 70), 1), ((600, 3), 2)])
@pytest.mark.parametrize("kind", ["normal", "ties"])
@pytest.mark.diagonal
def test_L5_power_sgd(shape: tuple[int, ...], rank: int, kind: str) -> None:
    method, given = PowerSGD(rank), gradients(shape, kind)
    program = compressed(method, {"w": shape}, COUNT)
    columns = math.prod(shape[1:])
    start = random_uniform((columns, rank), 0, 0, 0) * F32(2) - F32(1)
    require(program.initial_state()["gradient_compression.right.w"], start, "start")
    for target in targets(shape):
        residual, right = np.zeros(shape, F32), start
        for values, state in zip(given, states(program, given, target), strict=True):
            total = mean([*values]) + residual
            found, right = power_sgd(total, right)
            residual = total - found
            require(state["w"], found, target)
            require(state["gradient_compression.residual.w"], residual, target)
            require(state["gradient_compression.right.w"], right, target)


def test_L5_columns_are_orthonormal_and_the_matrix_is_found() -> None:
    """The matrix has rank 2. The first step finds two columns that span the space of the matrix's columns, so its
    result is close to the matrix."""
    draw = np.random.default_rng(5)
    matrix = (draw.standard_normal((20, 2)) @ draw.standard_normal((2, 30))).astype(F32)
    program = compressed(PowerSGD(2), {"w": (20, 30)}, COUNT)
    first = states(program, [np.tile(matrix, (COUNT, 1, 1))] * STEPS, "cpu")[0]
    np.testing.assert_allclose(first["w"], matrix, atol=1e-4)


def test_L5_a_gradient_of_zeros_stays_one() -> None:
    program = compressed(PowerSGD(2), {"w": (8, 8)}, COUNT)
    for state in states(program, [np.zeros((COUNT, 8, 8), F32)] * STEPS, "cpu"):
        assert not state["w"].any() and not state["gradient_compression.right.w"].any()


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4", "mxint8", "nvfp4", "fp8_tensorwise", "fp8_rowwise", "deepseek_v3"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (70, 11)])
@pytest.mark.diagonal
def test_L6_blocks(name: str, shape: tuple[int, ...]) -> None:
    method = Blocks.named(name)

    def compress(a: np.ndarray, step: int) -> np.ndarray:
        return blocks(a, method.format, SEED, 0, step)

    check_feedback(method, shape, gradients(shape), compress)
