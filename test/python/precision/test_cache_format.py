# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K7) Tests the formats of a cache that callers may give."""

from typing import Any

import pytest
from repro_mlir import ReproError
from repro_mlir.precision import NAMED_RECIPES, Format, Hadamard, Rounding, Scale, blocks
from repro_mlir.precision.cache_format import cache_format, format_text

MX = {"element": "f8E4M3FN", "tile": [1, 32], "scale": "rceil"}


def test_names_formats_and_json_are_one_thing() -> None:
    want = blocks("f8E4M3FN", "mx", "rceil")
    text = format_text(want)
    assert all(cache_format(each) == want for each in ("mxfp8", "qat_mxfp8", "blocks_mxfp8", MX, want, text))
    least = Format("f8E5M2", (1, None), Scale("f32_quotient", least=0.1), Rounding("away"))
    assert cache_format(format_text(least)) == least


@pytest.mark.parametrize("name", NAMED_RECIPES)
def test_each_recipe_is_a_format_or_refused(name: str) -> None:
    refused = ("bf16", "f16", "tf32", "nvfp4", "fp8_tensorwise", "fp8_delayed")
    base = name.removeprefix("qat_").removeprefix("blocks_").removeprefix("blackwell_")
    if base in refused:
        with pytest.raises(ReproError, match=r"\(K7\) expected"):
            cache_format(name)
    else:
        assert cache_format(name).tile[0] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "expected the format of a cache, the name of one or its JSON, got a int"),
        ("mxfp9", "expected the format of a cache, such as mxfp8, or its JSON, got 'mxfp9'"),
        ("{", "the format of a cache"),
        ({"element": "f8E4M3FN"}, "the format of a cache: expected a tile and a scale for f8E4M3FN"),
        ({**MX, "x": 1}, "unknown field 'x'"),
        ("bf16", "expected a format of blocks for a cache, got bf16"),
        (Format("f32"), "expected a format of blocks for a cache, got f32"),
        ({**MX, "tile": [32, 32]}, "got blocks of several tokens"),
        ({**MX, "tile": [None, 32]}, "got blocks of several tokens"),
        ("nvfp4", "got the amax of several tokens, as nvfp4 without the amax of each row"),
        ("fp8_delayed", "got a scale of former steps"),
        ("fp8_tensorwise", "got blocks of several tokens"),
        ({**MX, "rounding": "sr8"}, "got random bits"),
        (Format("f8E4M3FN", (1, 32), Scale("rceil"), hadamard=Hadamard((1,) * 16)), "got a Hadamard transform"),
        ({**MX, "scale": {"rule": "rceil", "nan": 0}}, "got a scale of byte 0 for NaN"),
    ],
)
def test_formats_that_are_none_of_a_cache(given: Any, message: str) -> None:
    with pytest.raises(ReproError) as error:
        cache_format(given)
    assert message in str(error.value)
