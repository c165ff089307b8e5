# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The Python snippets of docs/guides/huggingface.md run unchanged."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "huggingface.md"


def test_snippets_run(tmp_path: Path) -> None:
    """Runs all snippets in order in one process."""
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    assert len(snippets) == 5
    # Without CUDA's libraries, torchvision must be imported first (see vision.py).
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import vision\n" + "".join(snippets)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    hashes = [line.split()[-1] for line in lines if re.search(r"\b[0-9a-f]{64}$", line)]
    assert len(set(hashes)) == 2
    assert "4" in lines and lines[-2].endswith(" True") and re.fullmatch(r"\[\[(\d+, ){4}\d+\]\]", lines[-1])
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run.receipt", "trained"}
