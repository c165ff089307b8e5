# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(J2) docs/reference/derivatives.md contains all formulas of the sources, unchanged."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "derivatives.md").read_text()


def test_formulas_of_functions() -> None:
    source = (ROOT / "dialects" / "Repro" / "IR" / "ReproOps.td").read_text()
    defined = re.findall(r'Repro_(?:Unary|Binary)Op<"(\w+)", "[^"]*",\s*((?:"[^"]*"\s*)+)>;', source)
    assert len(defined) == len(re.findall(r": Repro_(?:Unary|Binary)Op<", source)) > 20
    rows = re.findall(r"^\| `repro\.(\w+)` \| `(.*)` \|$", PAGE, flags=re.M)
    assert rows == [(name, "".join(re.findall('"([^"]*)"', text))) for name, text in defined]


def test_formulas_of_arithmetic() -> None:
    source = (ROOT / "lib" / "Dialect" / "Repro" / "IR" / "Derivatives.cpp").read_text()
    first, last = source.index("SmallVector<Scalar> PowiOp"), source.index("namespace {\ntemplate <typename Op>")
    (block,) = re.findall(r"```cpp\n(.*?)```", PAGE, flags=re.S)
    assert block.strip() == source[first:last].strip()
