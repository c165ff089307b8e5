# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of a training or decoding step of a transformer on accelerators, by cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_flag, check_whole
from repro_mlir.roofline.causes import added_causes
from repro_mlir.roofline.machines import Accelerator
from repro_mlir.roofline.predicted import PredictedTime
from repro_mlir.roofline.transformer.config import TransformerConfig
from repro_mlir.roofline.transformer.kernel_time import operation_seconds, total_seconds
from repro_mlir.roofline.transformer.kernels import Kernels
from repro_mlir.roofline.transformer.memory import (
    DeviceParameters,
    TrainingMemory,
    device_parameters,
    stage_layers,
    training_memory,
)
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS
from repro_mlir.roofline.transformer.operations import Operation
from repro_mlir.roofline.transformer.parallelism import Parallelism, Training
from repro_mlir.roofline.transformer.share import Share

CAUSES = (
    "projection", "attention", "vector", "head", "recomputation", "tensor", "context", "expert", "pipeline", "bubble",
    "data", "optimizer",
)  # fmt: skip
"""The causes of the time of a step: kernels by group, communication by parallel degree, the pipeline bubble, and the
weight update.
"""

# The bytes of the weight and two moments in f32, each read and written.
_UPDATE_BYTES = 3 * (4 + 4)


@dataclass(frozen=True)
class TrainingPrediction(PredictedTime):
    """The prediction of a training step.

    Attributes:
      machine, config, training: the requested configuration.
      causes: seconds by `CAUSES` on the slowest device; their sum is `seconds`.
      memory: the memory of the device with the highest requirement.
    """

    machine: Accelerator
    config: TransformerConfig
    training: Training
    causes: dict[str, float]
    memory: TrainingMemory

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.training.parallelism.devices

    @property
    def device_tokens_per_second(self) -> float:
        """The number of tokens per second per device."""
        return self.training.batch * self.config.sequence / self.seconds / self.devices

    @property
    def device_model_flops(self) -> float:
        """The number of operations per second per device, without recomputation (arXiv:2204.02311, appendix B).

        The count is three times the products of the forward pass; blocked attention counts only its blocks.
        """
        kernels = Kernels(self.config, Share(1))
        layer = sum(product.flops for operation in kernels.layer() for product in operation.products)
        head = sum(product.flops for operation in kernels.head() for product in operation.products)
        whole = 3 * self.training.batch * (layer * self.config.layers + head)
        return whole / self.seconds / self.devices

    @property
    def utilization(self) -> float:
        """`device_model_flops` as a fraction of the peak rate of products in the format `precision`."""
        return self.device_model_flops / NUMBER_FORMATS[self.training.precision].peak(self.machine)

    @property
    def joules(self) -> float | None:
        """The energy of a step on all devices at load power; None if the machine's power is unknown."""
        return self.machine.watts * self.seconds * self.devices if self.machine.watts else None

    @property
    def fits(self) -> bool:
        """Whether a device has enough memory, apart from buffers that are not predicted."""
        return self.memory.total <= self.machine.memory_bytes


@dataclass(frozen=True)
class DecodingPrediction(PredictedTime):
    """The prediction of a step that generates one token for each sequence.

    Attributes:
      machine, config: the requested configuration.
      batch, cached_tokens: the number of sequences, and the number of tokens that each already has.
      precision: one of `NUMBER_FORMATS`, for the projections of layers.
      devices: the number of devices that share the layers, by tensor parallelism and in stages.
      causes: seconds by `CAUSES`; their sum is `seconds`.
      weights, cache: the bytes of the weights, and of the cached keys and values, on a device.
    """

    machine: Accelerator
    config: TransformerConfig
    batch: int
    cached_tokens: int
    precision: str
    devices: int
    causes: dict[str, float]
    weights: float
    cache: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all sequences."""
        return self.batch / self.seconds

    @property
    def joules(self) -> float | None:
        """The energy of a step on all devices at load power; None if the machine's power is unknown."""
        return self.machine.watts * self.seconds * self.devices if self.machine.watts else None

    @property
    def fits(self) -> bool:
        """Whether a device has enough memory."""
        return self.weights + self.cache <= self.machine.memory_bytes


