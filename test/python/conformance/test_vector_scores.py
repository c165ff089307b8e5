# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scores of libraries: those of packages that the tests have, and those of functions with known mistakes."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.conformance import operations
from repro_mlir.conformance.catalogue import catalogue
from repro_mlir.conformance.folder import write_vectors
from repro_mlir.conformance.group import Arrays, Compute, Group, Parameters
from repro_mlir.conformance.libraries import load_library
from repro_mlir.conformance.score import GroupScore, score


@functools.cache
def groups() -> dict[str, Group]:
    return {group.name: group for group in catalogue()}


def scores(library: Compute) -> dict[str, GroupScore]:
    found = {name: score(group, library) for name, group in groups().items()}
    return {name: each for name, each in found.items() if each is not None}


def test_the_reference_interpreter_is_right() -> None:
    found = scores(operations.compute)
    assert len(found) == len(groups())
    assert all(each.right == each.cases and each.open_right == each.open_cases for each in found.values())


def test_ml_dtypes() -> None:
    """ml_dtypes rounds float32 correctly. It converts a float64 by way of float32, which rounds twice, and a NaN to the
    code of -0 in formats without NaN."""
    pytest.importorskip("ml_dtypes")
    library, label = load_library("ml_dtypes")
    found = scores(library)
    wrong = {name: each.wrong_kinds for name, each in found.items() if each.wrong_kinds}
    assert label.startswith("ml_dtypes ") and len(found) == 16
    assert wrong == {
        "round/f6E3M2FN/rne/saturate": {"nan": (4, 4)},
        "round/f6E2M3FN/rne/saturate": {"nan": (4, 4)},
        "round/f4E2M1FN/rne/saturate": {"nan": (4, 4)},
        "round/f8E4M3FN/rne/overflow/f64": {"double_rounding": (252, 504)},
        "round/f8E5M2/rne/overflow/f64": {"double_rounding": (246, 492)},
        "round/bf16/rne/overflow/f64": {"double_rounding": (328, 656)},
    }
    assert sum(each.right for each in found.values()) == 13947


def test_casts_of_numpy() -> None:
    library, _ = load_library("numpy")
    found = {name: each for name, each in scores(library).items() if not name.startswith("function/")}
    assert {*found} == {"decode/f16", "round/f16/rne/overflow", "round/f16/rne/overflow/f64"}
    assert all(each.right == each.cases for each in found.values())


def quantize(inputs: Arrays, parameters: Parameters) -> Arrays:
    return operations.compute("quantize", inputs, parameters)


def with_changes(**changes: object) -> Compute:
    """Returns the reference interpreter with a change of the first element of some results."""

    def library(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays:
        results = dict(operations.compute(operation, inputs, parameters))
        for name, value in changes.items():
            results[name].flat[0] = value
        return results

    return library


def test_one_wrong_element_is_one_wrong_case() -> None:
    group = groups()["quantize/mxfp4/floor"]
    found = score(group, with_changes(scales=7))
    assert found is not None and found.right == found.cases - 1 and found.wrong_kinds == {"normal": (1, 32)}
    greatest = np.abs(group.inputs["x"].values[0]).max()
    assert found.first_wrong == (
        f"normal: scales[0]: expected 0x7f (1.0), got 0x07 (7.52316384526264e-37), greatest |x| = "
        f"0x{greatest.view(np.uint32):08x} ({float(greatest)!r})"
    )


def test_nans_are_equal_and_codes_under_them_are_not_compared() -> None:
    group = groups()["quantize/mxfp8_e4m3/floor"]
    first_nan = int(np.flatnonzero(group.outputs["scales"].values == 255)[0])

    def other_codes(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays:
        results = operations.compute(operation, inputs, parameters)
        results["codes"][first_nan] = 1
        return results

    found = score(group, other_codes)
    assert found is not None and found.open_right == found.open_cases > 0
    other = score(groups()["decode/f8E4M3FN"], lambda *given: {"values": -operations.compute(*given)["values"]})
    assert other is not None and other.right == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "ValueError: expected a result named values"),
        ({"values": np.zeros(3, np.float32)}, "expected values of shape (64,), got (3,)"),
        ({"values": np.zeros(64)}, "expected values of dtype float32, got float64"),
        ({"values": np.zeros(64, np.int32)}, "expected values of dtype float32, got int32"),
        (3, "TypeError|AttributeError"),
    ],
)
def test_wrong_answers(answer: Arrays, message: str) -> None:
    found = score(groups()["decode/f6E3M2FN"], lambda *given: answer)
    assert found is not None and found.right == 0 and any(each in found.error for each in message.split("|"))


