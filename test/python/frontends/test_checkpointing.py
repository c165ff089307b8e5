# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Activation checkpointing of PyTorch and JAX (V5) keeps fewer tensors for the backward pass and changes no bit."""

from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.program import Program

ROWS, WIDTH, LAYERS = 48, 16, 4
TARGETS = ("cpu", "cpu:x86-64-v2", "ptx-emulator", "reference")


def _arena(program: Program) -> int:
    return CpuBackend(cached_compile(program.data, "x86-64-v2"), 1).arena_bytes


def _check(kept: Program, again: Program, *batch: Any) -> None:
    """Checks that the steps have the same bits, and that the arena of `again`, which recomputes tensors, is at most
    half as large as that of `kept`."""
    assert kept.data.count(b"repro.barrier") == 0 < again.data.count(b"repro.barrier")
    found = []
    for program in (kept, again):
        for target in TARGETS:
            executable, state = repro_mlir.compile(program, target), program.initial_state()
            for _ in range(2):
                state, outputs = executable(state, *batch)
            found.append([np.asarray(value).tobytes() for value in [*state.values(), *outputs.values()]])
    assert all(each == found[0] for each in found)
    assert _arena(again) <= _arena(kept) / 2


def test_checkpoints_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    from torch.utils.checkpoint import checkpoint

    class Layers(torch.nn.Module):
        def __init__(self, is_checkpointed: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            wide = 4 * WIDTH
            parts = ((torch.nn.Linear(WIDTH, wide), torch.nn.Linear(wide, WIDTH)) for _ in range(LAYERS))
            self.layers = torch.nn.ModuleList(
                torch.nn.Sequential(first, torch.nn.GELU(), torch.nn.Dropout(0.1), second) for first, second in parts
            )
            self.is_checkpointed = is_checkpointed

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = x + (checkpoint(layer, x, use_reentrant=False) if self.is_checkpointed else layer(x))
            return x

    def step(is_checkpointed: bool) -> Program:
        model = Layers(is_checkpointed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss: Any = torch.nn.functional.mse_loss
        return repro_mlir.capture(model, loss, optimizer, (torch.zeros(ROWS, WIDTH),) * 2)

    random = np.random.default_rng(0)
    x, y = (random.standard_normal((ROWS, WIDTH), np.float32) for _ in range(2))
    kept = step(False)
    numbers = [np.array(0.1, kind.dtype) for kind in kept.inputs[: kept.num_hyper_parameters]]
    _check(kept, step(True), *numbers, x, y)


def test_gradients_of_gradients_are_not_mistaken_for_recomputation() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")

    class Penalized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WIDTH, 1)

        def forward(self, x: Any) -> Any:
            x = x.requires_grad_()
            y = torch.tanh(self.layer(x)).sum()
            (slope,) = torch.autograd.grad(y, x, create_graph=True)
            return y + slope.square().sum()

    model = Penalized()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = repro_mlir.capture(model, None, optimizer, (torch.zeros(ROWS, WIDTH),))
    assert b"repro.barrier" not in program.data


def test_checkpoints_of_jax() -> None:
    jax = pytest.importorskip("jax")
    from repro_mlir.frontends.jax import capture

    def layer(weights: Any, x: Any) -> Any:
        return x + jax.numpy.tanh(x @ weights[0]) @ weights[1]

    def step(layer: Any) -> Program:
        def run(weights: Any, x: Any) -> Any:
            def loss(weights: Any) -> Any:
                y = x
                for each in weights:
                    y = layer(each, y)
                return (y * y).mean()

            value, gradients = jax.value_and_grad(loss)(weights)
            return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

        return capture(run, weights, x, state=1)

    random = np.random.default_rng(0)
    shapes = (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)
    weights = [[random.standard_normal(shape, np.float32) for shape in shapes] for _ in range(LAYERS)]
    x = random.standard_normal((ROWS, WIDTH), np.float32)
    _check(step(layer), step(jax.remat(layer)), x)


def test_V4_a_barrier_makes_nans_canonical() -> None:
    jax = pytest.importorskip("jax")
    from repro_mlir.frontends.jax import capture

    program = capture(lambda x: jax.lax.optimization_barrier(x), np.zeros(3, np.float32))
    assert b"repro.barrier" in program.data
    given = np.array([0x7FC00001, 0xFFC00000, 0x3F800000], np.uint32).view(np.float32)
    for target in TARGETS:
        (found,) = repro_mlir.compile(program, target)({}, given)[1].values()
        assert np.asarray(found).view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x3F800000]
