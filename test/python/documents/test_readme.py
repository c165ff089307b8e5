# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that the Python snippets of README.md run unchanged, as one script."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir import verify

ROOT = Path(__file__).resolve().parents[3]


def test_snippets_run(tmp_path: Path) -> None:
    """Runs the snippets in order in one process: later snippets use names of earlier ones."""
    pytest.importorskip("torch_mlir")
    pytest.importorskip("onnx")
    pytest.importorskip("jax")
    pytest.importorskip("keras")
    found = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    # TensorFlow needs an environment of its own; test/tensorflow_frontend/test_tensorflow_readme.py runs its snippet
    # there.
    snippets = [each for each in found if "import tensorflow" not in each]
    assert (len(found), len(snippets)) == (11, 10)
    done = subprocess.run([sys.executable, "-c", "".join(snippets)], cwd=tmp_path, capture_output=True, text=True)
    # Ignores a line in which torch.compile says that it omits the profiler's name of an optimizer's step.
    said = [line for line in done.stderr.splitlines() if "Profiler record function" not in line]
    assert done.returncode == 0 and not said, done.stderr
    assert re.match("[0-9a-f]{64}\n", done.stdout)
    assert verify(tmp_path / "run.receipt").steps == 10
