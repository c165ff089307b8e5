# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The example of docs/guides/random.md prints the output that the page shows."""

import re
from pathlib import Path

import pytest
from support.forked_python import run_python

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "random.md"


def test_the_example_prints_what_the_page_shows() -> None:
    pytest.importorskip("torch")
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    (output,) = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    done = run_python(["-c", code])
    assert (done.stdout, done.stderr) == (output, "")
