# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests captures of JAX functions: the names and the state in programs, and equal bits on every target."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import optax
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.frontends.jax import capture, import_function
from repro_mlir.program import program_of
from repro_mlir.program.imported import ImportedProgram

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")


def run(imported: ImportedProgram[Any], state: tuple[Any, ...], inputs: tuple[Any, ...], steps: int = 1) -> Any:
    """Runs steps on every target and checks that the bits are equal. Returns the state and outputs as pytrees."""
    program = program_of(imported)
    found = []
    for target in TARGETS:
        executable = repro_mlir.compile(program, target)
        tensors = imported.bindings.flatten_state(*state)
        for _ in range(steps):
            tensors, outputs = executable(tensors, *imported.read_inputs(inputs))
        found.append((tensors, outputs))
    for tensors, outputs in found[1:]:
        for name, value in (*tensors.items(), *outputs.items()):
            assert value.tobytes() == (found[0][0] | found[0][1])[name].tobytes(), name
    return imported.bindings.state_of(found[0][0]), imported.bindings.outputs_of(found[0][1])


def check(function: Callable[..., Any], *arguments: Any, others: Sequence[tuple[Any, ...]] = ()) -> None:
    """Checks the results of `function` for `arguments` and for each tuple in `others`: the same bits on every target,
    and values close to those of JAX."""
    imported = import_function(function, *arguments)
    for given in (arguments, *others):
        _, found = run(imported, (), given)
        jax.tree.map(
            lambda got, want: np.testing.assert_allclose(got, want, 1e-5, 1e-6, strict=True),
            found,
            jax.jit(function)(*given),
        )


class State(NamedTuple):
    params: dict[str, jax.Array]
    optimizer: Any


def mlp(optimizer: optax.GradientTransformation) -> tuple[Callable[..., Any], State, tuple[np.ndarray, np.ndarray]]:
    """Returns a training step, its first state and a batch."""
    draw = np.random.default_rng(0)
    params = {
        name: jnp.asarray(draw.normal(size=shape) * 0.3, jnp.float32)
        for name, shape in (("w1", (6, 16)), ("b1", (16,)), ("w2", (16, 4)), ("b2", (4,)))
    }

    def loss_fn(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        hidden = jax.nn.gelu(x @ params["w1"] + params["b1"], approximate=False)
        return optax.softmax_cross_entropy_with_integer_labels(hidden @ params["w2"] + params["b2"], y).mean()

    def step(state: State, x: jax.Array, y: jax.Array) -> tuple[State, dict[str, jax.Array]]:
        loss, gradients = jax.value_and_grad(loss_fn)(state.params, x, y)
        updates, optimizer_state = optimizer.update(gradients, state.optimizer, state.params)
        return State(optax.apply_updates(state.params, updates), optimizer_state), {"loss": loss}

    batch = draw.normal(size=(8, 6)).astype(np.float32), draw.integers(0, 4, 8).astype(np.int32)
    return step, State(params, optimizer.init(params)), batch


@pytest.mark.parametrize("optimizer", [optax.adamw(1e-2), optax.sgd(0.1, momentum=0.9)], ids=["adamw", "sgd"])
def test_a_training_step_has_the_bits_of_every_target_and_the_numbers_of_jax(optimizer: Any) -> None:
    step, state, batch = mlp(optimizer)
    imported = import_function(step, state, *batch, state=1)
    assert {kind.name for kind in imported.state} >= {"state.params.w1", "state.params.b2"}
    assert [kind.name for kind in imported.inputs] == ["x", "y"]
    assert [kind.name for kind in imported.outputs] == ["output.loss"]
    (new,), outputs = run(imported, (state,), batch, steps=3)
    for _ in range(3):
        state, expected = jax.jit(step)(state, *batch)
    assert jax.tree.structure(new) == jax.tree.structure(state)
    jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, 1e-4, 1e-6, strict=True), new, state)
    np.testing.assert_allclose(outputs["loss"], expected["loss"], 1e-5)


