# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of flax and equinox models with optax: the same bits on every target, results close to JAX."""

from collections.abc import Callable
from typing import Any

import equinox
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import repro_mlir
from flax import nnx
from repro_mlir.frontends.jax import import_function
from repro_mlir.program import program_of

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")
STEPS = 2
X, Y = jax.random.normal(jax.random.key(1), (4, 8, 8, 1)), jnp.arange(4) % 3
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))

Made = tuple[Callable[..., Any], Any]
"""A step `(state, x, y) -> (new state, loss)` and the initial state."""


def _loss(logits: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def _linen() -> Made:
    class Model(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            # No bias: the gradient of a bias before a BatchNorm is only rounding error, which AdamW would scale up to a
            # full step.
            x = flax.linen.relu(
                flax.linen.BatchNorm(use_running_average=False)(flax.linen.Conv(4, (3, 3), use_bias=False)(x))
            )
            x = flax.linen.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
            return flax.linen.Dense(3)(flax.linen.LayerNorm()(x))

    model = Model()
    variables = model.init(jax.random.key(0), X)

    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        params, statistics, optimizer = state

        def loss_of(params: Any) -> Any:
            given = {"params": params, "batch_stats": statistics}
            logits, changed = model.apply(given, x, mutable=["batch_stats"])
            return _loss(logits, y), changed["batch_stats"]

        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, optimizer = OPTIMIZER.update(gradients, optimizer, params)
        return (optax.apply_updates(params, updates), statistics, optimizer), loss

    return step, (variables["params"], variables["batch_stats"], OPTIMIZER.init(variables["params"]))


def _nnx() -> Made:
    model = nnx.Sequential(nnx.Linear(64, 16, rngs=nnx.Rngs(0)), nnx.gelu, nnx.Linear(16, 3, rngs=nnx.Rngs(1)))
    graph, params = nnx.split(model)

    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        params, optimizer = state
        loss_of = lambda p: _loss(nnx.merge(graph, p)(x.reshape(x.shape[0], -1)), y)  # noqa: E731
        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, optimizer = OPTIMIZER.update(gradients, optimizer, params)
        return (optax.apply_updates(params, updates), optimizer), loss

    return step, (params, OPTIMIZER.init(params))


def _equinox() -> Made:
    model = equinox.nn.MLP(64, 3, 16, 2, key=jax.random.key(0))
    params, static = equinox.partition(model, equinox.is_array)

    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        params, optimizer = state

        def loss_of(params: Any) -> jax.Array:
            return _loss(jax.vmap(equinox.combine(params, static))(x.reshape(x.shape[0], -1)), y)

        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, optimizer = OPTIMIZER.update(gradients, optimizer, params)
        return (equinox.apply_updates(params, updates), optimizer), loss

    return step, (params, OPTIMIZER.init(params))


@pytest.mark.parametrize("make", [_linen, _nnx, _equinox])
def test_training_steps(make: Callable[[], Made]) -> None:
    step, state = make()
    imported = import_function(step, state, X, Y, state=1)
    program = program_of(imported)
    found = []
    for target in TARGETS:
        executable = repro_mlir.compile(program, target)
        tensors = imported.bindings.flatten_state(state)
        for _ in range(STEPS):
            tensors, outputs = executable(tensors, *imported.read_inputs((X, Y)))
        found.append({**tensors, **outputs})
    for other in found[1:]:
        assert all(value.tobytes() == found[0][name].tobytes() for name, value in other.items())
    expected = state
    for _ in range(STEPS):
        expected, loss = jax.jit(step)(expected, X, Y)
    np.testing.assert_allclose(found[0]["output"], loss, 1e-5)
    (new,) = imported.bindings.state_of(found[0])
    jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, 1e-3, 1e-4), new, expected)
