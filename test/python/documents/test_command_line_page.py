# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The examples of docs/guides/command-line.md print what the page shows."""

import re
import shlex
from pathlib import Path

import pytest
from repro_mlir.cli.main import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "command-line.md"
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.S)
EXAMPLES = [example.split("\n", 1) for block in BLOCKS for example in re.split(r"^\$ repro ", block, flags=re.M)[1:]]


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_examples(capsys, monkeypatch, tmp_path: Path, command: str, shown: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 2
    captured = capsys.readouterr()
    assert captured.out + captured.err == shown
