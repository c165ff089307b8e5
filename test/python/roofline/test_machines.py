# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machines are files, and are refused with one reason; the file of this machine is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from repro_mlir.compilation import cpu
from repro_mlir.errors import ReproError
from repro_mlir.roofline import NUMBERS, calibrate, machine_names, read_machine, write_cpu_machine
from support.predicted import MACHINE, SOURCES, product

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs" / "machine.schema.json").read_text())


def check_schema(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text()), {**SCHEMA, "$ref": "#/$defs/file"})


@pytest.mark.parametrize("name", machine_names())
def test_the_machines_of_the_package(name: str) -> None:
    path = ROOT / "python/repro_mlir/roofline/machines/data" / f"{name}.json"
    check_schema(path)
    assert read_machine(name) == read_machine(str(path))
    # The compiler takes the same file.
    assert cpu.compile(product(16), str(path))


def test_a_file_is_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "made-up.json"
    write_cpu_machine(path, MACHINE, SOURCES)
    check_schema(path)
    assert read_machine(str(path)) == MACHINE


def changed(**changes: Any) -> bytes:
    """The text of a file with other entries."""
    given = {"extends": "x86-64-v3", "sizes": {}, "performance": {}}
    for name in (*NUMBERS, "scheduling_model"):
        part = "sizes" if name in ("l1_bytes", "l2_bytes") else "performance"
        given[part][name] = {"value": getattr(MACHINE, name), "source": "made up"}
    for name, value in changes.items():
        target = given["performance"] if name in given["performance"] or name == "speed" else given
        target[name] = value
    return json.dumps(given).encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "expected JSON"),
        (b"[]", "expected the file as an object, got a list"),
        (b"{" * 100, "JSON"),
        (changed(extends="x86-64-v9"), "expected level among .*, got 'x86-64-v9'"),
        (changed(speed={"value": 1, "source": "x"}), "expected a key of performance among .*, got 'speed'"),
        (changed(clock_hz=4e9), "expected clock_hz as an object, got 4000000000.0"),
        (changed(clock_hz={"value": 4e9}), "expected the key source in clock_hz"),
        (changed(clock_hz={"value": 4e9, "source": " "}), "clock_hz: expected a source"),
        (changed(clock_hz={"value": 0, "source": "x"}), "expected clock_hz as a number from 1e-12 to 1e.18, got 0"),
        (changed(clock_hz={"value": True, "source": "x"}), "expected clock_hz as a number"),
        (changed(clock_hz={"value": "4 GHz", "source": "x"}), "expected clock_hz as a number"),
        (changed(cores={"value": 1.5, "source": "x"}), "expected cores as a whole number from 1"),
        (changed(modelled_vector_bits={"value": 100, "source": "x"}), "expected modelled_vector_bits among"),
        (changed(scheduling_model={"value": "-h", "source": "x"}), "scheduling_model as a processor of LLVM, got '-h'"),
        (changed(scheduling_model={"value": "a b", "source": "x"}), "expected scheduling_model as a processor of LLVM"),
    ],
)
def test_wrong_files(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(text)
    with pytest.raises(ReproError, match=message) as caught:
        read_machine(str(path))
    assert str(caught.value).startswith(str(path)) and len(str(caught.value)) < 1000


def test_unknown_machines(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="expected machine among"):
        read_machine("zen99")
    with pytest.raises(ReproError, match=r"none\.json"):
        read_machine(str(tmp_path / "none.json"))


def test_other_numbers() -> None:
    found = MACHINE.with_changes({"memory_bandwidth": "2x", "cores": "16", "l3_bytes": "0"})
    assert (found.memory_bandwidth, found.cores, found.l3_bytes) == (2e10, 16, 0)
    for name, value, message in (
        ("speed", "2x", "expected what is set among"),
        ("level", "2", "expected what is set among"),
        ("clock_hz", "fast", "clock_hz: expected a number, or a factor such as 2x, got 'fast'"),
        ("clock_hz", "-1", "clock_hz: expected a number"),
        ("clock_hz", "1e999", "clock_hz: expected a number"),
        ("clock_hz", "0x", "expected clock_hz as a number from"),
        ("cores", "0.5x", None),
        ("cores", "1.5", "expected cores as a whole number"),
    ):
        if message is None:
            assert MACHINE.with_changes({name: value}).cores == 4
            continue
        with pytest.raises(ReproError, match=message):
            MACHINE.with_changes({name: value})


def test_this_machine_is_measured(tmp_path: Path) -> None:
    told: list[str] = []
    found = calibrate("here", tell=told.append)
    assert told[:2] == ["clock", "launches"]
    path = tmp_path / "here.json"
    write_cpu_machine(path, found.machine, found.sources)
    check_schema(path)
    assert read_machine(str(path)) == found.machine
    assert found.machine.level == cpu.native_level()
