# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Transformer sizes: decoders like GPT and Llama, dense or with experts, optionally with latent attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_flag, check_whole
from repro_mlir.roofline.machines.files import check_keys

# The limit on blocks of attention, each of which adds entries to the list of products.
_MOST_BLOCKS = 4096


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a decoder.

    Attributes:
      layers, hidden: the number of layers, and the width between them.
      heads, kv_heads, head_size: the numbers of query heads and of key and value heads, and the width of a head.
      ffn: the inner width of the MLP, or of an expert.
      vocabulary: the number of rows of the embedding.
      sequence: the number of tokens of a sequence.
      gated: whether the MLP multiplies two projections (Llama); otherwise it has one projection and GELU (GPT).
      experts, active_experts: the number of experts of a layer, and of those that process a token; 0 and 0 for a dense
        MLP.
      rotary: whether positions rotate queries and keys, norms are RMS norms and projections have no bias (Llama);
        otherwise positions are a table of `sequence` rows, and norms and projections have biases (GPT).
      tied: whether the last projection shares the embedding's weight.
      dropout: whether dropout follows attention's softmax, its projection and the MLP.
      fused_projections: whether projections of the same input are one product.
      attention_block: (K5) the number of queries, or keys, in a block; 0 for a whole score matrix, which sequences of
        at most one block always have.
      kv_latent: in latent attention (DeepSeek-AI, arXiv:2405.04434, section 2.1), the width of the latent from which
        the keys and values of all heads are projected; otherwise 0.
      query_latent: in latent attention, the width of the latent from which queries are projected; 0 if the layer's
        input is projected directly.
      rotary_size: in latent attention, the width of the rotated part of queries and keys, which `head_size` does not
        include; all heads share the rotated part of the keys.
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
    kv_latent: int = 0
    query_latent: int = 0
    rotary_size: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            check_whole(name, getattr(self, name), least, most)
        for each in fields(self):
            if each.type == "bool":
                check_flag(each.name, getattr(self, each.name))
        if self.heads % self.kv_heads:
            raise ReproError(f"expected heads as a multiple of kv_heads, got {self.heads} and {self.kv_heads}")
        if self.kv_latent and not (self.rotary and self.rotary_size and self.kv_heads == self.heads):
            raise ReproError("expected kv_latent with rotary, rotary_size and kv_heads equal to heads")
        if not self.kv_latent and (self.query_latent or self.rotary_size):
            raise ReproError("expected kv_latent with query_latent and rotary_size")
        if self.active_experts > self.experts or bool(self.experts) != bool(self.active_experts):
            raise ReproError(f"expected active_experts up to {self.experts}, got {self.active_experts}")
        if self.attention_block and self.sequence > self.attention_block * _MOST_BLOCKS:
            raise ReproError(f"expected at most {_MOST_BLOCKS} blocks of attention, got {self.sequence} tokens")

    @property
    def is_blocked(self) -> bool:
        """(K5) Whether attention is computed in blocks of queries and keys."""
        return 0 < self.attention_block < self.sequence

    @property
    def query_size(self) -> int:
        """The width of all queries of a token."""
        return self.heads * self.head_size

    @property
    def kv_size(self) -> int:
        """The width of all keys of a token, equal to that of its values."""
        return self.kv_heads * self.head_size

    @property
    def score_size(self) -> int:
        """The width of a query, and of a key, of one head."""
        return self.head_size + self.rotary_size

    @property
    def latent_parameters(self) -> int:
        """The number of parameters of a layer's projections to latents and of the norms of latents; tensor parallelism
        replicates these parameters."""
        if not self.kv_latent:
            return 0
        widths = self.query_latent + self.kv_latent
        return self.hidden * (widths + self.rotary_size) + widths

    @property
    def attention_parameters(self) -> int:
        """The number of parameters of a layer's projections to queries, keys and values, and of its output
        projection."""
        if not self.kv_latent:
            return 2 * self.hidden * (self.query_size + self.kv_size)
        queries = (self.query_latent or self.hidden) * self.heads * self.score_size
        kv = self.kv_latent * 2 * self.kv_size
        return self.latent_parameters + queries + kv + self.query_size * self.hidden

    @property
    def perceptron_parameters(self) -> int:
        """The number of weights of a layer's MLP; with experts, of one expert."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def layer_parameters(self) -> int:
        """The number of parameters of a layer: weights, biases and norms."""
        router = self.hidden * self.experts
        others = 2 * self.hidden
        if not self.rotary:
            others += 2 * self.hidden + self.query_size + 2 * self.kv_size + self.hidden + self.ffn + self.hidden
        return self.attention_parameters + router + max(1, self.experts) * self.perceptron_parameters + others

    @property
    def embedding_parameters(self) -> int:
        """The number of parameters of the token embedding and of the position table."""
        return self.hidden * (self.vocabulary + (0 if self.rotary else self.sequence))

    @property
    def head_parameters(self) -> int:
        """The number of parameters of the last norm, and of the last projection unless its weight is tied."""
        return self.hidden * ((0 if self.tied else self.vocabulary) + (1 if self.rotary else 2))

    @property
    def parameters(self) -> int:
        """The total number of parameters."""
        return self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters


_BOUNDS = {
    "layers": (1, 1 << 14), "hidden": (1, 1 << 20), "heads": (1, 1 << 14), "kv_heads": (1, 1 << 14),
    "head_size": (1, 1 << 14), "ffn": (1, 1 << 22), "vocabulary": (1, 1 << 24), "sequence": (1, 1 << 24),
    "experts": (0, 1 << 14), "active_experts": (0, 1 << 14), "attention_block": (0, 1 << 24),
    "kv_latent": (0, 1 << 20), "query_latent": (0, 1 << 20), "rotary_size": (0, 1 << 14),
}  # fmt: skip


def config_of(given: Mapping[str, Any]) -> TransformerConfig:
    """Creates a configuration from a JSON object whose keys are the attributes.

    Raises:
      ReproError: an unknown or missing key, or a value out of bounds.
    """
    known = [each.name for each in fields(TransformerConfig)]
    required = [each.name for each in fields(TransformerConfig) if each.default is MISSING]
    check_keys("the transformer", given, known, required)
    return TransformerConfig(**given)
