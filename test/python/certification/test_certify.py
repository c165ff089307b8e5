# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests `repro certify-device` on a simulated driver. The tensor cores that it simulates can compute by the rule of any
class."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.certification import make_cases
from repro_mlir.runner.certificates import VARIABLE, read_certificate, unit_of
from repro_mlir.runner.device import Device
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.runner.tensor_cores import compare_tensor_cores
from support.forked_python import run_python

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "certificate.schema.json").read_text())
FILE = "PTX-emulator-13.0-stand-in"


def certify(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `repro certify-device` in its own process, because the simulated driver reads the environment only once per
    process."""
    variables = os.environ | {LIBRARY_VARIABLE: str(LIBRARY), VARIABLE: str(folder), **environment}
    return run_python(["-m", "repro_mlir", "certify-device", *arguments], environment=variables)


def told(result: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns the lines of the error output, without the progress that a slow machine shows."""
    return [line for line in result.stderr.splitlines() if not line.startswith("comparing ")]


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


TURING = [f"k8.{result}.f16.f16.{result}" for result in ("f32", "f16")]
HOPPER = [
    *(f"k{depth}.f32.{name}.{name}.f32" for name in ("f16", "bf16") for depth in (8, 16)),
    *(f"k{depth}.f32.tf32.tf32.f32" for depth in (4, 8)),
    *(f"k32.f32.{name}.{name}.f32" for name in ("e4m3", "e5m2")),
    *(f"k{depth}.f16.f16.f16.f16" for depth in (8, 16)),
    *(f"k32.f16.{name}.{name}.f16" for name in ("e4m3", "e5m2")),
]


@pytest.mark.parametrize(
    ("capability", "unit", "instructions"),
    [pytest.param("7.5", "turing", TURING, id="turing"), pytest.param("9.0", "hopper", HOPPER, id="hopper")],
)
@pytest.mark.exhaustive("hopper")
def test_a_device_of_its_class_M3(tmp_path: Path, capability: str, unit: str, instructions: list[str]) -> None:
    written = "--json", "-o", str(tmp_path / "copy.json")
    result = certify(tmp_path / "made", *written, REPRO_STUB_CAPABILITY=capability)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["differing"] == []
    value = found["certificate"]
    jsonschema.validate(value, SCHEMA)
    (name,) = files(tmp_path / "made")
    assert name == f"{FILE}.json"
    certificate = read_certificate(tmp_path / "copy.json")
    assert certificate == read_certificate(tmp_path / "made" / name)
    assert json.loads(json.dumps(certificate.as_json())) == value
    assert {each.images for each in certificate.instructions} == {("PTX",)}
    assert (certificate.device, certificate.unit.name) == ("PTX emulator", unit)
    opcodes = [
        ".".join(each.opcode.removeprefix("mma.sync.aligned.m16n8").split(".row.col."))
        for each in certificate.instructions
    ]
    assert opcodes == instructions
    assert all(each.results == 1 << 20 for each in certificate.instructions)


def test_code_that_the_driver_rejects_has_no_certificate_M3(tmp_path: Path) -> None:
    """The driver rejects PTX from the fourth module on. Instructions in rejected modules are not certified; all others
    are."""
    result = certify(tmp_path, "--json", REPRO_STUB_CAPABILITY="7.5", REPRO_STUB_FAIL="cuModuleLoadDataEx=222@4")
    assert result.returncode == 1
    found = json.loads(result.stdout)
    (certified,), (line,) = found["certificate"]["instructions"], found["differing"]
    assert line.startswith("mma.sync.aligned.m16n8k8.row.col.f16") and "was not compared: " in line
    assert certified["opcode"] == "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
    assert told(result) == [f"repro: {line}"] and files(tmp_path) == [f"{FILE}.json"]


def test_turing_has_f16_M3(tmp_path: Path) -> None:
    result = certify(tmp_path, REPRO_STUB_CAPABILITY="7.5")
    assert result.returncode == 0, result.stderr
    assert "class    turing: blocks of 8, 24 bits of fraction" in result.stdout
    for result_type in ("f32", "f16"):
        opcode = f"mma.sync.aligned.m16n8k8.row.col.{result_type}.f16.f16.{result_type}"
        assert result.stdout.count(f"equal    1,048,576 results of {opcode}") == 1
    assert result.stdout.count("equal ") == 2


@pytest.mark.parametrize(
    ("capability", "unit", "named", "instructions"),
    [("9.0", "ada", "hopper", 12), ("8.6", "hopper", "ampere", 8), ("7.5", "volta", "turing", 2)],
)
@pytest.mark.diagonal(capability=["8.6"])
@pytest.mark.exhaustive
def test_another_class_has_no_certificate_M3(
    tmp_path: Path, capability: str, unit: str, named: str, instructions: int
) -> None:
    """A device whose tensor cores belong to another class than that of its architecture gets no certificate, and its
    old certificate is deleted."""
    tmp_path.joinpath(f"{FILE}.json").write_text("{}")
    result = certify(
        tmp_path, "-o", str(tmp_path / "x.json"), REPRO_STUB_CAPABILITY=capability, REPRO_STUB_MATRIX_UNIT=unit
    )
    assert result.returncode == 1 and result.stdout == ""
    lines = told(result)
    assert len(lines) == instructions and all(f"are not those of {named} (" in each for each in lines)
    line = lines[0]
    assert (
        f"of 1,048,576 results of mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 are not those of {named} (" in line
    )
    words = line.partition("; the first: ")[2].split(", ")
    assert [word.split(" ")[0] for word in words] == ["a", "b", "c", "expected", "got"]
    assert words[3].split(" ")[1] != words[4].split(" ")[1]
    assert not files(tmp_path)


def test_an_instruction_that_differs_is_left_out_M3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    first, second = itertools.islice(make_cases("sm_90"), 2)
    want = first.expected.copy()
    want[7, 5, 3] ^= 1
    device = Device()
    made, differing = compare_tensor_cores(
        device, unit_of("sm_90"), [dataclasses.replace(first, expected=want), second]
    )
    device.close()
    (line,) = differing
    assert f": 1 of 1,048,576 results of {first.opcode} are not those of hopper (1 normal)" in line
    assert [each.opcode for each in made.instructions] == [second.opcode]


def test_no_answer(tmp_path: Path) -> None:
    for environment, message in (
        ({"REPRO_STUB_CAPABILITY": "7.0"}, "the compiler has code for sm_75"),
        ({"REPRO_STUB_FAIL": "cuLaunchKernel=701"}, "CUDA_ERROR 701"),
        ({LIBRARY_VARIABLE: "libnothing.so"}, "expected the CUDA driver libnothing.so"),
    ):
        result = certify(tmp_path, **environment)
        assert result.returncode == 2 and message in result.stderr, result.stderr
        assert not files(tmp_path)
