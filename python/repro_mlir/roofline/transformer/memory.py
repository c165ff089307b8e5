# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The memory of a device in a training step: weights, gradients, optimizer state and activations."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.roofline.transformer.config import TransformerConfig
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS
from repro_mlir.roofline.transformer.parallelism import Training


@dataclass(frozen=True)
class TrainingMemory:
    """The bytes that a device needs in a step.

    Attributes:
      weights, gradients: the weights, in the format that products read, and the gradients, in the format in which they
        are accumulated.
      optimizer: two moments in f32, and f32 weights if products read another format.
      activations: the activations of all microbatches in flight.
      logits: the logits of a microbatch, a copy of them in f32, and their gradient, if the device has the last layer.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits


def stage_layers(config: TransformerConfig, training: Training, stage: int = 0) -> int:
    """Returns the number of layers of a stage: equal for all stages but the last, which has the remainder."""
    pipeline = training.parallelism.pipeline
    most = -(-config.layers // pipeline)
    if stage < pipeline - 1:
        return most
    left = config.layers - most * (pipeline - 1)
    return left if left > 0 else config.layers // pipeline


@dataclass(frozen=True)
class DeviceParameters:
    """The parameters of a device before sharding.

    Attributes:
      layers: the number of parameters of the device's layers without experts.
      experts: the number of parameters of the experts of these layers.
      ends: the number of parameters of the embedding and of the head, if the device has them.
    """

    layers: float
    experts: float
    ends: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.layers + self.experts + self.ends

    def sharded(self, training: Training) -> float:
        """Returns the number of parameters of a device after sharding; an expert is sharded among fewer devices than
        the other parameters."""
        parallelism = training.parallelism
        return (self.layers + self.ends + self.experts * parallelism.expert) / parallelism.shards


def device_parameters(config: TransformerConfig, training: Training, stage: int = 0) -> DeviceParameters:
    """Returns the numbers of parameters of a device of a stage, after division by tensor and expert parallelism."""
    parallelism = training.parallelism
    experts = config.experts * config.perceptron_parameters
    ends = config.embedding_parameters if stage == 0 else 0
    if stage == parallelism.pipeline - 1:
        ends += config.head_parameters
        if config.tied and stage > 0:
            ends += config.hidden * config.vocabulary
    count = stage_layers(config, training, stage) / parallelism.tensor
    return DeviceParameters(
        (config.layer_parameters - experts + config.latent_parameters * (parallelism.tensor - 1)) * count,
        experts * count / parallelism.expert,
        ends / parallelism.tensor,
    )


def training_memory(config: TransformerConfig, training: Training) -> TrainingMemory:
    """Returns the memory of the device with the highest requirement.

    The device is in the first stage, which has the most microbatches in flight, or in the last one, which has the head.
    """
    stages = {0, training.parallelism.pipeline - 1}
    return max((_stage_memory(config, training, stage) for stage in sorted(stages)), key=lambda each: each.total)


def _stage_memory(config: TransformerConfig, training: Training, stage: int) -> TrainingMemory:
    parallelism = training.parallelism
    own = device_parameters(config, training, stage)
    layers = stage_layers(config, training, stage)
    read = NUMBER_FORMATS[training.precision].stored_bytes
    weights, gradients = own.total * read, own.total * training.gradient_bytes
    # In a pipeline, unsharded weights and gradients persist from the first microbatch to the last.
    if parallelism.sharding == "full" and parallelism.pipeline == 1:
        # The weights of the current layer and of the next one are gathered.
        layer = (own.total - own.ends) / layers
        weights = own.sharded(training) * read + 2 * layer * read
        gradients = (own.sharded(training) + layer) * training.gradient_bytes
    moments = 8 if read == 4 else 12
    optimizer = moments * (own.total if parallelism.sharding == "none" else own.sharded(training))
    kept = _layer_activations(config, training, training.recomputation) * layers * _under_way(training, stage)
    if training.recomputation in ("full", "operators"):
        kept += _layer_activations(config, training, "none")
    tokens = training.microbatch * config.sequence / parallelism.context
    is_last = stage == parallelism.pipeline - 1
    logits = tokens * config.vocabulary / parallelism.tensor * (read + 4 + 4) if is_last else 0.0
    return TrainingMemory(weights, gradients, optimizer, kept, logits)


def _under_way(training: Training, stage: int) -> float:
    """Returns the maximum number of microbatches in flight in a stage (Narayanan et al., arXiv:2104.04473, section
    2.2).

    The number is one more than the number of microbatches in the warm-up. In an interleaved schedule, each part of a
    stage counts separately.
    """
    parallelism = training.parallelism
    after, parts = parallelism.pipeline - 1 - stage, parallelism.virtual_stages
    begun = 1 + after if parts == 1 else (1 + 2 * after + (parts - 1) * parallelism.pipeline) / parts
    return min(training.microbatches, begun)


def _layer_activations(config: TransformerConfig, training: Training, recomputation: str) -> float:
    """Returns the bytes that a layer keeps for a microbatch, as in Korthikanti et al. (arXiv:2205.05198, section 4)."""
    parallelism = training.parallelism
    format = NUMBER_FORMATS[training.precision]
    stored, hidden = format.stored_bytes, config.hidden
    read = min(stored, format.operand_bytes)
    tokens = training.microbatch * config.sequence / parallelism.context
    own = 1 / parallelism.tensor if parallelism.sequence_parallel else 1.0
    if recomputation == "full":
        return tokens * hidden * stored * own
    rows = config.active_experts or 1
    # The inputs of both norms and of the projections after them, and the masks of dropout.
    whole = 2 * hidden * stored + hidden * read * (1 + rows) + 2 * hidden * config.dropout
    latents = config.query_latent + config.kv_latent
    if config.kv_latent:
        whole += (latents + config.rotary_size) * stored + latents * read
    inner = config.ffn * rows * (stored * (2 if config.gated else 1) + read)
    scores = (config.heads + config.kv_heads) * config.score_size
    divided = (scores + config.kv_size) * stored + config.query_size * read + inner
    if not config.is_blocked and recomputation == "none":
        divided += config.heads * config.sequence * (5 if config.dropout else 2) * stored / 2
    found = tokens * (whole * own + divided / parallelism.tensor)
    return found / 2 if recomputation == "operators" else found
