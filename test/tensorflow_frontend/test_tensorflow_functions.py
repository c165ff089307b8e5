# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports TensorFlow's functions as programs: names, state, and equal bits on every target."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import repro_mlir
import tensorflow as tf
from repro_mlir import ReproError
from repro_mlir.frontends.tensorflow import capture, import_function
from repro_mlir.program import program_of
from repro_mlir.program.imported import ImportedProgram

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(imported: ImportedProgram[Any], inputs: tuple[Any, ...], steps: int = 1) -> dict[str, np.ndarray]:
    """Runs steps on every target and checks that the bits are equal. Returns the state and the outputs by name."""
    program = program_of(imported)
    found = []
    for target in TARGETS:
        executable = repro_mlir.compile(program, target)
        state = imported.bindings.flatten_state()
        for _ in range(steps):
            state, outputs = executable(state, *imported.read_inputs(inputs))
        found.append({**state, **outputs})
    for other in found[1:]:
        assert all(value.tobytes() == found[0][name].tobytes() for name, value in other.items())
    return found[0]


def check(function: Callable[..., Any], *arguments: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Checks that a function without state returns the same bits on every target and values close to TensorFlow's."""
    imported = import_function(function, *arguments)
    got = imported.bindings.outputs_of(run(imported, arguments))
    expected = tf.function(function)(*arguments)
    tf.nest.assert_same_structure(got, expected)
    for one, other in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(tf.cast(one, tf.float64), tf.cast(other, tf.float64), rtol, atol)


class Network:
    """A network with a convolution, batch normalization and a dense layer, and a step that updates it by SGD or
    Adam."""

    def __init__(self, adam: bool) -> None:
        self.kernel = tf.Variable(0.3 * draw(3, 3, 1, 4), name="conv/kernel")
        self.gamma, self.beta = tf.Variable(tf.ones(4), name="norm/gamma"), tf.Variable(tf.zeros(4), name="norm/beta")
        self.mean = tf.Variable(tf.zeros(4), trainable=False, name="norm/mean")
        self.weight = tf.Variable(0.1 * draw(64, 3, seed=1), name="dense/kernel")
        self.bias = tf.Variable(tf.zeros(3), name="dense/bias")
        self.trained = [self.kernel, self.gamma, self.beta, self.weight, self.bias]
        self.adam = adam
        self.count = tf.Variable(0, dtype=tf.int64, name="adam/step")
        self.slots = [
            [tf.Variable(tf.zeros_like(each), name=f"adam/{slot}/{each.name[:-2]}") for each in self.trained]
            for slot in "mv"
        ]

    def __call__(self, images: Any) -> Any:
        x = tf.nn.conv2d(images, self.kernel, 1, "SAME")
        x, mean, _ = tf.compat.v1.nn.fused_batch_norm(x, self.gamma, self.beta, epsilon=1e-3)
        self.mean.assign(0.9 * self.mean + 0.1 * mean)
        x = tf.nn.max_pool2d(tf.nn.gelu(x, approximate=True), 2, 2, "VALID")
        return tf.reshape(x, [x.shape[0], -1]) @ self.weight + self.bias

    def step(self, batch: dict[str, Any], rate: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            logits = self(batch["images"])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits))
        gradients = tape.gradient(loss, self.trained)
        if self.adam:
            step = tf.cast(self.count.assign_add(1), tf.float32)
            for variable, gradient, m, v in zip(self.trained, gradients, *self.slots, strict=True):
                m.assign(0.9 * m + 0.1 * gradient)
                v.assign(0.999 * v + 0.001 * tf.square(gradient))
                scaled = tf.sqrt(v / (1 - 0.999**step)) + 1e-4
                variable.assign_sub(rate * (m / (1 - 0.9**step)) / scaled)
        else:
            for variable, gradient in zip(self.trained, gradients, strict=True):
                variable.assign_sub(rate * gradient)
        return {"loss": loss, "logits": logits}


BATCH = {"images": draw(4, 8, 8, 1, seed=2), "labels": np.array([0, 2, 1, 1], np.int32)}
RATE = np.float32(0.05)


