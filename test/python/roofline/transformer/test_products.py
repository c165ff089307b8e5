# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the predicted matrix products of a transformer with those of the captured program of the same model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir import Program, ir
from repro_mlir._mlir_libs import _repro
from repro_mlir.frontends.torch.generation.cached_attention import capture_generation
from repro_mlir.program.canonical import read_module
from repro_mlir.roofline.transformer import Kernels, Share, TransformerConfig, training_products
from torch import nn

ROWS, LENGTH = 2, 10
SLOTS, CAPACITY = 3, 16
GPT = TransformerConfig(
    layers=2, hidden=24, heads=3, kv_heads=3, head_size=8, ffn=40, vocabulary=17, sequence=LENGTH, gated=False,
    rotary=False, attention_block=0,
)  # fmt: skip
LLAMA = TransformerConfig(
    layers=2, hidden=24, heads=4, kv_heads=2, head_size=6, ffn=40, vocabulary=17, sequence=LENGTH, attention_block=0,
    fused_projections=False,
)  # fmt: skip
EXPERTS = TransformerConfig(
    layers=2, hidden=24, heads=4, kv_heads=4, head_size=6, ffn=16, vocabulary=17, sequence=LENGTH, attention_block=0,
    experts=5, active_experts=2, fused_projections=False,
)  # fmt: skip
LATENT = replace(LLAMA, heads=3, kv_heads=3, kv_latent=8, query_latent=10, rotary_size=4)
LATENT_OF_INPUT = replace(LATENT, query_latent=0, fused_projections=True, gated=False)


