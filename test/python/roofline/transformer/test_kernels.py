# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests how a transformer's work is divided among devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.roofline.transformer import PRESETS, Kernels, Product, Share, TransformerConfig

LLAMA, GPT = PRESETS["llama3-8b"], PRESETS["megatron-22b"]


def test_forward_products_are_two_operations_for_each_parameter_and_token() -> None:
    """In addition to the products with weights, attention has two products, each with 2 s h operations per token, for s
    tokens of size h."""
    kernels = Kernels(replace(GPT, attention_block=0), Share(1))
    flops = sum(product.flops for operation in kernels.layer() for product in operation.products)
    weights = 12 * GPT.hidden**2
    assert flops == 2 * GPT.sequence * weights + 4 * GPT.sequence**2 * GPT.hidden


@pytest.mark.parametrize("config", [LLAMA, GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize("tensor", [2, 8])
def test_devices_share_the_products(config: TransformerConfig, tensor: int) -> None:
    def flops(share: Share) -> int:
        kernels = Kernels(config, share)
        operations = [*kernels.layer(), *kernels.layer_gradient(), *kernels.head()]
        return sum(product.flops for operation in operations for product in operation.products)

    assert flops(Share(2, tensor=tensor)) * tensor == flops(Share(2))


@pytest.mark.parametrize(
    ("block", "sequence", "context"),
    [(128, 8192, 4), (4096, 8192, 8), (4096, 8192, 4), (2048, 10240, 2), (2048, 10240, 5), (4096, 8190, 2), (1, 12, 3)],
)
def test_devices_of_a_sequence_have_the_same_work(block: int, sequence: int, context: int) -> None:
    """If devices share a sequence, their forward and backward work adds up to that of one device."""
    config = replace(LLAMA, attention_block=block, sequence=sequence)

    def products(context: int) -> list[list[Product]]:
        kernels = Kernels(config, Share(1, context=context))
        return [
            [product for each in operations if each.group == "attention" for product in each.products]
            for operations in (kernels.layer(), kernels.layer_gradient())
        ]

    for own, whole in zip(products(context), products(1), strict=True):
        flops, all_ = (sum(product.flops for product in part) for part in (own, whole))
        assert flops * context == pytest.approx(all_, rel=0.02)
    forward, _ = products(context)
    assert sum(product.m for product in forward[::2]) == sequence // context


@pytest.mark.parametrize("sequences", [1, 15, 16, 17, 100, 2000])
@pytest.mark.parametrize("expert", [1, 8])
def test_experts_have_the_rows_that_are_chosen(sequences: int, expert: int) -> None:
    """The number of rows of the experts' products is tokens times active experts. The weights of experts that no token
    has chosen are not read."""
    config = replace(PRESETS["qwen3-30b-a3b"], sequence=1)
    kernels = Kernels(config, Share(sequences, expert=expert))
    rows = sequences * config.active_experts
    operations = {each.name: each for each in (*kernels.layer(1), *kernels.layer_gradient())}
    widths = {"gate and widen": 2, "narrow": 1, "gate and widen, input": 2, "narrow, weight": 1}
    for name, parts in widths.items():
        width = parts * config.ffn
        operation = operations[name]
        assert sum(each.flops for each in operation.products) == 2 * rows * config.hidden * width
        experts = min(config.experts // expert, rows)
        assert sum(each.batch for each in operation.products) == experts
        if not name.endswith("weight"):
            assert max(each.m for each in operation.products) - min(each.m for each in operation.products) <= 1
            moved = rows * (config.hidden + width) + experts * config.hidden * width
            assert operation.bytes == 2 * moved
    gate = operations["gate"]
    assert gate.bytes == 3 * 2 * rows * config.ffn