def predict_training(config: TransformerConfig, machine: Accelerator, training: Training) -> TrainingPrediction:
    """Predicts the time of a training step.

    A device runs its kernels in sequence. The time of a pipeline is that of its slowest stage for all microbatches;
    filling and draining the pipeline adds (p-1)/v of the time of a microbatch, for p stages of v parts each (Narayanan
    et al., arXiv:2104.04473, section 2.2).

    Raises:
      ReproError: a degree of parallelism does not fit the transformer (`Parallelism.check`).
    """
    parallelism = training.parallelism
    parallelism.check(config)
    stage = _Stage(config, machine, training)
    count, pipeline = training.microbatches, parallelism.pipeline
    most, last = (stage_layers(config, training, each) for each in (0, pipeline - 1))
    first, final = stage.layers(most), added_causes((stage.layers(last), stage.ends))
    longest = max(first, final, key=_total)
    everything = _total(stage.layers(config.layers)) + _total(stage.ends)
    causes = dict.fromkeys(CAUSES, 0.0)
    for cause, seconds in longest.items():
        causes[cause] += count * seconds
    if pipeline > 1:
        causes["bubble"] += (everything - _total(longest)) / parallelism.virtual_stages
    causes["pipeline"] += stage.sends(count)
    causes["data"] += stage.exchange(most, count)
    causes["optimizer"] += stage.update()
    return TrainingPrediction(machine, config, training, causes, training_memory(config, training))


