# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a device keeps of a training step: weights, gradients, the optimizer's state and activations."""

from __future__ import annotations

from dataclasses import dataclass

from .config import TransformerConfig
from .number_formats import NUMBER_FORMATS
from .parallelism import Training


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of the first device of a step.

    Attributes:
      weights, gradients: as they are read and added.
      optimizer: two moments in f32, and the weights in f32 where products read others.
      activations: of all microbatches that are under way.
      logits: scores of a microbatch, in f32 too, and their gradient, where the device has the last layer too.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits


def stage_layers(config: TransformerConfig, training: Training) -> int:
    """Layers of the stages that have most."""
    return -(-config.layers // training.parallelism.pipeline)


@dataclass(frozen=True)
class DeviceParameters:
    """Parameters that a device has before they are sharded.

    Attributes:
      layers: of its layers beside experts, and of the first or last part of the transformer.
      experts: of the experts of its layers.
      ends: which of `layers` are those of the embedding.
    """

    layers: float
    experts: float
    ends: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.layers + self.experts

    def sharded(self, training: Training) -> float:
        """What is left where devices with the same parameters share them; of an expert there are fewer such devices."""
        parallelism = training.parallelism
        return self.layers / parallelism.shards + self.experts * parallelism.expert / parallelism.shards


def device_parameters(config: TransformerConfig, training: Training) -> DeviceParameters:
    """Those of the first device: the degrees of tensors and experts divide them."""
    parallelism = training.parallelism
    experts = config.experts * config.perceptron_parameters
    ends = config.embedding_parameters + (config.head_parameters if parallelism.pipeline == 1 else 0)
    count = stage_layers(config, training) / parallelism.tensor
    return DeviceParameters(
        (config.layer_parameters - experts) * count + ends / parallelism.tensor,
        experts * count / parallelism.expert,
        ends / parallelism.tensor,
    )


def training_memory(config: TransformerConfig, training: Training) -> TrainingMemory:
    """The memory of the first device, which has most microbatches under way."""
    parallelism = training.parallelism
    own = device_parameters(config, training)
    layers = stage_layers(config, training)
    read = NUMBER_FORMATS[training.precision].stored_bytes
    weights, gradients = own.total * read, own.total * training.gradient_bytes
    # In a pipeline weights and gradients stay whole from the first microbatch to the last.
    if parallelism.sharding == "full" and parallelism.pipeline == 1:
        # Of the layer that is computed, and of the next one, all weights are there.
        layer = (own.total - own.ends) / layers
        weights = own.sharded(training) * read + 2 * layer * read
        gradients = (own.sharded(training) + layer) * training.gradient_bytes
    moments = 8 if read == 4 else 12
    optimizer = moments * (own.total if parallelism.sharding == "none" else own.sharded(training))
    under_way = min(training.microbatches, parallelism.pipeline)
    kept = _layer_activations(config, training, training.recomputation) * layers * under_way
    if parallelism.virtual_stages > 1:
        kept *= 1 + (parallelism.pipeline - 1) / (parallelism.pipeline * parallelism.virtual_stages)
    if training.recomputation in ("full", "operators"):
        kept += _layer_activations(config, training, "none")
    tokens = training.microbatch * config.sequence / parallelism.context
    logits = tokens * config.vocabulary / parallelism.tensor * (read + 4 + 4) if parallelism.pipeline == 1 else 0.0
    return TrainingMemory(weights, gradients, optimizer, kept, logits)


def _layer_activations(config: TransformerConfig, training: Training, recomputation: str) -> float:
    """Bytes that a layer keeps of a microbatch, as Korthikanti et al. count them (arXiv:2205.05198, section 4)."""
    parallelism = training.parallelism
    format = NUMBER_FORMATS[training.precision]
    stored, hidden = format.stored_bytes, config.hidden
    read = min(stored, format.operand_bytes)
    tokens = training.microbatch * config.sequence / parallelism.context
    own = 1 / parallelism.tensor if parallelism.sequence_parallel else 1.0
    if recomputation == "full":
        return tokens * hidden * stored * own
    rows = config.active_experts or 1
    # Inputs of both norms, of the projections behind them, and masks of dropout.
    whole = 2 * hidden * stored + hidden * read * (1 + rows) + 2 * hidden * config.dropout
    inner = config.ffn * rows * (stored * (2 if config.gated else 1) + read)
    divided = (config.query_size + 2 * config.kv_size) * stored + config.query_size * read + inner
    if not config.is_blocked and recomputation == "none":
        divided += config.heads * config.sequence * (5 if config.dropout else 2) * stored / 2
    found = tokens * (whole * own + divided / parallelism.tensor)
    return found / 2 if recomputation == "operators" else found
