# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What devices share of the kernels of a transformer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.roofline.transformer import PRESETS, Kernels, Product, Share, TransformerConfig

LLAMA, GPT = PRESETS["llama3-8b"], PRESETS["megatron-22b"]


def test_forward_products_are_two_operations_for_each_parameter_and_token() -> None:
    """And those of scores: 2 s h for each of two products."""
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
    """Forward and backward: together that of one device."""
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