class _Stage:
    """The times of the parts of a pipeline stage's work on one microbatch."""

    def __init__(self, config: TransformerConfig, machine: Accelerator, training: Training) -> None:
        parallelism = training.parallelism
        self._config, self._machine, self._training = config, machine, training
        self._groups = parallelism.groups(machine)
        share = Share(
            sequences=training.microbatch,
            precision=training.precision,
            tensor=parallelism.tensor,
            sequence_parallel=parallelism.sequence_parallel,
            context=parallelism.context,
            expert=parallelism.expert,
            is_fused=training.is_fused,
            # Gradients of several microbatches are accumulated, so they are read as well as written.
            gradient_bytes=training.gradient_bytes * (2 if training.microbatches > 1 else 1),
        )
        self._kernels = Kernels(config, share)
        self._forward = self._by_group(self._kernels.layer())
        self._backward = self._by_group(self._kernels.layer_gradient())
        self._again = self._recomputed()
        self._exchanges = self._layer_exchanges()
        self.ends = self._by_group(
            (
                *self._kernels.embedding(), *self._kernels.head(), *self._kernels.head_gradient(),
                *self._kernels.embedding_gradient(),
            )
        )  # fmt: skip
        self.ends["tensor"] = self._end_exchanges()

    def layers(self, count: int) -> dict[str, float]:
        """Returns, by cause, the seconds of the kernels and communication of `count` layers, forward and backward."""
        found = added_causes((self._forward, self._backward, {"recomputation": self._again}, self._exchanges))
        return {cause: seconds * count for cause, seconds in found.items()}

    def sends(self, count: int) -> float:
        """Returns the time that a stage waits for its neighbours' activations and gradients. With virtual stages,
        kernels run during these waits, except while the pipeline is filled and drained."""
        parallelism = self._training.parallelism
        elements = self._kernels.tokens * self._config.hidden / parallelism.tensor
        once = 2 * self._groups["pipeline"].send_seconds(elements * self._stored)
        steady = count if parallelism.virtual_stages == 1 else 0
        return once * (steady + parallelism.pipeline - 1)

    def exchange(self, layers: int, count: int) -> float:
        """Returns the time in which devices with the same weights exchange gradients and weights, without the part that
        overlaps with kernels."""
        training = self._training
        parallelism = training.parallelism
        own = device_parameters(self._config, training)
        # Weights are gathered in the format that products read.
        read = min(self._stored, NUMBER_FORMATS[training.precision].operand_bytes)
        forward = _total(self._forward) + self._exchanges["tensor"] / 2
        backward = _total(self._backward) + self._again + self._exchanges["tensor"] / 2
        last = self._groups["data"].gather_seconds(own.ends * training.gradient_bytes)
        if parallelism.sharding == "full":
            inner = replace(own, ends=0.0)
            gather, scatter = self._gather(inner, read), self._gather(inner, training.gradient_bytes)
            hidden = (forward * layers, backward * layers) if parallelism.overlaps_data else (0.0, 0.0)
            exposed = max(0.0, gather - hidden[0]) + max(0.0, gather + scatter - hidden[1])
            # In a pipeline, gathered weights persist from the first microbatch to the last.
            times = 1 if parallelism.pipeline > 1 else count
            return times * (exposed + last + self._groups["data"].gather_seconds(own.ends * self._stored))
        scatter = self._gather(own, training.gradient_bytes)
        gather = scatter if parallelism.sharding == "none" else self._gather(own, read)
        if not parallelism.overlaps_data:
            return scatter + gather
        # The exchange of gradients overlaps with the last backward pass, and that of sharded weights with the first
        # forward pass of the next step. The embedding's gradient is computed last, so its exchange overlaps with no
        # kernel.
        parts = layers / parallelism.virtual_stages
        if parallelism.sharding == "none":
            return max(last, scatter + gather - backward * parts)
        return max(last, scatter - backward * parts) + max(0.0, gather - forward * parts)

    def update(self) -> float:
        """Returns the time of the optimizer and of quantizing weights for the next step."""
        training = self._training
        own = device_parameters(self._config, training)
        parameters = own.total if training.parallelism.sharding == "none" else own.sharded(training)
        # The gradient is read twice, first for the global norm; weights in a format other than f32 are written too.
        others = 2 * training.gradient_bytes + (self._stored if self._stored != 4 else 0)
        moved = parameters * (_UPDATE_BYTES + others)
        operation = Operation("update", "vector", moved, vector_flops=12 * parameters)
        quantization = total_seconds(self._kernels.weight_quantization(), self._machine)
        return operation_seconds(operation, self._machine) + quantization * stage_layers(self._config, training)

    def _gather(self, own: DeviceParameters, bytes: float) -> float:
        """Returns the time to all-gather or reduce-scatter a device's parameters among the devices that replicate or
        shard them. A parameter has `bytes` bytes."""
        dense = self._groups["data"].gather_seconds((own.layers + own.ends) * bytes)
        return dense + (self._groups["experts"].gather_seconds(own.experts * bytes) if own.experts else 0.0)

    @property
    def _stored(self) -> int:
        return NUMBER_FORMATS[self._training.precision].stored_bytes

    def _by_group(self, operations: Iterable[Operation]) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in operations:
            found[each.group] = found.get(each.group, 0.0) + operation_seconds(each, self._machine)
        return found

    def _recomputed(self) -> float:
        """Returns the time of the operations that a layer recomputes."""
        mode = self._training.recomputation
        if mode == "full":
            return _total(self._forward)
        if mode == "selective":
            return total_seconds(self._kernels.attention_core(), self._machine)
        if mode == "operators":
            return self._forward["projection"] / 2 + self._forward["vector"]
        return 0.0

    def _end_exchanges(self) -> float:
        """Returns the time of tensor-parallel communication for the embedding and the head, whose weights are divided
        by rows among the devices.

        See Shoeybi et al., arXiv:1909.08053, section 3.
        """
        group, tokens = self._groups["tensor"], self._kernels.tokens
        # The devices all-reduce the embedding rows in the forward pass, the gradient of the head's input in the
        # backward pass, and, for the loss, the maximum, the sum and the target's score of each token, in f32.
        activations = tokens * self._config.hidden * self._stored
        return 2 * group.all_reduce_seconds(activations) + 3 * group.all_reduce_seconds(4 * tokens)

    def _layer_exchanges(self) -> dict[str, float]:
        """Returns the communication time of a layer by cause, for forward pass, backward pass and recomputation
        together."""
        training, config, tokens = self._training, self._config, self._kernels.tokens
        passes = 3 if training.recomputation == "full" else 2
        activations = tokens * config.hidden * self._stored
        # Attention and the MLP are each preceded by an all-gather and followed by a reduce-scatter, or only followed by
        # an all-reduce.
        tensor = 2 * passes * self._groups["tensor"].all_reduce_seconds(activations)
        if training.parallelism.overlaps_tensor:
            products = self._forward["projection"] + self._backward["projection"]
            hops = self._groups["tensor"].hop_seconds * 2 * passes
            tensor = min(tensor, max(0.0, tensor - products) + hops)
        # Keys and values are gathered in the forward pass and again in the backward pass, and their gradients are
        # exchanged.
        heads = self._kernels.kv_heads * (config.score_size + config.head_size)
        whole = training.microbatch * config.sequence * heads * self._stored
        context = (passes + 1) * self._groups["context"].gather_seconds(whole)
        expert = 0.0
        if config.experts:
            sent = activations * config.active_experts / training.parallelism.tensor
            expert = 2 * passes * self._groups["expert"].all_to_all_seconds(sent)
        return {"tensor": tensor, "context": context, "expert": expert}


