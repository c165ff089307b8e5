# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The example of docs/guides/diff-dumps.md runs as it is pasted, and prints what the page shows but for digits."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.cli.main import main
from repro_mlir.tensor_dumps import listing

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "diff-dumps.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def test_the_example_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, "page", "exec"), {})
    assert main(shlex.split(blocks("sh")[0])[1:]) == 1
    shown = blocks("text")[0].splitlines()
    found = capsys.readouterr().out.splitlines()
    # Distances and values depend on the machine; counts of tensors and elements, steps and names do not.
    for expected, line in zip(shown[:5], found, strict=False):
        assert line.split(", by")[0] == expected.split(", by")[0]
    assert [line.split(":")[0] for line in found[10:]] == [line.split(":")[0] for line in shown[10:]]


def test_the_patterns_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The second and third command have the files that the patterns describe."""
    monkeypatch.chdir(tmp_path)
    array = np.arange(6.0)
    Path("run-a/step7").mkdir(parents=True)
    np.save("run-a/step7/fc.npy", array)
    one, two, three = (shlex.split(line)[1:] for line in blocks("sh")[1].splitlines())
    Path("run-b/step7").mkdir(parents=True)
    np.save("run-b/step7/fc.npy", array)
    assert main(one) == 0
    Path("run-b/step7/fc.npy").unlink()
    np.savez("run-b/dump-0007.npz", fc=array)
    assert main(two) == 0
    assert three == ["diff", "--dumps", "first.pt", "second.pt"]
    assert capsys.readouterr().out.count("compared 1 tensor, 0 are different") == 2


def test_the_line_of_a_manifest_is_valid() -> None:
    (line,) = blocks("json")
    listing._LINE(json.loads(line), "page")
