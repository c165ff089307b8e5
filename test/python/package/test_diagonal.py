# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the choice of cases that `make test` runs for the markers `diagonal` and `exhaustive`."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.diagonal import diagonal, with_parts

SIZES, KINDS = (1, 2, 3), ("f32", "bf16")
CASES = [{"size": size, "kind": kind} for size, kind in itertools.product(SIZES, KINDS)]
NAMES = ["floats/exp-f32", "floats/exp-f64", "floats/log-f32", "floats/log-f64", "sums/row-f32-5x7", "sums/row-f32-9x1"]


def test_each_value_of_each_parameter_is_chosen() -> None:
    chosen = [CASES[number] for number in diagonal(CASES, [["size"], ["kind"]])]
    assert [case["size"] for case in chosen] == [1, 2, 3]
    assert [case["kind"] for case in chosen] == ["f32", "bf16", "f32"]
    assert diagonal(CASES, [["size", "kind"]]) == list(range(6))


def test_kept_values() -> None:
    assert diagonal(CASES, [["size"], ["kind"]], size=[2]) == [2, 3]
    assert diagonal(CASES, [["size"], ["kind"]], size=[2], kind=["bf16"]) == [3]
    with pytest.raises(ValueError, match="no size is 4"):
        diagonal(CASES, [["size"], ["kind"]], size=[2, 4])


def test_each_word_of_a_name_is_chosen() -> None:
    chosen = diagonal([{"case": name} for name in NAMES], [["case"]], ["case"])
    assert [NAMES[number] for number in chosen] == ["floats/exp-f32", "floats/log-f64", "sums/row-f32-5x7"]


def test_cases_with_a_part() -> None:
    ids = ["mlp-x86-64-v2", "mlp-x86-64-v4", "cnn-x86-64-v4", "cnn-x86-64-v4-vnni"]
    assert with_parts(ids, ["mlp", "v4-vnni"]) == {0, 1, 3}
    assert with_parts(ids, ["x86-64-v4"]) == {1, 2, 3}
    with pytest.raises(ValueError, match="no case has 'v' in its id"):
        with_parts(ids, ["mlp", "v"])


MARKED = """import pytest
{module}
@pytest.mark.parametrize("kind", ["f32", "bf16"])
{function}
def test_cases(kind): pass
{plain}
def test_plain(): pass
"""


@pytest.mark.parametrize(
    ("module", "function", "plain", "expected"),
    [
        ("", "@pytest.mark.exhaustive('f32')", "", "test_cases[bf16] test_plain"),
        ("pytestmark = pytest.mark.exhaustive", "", "", ""),
        ("pytestmark = pytest.mark.exhaustive('f32')", "", "", "expected exhaustive('f32') at each test, got it at"),
        ("", "@pytest.mark.exhaustive('x')", "", "no case has 'x' in its id"),
        ("", "", "@pytest.mark.exhaustive('f32')", "expected parameters for the marker, got a test without"),
        ("pytestmark = pytest.mark.diagonal", "", "", "expected parameters for the marker, got a test without"),
    ],
)
def test_marks_of_tests(tmp_path: Path, module: str, function: str, plain: str, expected: str) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED.format(module=module, function=function, plain=plain))
    environment = {name: value for name, value in os.environ.items() if name != "REPRO_TESTS"}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "conftest", "-p", "no:cacheprovider"]
    said = subprocess.run([*command, "."], cwd=tmp_path, env=environment, capture_output=True, text=True)
    if said.returncode == pytest.ExitCode.USAGE_ERROR:
        assert expected and expected in said.stderr
    else:
        found = [line.partition("::")[2] for line in said.stdout.splitlines() if "::" in line]
        assert " ".join(found) == expected, said.stderr