def predict_decoding(
    config: TransformerConfig, machine: Accelerator, batch: int, cached_tokens: int, precision: str = "bf16",
    tensor: int = 1, pipeline: int = 1, gathers_operands: bool = False,
) -> DecodingPrediction:  # fmt: skip
    """Predicts the time of a step that adds one token to each sequence.

    Args:
      batch: the number of sequences.
      cached_tokens: the number of tokens of each sequence whose keys and values are in memory.
      precision: one of `NUMBER_FORMATS`, for the projections of layers.
      tensor, pipeline: the number of devices that share each layer, and the number of stages, which run one after the
        other.
      gathers_operands: whether the devices of `tensor` exchange operands, as the compiler's ranks do (T2), rather than
        sums.
    Raises:
      ReproError: a degree of parallelism or `gathers_operands` does not fit the transformer, or a number is out of
        bounds.
    """
    check_whole("batch", batch, 1, 1 << 24)
    check_whole("cached_tokens", cached_tokens, 1, 1 << 24)
    check_among("precision", precision, NUMBER_FORMATS)
    parallelism = Parallelism(tensor=tensor, pipeline=pipeline)
    one = replace(config, sequence=1)
    parallelism.check(one)
    check_flag("gathers_operands", gathers_operands)
    if gathers_operands and config.kv_latent:
        raise ReproError("expected no latent attention where devices gather operands")
    if gathers_operands and config.hidden % tensor:
        raise ReproError(f"expected hidden as a multiple of {tensor} devices, got {config.hidden}")
    kernels = Kernels(one, Share(batch, precision, tensor, gathers_operands=gathers_operands))
    groups, format = parallelism.groups(machine), NUMBER_FORMATS[precision]
    causes = dict.fromkeys(CAUSES, 0.0)
    for operation in kernels.layer(cached_tokens):
        causes[operation.group] += config.layers * operation_seconds(operation, machine)
    for operation in (*kernels.embedding(), *kernels.head()):
        causes[operation.group] += operation_seconds(operation, machine)
    activations = batch * config.hidden * format.stored_bytes
    exchange = 2 * groups["tensor"].all_reduce_seconds(activations)
    if gathers_operands:
        gathered = (elements * format.stored_bytes for elements in kernels.gathered_elements())
        exchange = sum(groups["tensor"].gather_seconds(bytes) for bytes in gathered)
    # Embedding rows are exchanged unless operands are gathered, since (T2) does not divide the embedding. Scores are
    # always gathered.
    rows = 0.0 if gathers_operands else groups["tensor"].all_reduce_seconds(activations)
    scores = groups["tensor"].gather_seconds(batch * config.vocabulary * format.stored_bytes)
    causes["tensor"] = config.layers * exchange + rows + scores
    causes["pipeline"] = (pipeline - 1) * groups["pipeline"].send_seconds(activations)
    layers = -(-config.layers // pipeline)
    outside = config.embedding_parameters / (1 if gathers_operands else tensor) + config.head_parameters / tensor
    inside = config.layer_parameters / tensor + config.latent_parameters * (1 - 1 / tensor)
    weights = layers * inside * format.operand_bytes + outside * format.stored_bytes
    cache = float(layers * batch * cached_tokens * kernels.cache_width * format.stored_bytes)
    return DecodingPrediction(
        machine, config, batch, cached_tokens, precision, parallelism.devices, causes, weights, cache
    )


def _total(part: dict[str, float]) -> float:
    return sum(part.values())
