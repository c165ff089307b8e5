# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes how a training step is divided among devices."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_flag, check_whole
from repro_mlir.roofline.machines import Accelerator
from repro_mlir.roofline.transformer.collectives import Group
from repro_mlir.roofline.transformer.config import TransformerConfig
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS

SHARDINGS = ("none", "optimizer", "full")
"""The state that devices with the same weights shard: none, the optimizer's state, or also weights and gradients."""

RECOMPUTATIONS = ("none", "selective", "operators", "full")
"""The operations that the backward pass recomputes: none; attention from queries to its output; every second product
and all operations between products; or the whole layer.
"""

_MOST = 1 << 20


@dataclass(frozen=True)
class Parallelism:
    """The degrees of parallelism.

    The number of devices is the product of `tensor`, `context`, `data` and `pipeline`. In the order of the ranks, the
    index along `tensor` varies fastest, then those along `context`, `data` and `pipeline`.

    Attributes:
      tensor: the number of devices that share each layer (Shoeybi et al., arXiv:1909.08053).
      sequence_parallel: whether these devices shard the tokens of the operations that `tensor` does not divide
        (Korthikanti et al., arXiv:2205.05198).
      overlaps_tensor: whether a layer's communication overlaps with its products.
      context: the number of devices that share a sequence.
      pipeline, virtual_stages: the number of pipeline stages, and the number of parts into which the layers of a stage
        are divided (Narayanan et al., arXiv:2104.04473).
      data: the number of devices that process different sequences.
      expert: the number of devices of `data` that share the experts.
      sharding: one of `SHARDINGS`.
      overlaps_data: whether the exchange of gradients and weights overlaps with the backward and forward pass.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    virtual_stages: int = 1
    sequence_parallel: bool = False
    sharding: str = "none"
    overlaps_tensor: bool = False
    overlaps_data: bool = True

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data", "context", "expert", "virtual_stages"):
            check_whole(name, getattr(self, name), 1, _MOST)
        for name in ("sequence_parallel", "overlaps_tensor", "overlaps_data"):
            check_flag(name, getattr(self, name))
        check_among("sharding", self.sharding, SHARDINGS)
        if self.data % self.expert:
            raise ReproError(f"expected data as a multiple of expert, got {self.data} and {self.expert}")
        if self.virtual_stages > 1 and self.pipeline == 1:
            raise ReproError(f"expected several stages with virtual_stages, got {self.virtual_stages} and one stage")

    @property
    def devices(self) -> int:
        """The total number of devices."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def shards(self) -> int:
        """The number of devices with the same weights."""
        return self.data * self.context

    def groups(self, machine: Accelerator) -> dict[str, Group]:
        """Returns the communication group of each degree of parallelism.

        The group `data` contains all devices with the same weights, and `experts` all devices with the same experts.
        """
        inner = self.tensor * self.context
        return {
            "tensor": Group(machine, self.tensor),
            "context": Group(machine, self.context, self.tensor),
            "expert": Group(machine, self.expert, inner),
            "data": Group(machine, self.shards, self.tensor),
            "experts": Group(machine, self.shards // self.expert, inner * self.expert),
            "pipeline": Group(machine, self.pipeline, inner * self.data),
        }

    def check(self, config: TransformerConfig) -> None:
        """Raises ReproError if a degree of parallelism does not fit the sizes of the transformer."""
        divided = {"heads": self.tensor, "ffn": self.tensor, "sequence": self.context}
        if config.experts:
            divided["experts"] = self.expert
        elif self.expert > 1:
            raise ReproError(f"expected a transformer with experts for {self.expert} devices, got a dense one")
        for name, degree in divided.items():
            if getattr(config, name) % degree:
                raise ReproError(f"expected {name} as a multiple of {degree} devices, got {getattr(config, name)}")
        if config.kv_heads % self.tensor and self.tensor % config.kv_heads:
            raise ReproError(
                f"expected kv_heads as a multiple or a divisor of {self.tensor} devices, got {config.kv_heads}"
            )
        stages = self.pipeline * self.virtual_stages
        if stages > config.layers:
            raise ReproError(f"expected at most {config.layers} stages, one for each layer, got {stages}")
        if self.context > 1 and not config.is_blocked:
            raise ReproError("expected attention in blocks (attention_block) if devices share a sequence")


@dataclass(frozen=True)
class Training:
    """A training step.

    Attributes:
      batch: the number of sequences of all devices.
      microbatch: the number of sequences that a device processes at once.
      precision: one of `NUMBER_FORMATS`, for the projections of layers.
      recomputation: one of `RECOMPUTATIONS`.
      parallelism: the division among devices.
      is_fused: whether chains of element-wise operations are one kernel.
      gradient_bytes: the bytes of an element of a gradient in accumulation and communication.
    """

    batch: int
    microbatch: int = 1
    precision: str = "bf16"
    recomputation: str = "none"
    parallelism: Parallelism = Parallelism()
    is_fused: bool = True
    gradient_bytes: int = 4

    def __post_init__(self) -> None:
        check_whole("batch", self.batch, 1, 1 << 24)
        check_whole("microbatch", self.microbatch, 1, 1 << 24)
        check_whole("gradient_bytes", self.gradient_bytes, 1, 8)
        check_among("precision", self.precision, NUMBER_FORMATS)
        check_among("recomputation", self.recomputation, RECOMPUTATIONS)
        check_flag("is_fused", self.is_fused)
        if self.batch % (self.microbatch * self.parallelism.data):
            whole = f"{self.parallelism.data} devices with microbatches of {self.microbatch}"
            raise ReproError(f"expected batch as a multiple of {whole}, got {self.batch}")

    @property
    def microbatches(self) -> int:
        """The number of microbatches of a device per step."""
        return self.batch // (self.microbatch * self.parallelism.data)
