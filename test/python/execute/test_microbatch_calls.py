# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(B1) Each microbatch gets its own rows of the batch, and its own number for drawing random numbers, whatever the
memory layout of the batch."""

import numpy as np
import pytest
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.execute.microbatches import MicrobatchExecutable
from repro_mlir.program.microbatches import MicrobatchProgram
from support.microbatch_steps import program_of, values_of


def stepped(program: MicrobatchProgram, target: str, steps: list[list[np.ndarray]]) -> str:
    """Runs steps with the given inputs and returns the hash of the last state."""
    state = program.initial_state()
    kept = MicrobatchExecutable(program, target, 1).keep(state)
    for inputs in steps:
        kept.step(*inputs)
    kept.fetch()
    return state_hash([(state[kind.name], kind.element) for kind in program.state])


def unaligned(array: np.ndarray) -> np.ndarray:
    """Returns a copy at an address that is not aligned to the element size."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    found = memory[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def strided(array: np.ndarray) -> np.ndarray:
    """Returns a view with the elements of the array. The view's rows are not adjacent in memory."""
    return np.repeat(array, 2, axis=0)[::2]


def with_nan(array: np.ndarray) -> np.ndarray:
    """Returns a copy. If it is an f32 array, one element is a NaN that is not the canonical one (V4)."""
    found = array.copy()
    if found.dtype == np.float32:
        found.reshape(-1).view(np.uint32)[3] = 0xFFC12345
    return found


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "ptx-emulator"])
@pytest.mark.diagonal
def test_bits_are_those_of_the_reference_interpreter(target: str, accumulate: int) -> None:
    program = program_of(6, accumulate)
    assert program.random is not None
    steps = [values_of(program, seed) for seed in range(3)]
    want = stepped(program, "reference", steps)
    assert stepped(program, target, steps) == want
    assert stepped(program, target, steps[::-1]) != want


@pytest.mark.parametrize("change", [unaligned, strided, with_nan])
def test_batches_lie_anywhere(change: object) -> None:
    assert callable(change)
    program = program_of(6)
    steps = []
    for seed in range(2):
        inputs = values_of(program, seed)
        for i in program.cut:
            inputs[i] = change(inputs[i])
        steps.append(inputs)
    plain = [[np.array(array, order="C") for array in inputs] for inputs in steps]
    assert stepped(program, "cpu", steps) == stepped(program, "reference", plain)
