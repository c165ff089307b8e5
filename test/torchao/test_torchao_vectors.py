# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The score of torchao by the conformance vectors, as docs/guides/vectors.md states it (`make torchao-test`)."""

from __future__ import annotations

from repro_mlir.conformance.catalogue import MX, catalogue
from repro_mlir.conformance.libraries import load_library
from repro_mlir.conformance.score import score


def test_score() -> None:
    """NVFP4 and dequantization are right. For MX blocks, torchao divides by another number than the scale if the scale
    is 2^-127, and RCEIL takes a logarithm in f32."""
    library, label = load_library("torchao")
    found = [each for group in catalogue() if (each := score(group, library)) is not None]
    assert label == "torchao 0.18.0" and not any(each.error for each in found)
    right = {each.name for each in found if each.right == each.cases}
    assert {each.name for each in found} - right == {
        f"quantize/{name}/{mode}" for name in MX if name != "mxint8" for mode in ("floor", "ceil", "even", "rceil")
    }
    assert (sum(each.right for each in found), sum(each.cases for each in found)) == (3859, 4486)
