# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The example of docs/guides/tensorflow.md runs unchanged."""

import re
import subprocess
import sys
from pathlib import Path


def test_the_snippet_runs(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "tensorflow.md").read_text()
    (snippet,) = re.findall(r"^```python\n((?:(?!```).)*?import tensorflow.*?)^```", text, flags=re.M | re.S)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.match(r"1\.0 tf.Tensor\(\[0\.0\d+", done.stdout), done.stdout
