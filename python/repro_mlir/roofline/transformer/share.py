# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What one device has of a transformer, and the sizes that follow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from repro_mlir.roofline.transformer.config import TransformerConfig
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS

# Of attention and of the last projection, whose operands recipes of narrow formats leave alone.
_UNQUANTIZED = {"f32": "f32", "tf32": "tf32"}


@dataclass(frozen=True)
class Share:
    """What one device has of a microbatch.

    Attributes:
      sequences: of the microbatch.
      precision: of `NUMBER_FORMATS`, that of the projections of layers.
      tensor: devices that share heads and inner widths.
      sequence_parallel: those share the tokens of what is not divided so.
      gathers_operands: those of `tensor` gather what a product reads and have columns of each weight, so that no sum is
        of several devices (T2); else they have rows of every second weight, and add.
      context: devices that share the tokens of a sequence.
      expert: devices that share the experts.
      is_fused: whether chains of element-wise operations are one kernel.
      gradient_bytes: read and written for an element of a weight's gradient.
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


class Sizes:
    """Sizes of one device's part.

    Args:
      config: the whole transformer; the degrees of `share` divide its sizes, as `Parallelism.check` makes sure.
      share: what the device has of it.
    """

    def __init__(self, config: TransformerConfig, share: Share) -> None:
        self.config, self.share = config, share

    @cached_property
    def tokens(self) -> int:
        """Of the microbatch."""
        return self.share.sequences * (self.config.sequence // self.share.context)

    @cached_property
    def own_tokens(self) -> float:
        """Those of what devices that share tensors do not divide."""
        return self.tokens / (self.share.tensor if self.share.sequence_parallel else 1)

    @cached_property
    def stored(self) -> int:
        """Bytes of an element of an activation."""
        return NUMBER_FORMATS[self.share.precision].stored_bytes

    @cached_property
    def wide(self) -> str:
        """The format of products that recipes of narrow formats leave alone."""
        return _UNQUANTIZED.get(self.share.precision, "bf16")

    @cached_property
    def heads(self) -> int:
        """Of queries."""
        return self.config.heads // self.share.tensor

    @cached_property
    def kv_heads(self) -> int:
        """Of keys and values; devices beyond them have copies."""
        return max(1, self.config.kv_heads // self.share.tensor)

    @cached_property
    def cache_width(self) -> int:
        """Elements that decoding keeps of a token and layer: its keys and values, or its latent and rotated key."""
        config = self.config
        return config.kv_latent + config.rotary_size if config.kv_latent else 2 * self.kv_heads * config.head_size

    @cached_property
    def ffn(self) -> int:
        """The inner width."""
        return self.config.ffn // self.share.tensor
