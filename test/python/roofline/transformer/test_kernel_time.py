# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the predicted times of kernels: what bounds them, and the time that is lost if a kernel does not fill the
device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.roofline.transformer import PRESETS, Operation, Product, operation_seconds, predict_decoding

A100 = read_machine("a100")
assert isinstance(A100, Accelerator)


def test_kernels_are_bound_by_arithmetic_memory_or_launch() -> None:
    large = Operation("large", "projection", 0, (Product(1, 1 << 14, 1 << 14, 1 << 14, "bf16"),))
    expected = 2 * (1 << 42) / (A100.f16_matrix_flops * A100.matrix_efficiency)
    assert operation_seconds(large, A100) == pytest.approx(expected, rel=0.05)
    bytes = Operation("bytes", "vector", 1e9)
    expected = 1e9 / (A100.memory_bandwidth * A100.memory_efficiency) + A100.launch_seconds
    assert operation_seconds(bytes, A100) == pytest.approx(expected)
    assert operation_seconds(Operation("nothing", "vector", 0, launches=3), A100) == 3 * A100.launch_seconds
    # One more row of tiles than the device has multiprocessors needs another wave.
    one = Operation("one", "projection", 0, (Product(108, 128, 128, 4096, "bf16"),))
    more = Operation("more", "projection", 0, (Product(109, 128, 128, 4096, "bf16"),))
    assert operation_seconds(more, A100) > 1.2 * operation_seconds(one, A100)


def test_a_format_that_a_device_lacks_is_a_wider_one() -> None:
    product = Operation("product", "projection", 0, (Product(1, 1 << 13, 1 << 13, 1 << 13, "fp8"),))
    assert A100.f8_matrix_flops == 0
    wide = replace(product, products=(replace(product.products[0], format="bf16"),))
    assert operation_seconds(product, A100) == operation_seconds(wide, A100)


@pytest.mark.parametrize("machine", ["a100", "spinnaker2", "v100"])
@pytest.mark.parametrize("transformer", ["llama3-8b", "gpt2-124m"])
def test_few_rows_in_f32_wait_for_memory(machine: str, transformer: str) -> None:
    """In f32, a product with few rows takes only as long as reading the weights, because vector units compute only the
    rows that exist."""
    found = read_machine(machine)
    assert isinstance(found, Accelerator)
    prediction = predict_decoding(PRESETS[transformer], found, 1, 1024, "f32")
    layers = PRESETS[transformer].parameters - PRESETS[transformer].embedding_parameters
    memory = 4 * layers / (found.memory_bandwidth * found.memory_efficiency)
    assert prediction.causes["projection"] < 1.2 * memory + 6 * 32 * found.launch_seconds


def test_vector_units_compute_the_rows_that_there_are() -> None:
    """Vector units (f32) compute only the rows that exist. Matrix units compute whole tiles."""
    machine = replace(A100, l2_bandwidth=0.0)

    def seconds(rows: int, format: str) -> float:
        product = Product(108, rows, 64, 1 << 20, format)
        return operation_seconds(Operation("product", "projection", 0, (product,), launches=0), machine)

    rate = A100.f32_flops * A100.matrix_efficiency
    assert seconds(1, "f32") == pytest.approx(2 * 108 * 64 * (1 << 20) / rate)
    assert seconds(32, "f32") == pytest.approx(32 * seconds(1, "f32"))
    assert seconds(1, "bf16") == pytest.approx(seconds(64, "bf16"))
