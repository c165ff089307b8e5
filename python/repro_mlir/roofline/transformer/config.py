# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Transformers by their sizes: decoders of GPT's and Llama's kind, dense or with experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from ...errors import ReproError
from ...field_checks import check_flag, check_whole
from ..machines.files import check_keys

# Of attention by blocks, each is an entry of the list of products.
_MOST_BLOCKS = 4096


@dataclass(frozen=True)
class TransformerConfig:
    """A decoder.

    Attributes:
      layers, hidden: blocks, and the width between them.
      heads, kv_heads, head_size: of queries, of keys and values, and the width of each.
      ffn: the inner width of a perceptron, or of an expert.
      vocabulary: rows of the embedding.
      sequence: tokens of a sequence.
      gated: the perceptron multiplies two projections (Llama), else it has one and GELU (GPT).
      experts, active_experts: of a layer and of a token; 0 and 0 for a dense perceptron.
      rotary: positions are rotations of queries and keys, norms are of the mean square and projections have no bias
        (Llama); else positions are a table of `sequence` rows, and norms and projections have biases (GPT).
      tied: the last projection reads the embedding's weight.
      dropout: after attention's softmax, its projection and the perceptron.
      fused_projections: those of one input are one product.
      attention_block: (K5) queries, or keys, of a block; 0 where the matrix of scores is kept whole, as it is of
        sequences that are no longer than a block.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocabulary: int
    sequence: int
    gated: bool = True
    experts: int = 0
    active_experts: int = 0
    rotary: bool = True
    tied: bool = False
    dropout: bool = False
    fused_projections: bool = True
    attention_block: int = 128

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            check_whole(name, getattr(self, name), least, most)
        for each in fields(self):
            if each.type == "bool":
                check_flag(each.name, getattr(self, each.name))
        if self.heads % self.kv_heads:
            raise ReproError(f"expected heads as a multiple of kv_heads, got {self.heads} and {self.kv_heads}")
        if self.active_experts > self.experts or bool(self.experts) != bool(self.active_experts):
            raise ReproError(f"expected active_experts up to {self.experts}, got {self.active_experts}")
        if self.attention_block and self.sequence > self.attention_block * _MOST_BLOCKS:
            raise ReproError(f"expected at most {_MOST_BLOCKS} blocks of attention, got {self.sequence} tokens")

    @property
    def is_blocked(self) -> bool:
        """Whether attention goes by blocks."""
        return 0 < self.attention_block < self.sequence

    @property
    def query_size(self) -> int:
        """The width of all queries of a token."""
        return self.heads * self.head_size

    @property
    def kv_size(self) -> int:
        """The width of all keys of a token, and of its values."""
        return self.kv_heads * self.head_size

    @property
    def perceptron_parameters(self) -> int:
        """Of the weights of a layer's perceptron, or of one of its experts."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def layer_parameters(self) -> int:
        """Of a layer: weights, biases and norms."""
        attention = 2 * self.hidden * (self.query_size + self.kv_size)
        router = self.hidden * self.experts
        others = 2 * self.hidden
        if not self.rotary:
            others += 2 * self.hidden + self.query_size + 2 * self.kv_size + self.hidden + self.ffn + self.hidden
        return attention + router + max(1, self.experts) * self.perceptron_parameters + others

    @property
    def embedding_parameters(self) -> int:
        """Of the table of tokens, and that of positions."""
        return self.hidden * (self.vocabulary + (0 if self.rotary else self.sequence))

    @property
    def head_parameters(self) -> int:
        """Of the last norm, and of the last projection where it has a weight of its own."""
        return self.hidden * ((0 if self.tied else self.vocabulary) + (1 if self.rotary else 2))

    @property
    def parameters(self) -> int:
        """Of all."""
        return self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters


_BOUNDS = {
    "layers": (1, 1 << 14), "hidden": (1, 1 << 20), "heads": (1, 1 << 14), "kv_heads": (1, 1 << 14),
    "head_size": (1, 1 << 14), "ffn": (1, 1 << 22), "vocabulary": (1, 1 << 24), "sequence": (1, 1 << 24),
    "experts": (0, 1 << 14), "active_experts": (0, 1 << 14), "attention_block": (0, 1 << 24),
}  # fmt: skip


def config_of(given: Mapping[str, Any]) -> TransformerConfig:
    """The transformer of a JSON object, whose keys are the attributes.

    Raises:
      ReproError: an unknown key, one that lacks, or a value out of its bounds.
    """
    known = [each.name for each in fields(TransformerConfig)]
    required = [each.name for each in fields(TransformerConfig) if each.default is MISSING]
    check_keys("the transformer", given, known, required)
    return TransformerConfig(**given)
