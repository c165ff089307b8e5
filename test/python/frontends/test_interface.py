# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the interface between frontends and the rest of the package with an invented framework."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program import program_of
from repro_mlir.program.imported import Bindings, ImportedProgram

TEXT = """
#id = affine_map<(d0) -> (d0)>
#scalar = affine_map<(d0) -> ()>
module {
  func.func @main(%w: tensor<3xf32> {repro.name = "w"}, %rate: tensor<f32> {repro.name = "rate"},
                  %x: tensor<3xf32> {repro.name = "x"})
      -> (tensor<3xf32> {repro.name = "w"}, tensor<3xf32> {repro.name = "loss"})
      attributes {repro.num_state = 1 : i64} {
    %empty = tensor.empty() : tensor<3xf32>
    %new = linalg.generic {indexing_maps = [#id, #scalar, #id, #id], iterator_types = ["parallel"]}
        ins(%w, %rate, %x : tensor<3xf32>, tensor<f32>, tensor<3xf32>) outs(%empty : tensor<3xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
      %product = arith.mulf %b, %c : f32
      %sum = arith.addf %a, %product : f32
      linalg.yield %sum : f32
    } -> tensor<3xf32>
    return %new, %w : tensor<3xf32>, tensor<3xf32>
  }
}
"""
W, RATE, X = TensorType("w", "f32", (3,)), TensorType("rate", "f32", ()), TensorType("x", "f32", (3,))


class ListsOfNumbers:
    """The bindings of the invented framework, whose tensors are lists of numbers."""

    def __init__(self) -> None:
        self.rate = 0.5
        self.weight = [1.0, 2.0, float("nan")]

    def hyper_parameters(self) -> list[Any]:
        return [self.rate]

    def flatten_batch(self, batch: Any) -> list[Any]:
        return [np.array(batch, np.float32)]

    def write_state(self, values: Any) -> None:
        (self.weight,) = (value.tolist() for value in values)


def imported(initial: np.ndarray | None = None) -> ImportedProgram[ListsOfNumbers]:
    bindings = ListsOfNumbers()
    value = np.array(bindings.weight, np.float32) if initial is None else initial
    return ImportedProgram(TEXT, (W,), (value,), (RATE, X), (TensorType("loss", "f32", (3,)),), 1, None, bindings)


def test_a_program_of_any_framework() -> None:
    given = imported()
    bindings: Bindings = given.bindings
    program = program_of(given)
    assert program.num_hyper_parameters == 1 and program.inputs == (RATE, X)
    state = program.initial_state()
    given.bindings.rate = 2.0
    repro_mlir.compile(program, "reference")(state, *given.read_inputs([1, 10, 100]))
    bindings.write_state(list(state.values()))
    assert given.bindings.weight[:2] == [3.0, 22.0]


def test_initial_values_become_canonical_and_stay_the_frameworks_V4() -> None:
    value = np.array([0, 0, 0x7F800001], np.uint32).view(np.float32)
    program = program_of(imported(value))
    assert program.initial[0].view(np.uint32).tolist() == [0, 0, 0x7FC00000]
    assert value.view(np.uint32)[2] == 0x7F800001


@pytest.mark.parametrize(
    "initial",
    [(), (np.zeros(3),), (np.zeros(2, np.float32),), (np.zeros(6, np.float32)[::2],), (np.zeros(3, np.float32),) * 2],
    ids=["none", "element type", "shape", "strides", "two"],
)
def test_initial_values_that_do_not_fit(initial: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(repro_mlir.ReproError, match="expected a C-contiguous initial array of its type and shape"):
        replace(imported(), initial=initial)


@pytest.mark.parametrize("positions", [(0, 0), (0, 1), (-1, 0)])
def test_random_state_that_is_none(positions: tuple[int, int]) -> None:
    with pytest.raises(repro_mlir.ReproError, match=r"expected positions of seed and step \(i64, shape"):
        replace(imported(), random=positions)


def test_random_state_by_position() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    from repro_mlir.frontends.torch import capture_inference, capture_training
    from repro_mlir.frontends.torch.base.capture_options import CaptureOptions

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(self.inner(x), training=self.training)

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(3, 2), torch.ones(3, 2)
    drawn = capture_training(model, torch.nn.functional.mse_loss, optimizer, batch, CaptureOptions(seed=7))
    assert drawn.random is not None
    seed, step = drawn.random
    assert drawn.state[seed].name == "seed" and drawn.state[step].name == "step"
    assert (drawn.initial[seed], drawn.initial[step]) == (7, 0)
    assert capture_inference(model.eval(), batch[0]).random is None
