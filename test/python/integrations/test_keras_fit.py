# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`fit` and `evaluate` of Keras models have the same bits on every target and are close to Keras, with both of its
backends."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Keras can have only one backend in a process, so a second process runs these tests with the other backend.
os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND", "torch")
pytest.importorskip("keras")
pytest.importorskip("torch_mlir")
pytest.importorskip("jax")

import keras
import repro_mlir
from repro_mlir import ReceiptOptions, ReproError
from repro_mlir.integrations.keras import evaluate, fit

BACKEND = keras.config.backend()
TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")
X = np.random.RandomState(0).standard_normal((10, 8, 8, 1)).astype(np.float32)
Y = np.arange(10) % 3
FLAT = X.reshape(10, 64)[:, :6]


@pytest.mark.skipif(BACKEND != "torch", reason="the other process")
@pytest.mark.parametrize(
    "tests", ["every_target or steps_are or masks", pytest.param("", marks=pytest.mark.exhaustive)]
)
@pytest.mark.exhaustive
def test_the_other_backend(tests: str) -> None:
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", tests, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


def convolutional(dropout: float, rate: float = 1e-2) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([
        # No bias: the gradient of a bias before a BatchNormalization is only rounding error, which AdamW would scale
        # up.
        keras.Input((8, 8, 1)), layers.Conv2D(4, 3, use_bias=False), layers.BatchNormalization(), layers.ReLU(),
        layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(dropout, seed=3), layers.Dense(3),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(rate), loss, metrics=["accuracy"])
    return model


def dense(loss: Any = "mse", **options: Any) -> Any:
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(4, activation="tanh", kernel_regularizer="l2")
    model = keras.Sequential([keras.Input((6,)), hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, **options)
    return model


def tensors(model: Any) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(each.value) for each in (*model.variables, *model.optimizer.variables)]


def assert_close(ours: Any, theirs: Any) -> None:
    for got, want in zip(tensors(ours), tensors(theirs), strict=True):
        np.testing.assert_allclose(got, want, 1e-3, 1e-4)


def test_bits_are_those_of_every_target() -> None:
    found = []
    for target in TARGETS:
        model = convolutional(0.5)
        history = fit(model, X[:8], Y[:8], batch_size=4, verbose=0, target=target).history
        found.append([*map(np.ndarray.tobytes, tensors(model)), history])
    assert all(each == found[0] for each in found[1:])


def test_steps_are_those_of_keras(tmp_path: Path) -> None:
    """Covers callbacks, a learning rate per epoch, shuffled samples and validation."""
    models = convolutional(0), convolutional(0)
    histories = []
    for number, (model, train) in enumerate(zip(models, (fit, keras.Model.fit), strict=True)):
        kept = str(tmp_path / f"{number}.weights.h5")
        callbacks = [
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
            keras.callbacks.ModelCheckpoint(kept, save_weights_only=True),
            keras.callbacks.EarlyStopping("loss", patience=0, min_delta=10.0),
        ]
        keras.utils.set_random_seed(1)
        histories.append(
            train(model, X, Y, batch_size=4, epochs=9, verbose=0, callbacks=callbacks, validation_split=0.2)
        )
    ours, theirs = (history.history for history in histories)
    assert histories[0].epoch == histories[1].epoch == [0, 1] and [*ours] == [*theirs]
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, 1e-4)
    assert_close(*models)
    loaded = convolutional(0)
    loaded.load_weights(tmp_path / "0.weights.h5")
    assert all(map(np.array_equal, loaded.get_weights(), models[0].get_weights()))
    np.testing.assert_allclose(evaluate(models[0], X, Y, verbose=0), models[0].evaluate(X, Y, verbose=0), 1e-5)
    np.testing.assert_allclose(models[0].predict(X, verbose=0), models[1].predict(X, verbose=0), 1e-3, 1e-4)


def test_random_numbers_advance() -> None:
    model = convolutional(0.5, rate=0.0)
    calls = [fit(model, X, Y, batch_size=10, epochs=2, verbose=0, shuffle=False).history["loss"] for _ in range(2)]
    # All losses differ, because the second call of `fit` continues with the weights that the first call has trained.
    assert len({*calls[0], *calls[1]}) == 4


