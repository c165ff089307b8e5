# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests compression methods as users write them: parameters, JSON, and the number of compressed bytes."""

from __future__ import annotations

from typing import Any

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.gradient_compression import (
    METHODS,
    QSGD,
    Blocks,
    GradientCompression,
    OneBit,
    PowerSGD,
    TopK,
    compression_from_json,
    compression_of,
    compression_to_json,
)
from repro_mlir.precision import Format, Hadamard, Scale

EACH = [
    TopK(0.25),
    OneBit(),
    QSGD(7, 100),
    PowerSGD(3),
    Blocks.named("mxfp4"),
    Blocks.named("nvfp4", feedback=False),
    Blocks(Format("f8E5M2", (1, None), Scale("float8", least=1e-10))),
]


@pytest.mark.parametrize("method", EACH, ids=str)
def test_json_is_read_back(method: GradientCompression) -> None:
    assert compression_from_json(compression_to_json(method)) == method
    assert compression_of(compression_to_json(method)) == method == compression_of(method)


def test_names_have_default_parameters() -> None:
    found = [compression_of(name) for name in METHODS]
    assert found == [TopK(0.01), OneBit(), QSGD(4, 512), PowerSGD(1), Blocks.named("mxfp8")]
    assert compression_of({"method": "blocks", "format": "mxint8", "feedback": False}) == Blocks.named("mxint8", False)


WRONG: list[tuple[Any, str]] = [
    (1, "its name or its JSON, got a int"),
    ("topk", "expected a method among top_k, one_bit, qsgd, power_sgd, blocks, got 'topk'"),
    ("{}", "expected a method among"),
    ("{", "the gradient compression"),
    ({"method": "top_k", "fraction": 0}, "above 0 and at most 1, got 0"),
    ({"method": "top_k", "fraction": 1.5}, "above 0 and at most 1, got 1.5"),
    ({"method": "top_k", "fraction": float("nan")}, "above 0 and at most 1, got nan"),
    ({"method": "top_k", "fraction": True}, "above 0 and at most 1, got True"),
    ({"method": "top_k", "fraction": 10**5000}, "above 0 and at most 1, got a number of 16610 bits"),
    (
        {"method": 10**5000},
        "power_sgd, blocks, got a number of 16610 bits",
    ),
    ({"method": "top_k", 10**5000: 1}, "unknown parameter a number of 16610 bits of top_k"),
    ("{\ud800", "the gradient compression: expected JSON in UTF-8"),
    ('{"method": "\ud800"}', "the gradient compression: expected JSON in UTF-8"),
    ({"method": "top_k", "k": 3}, "unknown parameter 'k' of top_k, expected fraction"),
    ({"method": "one_bit", "bits": 1}, "unknown parameter 'bits' of one_bit, expected no parameters"),
    ({"method": "qsgd", "levels": 0}, "the levels of qsgd as a whole number from 1 to 65536, got 0"),
    ({"method": "qsgd", "bucket": 1.0}, "the bucket of qsgd as a whole number"),
    ({"method": "power_sgd", "rank": 65}, "the rank of power_sgd as a whole number from 1 to 64, got 65"),
    ({"method": "blocks", "format": "bf16"}, "expected a format of blocks without a transform, got bf16"),
    ({"method": "blocks", "format": "mxfp3"}, "expected a recipe among"),
    ({"method": "blocks", "format": {"element": "f4E2M1FN"}}, "expected a tile and a scale"),
    ({"method": "blocks", "feedback": 1}, "expected feedback as true or false, got 1"),
]


@pytest.mark.parametrize("given, message", WRONG, ids=range(len(WRONG)))
def test_invalid_methods_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ReproError) as found:
        compression_of(given)
    assert message in str(found.value)


def test_blocks_have_scales_of_the_present_L6() -> None:
    with pytest.raises(ReproError, match=r"\(L6\) expected scales of the present gradient"):
        Blocks.named("fp8_delayed")


def test_blocks_have_no_transform() -> None:
    turned = Format("mxint8", (1, 32), Scale("floor"), hadamard=Hadamard((1,) * 16))
    with pytest.raises(ReproError, match="without a transform"):
        Blocks(turned)


BYTES: list[tuple[GradientCompression, tuple[int, ...], int]] = [
    # Keeps 13 elements, a tenth of 125 rounded up. Each has a value and an index, of 4 bytes each.
    (TopK(0.1), (5, 25), 13 * 8),
    (TopK(0.1), (), 8),
    # One bit for each of 125 signs, and a mean of 4 bytes.
    (OneBit(), (5, 25), 16 + 4),
    # Levels from -4 to 4 take 4 bits; two buckets, of 64 and 61 elements, have a norm each.
    (QSGD(4, 64), (5, 25), 63 + 8),
    # Levels from -1 to 1 take 2 bits.
    (QSGD(1, 512), (3,), 1 + 4),
    (PowerSGD(2), (5, 25), 4 * 2 * 30),
    (PowerSGD(2), (2, 3, 25), 4 * 2 * 77 if PowerSGD(2).compresses((2, 3, 25)) else 600),
    # Vectors are not compressed, and neither are matrices whose factors would not have fewer numbers.
    (PowerSGD(1), (25,), 100),
    (PowerSGD(1), (2, 2), 16),
    (Blocks.named("mxfp8"), (5, 25), 125 + 4),
    (Blocks.named("mxfp4"), (5, 25), 63 + 4),
    # Codes, a scale for each of 8 blocks, and the tensor's largest magnitude.
    (Blocks.named("nvfp4"), (5, 25), 63 + 8 + 4),
    (Blocks.named("fp8_tensorwise"), (5, 25), 125 + 4),
    (TopK(0.1), (0, 3), 0),
]


@pytest.mark.parametrize("method, shape, size", BYTES, ids=str)
def test_bytes_of_the_compressed_form(method: GradientCompression, shape: tuple[int, ...], size: int) -> None:
    assert method.bytes_of(shape) == size