def test_the_initial_state_is_that_of_the_capture() -> None:
    step, state, batch = mlp(optax.sgd(0.1))
    program = capture(step, state, *batch, state=1)
    np.testing.assert_array_equal(program.initial_state()["state.params.w1"], state.params["w1"])


def test_locations_are_the_users_lines() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sinh(x)

    line = function.__code__.co_firstlineno + 1
    text = import_function(function, np.ones(3, np.float32)).text
    assert f'test_jax.py":{line}:' in text
    assert "site-packages" not in text


@pytest.mark.parametrize(
    ("function", "state", "message"),
    [
        (lambda a, b: a, 1, "expected a tuple of results that begins with the new values of 1 state"),
        (lambda a, b: ({"w": a, "v": b}, b), 1, "the new state has the structure"),
        (lambda a, b: (a.astype(jnp.int32), b), 1, r"the new value of a is a: 3xi32, expected .* a: 3xf32"),
        (lambda a, b: a, 3, "expected state, a number of leading arguments, from 0 to 2, got 3"),
        (lambda a, b: jax.lax.complex(a, a), 0, "complex64"),
        (lambda a, b: jnp.fft.rfft(a).real, 0, r"test_jax.py:\d+: .*complex"),
        (lambda a, b: jax.random.bits(jax.random.key(0, impl="rbg")), 0, "rng_bit_generator is not supported"),
        (lambda a, b: float(a[0]), 0, "JAX cannot trace the function"),
        (lambda a, b: a[a > 0], 0, "JAX cannot trace the function: Array boolean indices"),
        (lambda a, b: a.astype(jnp.int32) + 2**40, 0, "JAX cannot trace the function: .*overflow"),
        (lambda a, b: jnp.dot(a, b, precision="BF16_BF16_F32"), 0, "not supported with the algorithm"),
        (lambda a, b: jax.pure_callback(np.sin, a, a), 0, "a program cannot call back into Python"),
        (lambda a, b: (jax.debug.print("{a}", a=a), a)[1], 0, "expected a pure function, got one that prints"),
        (jax.jit(lambda a, b: a, static_argnums=1), 0, "bind static arguments with functools.partial instead"),
        (3, 0, "expected a function, got a int"),
    ],
    ids=[
        "no tuple",
        "structure",
        "type",
        "count",
        "complex output",
        "complex",
        "rbg",
        "traced",
        "mask",
        "overflow",
        "algorithm",
        "callback",
        "print",
        "static",
        "no function",
    ],
)
def test_refusals_have_one_line(function: Any, state: int, message: str) -> None:
    arguments = np.ones(3, np.float32), np.ones(3, np.float32)
    with pytest.raises(ReproError, match=message) as error:
        import_function(function, *arguments, state=state)
    assert len(str(error.value).splitlines()) == 1


def test_inputs_are_those_of_the_capture() -> None:
    imported = import_function(lambda x: x["a"] + 1, {"a": np.ones(3, np.float32)})
    with pytest.raises(ReproError, match="the arguments have the structure"):
        imported.read_inputs(({"b": np.ones(3, np.float32)},))
    with pytest.raises(ReproError, match=r"x.a has shape \[4\] of float32, expected \[3\] of f32"):
        imported.read_inputs(({"a": np.ones(4, np.float32)},))