@pytest.mark.parametrize("adam", [False, True], ids=["sgd", "adam"])
def test_a_training_step_has_the_bits_of_every_target_and_the_numbers_of_tensorflow(adam: bool) -> None:
    network = Network(adam)
    imported = import_function(network.step, BATCH, RATE)
    names = [kind.name for kind in imported.state]
    assert {"conv/kernel", "norm/gamma", "norm/mean", "dense/bias"} <= {*names}
    assert ("adam/v/dense/kernel" in names) == ("adam/step" in names) == adam
    assert [str(kind) for kind in imported.inputs] == ["batch.images: 4x8x8x1xf32", "batch.labels: 4xi32", "rate: f32"]
    assert [kind.name for kind in imported.outputs] == ["output.logits", "output.loss"]
    found = run(imported, (BATCH, RATE), steps=3)
    # The import has not changed the variables.
    np.testing.assert_array_equal(network.bias, np.zeros(3))
    expected = [tf.function(network.step)(BATCH, RATE) for _ in range(3)][-1]
    for kind, variable in zip(imported.state, imported.bindings.variables, strict=True):
        np.testing.assert_allclose(found[kind.name], variable, 1e-3, 1e-4, err_msg=kind.name)
    got = imported.bindings.outputs_of(found)
    np.testing.assert_allclose(got["loss"], expected["loss"], 1e-4)
    np.testing.assert_allclose(got["logits"], expected["logits"], 1e-3, 1e-4)


def test_a_step_is_written_back_by_a_call() -> None:
    variable = tf.Variable([1.0, 2.0], name="w")
    imported = import_function(lambda x: variable.assign_add(x), np.ones(2, np.float32))
    found = run(imported, (np.ones(2, np.float32),), steps=2)
    imported.bindings.write_state([found["w"]])
    np.testing.assert_array_equal(variable, [3.0, 4.0])
    np.testing.assert_array_equal(imported.bindings.flatten_state()["w"], [3.0, 4.0])
    for values, message in (([], "expected 1 state tensors, got 0"), ([np.ones(3, np.float32)], r"w has shape \[3\]")):
        with pytest.raises(ReproError, match=message):
            imported.bindings.write_state(values)
    np.testing.assert_array_equal(capture(lambda: variable + 0.0).initial_state()["w"], [3.0, 4.0])


def test_variables_of_one_name_are_numbered_by_their_first_use() -> None:
    first, second = tf.Variable([1.0]), tf.Variable([2.0])
    imported = import_function(lambda Variable: Variable + 2.0 * second + first, np.ones(1, np.float32))
    assert [kind.name for kind in imported.state] == ["Variable_1", "Variable_2"]
    assert [value.tolist() for value in imported.initial] == [[2.0], [1.0]]


def test_a_function_of_tf_function_keeps_its_names_and_calls_others() -> None:
    weight = tf.Variable(draw(3, 3), name="w")

    @tf.function
    def inner(x: Any) -> Any:
        for i in tf.range(3):
            x = tf.tanh(x @ weight) + tf.cast(i, tf.float32)
        return x

    class Pair(NamedTuple):
        sum: Any
        none: Any

    @tf.function(reduce_retracing=True)
    def function(pair: Any, *others: Any) -> Any:
        if tf.reduce_sum(pair[0]) > 0.0:
            weight.assign_add(tf.ones_like(weight))
        return Pair(inner(pair[0]) + pair[1]["y"] + others[0], None)

    x = draw(2, 3)
    imported = import_function(function, (x, {"y": x}), x)
    assert [kind.name for kind in imported.inputs] == ["pair.0", "pair.1.y", "others.0"]
    assert [kind.name for kind in imported.outputs] == ["output.sum"]
    found = run(imported, ((x, {"y": x}), x))
    expected = function((tf.constant(x), {"y": tf.constant(x)}), tf.constant(x))
    got = imported.bindings.outputs_of(found)
    np.testing.assert_allclose(got.sum, expected.sum, 1e-5, 1e-6)
    assert got.none is None
    np.testing.assert_allclose(found["w"], weight, 1e-6)


def test_locations_are_the_users_lines() -> None:
    def function(x: Any) -> Any:
        return tf.sinh(tf.nn.softmax(x))

    line = function.__code__.co_firstlineno + 1
    text = import_function(function, draw(3)).text
    assert f'test_tensorflow_functions.py":{line}:' in text
    assert "site-packages" not in text and "node" not in text


