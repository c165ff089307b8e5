# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports SavedModels as programs, and trains them with `program_training.training_step`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
import tensorflow as tf
from repro_mlir import ReproError
from repro_mlir.cli.main import main
from repro_mlir.frontends.tensorflow import import_saved_model, load
from repro_mlir.program_training import cross_entropy, sgd, training_step

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")


class Model(tf.Module):
    """A network with an embedding table and a dense layer, and two signatures: `logits`, which has dynamic sizes, and
    `last`."""

    def __init__(self) -> None:
        super().__init__()
        draw = np.random.default_rng(0)
        self.table = tf.Variable(draw.normal(size=(7, 4)).astype(np.float32), name="table")
        self.weight = tf.Variable(draw.normal(size=(4, 3)).astype(np.float32), name="dense/kernel")
        self.bias = tf.Variable(tf.zeros(3), name="dense/bias")

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.int32, "tokens"), tf.TensorSpec([None], name="scale")])
    def logits(self, tokens: Any, scale: Any) -> dict[str, Any]:
        x = tf.reduce_mean(tf.gather(self.table, tokens), 1)
        return {"logits": tf.nn.relu(x) @ self.weight + self.bias, "scaled": x * scale[:, None]}

    @tf.function(input_signature=[tf.TensorSpec([2, 4])])
    def last(self, x: Any) -> Any:
        return x @ self.weight


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    model, path = Model(), tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(model, str(path), signatures={"serving_default": model.logits, "last": model.last})
    return model, path


SIZES = {"tokens.0": 2, "scale.0": 2}
TOKENS = np.array([[0, 1, 2, 3, 6], [5, 5, 0, 0, 1]], np.int32)
SCALE = np.array([1.0, -2.0], np.float32)


def test_a_saved_model_gives_the_bits_of_every_target_and_the_numbers_of_tensorflow(saved: tuple[Model, Path]) -> None:
    model, path = saved
    imported = import_saved_model(path, sizes=SIZES)
    assert [str(kind) for kind in imported.inputs] == ["scale: 2xf32", "tokens: 2x5xi32"]
    assert {kind.name for kind in imported.state} == {"table", "dense/kernel", "dense/bias"}
    assert [kind.name for kind in imported.outputs] == ["logits", "scaled"]
    assert 'loc("node ' in imported.text and ".py" not in imported.text
    program, found = load(path, sizes=SIZES), []
    for target in TARGETS:
        _, outputs = repro_mlir.compile(program, target)(program.initial_state(), SCALE, TOKENS)
        found.append(outputs)
    for other in found[1:]:
        assert all(value.tobytes() == found[0][name].tobytes() for name, value in other.items())
    for name, value in model.logits(TOKENS, SCALE).items():
        np.testing.assert_allclose(found[0][name], value, 1e-5, 1e-6)
    given = imported.bindings.outputs_of(found[0])
    np.testing.assert_array_equal(given["logits"], found[0]["logits"])


def test_another_signature(saved: tuple[Model, Path]) -> None:
    program = load(saved[1], signature="last")
    assert [kind.name for kind in program.inputs] == ["x"] and [kind.name for kind in program.state] == ["dense/kernel"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "dimension 0 of input scale is open: pass its size as sizes={'scale.0': ...}"),
        ({"sizes": {**SIZES, "x.0": 1}}, "expected sizes of open dimensions of the signature alone, got 'x.0'"),
        ({"signature": "other"}, "has no signature 'other', expected one of last, serving_default"),
        ({"sizes": {"tokens.0": 3, "scale.0": 2}}, "node .*: .*"),
    ],
    ids=["open", "unknown", "signature", "mismatch"],
)
def test_invalid_options_are_refused(saved: tuple[Model, Path], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        load(saved[1], **options)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="TensorFlow cannot load the SavedModel"):
        load(tmp_path)


def test_a_saved_model_trains(saved: tuple[Model, Path]) -> None:
    """Training gives results close to TensorFlow's, and the same bits on every target."""
    model, path = saved
    imported = import_saved_model(path, sizes=SIZES)
    names = ["table", "dense/kernel", "dense/bias"]
    step = training_step(imported, cross_entropy(), sgd(), train=names, output="logits")
    target = np.array([2, 0], np.int64)
    found = []
    for machine in TARGETS:
        executable, state = repro_mlir.compile(step, machine), step.initial_state()
        for _ in range(3):
            state, outputs = executable(state, np.float32(0.1), SCALE, TOKENS, target)
        found.append({**state, **outputs})
    for other in found[1:]:
        assert all(value.tobytes() == found[0][name].tobytes() for name, value in other.items())
    variables = {variable.name[:-2]: tf.Variable(variable) for variable in model.variables}
    twin = Model()
    for variable in twin.variables:
        variable.assign(variables[variable.name[:-2]])
    for _ in range(3):
        with tf.GradientTape() as tape:
            logits = twin.logits(TOKENS, SCALE)["logits"]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits))
        for variable, gradient in zip(twin.variables, tape.gradient(loss, twin.variables), strict=True):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
    np.testing.assert_allclose(found[0]["loss"], loss, 1e-4)
    for variable in twin.variables:
        np.testing.assert_allclose(found[0][variable.name[:-2]], variable, 1e-4, 1e-5)


def test_commands_take_the_folder(
    saved: tuple[Model, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, program = str(saved[1]), tmp_path / "model.repro"
    sizes = [option for name, size in SIZES.items() for option in ("--size", f"{name}={size}")]
    assert main(["compile", folder, *sizes, "-o", str(program), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["program"] == load(folder, sizes=SIZES).hash
    assert main(["inspect", folder, *sizes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == ["scale: 2xf32", "tokens: 2x5xi32"]
    np.savez(tmp_path / "batch.npz", scale=SCALE, tokens=TOKENS)
    assert main(["run", folder, *sizes, "--inputs", str(tmp_path / "batch.npz")]) == 0