def test_floats_in_place_of_codes() -> None:
    group = groups()["round/f4E2M1FN/rne/saturate"]
    found = score(group, lambda *given: {"codes": np.zeros(group.cases)})
    assert found is not None and "expected codes of integers, got float64" in found.error


@pytest.mark.parametrize(("dtype", "more", "is_right"), [("i1", 0, True), ("i8", 0, True), ("i8", 256, False)])
def test_integers_of_other_widths(dtype: str, more: int, is_right: bool) -> None:
    """Codes of another integer type are right if they have the same value, or the same width and bits."""
    group = groups()["round/f8E5M2/rne/saturate"]
    codes = group.outputs["codes"].values
    found = score(group, lambda *given: {"codes": codes.astype(dtype) + more})
    assert found is not None and (found.right == found.cases) == is_right
    assert ("expected codes of integers that uint8 contains" in found.error) != is_right


LIBRARY = """
import numpy as np

def compute(operation, inputs, parameters):
    if operation == "round" and parameters["format"] == "bf16" and parameters["rounding"] == "rz":
        inputs["x"][:] = inputs["x"]
        return {"codes": inputs["x"].view(np.uint32) >> 16}
    if operation == "philox4x32_10":
        raise RuntimeError("no Philox\\nhere")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "few"
    write_vectors(path, [group for name, group in groups().items() if name.startswith(("round/bf16", "philox"))])
    return path


def test_the_command(folder: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text(LIBRARY)
    assert main(["vectors", "check", str(folder), "--library", f"{tmp_path}/mine.py:compute"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "WRONG    round/bf16/rz/saturate  4,283 of 4,286; wrong: infinity 2 of 2, nan 1 of 4" in lines, lines
    assert "         the library failed: RuntimeError: no Philox here" in lines
    assert any(line.startswith(f"library  {tmp_path}/mine.py:compute: 2 of 9 groups") for line in lines), lines
    monkeypatch.chdir(tmp_path)
    given = [
        "vectors",
        "check",
        str(folder),
        "--library",
        "mine:compute",
        "--json",
        "--groups",
        "round/bf16/rz/saturate",
    ]
    assert main(given) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["library"], report["missing_groups"], len(report["groups"])) == ("mine:compute", 0, 1)


def test_results_in_files(folder: Path, tmp_path: Path, capsys) -> None:
    """The folder of the vectors has the right results; a truncated and a longer file make their groups wrong."""
    assert main(["vectors", "check", str(folder), "--results", str(folder), "--groups", "philox"]) == 0
    assert "score    32 of 32 cases right" in capsys.readouterr().out
    words = (folder / "philox4x32_10.words.bin").read_bytes()
    (tmp_path / "philox4x32_10.words.bin").write_bytes(words[:-4])
    assert main(["vectors", "check", str(folder), "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "the library failed: ValueError: philox4x32_10.words.bin: expected 512 bytes, got 508" in said
    assert f"library  {tmp_path}: 1 of 9 groups" in said
    (tmp_path / "philox4x32_10.words.bin").write_bytes(words + words)
    assert main(["vectors", "check", str(folder), "--results", str(tmp_path)]) == 1
    assert "expected at most 512 bytes, got 1,024" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --results --library is required"),
        (["--results", "none"], "library none: expected an operation of the vectors, found none"),
        (["--library", "nothing"], "expected --library ml_dtypes, gfloat, torchao, numpy, reference, MODULE:FUNCTION"),
        (["--library", "none.py:compute"], "none.py: expected a Python file, but there is no such file"),
        (["--library", "no_such_module:compute"], "no_such_module: cannot import it: ModuleNotFoundError"),
        (["--library", "json:compute"], "json: expected a function compute(operation, inputs, parameters), found none"),
        (["--library", "reference", "--groups", "paint"], "expected groups whose names begin with 'paint', found none"),
        (["--library", "numpy"], "library numpy .*: expected an operation of the vectors, found none"),
    ],
)
def test_mistakes(folder: Path, capsys, arguments: list[str], message: str) -> None:
    assert main(["vectors", "check", str(folder), *arguments]) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in message.split(" .*")), said


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gfloat", None)
    with pytest.raises(ReproError, match=r"library gfloat: cannot import the package: .*: pip install gfloat"):
        load_library("gfloat")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "cannot import name 'RoundMode' from 'gfloat'"),
        ("def __getattr__(name): raise KeyError(name)", "(KeyError: '__path__'): give another"),
        ("formats = RoundMode = None\nfor name in 'compute_scale_amax decode_block decode_ndarray encode_block "
         "encode_ndarray round_ndarray'.split(): globals()[name] = None", "AttributeError: 'NoneType' object has no"),
        ("raise SystemExit('no device')", "SystemExit: no device"),
    ],
)  # fmt: skip
def test_a_package_with_another_interface(tmp_path: Path, code: str, reason: str) -> None:
    (tmp_path / "gfloat.py").write_text(code)
    program = "from repro_mlir.conformance.libraries import load_library; load_library('gfloat')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stderr
    assert "ReproError: library gfloat: " in said and reason in said.splitlines()[-1], said


def test_a_known_module_without_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert load_library("numpy")[1] == "numpy of unknown version"


def test_a_file_with_classes_and_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the file hides no module of Python, and dataclasses find the module of the file."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "vectors_neighbour.py").write_text("def compute(*given): return None")
    (tmp_path / "inner" / "json.py").write_text(
        "from __future__ import annotations\nimport dataclasses, typing, vectors_neighbour\n"
        "@dataclasses.dataclass\nclass Table:\n    x: typing.ClassVar[int] = 3\ncompute = vectors_neighbour.compute"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    library, _ = load_library(str(tmp_path / "inner" / "json.py") + ":compute")
    assert library("round", {}, {}) is None and sys.modules["json"] is json
    assert sys.path.count(str(tmp_path / "inner")) == 1


def test_a_file_that_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("raise SystemExit(0)")
    with pytest.raises(ReproError, match=r"ends\.py: cannot import it: SystemExit: 0"):
        load_library(f"{tmp_path / 'ends.py'}:compute")


def test_a_library_that_ends_the_program() -> None:
    def compute(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays:
        raise SystemExit(0)

    group = groups()["philox4x32_10"]
    found = score(group, compute)
    assert found is not None and (found.right, found.cases, found.error) == (0, group.cases, "SystemExit: 0")


def test_the_page(tmp_path: Path, capsys, monkeypatch) -> None:
    """The example of docs/guides/vectors.md runs as pasted, with the output that the page shows."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "vectors.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, flags=re.M | re.S)
    assert [kind for kind, _ in blocks] == ["console", "python", "console"]
    monkeypatch.chdir(tmp_path)
    for kind, text in blocks:
        if kind == "python":
            (tmp_path / "bf16.py").write_text(text)
            continue
        command, _, shown = text.partition("\n")
        assert command.startswith("$ repro ")
        main(command.split()[2:])
        assert capsys.readouterr().out == shown