def test_unsigned_integers_are_unsigned() -> None:
    def function(a: jax.Array, b: jax.Array) -> Any:
        key = jnp.argsort(a)
        return (a >> 3, a // b, a % b, a > b, jnp.maximum(a, b), a.astype(jnp.float32), a.max(), jnp.sort(a), key)

    a = np.array([1, 2**31, 2**32 - 1, 7], np.uint32)
    check(function, a, np.array([5, 3, 2**31, 7], np.uint32))
    check(lambda x: (x.astype(jnp.uint8), x.astype(jnp.int8)), np.array([0.5, 200.0, -3.0, 127.4], np.float32))


def test_random_numbers_are_those_of_jax() -> None:
    def function(seed: jax.Array) -> Any:
        key, other = jax.random.split(jax.random.key(seed))
        return (
            jax.random.bits(key, (7,)),
            jax.random.randint(other, (5,), 0, 1000),
            jax.random.bernoulli(key, 0.3, (9,)),
        )

    _, found = run(import_function(function, np.int32(3)), (), (np.int32(3),))
    for got, want in zip(found, jax.jit(function)(np.int32(3)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_slices_stay_within_the_tensor_and_updates_outside_are_dropped() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)

    def cut_and_paste(x: jax.Array, i: jax.Array) -> Any:
        return jax.lax.dynamic_slice(x, (i, i), (2, 2)), jax.lax.dynamic_update_slice(x, -x[:2, :2], (i, i))

    check(cut_and_paste, x, np.int32(-5), others=[(x, np.int32(start)) for start in (0, 2, 9)])
    places = np.array([[0], [3], [4], [-1], [3], [-9]], np.int32)
    updates = np.arange(18, dtype=np.float32).reshape(6, 3) + 1
    methods = ("set", "add", "multiply", "min", "max")
    check(lambda x, i, u: [getattr(x.at[i[:, 0]], method)(u) for method in methods], x, places, updates)
    check(lambda x, i: x.at[i[:, 0]].get(mode="fill", fill_value=-1.0), x, places)
    # An update out of range must be dropped: adding +0 instead would turn -0 into +0.
    zeros = -np.zeros((2, 2), np.float32)
    _, found = run(import_function(lambda x: x.at[jnp.array([7])].add(1.0), zeros), (), (zeros,))
    assert np.signbit(found).all()


def test_sorts_by_several_keys_are_stable() -> None:
    draw = np.random.default_rng(1)
    a, b = (draw.integers(0, 3, 20).astype(dtype) for dtype in (np.int32, np.float32))
    b[[3, 7]] = np.nan
    b[5] = -0.0
    check(lambda a, b: jax.lax.sort((a, b, jnp.arange(20)), num_keys=2), a, b)
    check(lambda a, b: jax.lax.top_k(b, 6), a, b)
    check(lambda a, b: jnp.sort(b, descending=True), a, b)


def test_loops_that_are_known_become_straight_lines() -> None:
    def function(x: jax.Array) -> Any:
        def total(x: jax.Array) -> jax.Array:
            return jax.lax.scan(lambda carry, row: (jnp.tanh(carry + row), None), jnp.zeros(3), x)[0].sum()

        return jax.grad(total)(x), jax.lax.fori_loop(0, 3, lambda i, y: y * x[i], x[3])

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    check(function, x)
    message = r"test_jax.py.*the number of iterations depends on values: expected one that follows from constants$"
    with pytest.raises(ReproError, match=message):
        capture(lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x), x)


def test_contractions_and_windows_have_their_meaning() -> None:
    draw = np.random.default_rng(2)
    image, kernel = (draw.normal(size=shape).astype(np.float32) for shape in ((2, 8, 8, 4), (3, 3, 2, 6)))

    def convolve(image: jax.Array, kernel: jax.Array) -> Any:
        dimensions = ("NHWC", "HWIO", "NHWC")
        settings: dict[str, Any] = {"dimension_numbers": dimensions, "feature_group_count": 2}
        strided = jax.lax.conv_general_dilated(image, kernel, (2, 1), "SAME", **settings)
        spread = jax.lax.conv_general_dilated(image, kernel, (1, 1), [(1, 0)] * 2, lhs_dilation=(2, 1), **settings)
        largest = jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return strided, spread, largest, jnp.cumsum(image, 1), jax.lax.cummax(image, 2, reverse=True)

    check(convolve, image, kernel)
    pool = jax.grad(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3,), (2,), "SAME").sum())
    check(lambda x: (pool(x), jnp.argmax(x), jnp.argmin(x)), np.array([1, 5, 5, np.inf, -np.inf, 0], np.float32))


