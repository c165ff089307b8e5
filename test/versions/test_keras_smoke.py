# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the frontend with a tried version of Keras: the bits are those of the repository's own version.

KERAS_BACKEND selects the backend, jax or torch.
"""

import keras
import numpy as np
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.integrations.keras import evaluate, fit

HASHES = {
    "jax": "4d5c75e29ca084e07426db4cdc06a4ae8392b9c8ffaa4cab47b38c656434db87",
    "torch": "3c2b025c90e70ef82677e47261411ffe5ba2fa1f864dbe8de3680a0d7b042367",
}
"""The hashes of the weights by backend, with Keras 3.15.1."""

X = ((np.arange(8 * 64) * 37 % 101 - 50) / 64).astype(np.float32).reshape(8, 8, 8, 1)
Y = np.arange(8) % 3


def test_fit_and_evaluate() -> None:
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((8, 8, 1)), layers.Conv2D(4, 3, use_bias=False), layers.BatchNormalization(), layers.ReLU(),
        layers.MaxPooling2D(), layers.Flatten(), layers.LayerNormalization(), layers.Dense(3),
    ])  # fmt: skip
    for weights in model.trainable_variables:
        size = int(np.prod(weights.shape))
        weights.assign(((np.arange(size) * 37 % 101 - 50) / 128).astype(np.float32).reshape(weights.shape))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-2), loss, metrics=["accuracy"])
    history = fit(model, X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0, threads=1).history
    assert len(history["loss"]) == len(history["accuracy"]) == 2
    assert np.isfinite(evaluate(model, X, Y, batch_size=4, verbose=0, threads=1)).all()
    found = [keras.ops.convert_to_numpy(each.value) for each in model.variables if "seed" not in each.path]
    assert state_hash([(each, "f32") for each in found]) == HASHES[keras.config.backend()]