class Attention(nn.Module):
    """Causal attention with one fused projection, or with separate projections for queries, keys and values."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        sizes = [config.query_size, config.kv_size, config.kv_size]
        parts = [sum(sizes)] if config.fused_projections else sizes
        self.before = nn.ModuleList(nn.Linear(config.hidden, part) for part in parts)
        self.after = nn.Linear(config.query_size, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        config = self.config
        found = torch.cat([part(x) for part in self.before], 2)
        sizes = [config.query_size, config.kv_size, config.kv_size]
        q, k, v = (part.unflatten(2, (-1, config.head_size)).transpose(1, 2) for part in found.split(sizes, dim=2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=config.kv_heads != config.heads)
        return self.after(attended.transpose(1, 2).flatten(2))


class LatentAttention(nn.Module):
    """Causal attention whose keys and values, and queries if the configuration says so, are projected from latents."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config, queries = config, config.heads * config.score_size
        self.sizes = [config.query_latent or queries, config.kv_latent, config.rotary_size]
        query, latent, rotated = self.sizes
        parts = [sum(self.sizes)] if config.fused_projections else [query, latent + rotated]
        self.before = nn.ModuleList(nn.Linear(config.hidden, part) for part in parts)
        self.queries = nn.Linear(query, queries) if config.query_latent else nn.Identity()
        self.kv = nn.Linear(latent, 2 * config.kv_size)
        self.after = nn.Linear(config.query_size, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        config = self.config
        query, latent, rotated = torch.cat([part(x) for part in self.before], 2).split(self.sizes, dim=2)
        q = self.queries(query).unflatten(2, (config.heads, -1)).transpose(1, 2)
        k, v = self.kv(latent).unflatten(2, (config.heads, -1)).transpose(1, 2).chunk(2, dim=3)
        k = torch.cat([k, rotated[:, None].expand(-1, config.heads, -1, -1)], 3)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.after(attended.transpose(1, 2).flatten(2))


class LatentStep(nn.Module):
    """A decoding step of latent attention: one new token per sequence, after cached latents f32 [sequences, tokens,
    kv_latent + rotary_size]."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        heads, size, latent = config.heads, config.head_size, config.kv_latent
        self.config = config
        self.down_query = nn.Linear(config.hidden, config.query_latent)
        self.down_kv = nn.Linear(config.hidden, latent + config.rotary_size)
        self.queries = nn.Linear(config.query_latent, heads * config.score_size)
        self.into = nn.Parameter(torch.randn(heads, size, latent))
        self.out = nn.Parameter(torch.randn(heads, latent, size))
        self.after = nn.Linear(config.query_size, config.hidden)
        self.inner = Perceptron(config)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        config = self.config
        q = self.queries(self.down_query(x)).unflatten(1, (config.heads, -1))
        own, rotated = q.split([config.head_size, config.rotary_size], dim=2)
        into = torch.bmm(own.transpose(0, 1), self.into).transpose(0, 1)
        weights = torch.bmm(torch.cat([into, rotated], 2), cache.transpose(1, 2)).softmax(2)
        attended = torch.bmm(weights, cache[..., : config.kv_latent])
        values = torch.bmm(attended.transpose(0, 1), self.out).transpose(0, 1)
        return self.inner(self.after(values.flatten(1))), self.down_kv(x)


class Perceptron(nn.Module):
    """An MLP, optionally with a second inner projection that gates the first."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(config.hidden, config.ffn)
        self.gate = nn.Linear(config.hidden, config.ffn) if config.gated else None
        self.narrow = nn.Linear(config.ffn, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.widen(x)
        return self.narrow(F.gelu(inner) if self.gate is None else inner * F.silu(self.gate(x)))


class Experts(nn.Module):
    """A mixture of experts in which experts choose tokens (arXiv:2202.09368), so that all experts have the same number
    of tokens."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.taken = ROWS * LENGTH * config.active_experts // config.experts
        self.router = nn.Linear(config.hidden, config.experts, bias=False)
        self.widen, self.gate = (nn.Parameter(torch.randn(config.experts, config.hidden, config.ffn)) for _ in range(2))
        self.narrow = nn.Parameter(torch.randn(config.experts, config.ffn, config.hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).softmax(1).topk(self.taken, dim=0)
        rows = tokens[chosen.t()]
        inner = torch.bmm(rows, self.widen) * F.silu(torch.bmm(rows, self.gate))
        found = torch.bmm(inner, self.narrow) * weights.t()[..., None]
        return torch.zeros_like(tokens).index_add(0, chosen.t().flatten(), found.flatten(0, 1)).view_as(x)


class Decoder(nn.Module):
    """A language model that maps tokens i64 [rows, length] to logits f32 [rows, length, vocabulary]."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        inner = Experts if config.experts else Perceptron
        attention = LatentAttention if config.kv_latent else Attention
        self.tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.places = nn.Embedding(CAPACITY, config.hidden)
        self.attention = nn.ModuleList(attention(config) for _ in range(config.layers))
        self.inner = nn.ModuleList(inner(config) for _ in range(config.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(config.hidden) for _ in range(2 * config.layers + 1))
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        x = self.tokens(tokens) if positions is None else self.tokens(tokens) + self.places(positions)
        norms = iter(self.norms)
        for attention, inner in zip(self.attention, self.inner, strict=True):
            x = x + attention(next(norms)(x))
            x = x + inner(next(norms)(x))
        return self.head(next(norms)(x))


def loss(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), target.flatten())


def captured(config: TransformerConfig) -> Program:
    torch.manual_seed(1)
    model, tokens = Decoder(config), torch.zeros(ROWS, LENGTH, dtype=torch.int64)
    optimizer = torch.optim.AdamW(model.parameters())
    block = config.attention_block or None
    program = repro_mlir.capture(model, loss, optimizer, (tokens, tokens), attention_block=block)
    assert isinstance(program, Program)
    return program


def products_of(program: Program) -> Iterator[tuple[int, int, int, int]]:
    """Yields the extents (batch, min(m, n), max(m, n), k) of each contraction in a program."""
    with ir.Context():
        for function in read_module(program.data).body.operations:
            for operation in function.regions[0].blocks[0].operations:
                if _repro.multiplied_types(operation.operation):
                    yield product_of(operation)


def product_of(contraction: Any) -> tuple[int, int, int, int]:
    """Returns the extents (batch, min(m, n), max(m, n), k) of a contraction of two matrices."""
    maps = [str(each).split("-> (")[1].split(")")[0] for each in contraction.attributes["indexing_maps"]]
    left, right, result = (set(each.split(", ")) for each in maps)
    sizes: dict[str, int] = {}
    for dimensions, value in zip(maps, contraction.operands, strict=True):
        sizes |= dict(zip(dimensions.split(", "), value.type.shape, strict=True))
    extents = (left & right & result, left & result - right, right & result - left, left & right - result)
    batch, m, n, k = (math.prod(sizes[name] for name in names) for names in extents)
    return batch, min(m, n), max(m, n), k


@pytest.mark.parametrize("block", [0, 4, 16])
@pytest.mark.parametrize(
    "config",
    [GPT, LLAMA, EXPERTS, LATENT, LATENT_OF_INPUT],
    ids=["gpt", "llama", "experts", "latent", "latent_of_input"],
)
@pytest.mark.diagonal
@pytest.mark.exhaustive("gpt", "latent", "llama")
def test_products_are_those_of_the_compiler(config: TransformerConfig, block: int) -> None:
    """Covers the forward and the backward pass, with whole and blockwise attention. A product and its transpose count
    as equal."""
    config = replace(config, attention_block=block)
    found = training_products(config, ROWS, "f32")
    expected = Counter(products_of(captured(config)))
    assert Counter((each.batch, min(each.m, each.n), max(each.m, each.n), each.k) for each in found) == expected


@pytest.mark.parametrize("cached_tokens", [8, 16])
def test_products_of_decoding_are_those_of_the_generator(cached_tokens: int) -> None:
    """Covers a decoding step: one token for each of several sequences."""
    model = Decoder(GPT).eval()
    ((_, program),) = capture_generation(model, SLOTS, CAPACITY, 4, [cached_tokens])
    kernels = Kernels(replace(GPT, sequence=1), Share(SLOTS, "f32"))
    operations = [*kernels.layer(cached_tokens) * GPT.layers, *kernels.head()]
    found = [each for operation in operations for each in operation.products]
    expected = Counter(products_of(program))
    assert Counter((each.batch, min(each.m, each.n), max(each.m, each.n), each.k) for each in found) == expected


def test_products_of_decoding_latents_are_those_of_a_captured_layer() -> None:
    """In decoding, queries are projected to the latents, so that the cached latents serve as keys and values."""
    length = 7
    cache = torch.zeros(SLOTS, length, LATENT.kv_latent + LATENT.rotary_size)
    program = repro_mlir.capture(LatentStep(LATENT).eval(), (torch.zeros(SLOTS, LATENT.hidden), cache))
    assert isinstance(program, Program)
    kernels = Kernels(replace(LATENT, sequence=1), Share(SLOTS, "f32"))
    found = [each for operation in kernels.layer(length) for each in operation.products]
    expected = Counter(products_of(program))
    assert Counter((each.batch, min(each.m, each.n), max(each.m, each.n), each.k) for each in found) == expected
    (attention,) = (each for each in kernels.layer(length) if each.name == "attention")
    assert attention.bytes == cache.numel() * 4
