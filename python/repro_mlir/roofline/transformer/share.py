# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The part of a transformer that one device has, and the resulting sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from repro_mlir.roofline.transformer.config import TransformerConfig
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS

# Maps the format of the other projections to that of attention and of the last projection, whose operands low-precision
# recipes do not quantize; bf16 for formats that are not listed.
_UNQUANTIZED = {"f32": "f32", "tf32": "tf32"}


@dataclass(frozen=True)
class Share:
    """The part of a microbatch that one device has.

    Attributes:
      sequences: the number of sequences of the microbatch.
      precision: one of `NUMBER_FORMATS`, for the projections of layers.
      tensor: the number of devices that share heads and inner widths.
      sequence_parallel: whether these devices shard the tokens of the operations that `tensor` does not divide.
      gathers_operands: whether the devices of `tensor` gather operands and divide each weight by columns, so that no
        sum spans devices (T2); otherwise they divide every second weight by rows and add partial sums.
      context: the number of devices that share the tokens of a sequence.
      expert: the number of devices that share the experts.
      is_fused: whether chains of element-wise operations are one kernel.
      gradient_bytes: the number of bytes read and written per element of a weight's gradient.
    """

    sequences: int
    precision: str = "bf16"
    tensor: int = 1
    sequence_parallel: bool = False
    gathers_operands: bool = False
    context: int = 1
    expert: int = 1
    is_fused: bool = True
    gradient_bytes: int = 4


class DeviceSizes:
    """The sizes of one device's part of a transformer.

    Args:
      config: the whole transformer; `Parallelism.check` ensures that the degrees of `share` divide its sizes.
      share: the device's part of a microbatch.
    """

    def __init__(self, config: TransformerConfig, share: Share) -> None:
        self.config, self.share = config, share

    @cached_property
    def tokens(self) -> int:
        """The number of tokens of the microbatch that the device processes."""
        return self.share.sequences * (self.config.sequence // self.share.context)

    @cached_property
    def own_tokens(self) -> float:
        """The number of tokens that the device processes in operations that tensor parallelism does not divide."""
        return self.tokens / (self.share.tensor if self.share.sequence_parallel else 1)

    @cached_property
    def stored(self) -> int:
        """The number of bytes of an element of an activation."""
        return NUMBER_FORMATS[self.share.precision].stored_bytes

    @cached_property
    def wide(self) -> str:
        """The format of products that low-precision recipes do not quantize."""
        return _UNQUANTIZED.get(self.share.precision, "bf16")

    @cached_property
    def heads(self) -> int:
        """The number of query heads of the device."""
        return self.config.heads // self.share.tensor

    @cached_property
    def kv_heads(self) -> int:
        """The number of key and value heads of the device. If there are more devices than heads, some devices have
        copies."""
        return max(1, self.config.kv_heads // self.share.tensor)

    @cached_property
    def cache_width(self) -> int:
        """The number of elements cached per token and layer: keys and values, or the latent and the rotated key."""
        config = self.config
        return config.kv_latent + config.rotary_size if config.kv_latent else 2 * self.kv_heads * config.head_size

    @cached_property
    def ffn(self) -> int:
        """The device's part of the inner width of the MLP."""
        return self.config.ffn // self.share.tensor