def test_changes_between_steps_take_effect() -> None:
    class Write(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.set_weights([weight * 0.5 for weight in self.model.get_weights()])
            self.model.optimizer.learning_rate = 0.05

    models = dense(), dense()
    for model, train in zip(models, (fit, keras.Model.fit), strict=True):
        train(model, FLAT, Y, batch_size=5, epochs=2, verbose=0, callbacks=[Write()], shuffle=False)
    assert_close(*models)


@pytest.mark.parametrize("owner, name, value", [
    ("optimizer", "clipnorm", 1e-3), ("optimizer", "nesterov", True), ("layer", "activation", keras.ops.sin),
    ("regularizer", "l2", 3.0), ("loss", "reduction", "sum"),
])  # fmt: skip
def test_settings_that_change_between_steps_count(owner: str, name: str, value: Any, tmp_path: Path) -> None:
    def run(train: Callable[..., Any], change: bool, **options: Any) -> Any:
        # With JAX, Keras' compiled steps would keep the settings of the first step, so Keras runs eagerly here.
        model = dense(keras.losses.MeanSquaredError(), run_eagerly=train is not fit)
        layer = model.layers[0]
        owners = dict(optimizer=model.optimizer, layer=layer, regularizer=layer.kernel_regularizer, loss=model.loss)

        def begin(epoch: int, logs: Any) -> None:
            if change and epoch == 1:
                setattr(owners[owner], name, value)

        calls = [keras.callbacks.LambdaCallback(on_epoch_begin=begin)]
        train(model, FLAT, Y, batch_size=5, epochs=2, verbose=0, shuffle=False, callbacks=calls, **options)
        return model

    path = tmp_path / "run.receipt"
    theirs, constant = (run(keras.Model.fit, change) for change in (True, False))
    assert_close(run(fit, True, receipt=ReceiptOptions(path)), theirs)
    with pytest.raises(AssertionError):
        assert_close(constant, theirs)
    repro_mlir.verify(path, target="reference")


def test_statistics_that_are_adapted_count() -> None:
    """The layer Normalization computes with tensors that `adapt` makes from its variables."""
    models = []
    for train, options in ((fit, {}), (keras.Model.fit, {"run_eagerly": True})):
        keras.utils.set_random_seed(0)
        first = keras.layers.Normalization()
        first.adapt(FLAT)
        model = keras.Sequential([keras.Input((6,)), first, keras.layers.Dense(1)])
        model.compile("sgd", "mse", **options)

        def begin(epoch: int, logs: Any, first: Any = first) -> None:
            first.adapt(FLAT * (epoch + 3))

        calls = [keras.callbacks.LambdaCallback(on_epoch_begin=begin)]
        train(model, FLAT, Y, batch_size=5, epochs=2, verbose=0, shuffle=False, callbacks=calls)
        models.append(model)
    assert_close(*models)
    np.testing.assert_allclose(*(each.predict(FLAT, verbose=0) for each in models), 1e-4)


def test_weights_of_samples_and_classes() -> None:
    given = {"sample_weight": np.linspace(0, 1, 10), "class_weight": {0: 0.5, 1: 2.0, 2: 1.0}}
    for name, weights in given.items():
        models = [dense(weighted_metrics=["mae"]) for _ in range(2)]
        logs = [
            train(model, FLAT, Y, verbose=0, shuffle=False, **{name: weights}).history
            for model, train in zip(models, (fit, keras.Model.fit), strict=True)
        ]
        np.testing.assert_allclose([*logs[0].values()], [*logs[1].values()], 1e-5)
        assert_close(*models)


IDS = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [1, 1, 2, 3], [0, 0, 0, 0], [2, 3, 1, 0]])
STEPS = np.random.RandomState(1).standard_normal((5, 4, 3)).astype(np.float32)


class MeanOfMasked(keras.metrics.Mean):
    """A metric that reads the mask from the model's output."""

    def update_state(self, y: Any, found: Any, sample_weight: Any = None) -> None:
        mask = getattr(found, "_keras_mask", None)
        super().update_state(found, None if mask is None else keras.ops.cast(mask, "float32")[..., None])


