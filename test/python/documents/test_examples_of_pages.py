# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The examples of the README, of tutorials and of guides run as they are pasted, and print what the pages show."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir import verify
from support.pages import comparable, printed

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    "README.md": ("torch_mlir",),
    "docs/guides/generation.md": ("torch_mlir",),
    "docs/guides/jax.md": ("jax",),
    "docs/guides/onnx.md": ("torch_mlir", "onnx"),
    "docs/guides/pytorch.md": ("torch_mlir",),
    "docs/guides/scripts.md": ("torch_mlir",),
    "docs/guides/torch-compile.md": ("torch_mlir",),
    "docs/tutorials/audit.md": ("torch_mlir",),
    "docs/tutorials/first-run.md": ("torch_mlir",),
    "docs/tutorials/low-precision-study.md": ("torch_mlir",),
    "docs/tutorials/two-machines.md": ("torch_mlir",),
}
"""The packages that each page needs. Other tests run the pages that need an environment of their own."""


@pytest.mark.exhaustive("README.md")
@pytest.mark.parametrize("page", PAGES)
def test_examples(page: str, tmp_path: Path, monkeypatch) -> None:
    for package in PAGES[page]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / page).read_text()
    assert "```console\n$ repro" in text or "```\n\n```text" in text
    assert comparable(printed(text)) == comparable(text)


def test_a_page_with_another_output_differs() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert printed(page) == page.replace("3", "2") and comparable(printed(page)) != comparable(page)


def test_the_receipt_of_the_readme(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("torch_mlir")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    printed(text[text.index("## In a script of your own") :])
    assert verify(tmp_path / "example.receipt").steps == 3


def test_the_hash_of_the_readme() -> None:
    """test/python/examples/test_golden.py computes this hash on every target."""
    golden = json.loads((ROOT / "test" / "python" / "examples" / "golden.json").read_text())
    expected = golden["examples"]["digits_cnn"]["10"]
    text = (ROOT / "README.md").read_text()
    assert f"state    {expected}\n" in text
    shortened = re.findall(r"`([0-9a-f]+)…`", text)
    assert len(shortened) >= 6 and set(shortened) == {expected[:16]}


@pytest.mark.exhaustive
def test_the_example_of_keras(tmp_path: Path) -> None:
    """Runs the example in a process of its own, because it chooses a backend before Keras is imported."""
    if not all(map(importlib.util.find_spec, ("torch_mlir", "keras"))):
        pytest.skip("needs Keras")
    page = ROOT / "docs" / "guides" / "keras.md"
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'test')!r}); from support.pages import printed; "
        f"printed(open({str(page)!r}).read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