def test_an_algorithm_of_a_contraction_is_that_of_k1() -> None:
    draw = np.random.default_rng(3)
    a, b = (draw.normal(size=shape).astype(np.float32) for shape in ((3, 70), (70, 5)))
    for dtype, preset in ((np.float32, "F32_F32_F32"), (np.float16, "F16_F16_F32"), (jnp.bfloat16, "BF16_BF16_F32")):
        one, other = a.astype(dtype), b.astype(dtype)
        stated = functools.partial(jnp.dot, precision=preset, preferred_element_type=np.float32)
        silent = functools.partial(jnp.dot, preferred_element_type=np.float32)
        # `stated` names an algorithm (a preset of JAX). JAX on a CPU cannot run every preset, so the program is
        # compared with that of `silent`, which names only the type of the result.
        check(silent, one, other)
        _, found = run(import_function(stated, one, other), (), (one, other))
        _, want = run(import_function(silent, one, other), (), (one, other))
        assert found.tobytes() == want.tobytes()
    with pytest.raises(ReproError, match="not supported with the algorithm"):
        import_function(functools.partial(jnp.dot, precision="F16_F16_F16"), a.astype(np.float16), b.astype(np.float16))


def test_a_reduction_over_no_dimension_gives_its_operand() -> None:
    total = lambda x, start: jax.lax.reduce(x, start, jax.lax.add, ())  # noqa: E731
    check(lambda x: (total(x, 0.0), total(x[0], 2.0), jnp.sum(x[2])), np.array([1, 3, -0.0, np.inf], np.float32))


def test_a_choice_by_data_computes_both_branches() -> None:
    def function(x: jax.Array, i: jax.Array) -> jax.Array:
        return jax.lax.switch(i, [jnp.sin, lambda x: x * 2, lambda x: -x], x)

    x = np.ones(3, np.float32)
    check(function, x, np.int32(-4), others=[(x, np.int32(i)) for i in (0, 1, 2, 7)])


def test_reductions_of_nothing_are_their_initial_values() -> None:
    check(lambda x: (x.sum(), x.sum(axis=0), x.prod(axis=0), x.max(axis=1)), np.zeros((0, 3), np.float32))


def test_choices_within_choices_and_loops() -> None:
    def scan(x: jax.Array) -> Any:
        def body(c: jax.Array, t: jax.Array) -> Any:
            inner = lambda c: jax.lax.cond(t > 1, lambda c: c * 0.5, lambda c: jnp.exp(-c), c)  # noqa: E731
            c = jax.lax.cond(c.sum() > 3, inner, lambda c: c + t, c)
            return c, c.max()

        return jax.lax.scan(body, x, jnp.arange(5.0))

    check(scan, np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_types_of_ml_dtypes(target: str) -> None:
    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x * y, y.astype(jnp.float32).astype(jnp.float8_e5m2)

    x = jnp.linspace(-2, 2, 6, dtype=jnp.bfloat16)
    y = jnp.full(6, 1.5, jnp.bfloat16)
    program = capture(function, x, y)
    executable = repro_mlir.compile(program, target)
    codes = [np.asarray(each).view(np.uint16) for each in (x, y)]
    expected = [np.asarray(each) for each in function(x, y)]
    for given in ((x, y), (np.asarray(x), np.asarray(y)), (x, codes[1])):
        _, found = executable({}, *given)
        for one, other in zip(found.values(), expected, strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
    _, found = executable({}, *codes)
    assert [each.dtype for each in found.values()] == [np.uint16, np.uint8]
    with pytest.raises(ReproError, match="expected elements of bf16"):
        executable({}, jnp.ones(6), y)
