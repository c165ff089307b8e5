# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""float64 models with elementary functions (S5), captured from PyTorch and JAX, have results close to the
frameworks'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir.program import program_of
from support.applied import Applied
from torch import nn

X = torch.linspace(-3, 3, 14, dtype=torch.float64).reshape(2, 7)


def softmax_of_activations(x: torch.Tensor) -> torch.Tensor:
    y = F.layer_norm(F.gelu(x) + F.silu(x) + F.softplus(x), (7,))
    return F.softmax(y, -1) + F.log_softmax(y, -1) + torch.tanh(y) ** 3


def waves(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * torch.cos(x) + torch.atan(x) + torch.erf(x) + torch.log1p(x.abs()) + torch.expm1(x)


def attention(x: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(x[None], x[None], x[None])


@pytest.mark.parametrize("function", [softmax_of_activations, waves, attention])
def test_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = repro_mlir.capture(Applied(function), (X,))
    (found,) = repro_mlir.compile(program, "reference")({}, X)[1].values()
    torch.testing.assert_close(found, function(X), rtol=1e-13, atol=1e-15)


def test_training_step() -> None:
    """In three training steps, compiled code and the reference interpreter return the same bits of the losses."""
    losses = []
    for target in ("reference", "cpu"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        trainer = repro_mlir.Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.5), target=target)
        batch = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3), torch.tensor([0, 1, 1, 0])
        losses.append([float(trainer.step(*batch)) for _ in range(3)])
    assert losses[0] == losses[1]
    assert losses[0][2] < losses[0][0]


def of_jax(function: Callable[..., Any], *arguments: Any) -> Any:
    frontend = pytest.importorskip("repro_mlir.frontends.jax")
    imported = frontend.import_function(function, *arguments)
    _, outputs = repro_mlir.compile(program_of(imported), "reference")({}, *imported.read_inputs(arguments))
    return imported.bindings.outputs_of(outputs)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    def model(x: Any) -> Any:
        return jax.nn.softmax(jax.nn.gelu(x, approximate=False) + jax.nn.gelu(x) + jnp.tanh(x)) + jax.nn.sigmoid(x)

    with jax.enable_x64(True):
        x = jnp.asarray(X.numpy())
        found = of_jax(model, x)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, model(x), rtol=1e-13)
        with pytest.raises(repro_mlir.ReproError, match=r"of f64 is not supported: pow is defined for f32 only \(S5\)"):
            of_jax(lambda x: jnp.power(x, 1.5), x)
