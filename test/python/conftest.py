# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fixtures: a program small enough to write by hand, and a backend that runs it without the compiler."""

import numpy as np
import pytest
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.execute.executable import Executable
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes

TEXT = """
func.func @main(%w: tensor<2x3xf32>, %n: tensor<i64>, %lr: tensor<f32>, %x: tensor<2x3xf32>)
    -> (tensor<2x3xf32>, tensor<i64>, tensor<f32>) attributes {repro.num_state = 2 : i64} {
  return %w, %n, %lr : tensor<2x3xf32>, tensor<i64>, tensor<f32>
}
"""


class CountingBackend:
    """Implements the step of `TEXT`: adds the input `x` to the state `w` and 1 to the state `n`; the output is the
    input `lr`."""

    def run(self, states, inputs, outputs) -> None:
        assert all(array.flags.c_contiguous for array in (*states, *inputs, *outputs))
        states[0] += inputs[1]
        states[1] += 1
        outputs[0][...] = inputs[0]


@pytest.fixture
def program() -> Program:
    return Program(
        to_bytes(TEXT),
        (TensorType("w", "f32", (2, 3)), TensorType("n", "i64", ())),
        (TensorType("lr", "f32", ()), TensorType("x", "f32", (2, 3))),
        (TensorType("loss", "f32", ()),),
        1,
        (np.arange(6, dtype=np.float32).reshape(2, 3), np.array(0, np.int64)),
    )


@pytest.fixture
def executable(program: Program) -> Executable:
    return Executable(program, "fake", 1, CountingBackend())
