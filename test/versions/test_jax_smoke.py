# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the frontend with a tried version of JAX: the bits are those of the repository's own version."""

import jax
import jax.numpy as jnp
import numpy as np
import repro_mlir
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.frontends.jax import import_function
from repro_mlir.program import program_of

HASHES = {
    "step": "45e3ead3034ac230c53864397e0e25d23a55da7a4dafacc74052aafb299c9008",
    "cell": "89bb44d87703d41d50a3eb1919c8b0783448c045cd9e4a27515b32f93ed8ec0e",
}
"""The hashes of the results with JAX 0.10.2."""


def values(*shape: int, factor: float) -> np.ndarray:
    """Returns the same numbers with every version of NumPy: multiples of 1/64."""
    return (np.arange(np.prod(shape)) * 37 % 101 - 50).astype(np.float32).reshape(shape) * np.float32(factor / 64)


def test_a_training_step() -> None:
    params = {"w": values(6, 16, factor=0.5), "b": values(16, factor=0.1), "v": values(16, 4, factor=0.5)}

    def loss_fn(params: dict[str, jax.Array], x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
        hidden = jax.nn.gelu(x @ params["w"] + params["b"], approximate=False)
        kept = jax.random.bernoulli(key, 0.75, hidden.shape)
        scores = jax.nn.log_softmax(jnp.where(kept, hidden, 0) @ params["v"])
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array, seed: jax.Array) -> tuple[object, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_fn)(params, x, y, jax.random.key(seed))
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss

    batch = values(8, 6, factor=1), np.arange(8, dtype=np.int32) % 4
    imported = import_function(step, params, *batch, np.uint32(0), state=1)
    program = program_of(imported)
    executable, state = repro_mlir.compile(program, threads=1), imported.bindings.flatten_state(params)
    expected = params
    for i in range(3):
        state, _ = executable(state, *batch, np.uint32(i))
        expected, _ = jax.jit(step)(expected, *batch, np.uint32(i))
    (found,) = imported.bindings.state_of(state)
    jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, 1e-4, 1e-6), found, expected)
    assert state_hash([(state[kind.name], kind.element) for kind in program.state]) == HASHES["step"]


def test_a_scan_with_a_convolution_and_a_sort() -> None:
    def function(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
        def cell(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            carry = jnp.tanh(carry + row)
            return carry, carry

        _, rows = jax.lax.scan(cell, jnp.zeros_like(x[0]), x)
        windows = jax.lax.conv_general_dilated(rows[None, None], kernel, (1, 1), "SAME")
        return jnp.sort(windows[0, 0], axis=1), jax.nn.softmax(windows[0, 1])

    arguments = values(5, 7, factor=1), values(2, 1, 3, 3, factor=1)
    imported = import_function(function, *arguments)
    _, outputs = repro_mlir.compile(program_of(imported), threads=1)({}, *arguments)
    expected = jax.jit(function)(*arguments)
    jax.tree.map(
        lambda got, want: np.testing.assert_allclose(got, want, 1e-5, 1e-6),
        imported.bindings.outputs_of(outputs), expected,
    )  # fmt: skip
    assert state_hash([(each, "f32") for each in outputs.values()]) == HASHES["cell"]
