# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests repro diff --dumps on folders and files as other programs write them."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.cli.main import main
from repro_mlir.tensor_dumps import comparison
from repro_mlir.tensor_dumps import page as dumps_page
from repro_mlir.tensor_dumps.comparison import Comparison, compare_sides
from repro_mlir.tensor_dumps.listing import list_side
from repro_mlir.tensor_dumps.report import text_lines

VALUES = np.linspace(-2, 2, 3000, dtype=np.float32).reshape(30, 100)


def compared(first: Path, second: Path, pattern: str | None = None, equal_nans: bool = False) -> Comparison:
    return compare_sides(list_side(str(first), pattern), list_side(str(second), pattern), equal_nans)


def write_run(folder: Path, changes: dict[tuple[int, str], np.ndarray] | None = None) -> Path:
    """Writes the tensors `embed` and `head` of the steps 1, 2 and 10, with changes."""
    for step in (1, 2, 10):
        (folder / f"step{step}").mkdir(parents=True)
        for name, array in (("embed", VALUES), ("head", np.arange(7))):
            np.save(folder / f"step{step}" / f"{name}.npy", (changes or {}).get((step, name), array))
    return folder


def changed(array: np.ndarray, index: tuple[int, ...], value: Any) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


def test_integers_differ_by_integers(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for name, values in (("a", [7, -3, 5]), ("b", [7, 2**40, 9])):
        np.save(tmp_path / f"{name}.npy", np.array(values))
    assert main(["diff", "--dumps", str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]) == 1
    told = capsys.readouterr().out
    assert "2 of 3 elements differ, by at most 1,099,511,627,779, relative 1\n" in told
    assert "  1099511627776  (1,099,511,627,779, relative 1)\n" in told
    assert "  apart  equal: 1; 4 to 7: 1; " in told and "ulp" not in told


def test_the_first_difference(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Step 2 comes before step 10, and the element is the first in row-major order of a column-major file."""
    near = changed(VALUES, (4, 17), np.nextafter(VALUES[4, 17], np.float32(9)))
    near[29, 3] = np.nextafter(VALUES[29, 3], np.float32(9))
    first = write_run(tmp_path / "a")
    second = write_run(tmp_path / "b", {(10, "head"): np.arange(7) + 1, (2, "embed"): np.asfortranarray(near)})
    page = tmp_path / "page.html"
    arguments = ["diff", "--dumps", str(first), str(second), "--pattern", "step{step}/{name}.npy"]
    assert main([*arguments, "--json", "--page", str(page)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["steps"], found["compared"], found["different"]) == (False, [3, 3], 6, 2)
    embed, head = found["differences"]
    assert (embed["step"], embed["name"], embed["count"], embed["size"], embed["ulps"]) == (2, "embed", 2, 3000, 1)
    assert embed["histogram"] == [["equal", 2998], ["1", 2]]
    values = VALUES[4, 17], near[4, 17]
    distance = abs(float(values[0]) - float(values[1]))
    assert embed["first"] == {
        "index": [4, 17],
        "values": [str(value) for value in values],
        "bits": [f"0x{int(value.view(np.uint32)):08x}" for value in values],
        "ulps": 1,
        "absolute": distance,
        "relative": distance / max(abs(float(value)) for value in values),
    }
    assert (head["step"], head["name"], head["count"]) == (10, "head", 7)
    assert (embed["unit"], head["unit"], head["ulps"]) == ("ulp", "1", 1)
    assert "First difference" in page.read_text() and '"embed"' in page.read_text()
    assert main(arguments) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == [f"first    {first} (3 steps)", f"second   {second} (3 steps)"]
    assert told[2:4] == ["compared 6 tensors, 2 are different", "step     2"]
    assert main([*arguments[:2], str(first), str(first)]) == 0
    assert "6 tensors, 0 are different" in capsys.readouterr().out


def test_parts_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = VALUES.copy()
    other[::3, 5] *= np.float32(1.5)
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", {(1, "embed"): np.asfortranarray(other)})
    whole = compared(tmp_path / "a", tmp_path / "b").differences
    monkeypatch.setattr(comparison, "_PART", 64)
    assert compared(tmp_path / "a", tmp_path / "b").differences == whole
    assert whole[0].count == 10


def test_all_forms_of_a_file_are_equal(tmp_path: Path) -> None:
    """The same tensors as .npy, .npz, compressed .npz and safetensors; the names do not contain the suffixes."""
    arrays = {"w": VALUES, "ids": np.arange(5), "mask": np.array([True, False]), "empty": np.zeros((0, 3), np.float32)}
    for folder in "abcd":
        (tmp_path / folder).mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "a" / f"{name}.npy", array)
    np.savez(tmp_path / "b" / "all.npz", **arrays)
    np.savez_compressed(
        tmp_path / "c" / "all.npz", **{name: np.asfortranarray(array) for name, array in arrays.items()}
    )
    elements = {"w": "f32", "ids": "i64", "mask": "i1", "empty": "f32"}
    kinds = [TensorType(name, elements[name], array.shape) for name, array in arrays.items()]
    (tmp_path / "d" / "all.safetensors").write_bytes(write_tensors(kinds, list(arrays.values())))
    sides = [list_side(str(tmp_path / "a"), "{name}.npy")]
    sides += [list_side(str(tmp_path / folder), "all.*") for folder in "bcd"]
    for other in sides[1:]:
        found = compare_sides(sides[0], other)
        assert found.is_equal and found.compared == 4, found


def test_bits_decide(tmp_path: Path) -> None:
    """Zeros of different sign and NaNs of different bits differ."""
    bits = np.array([0, 0x7FC00000, 0x3F800000, 0x7FC00000, 0x7F800000], np.uint32)
    other = np.array([0x80000000, 0x7FC00001, 0x7FC00000, 0x7FC00000, 0x7F7FFFFF], np.uint32)
    np.save(tmp_path / "a.npy", bits.view(np.float32))
    np.save(tmp_path / "b.npy", other.view(np.float32))
    (found,) = compared(tmp_path / "a.npy", tmp_path / "b.npy").differences
    assert (found.count, found.one_nan, found.two_nans, found.ulps) == (4, 1, 1, 1)
    assert found.histogram[:3] == [1, 1, 0] and found.absolute == np.inf and found.relative == np.inf
    assert found.element is not None and (found.element.first, found.element.second) == ("0.0", "-0.0")
    assert (found.element.ulps, found.element.absolute, found.element.relative) == (0, 0.0, 0.0)
    (found,) = compared(tmp_path / "a.npy", tmp_path / "b.npy", equal_nans=True).differences
    assert (found.count, found.one_nan, found.two_nans) == (3, 1, 0)
    np.save(tmp_path / "c.npy", changed(bits, (1,), 0xFFC01234).view(np.float32))
    assert compared(tmp_path / "a.npy", tmp_path / "c.npy").different == 1
    assert compared(tmp_path / "a.npy", tmp_path / "c.npy", equal_nans=True).is_equal


@pytest.mark.parametrize(
    ("element", "width", "codes"),
    [("bf16", 16, (0x3F80, 0x3F82)), ("f8E4M3FN", 8, (0x38, 0x3A)), ("f4E2M1FN", 4, (2, 4)), ("f6E3M2FN", 6, (12, 14))],
)
def test_types_that_numpy_lacks(tmp_path: Path, element: str, width: int, codes: tuple[int, int]) -> None:
    kind = TensorType("w", element, (24,))
    for name, code in zip("ab", codes, strict=True):
        array = np.full(24, codes[0], kind.dtype)
        array[17] = code
        (tmp_path / f"{name}.safetensors").write_bytes(write_tensors([kind], [array]))
    (found,) = compared(tmp_path / "a.safetensors", tmp_path / "b.safetensors").differences
    assert (found.first, found.count, found.ulps) == (f"{element} [24]", 1, 2)
    assert found.element is not None and found.element.index == (17,) and found.element.first == "1.0"


def test_types_of_ml_dtypes_in_npy_files(tmp_path: Path) -> None:
    array = np.ones(3, ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", array)
    np.save(tmp_path / "b.npy", changed(array, (2,), 2))
    (found,) = compared(tmp_path / "a.npy", tmp_path / "b.npy").differences
    assert (found.first, found.count, found.ulps) == ("bits16 [3]", 1, None)
    assert found.element is not None and found.element.second_bits == "0x4000"


def test_complex_numbers_and_big_endian_files(tmp_path: Path) -> None:
    array = np.array([[1 + 2j, 3 - 4j], [0, 1]], np.complex64)
    np.save(tmp_path / "a.npy", array)
    np.save(tmp_path / "b.npy", np.asfortranarray(array.astype(">c8")))
    assert compared(tmp_path / "a.npy", tmp_path / "b.npy").is_equal
    np.save(tmp_path / "b.npy", np.asfortranarray(changed(array, (0, 1), 3 - 5j)))
    (found,) = compared(tmp_path / "a.npy", tmp_path / "b.npy").differences
    assert found.element is not None
    assert (found.element.index, found.element.first, found.element.second) == ((0, 1, 1), "-4.0", "-5.0")


def test_tensors_and_steps_of_one_side(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for name in "ab":
        write_run(tmp_path / name)
    (tmp_path / "b" / "step10" / "embed.npy").unlink()
    (tmp_path / "b" / "step10" / "head.npy").unlink()
    (tmp_path / "a" / "step1" / "head.npy").unlink()
    (tmp_path / "b" / "notes.txt").write_text("not a tensor")
    arguments = ["diff", "--dumps", str(tmp_path / "a"), str(tmp_path / "b"), "--pattern", "step{step}/{name}.npy"]
    assert main([*arguments, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["compared"], found["different"]) == (3, 0)
    first, second = found["only_in"]
    assert (first["steps"], first["count"], first["tensors"]) == ([10], 2, [])
    assert (second["steps"], second["tensors"], second["ignored_files"]) == ([], [{"step": 1, "name": "head"}], 1)
    assert main(arguments) == 1
    assert capsys.readouterr().out.splitlines()[-4:] == [
        f"only in {tmp_path / 'a'}: 2 tensors", "  steps 10", f"only in {tmp_path / 'b'}: 1 tensor", "  step 1, head",
    ]  # fmt: skip


def test_all_tensors_of_one_side_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "LISTED", 12)
    monkeypatch.setattr(dumps_page, "_DRAWN", 12)
    for side, count in (("a", 20), ("b", 1)):
        (tmp_path / side).mkdir()
        for step in (1, 2)[: 2 if side == "a" else 1]:
            np.savez(tmp_path / side / f"{step}.npz", **{f"x{i}": np.zeros(1) for i in range(count)})
    found = compared(tmp_path / "a", tmp_path / "b", "{step}.npz")
    assert (found.alone, found.unlisted, len(found.missing[0])) == ((39, 0), (7, 0), 12)
    lines = text_lines(found)
    assert [lines[3], lines[4], lines[-1]] == [f"only in {tmp_path / 'a'}: 39 tensors", "  steps 2", "  and 9 more"]
    assert "The page lists the first 12; 8 more are only in one side." in dumps_page.page(found)


def test_another_shape_or_type(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    changes = {
        (1, "embed"): VALUES.T,
        (2, "embed"): VALUES.astype(np.float64),
        (2, "head"): np.arange(7, dtype=np.int32),
    }
    write_run(tmp_path / "b", changes)
    found = compared(tmp_path / "a", tmp_path / "b", "step{step}/{name}.npy").differences
    assert [(each.step, each.reason, each.first, each.second) for each in found] == [
        (1, "shape", "f32 [30, 100]", "f32 [100, 30]"),
        (2, "element type", "f32 [30, 100]", "f64 [30, 100]"),
        (2, "element type", "i64 [7]", "i32 [7]"),
    ]


def test_a_pattern_for_each_folder(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    for step in (1, 2, 10):
        np.savez(tmp_path / "b" / f"dump-{step:04}.npz", embed=VALUES, head=np.arange(7))
    patterns = ["--pattern", "step{step}/{name}.npy", "--pattern", "dump-{step}.npz"]
    assert main(["diff", "--dumps", str(tmp_path / "a"), str(tmp_path / "b"), *patterns]) == 0
    assert "compared 6 tensors" in capsys.readouterr().out


def test_a_manifest_gives_order_and_modules(tmp_path: Path) -> None:
    for name in "ab":
        folder = write_run(
            tmp_path / name, {(1, "embed"): VALUES + (name == "b"), (1, "head"): np.arange(7) + ord(name)}
        )
        lines = [
            {"step": 1, "name": "logits", "module": "model.head", "file": "step1/head.npy"},
            {"step": 1, "name": "hidden", "module": "model.embed", "file": "step1/embed.npy"},
        ]
        (folder / "order.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sides = [list_side(str(tmp_path / name), manifest="order.jsonl") for name in "ab"]
    found = compare_sides(*sides).differences
    assert [(each.name, each.module) for each in found] == [("logits", "model.head"), ("hidden", "model.embed")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "expected two files or folders, got 1 path"),
        (["a", "missing"], "missing: No such file"),
        (["a", "a", "--pattern", "{layer}.npy"], r"expected only the fields \{step\} and \{name\}"),
        (["a", "a", "--pattern", "{step}{step}"], r"expected \{step\} at most once"),
        (
            ["a", "a", "--pattern", "*.pt"],
            r"expected files that match '\*.pt', got none; its first file is step1/embed",
        ),
        (["a", "a", "--pattern", "{step}/x", "--manifest", "m"], "expected --pattern or --manifest, got both"),
        (["a", "a", "--manifest", "m.jsonl"], "m.jsonl: No such file"),
        (["a", "a", "--ulps", "3"], "expected no options for runs, got --ulps"),
        (["a", "a", "--steps", "1"], "expected no options for runs, got --steps"),
        (["a", "missing", "--html", "none/page.html"], "none/page.html: No such file"),
        (["a", "a", "--pattern", "step*/*.npy"], "expected one tensor with the name '', got two: give"),
    ],
)
def test_wrong_arguments_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    write_run(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    assert main(["diff", "--dumps", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and re.search(message, error), error


def test_the_room_needs_only_numpy(tmp_path: Path) -> None:
    """Imports of PyTorch, of MLIR and of all other packages than NumPy fail."""
    np.save(tmp_path / "a.npy", VALUES)
    np.save(tmp_path / "b.npy", -VALUES)
    code = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        root = name.split(".")[0]
        if "_mlir_libs" in name or root not in {*sys.stdlib_module_names, "repro_mlir", "numpy"}:
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
from repro_mlir.tensor_dumps.comparison import compare_sides
from repro_mlir.tensor_dumps.listing import list_side
from repro_mlir.tensor_dumps.page import page
from repro_mlir.tensor_dumps.report import text_lines
found = compare_sides(list_side("a.npy"), list_side("b.npy"))
print(len(text_lines(found)), len(page(found)) > 1000, found.different)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "8 True 1\n", done.stderr


def test_names_reach_a_page_escaped(tmp_path: Path) -> None:
    name = "</script><b>\x1b[31m"
    for folder, value in (("a", 1.0), ("b", 2.0)):
        with zipfile.ZipFile(tmp_path / f"{folder}.npz", "w") as archive:
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.array([value]))
    page = tmp_path / "page.html"
    assert main(["diff", "--dumps", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--html", str(page)]) == 1
    assert "</script><b>" not in page.read_text() and "\x1b" not in page.read_text()
