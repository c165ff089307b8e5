# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs that earlier versions have stored have the same identities and results as when they were stored
(test/data/README.md)."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.program import Program

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "test" / "data"
FOLDERS = sorted(path.parent for path in DATA.glob("programs*/expected.json"))
#: The expected identity and results of each stored program FOLDER/NAME.repro, by FOLDER/NAME.
EXPECTED: dict[str, dict[str, Any]] = {
    f"{folder.name}/{name}": wanted
    for folder in FOLDERS
    for name, wanted in json.loads((folder / "expected.json").read_text()).items()
}


def steps(name: str) -> list[list[np.ndarray]]:
    """Returns the stored inputs of each step of a program."""
    found: dict[int, list[np.ndarray]] = {}
    with np.load(DATA / f"{name}.npz") as arrays:
        for key, array in arrays.items():
            found.setdefault(int(key.partition("-")[0]), []).append(array)
    return [found[step] for step in sorted(found)]


def test_every_file_is_expected() -> None:
    files = {f"{folder.name}/{path.stem}" for folder in FOLDERS for path in folder.glob("*.repro")}
    assert "programs/every-operation" in files and files == set(EXPECTED)


def test_every_operation_is_stored() -> None:
    """Each operation occurs in at least one stored program. If this fails, store programs with the new operations in a
    new folder, because stored files never change."""
    source = (ROOT / "lib" / "Dialect" / "Repro" / "Identity" / "CanonicalOps.cpp").read_text()
    entries = re.findall(r"add\(Place::.*?\);", source, re.DOTALL)
    names = {name for entry in entries for name in re.findall(r'"([a-z]+\.[a-z0-9_]+)"', entry)}
    programs = [Program.load(DATA / f"{name}.repro").data for name in EXPECTED]
    stored = {name for name in names if any(struct.pack("<Q", len(name)) + name.encode() in data for data in programs)}
    assert len(names) > 100 and names == stored


@pytest.mark.parametrize("name", EXPECTED)
def test_programs(name: str, tmp_path: Path) -> None:
    program, wanted = Program.load(DATA / f"{name}.repro"), EXPECTED[name]
    assert program.hash == wanted["program"]
    for role in ("state", "inputs", "outputs"):
        assert [kind.name for kind in getattr(program, role)] == wanted[role]
    program.save(tmp_path / "again.repro")
    assert (tmp_path / "again.repro").read_bytes() == (DATA / f"{name}.repro").read_bytes()


RUNS = [(name, target) for name in EXPECTED for target in ("reference", "cpu")]


@pytest.mark.parametrize(("name", "target"), RUNS)
def test_steps(name: str, target: str) -> None:
    program, wanted = Program.load(DATA / f"{name}.repro"), EXPECTED[name]["steps"]
    executable, given = repro_mlir.compile(program, target), steps(name)
    assert len(given) == len(wanted) > 0
    for inputs, expected in zip(given, wanted, strict=True):
        initial = program.initial_state()
        if isinstance(expected, str):
            with pytest.raises(StepFailed, match=re.escape(expected)):
                executable(initial, *inputs)
            continue
        state, outputs = executable(initial, *inputs)
        found = [(state[kind.name], kind.element) for kind in program.state]
        found += [(outputs[kind.name], kind.element) for kind in program.outputs]
        assert [tensor_hash(*each) for each in found] == expected