def test_constants_are_those_of_every_machine() -> None:
    """Constant expressions are imported, not folded: TensorFlow would fold them with this machine's math functions."""
    numbers = tf.constant(draw(8))
    text = import_function(lambda x: x + tf.exp(tf.constant([0.3, 0.7])) + tf.sin(numbers[:2]), draw(2)).text
    assert "repro.exp" in text and "repro.sin" in text


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64, tf.int64, tf.int32, tf.uint8, tf.bool])
def test_element_types(dtype: Any) -> None:
    values = tf.cast(tf.constant([[1, 0, 3], [4, 5, 0]]), dtype)
    constant = tf.cast(tf.constant([1, 0, 1]), dtype)
    if dtype == tf.bool:
        check(lambda x: (tf.logical_or(x, constant), tf.reduce_all(x), tf.where(x, 1, 2)), values)
    else:
        check(lambda x: (x * x + constant, tf.reduce_sum(x), tf.cast(x > 2, dtype)), values)


def test_random_numbers_are_those_of_xla() -> None:
    generator = tf.random.Generator.from_seed(7, alg="philox")
    threefry = tf.random.Generator.from_seed(7, alg="threefry")

    def function(x: Any, seed: Any) -> Any:
        uniform = tf.random.stateless_uniform([5, 3], seed)
        normal = tf.random.stateless_normal([7], seed, alg="threefry")
        integers = tf.random.stateless_uniform([4], seed, -3, 1000, tf.int64)
        kept = tf.nn.experimental.stateless_dropout(x, 0.5, seed)
        return uniform, normal, integers, kept, generator.normal([3, 5]), threefry.uniform([2, 2])

    x, seed = np.ones((4, 4), np.float32), np.array([3, -5], np.int32)
    imported = import_function(function, x, seed)
    found = run(imported, (x, seed))
    expected = tf.function(function, jit_compile=True)(x, seed)
    for got, want in zip(imported.bindings.outputs_of(found), expected, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)
    for kind, variable in zip(imported.state, imported.bindings.variables, strict=True):
        np.testing.assert_array_equal(found[kind.name], variable)


def effects(name: str) -> Callable[[Any], Any]:
    """Returns the function `name`, which has an effect or a type that programs cannot represent."""
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([3])), 0)
    queue = tf.queue.FIFOQueue(2, [tf.float32])
    functions: dict[str, Callable[[Any], Any]] = {
        "print": lambda x: (tf.print("a"), x)[1],
        "print a tensor": lambda x: (tf.print(x), x)[1],
        "assert": lambda x: (tf.debugging.assert_positive(x), x)[1],
        "check": lambda x: tf.debugging.check_numerics(x, "bad"),
        "python": lambda x: tf.py_function(lambda y: y, [x], tf.float32),
        "normal": lambda x: x + tf.random.normal([2, 3]),
        "dropout": lambda x: tf.nn.dropout(x, 0.5),
        "mask": lambda x: x[x > 0],
        "fourier": lambda x: tf.signal.rfft(x),
        "table": lambda x: table.lookup(tf.cast(x, tf.int32)),
        "queue": lambda x: (queue.enqueue(x), x)[1],
        "string": lambda x: tf.strings.as_string(x),
        "loop": lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) > 1.0, lambda y: (y * 0.5,), (x,)),
        "branch": lambda x: x if x else -x,
        "shape": lambda x: x @ x,
        "complex": lambda x: tf.complex(x, x),
    }
    return functions[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("print", "node PrintV2: operation PrintV2 is a print"),
        ("print a tensor", "node PrintV2: operation PrintV2 is a print"),
        ("assert", "node .*Assert: operation Assert is a check of values"),
        ("check", "node CheckNumerics: operation CheckNumerics is a check of values"),
        ("python", "node EagerPyFunc: operation EagerPyFunc is not supported"),
        ("normal", "node random_normal/RandomStandardNormal: .*its bits are not defined"),
        ("dropout", "node dropout/random_uniform/RandomUniform: .*its bits are not defined"),
        ("mask", "node boolean_mask/Where: .*dynamic shape"),
        ("fourier", "node rfft: .*complex numbers is not supported"),
        ("string", "node AsString: operation AsString is not supported"),
        ("branch", "node cond: Condition argument must be a boolean"),
        ("shape", "TensorFlow cannot trace the function: ValueError: Dimensions must be equal"),
        ("complex", "node Complex: operation stablehlo.complex of complex numbers is not supported"),
    ],
)
def test_refusals_name_the_line_and_the_node(name: str, message: str) -> None:
    function = effects(name)
    with pytest.raises(ReproError, match=rf"^\S+test_tensorflow_functions.py:\d+: {message}") as caught:
        import_function(function, draw(2, 3))
    assert "\n" not in str(caught.value)


