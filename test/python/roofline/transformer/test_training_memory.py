# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the predicted memory of a training step against published formulas, with pipeline stages and sharding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.roofline.transformer import PRESETS, Parallelism, Training, predict_training, training_memory

LLAMA, GPT = PRESETS["llama3-8b"], PRESETS["megatron-22b"]


@pytest.mark.parametrize("tensor", [1, 2, 8])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_activations_are_those_of_the_paper(tensor: int, sequence_parallel: bool) -> None:
    """Checks table 2 of arXiv:2205.05198, which contains the bytes of a layer, divided by s b h."""
    parallelism = Parallelism(tensor=tensor, sequence_parallel=sequence_parallel)
    scores = 5 * GPT.heads * GPT.sequence / GPT.hidden
    whole = 10 / tensor if sequence_parallel else 10
    unit = 4 * GPT.sequence * GPT.hidden * GPT.layers
    for recomputation, expected in (
        ("none", whole + 24 / tensor + scores / tensor),
        ("selective", whole + 24 / tensor),
    ):
        training = Training(4, 4, recomputation=recomputation, parallelism=parallelism)
        assert training_memory(GPT, training).activations == pytest.approx(expected * unit)


def test_sharding_needs_less_memory() -> None:
    def memory(sharding: str, pipeline: int) -> float:
        parallelism = Parallelism(data=8, pipeline=pipeline, sharding=sharding)
        return training_memory(LLAMA, Training(8, parallelism=parallelism)).total

    assert memory("none", 1) > memory("optimizer", 1) > memory("full", 1)
    # In a pipeline, sharding the weights saves no memory, because a stage needs its weights from the first microbatch
    # to the last.
    assert memory("none", 4) > memory("optimizer", 4) == memory("full", 4)
    expert = Parallelism(data=8, expert=8, sharding="optimizer")
    found = training_memory(PRESETS["mixtral-8x7b"], Training(8, parallelism=expert))
    # Each device has an eighth of the experts' state, which is not replicated, and an eighth of the other state.
    assert found.optimizer == pytest.approx(12 * PRESETS["mixtral-8x7b"].parameters / 8)


def test_the_last_stage_has_the_head() -> None:
    """The last stage has one microbatch in flight, its logits and their gradient, and the head (a copy if it is
    tied)."""
    parallelism = Parallelism(pipeline=4)
    training = Training(32, 8, recomputation="full", parallelism=parallelism)
    found = training_memory(LLAMA, training)
    tokens = 8 * LLAMA.sequence
    assert found.logits == tokens * LLAMA.vocabulary * (2 + 4 + 4)
    own = 8 * LLAMA.layer_parameters + LLAMA.head_parameters
    assert (found.weights, found.gradients, found.optimizer) == (2 * own, 4 * own, 12 * own)
    layer = training_memory(LLAMA, Training(8, 8)).activations / LLAMA.layers
    assert found.activations == pytest.approx(tokens * LLAMA.hidden * 2 * 8 + layer)
    machine = read_machine("h100")
    assert isinstance(machine, Accelerator)
    assert found.total > machine.memory_bytes
    assert not predict_training(LLAMA, machine, training).fits
    tied = training_memory(replace(LLAMA, tied=True), training)
    assert tied.weights == found.weights


def test_the_first_stage_has_most_microbatches_under_way() -> None:
    """If the logits are small, the first stage needs the most memory, because it has the most microbatches in
    flight."""
    small = replace(LLAMA, vocabulary=1)
    one = training_memory(small, Training(8))
    for pipeline in (2, 4, 8):
        found = training_memory(small, Training(8, parallelism=Parallelism(pipeline=pipeline)))
        assert found.logits == 0
        assert found.activations == pytest.approx(one.activations)
        few = training_memory(small, Training(1, parallelism=Parallelism(pipeline=pipeline)))
        assert few.activations == pytest.approx(one.activations / pipeline)
    # No stage has more microbatches in flight than the step has in total, whether stages are interleaved or not.
    for microbatches, expected in ((4, 4 / 4), (64, (1 + 2 * 3 + 4) / 2 / 4)):
        parallelism = Parallelism(pipeline=4, virtual_stages=2)
        found = training_memory(small, Training(microbatches, parallelism=parallelism))
        assert found.activations == pytest.approx(expected * one.activations)


@pytest.mark.parametrize("layers", [8, 9, 10, 11])
def test_a_stage_more_needs_no_more_memory_for_weights(layers: int) -> None:
    config = replace(LLAMA, layers=layers)
    found = [training_memory(config, Training(1, parallelism=Parallelism(pipeline=stages))) for stages in (1, 2, 4)]
    weights = [each.weights for each in found]
    assert weights == sorted(weights, reverse=True) and weights[0] == 2 * config.parameters
