# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The score of gfloat by the conformance vectors, as docs/guides/vectors.md states it (`make gfloat-test`)."""

from __future__ import annotations

from repro_mlir.conformance.catalogue import catalogue
from repro_mlir.conformance.libraries import load_library
from repro_mlir.conformance.score import score


def test_score() -> None:
    """All cases are right, except that gfloat rounds MXINT8 to -2, which the OCP specification allows."""
    library, label = load_library("gfloat")
    found = [each for group in catalogue() if (each := score(group, library)) is not None]
    assert label == "gfloat 0.5.2" and not any(each.error for each in found)
    assert {each.name for each in found if each.right < each.cases} == {"quantize/mxint8/floor"}
    assert (sum(each.right for each in found), sum(each.cases for each in found)) == (112744, 112757)