def test_resources_that_are_not_variables_are_refused() -> None:
    for name in ("table", "queue"):
        with pytest.raises(ReproError, match=r"node .*: resources other than variables are not supported"):
            import_function(effects(name), draw(2, 3))


def test_a_loop_whose_end_depends_on_values_is_refused() -> None:
    with pytest.raises(ReproError, match="the number of iterations depends on values"):
        capture(effects("loop"), draw(2, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2.0,), "x is a float, expected tensors; bind Python values with functools.partial"),
        (({"a": [draw(2), "text"]},), "x.a.1 is a str, expected tensors"),
        ((tf.Variable([1.0]),), "x is a tf.Variable, expected a tensor"),
        ((tf.TensorSpec([None, 2]),), r"x has the shape \(None, 2\), expected known extents"),
        ((tf.TensorSpec(None),), "x has the shape <unknown>"),
        ((np.array(["a"]),), "x has elements of object"),
    ],
    ids=["number", "string", "variable", "extent", "rank", "elements"],
)
def test_arguments_that_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        import_function(lambda x: x, *arguments)
    with pytest.raises(ReproError, match="expected a function, got a int"):
        import_function(3)  # type: ignore[arg-type]


def test_a_batch_of_another_structure_or_shape_is_refused() -> None:
    imported = import_function(lambda batch: batch["x"], {"x": draw(2, 3)})
    for batch, message in (
        ({"y": draw(2, 3)}, "the structure of the arguments differs"),
        ({"x": draw(3, 2)}, r"batch.x has shape \[3, 2\] of float32, expected \[2, 3\] of f32"),
        ({"x": draw(2, 3).astype(np.float64)}, "batch.x has shape .* of float64"),
    ):
        with pytest.raises(ReproError, match=message):
            imported.read_inputs((batch,))


def test_specs_and_bound_values_take_the_place_of_tensors() -> None:
    scaled = functools.partial(lambda x, factor: x * factor, factor=3.0)
    imported = import_function(scaled, tf.TensorSpec([2], tf.float32))
    assert [kind.name for kind in imported.inputs] == ["x"]
    np.testing.assert_array_equal(run(imported, (np.ones(2, np.float32),))["output"], [3.0, 3.0])


def test_a_capture_leaves_tensorflow_as_it_was() -> None:
    from tensorflow.python.client import pywrap_tf_session

    tf.random.set_seed(3)
    first = tf.random.normal([2])
    tf.random.set_seed(3)
    before = pywrap_tf_session.TF_GetXlaConstantFoldingDisabled()
    import_function(lambda x: x, draw(2))
    assert pywrap_tf_session.TF_GetXlaConstantFoldingDisabled() == before
    np.testing.assert_array_equal(tf.random.normal([2]), first)


@pytest.mark.parametrize("first", ["tensorflow", "repro_mlir.ir"])
def test_two_llvms_live_in_one_process(first: str) -> None:
    """TensorFlow exports the symbols of its own LLVM. Our LLVM must not use TensorFlow's symbols, whichever package is
    loaded first."""
    code = f"""
import {first}
import numpy as np, tensorflow as tf, torch
tf.function(lambda x: x + 1, jit_compile=True)(1.0)
import repro_mlir
model = torch.nn.Linear(3, 2)
inputs = torch.ones(2, 3)
state, outputs = repro_mlir.compile(model, inputs=(inputs,))(dict(model.state_dict()), inputs)
assert np.allclose(outputs["output"], model(inputs).detach()), outputs
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
