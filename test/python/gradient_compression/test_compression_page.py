# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The example of docs/guides/gradient-compression.md runs, and its table has the names and defaults of the methods."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from repro_mlir.gradient_compression import METHODS, compression_of
from support.forked_python import run_python

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "gradient-compression.md"


def test_the_example(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S)
    script = tmp_path / "example.py"
    script.write_text(example)
    done = run_python([str(script)])
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.fullmatch(r"1\.\d+ [0-9a-f]{64}\n", done.stdout)


def test_the_table_of_methods() -> None:
    rows = re.findall(r"^\| `(\w+)`, `(\w+)` \| ([^|]*)\|", PAGE.read_text(), flags=re.M)
    assert [name for name, _, _ in rows] == list(METHODS)
    for name, kind, parameters in rows:
        method = compression_of(name)
        assert type(method).__name__ == kind
        fields = [each.name for each in dataclasses.fields(method)]  # type: ignore[arg-type]
        assert re.findall(r"`(\w+)` \(", parameters) == fields
        for field, default in re.findall(r"`(\w+)` \(([\d.]+)\)", parameters):
            assert getattr(method, field) == float(default)