class Activity(keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True

    def call(self, x: Any) -> Any:
        self.add_loss(keras.ops.mean(x * x))
        return x


def _by_embedding() -> Any:
    """Returns a model with two masked outputs, one of them class logits, and one output without a mask."""
    layers = keras.layers
    ids = keras.Input((4,), dtype="int32")
    hidden = Activity()(layers.Embedding(4, 5, mask_zero=True)(ids))
    value, kind = layers.Dense(1, name="value")(hidden), layers.Dense(3, name="kind")(hidden)
    model = keras.Model(
        ids, {"value": value, "kind": kind, "whole": layers.Dense(1, name="whole")(layers.GlobalMaxPooling1D()(hidden))}
    )
    classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    model.compile(
        "sgd",
        {"value": "mse", "kind": classes, "whole": "huber"},
        loss_weights={"value": 0.5, "kind": 2.0, "whole": 1.0},
        metrics={"value": ["mae", MeanOfMasked(name="own")], "kind": ["accuracy"], "whole": ["mae"]},
        weighted_metrics={"value": [keras.metrics.RootMeanSquaredError()], "kind": ["accuracy"]},
    )
    return model


def _by_masking() -> Any:
    recurrent = keras.layers.SimpleRNN(2, return_sequences=True)
    layers = [keras.Input((4, 3)), keras.layers.Masking(), recurrent, keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", metrics=["mae", "mape"], weighted_metrics=["mse"])
    return model


@pytest.mark.parametrize("make", [_by_embedding, _by_masking])
def test_masks_reach_losses_and_metrics(make: Callable[[], Any]) -> None:
    value = STEPS.sum(-1, keepdims=True)
    weight = np.linspace(0.5, 2, 20, dtype=np.float32).reshape(5, 4)
    x, y, weights = STEPS * (IDS > 0)[..., None], value, weight
    if make is _by_embedding:
        x = IDS
        y = {"value": value, "kind": IDS % 3, "whole": value[:, 0]}
        weights = {"value": weight, "kind": weight, "whole": weight[:, 0]}
    models, logs = [], []
    for train, judge in ((fit, evaluate), (keras.Model.fit, keras.Model.evaluate)):
        keras.utils.set_random_seed(0)
        models.append(make())
        options: dict[str, Any] = dict(sample_weight=weights, batch_size=5, verbose=0)
        options |= {} if train is not fit else {"target": "reference"}
        history = train(models[-1], x, y, shuffle=False, **options).history
        judged = judge(models[-1], x, y, return_dict=True, **options)
        logs.append(
            {name: values[0] for name, values in history.items()} | {f"{n} of evaluate": v for n, v in judged.items()}
        )
    assert [*logs[0]] == [*logs[1]]
    np.testing.assert_allclose([*logs[0].values()], [*logs[1].values()], 1e-4)
    assert_close(*models)


def test_several_inputs_outputs_and_losses() -> None:
    def make() -> Any:
        keras.utils.set_random_seed(0)
        layers = keras.layers
        a, b = keras.Input((6,), name="a"), keras.Input((), name="b", dtype="int32")
        joined = layers.Concatenate()([a, layers.Embedding(3, 2)(b)])
        outputs = {
            "value": layers.Dense(1, name="value", kernel_regularizer="l2")(joined),
            "free": layers.Dense(2, name="free")(joined),
        }
        model = keras.Model([a, b], outputs)
        model.compile("adam", {"value": "mae", "free": None}, metrics={"value": ["mse"]})
        return model

    models = make(), make()
    logs = [
        train(
            model, [FLAT, Y.astype(np.int32)], {"value": Y[:, None], "free": FLAT[:, :2]}, verbose=0, shuffle=False
        ).history
        for model, train in zip(models, (fit, keras.Model.fit), strict=True)
    ]
    assert [*logs[0]] == [*logs[1]]
    np.testing.assert_allclose([*logs[0].values()], [*logs[1].values()], 1e-5)
    assert_close(*models)


def test_a_run_has_a_receipt(tmp_path: Path) -> None:
    """The receipt has two programs, because the last batch is smaller."""
    path = tmp_path / "run.receipt"
    fit(dense(), FLAT, Y, batch_size=4, epochs=2, verbose=0, receipt=ReceiptOptions(path, checkpoint_every=2))
    repro_mlir.verify(path, target="reference")


class OwnStep(keras.Model):
    def train_step(self, *arguments: Any) -> Any:
        raise AssertionError

    def call(self, x: Any) -> Any:
        return x


def _frozen() -> Any:
    model = dense()

    class Freeze(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            model.layers[0].trainable = False

    fit(model, FLAT, Y, batch_size=5, epochs=2, verbose=0, callbacks=[Freeze()])


def _restless() -> Any:
    class Anneal(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.optimizer.momentum += 1e-3

    with unittest.mock.patch("repro_mlir.integrations.keras._MOST_SETTINGS", 3):
        fit(dense(), FLAT, Y, batch_size=5, epochs=2, verbose=0, callbacks=[Anneal()])


def _own_step() -> Any:
    model = OwnStep()
    model.compile("sgd", "mse")
    fit(model, FLAT, FLAT, verbose=0)


def _unknown_variable() -> Any:
    hidden = {"scale": keras.Variable(2.0)}
    model = dense(loss=lambda y, found: keras.ops.mean(found * hidden["scale"]))
    before = model.get_weights()
    try:
        fit(model, FLAT, Y, verbose=0)
    finally:
        assert all(map(np.array_equal, model.get_weights(), before))


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "run_eagerly": ("run_eagerly", lambda: fit(dense(run_eagerly=True), FLAT, Y)),
    "execution": ("steps_per_execution", lambda: fit(dense(steps_per_execution=2, jit_compile=False), FLAT, Y)),
    "resume": ("without resume", lambda: fit(dense(), FLAT, Y, receipt=ReceiptOptions("never", resume=True))),
    "own step": ("OwnStep overrides train_step, which a compiled step does not call", _own_step),
    "frozen": ("which of them are trainable, have changed", _frozen),
    "restless": ("optimizer.momentum changed; settings have changed 3 times", _restless),
    "unknown variable": ("reads the variable", _unknown_variable),
}
if BACKEND == "jax":
    REFUSED["seed"] = ("seed is only for Keras's torch backend", lambda: fit(dense(), FLAT, Y, seed=1, verbose=0))


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_a_step_cannot_honour_are_refused(case: str) -> None:
    message, run = REFUSED[case]
    with pytest.raises(ReproError, match=message):
        run()
