# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests files that describe machines: a wrong file is refused with one reason, and calibrating this machine gives a
valid file."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.compilation import cpu, gpu
from repro_mlir.roofline import (
    NUMBERS,
    Accelerator,
    CpuMachine,
    calibrate,
    machine_names,
    predict,
    read_code,
    read_machine,
    write_cpu_machine,
)
from repro_mlir.roofline.cpu.calibration import count_cores, with_units
from support.predicted import MACHINE, SOURCES, product, program_of

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "machine.schema.json").read_text())


def check_schema(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text()), {**SCHEMA, "$ref": "#/$defs/file"})


@pytest.mark.parametrize("name", machine_names())
def test_the_machines_of_the_package(name: str) -> None:
    path = ROOT / "python/repro_mlir/roofline/machines/data" / f"{name}.json"
    check_schema(path)
    machine = read_machine(name)
    assert machine == read_machine(str(path))
    # The compiler accepts the file as a target, too.
    if isinstance(machine, CpuMachine):
        assert cpu.compile(product(16), str(path))
    elif machine.architecture is not None:
        assert gpu.compile(product(16), str(path))


# The peak in floating-point operations per core and cycle: multiply-add units, times lanes, times two.
PEAKS = {"epyc-zen4": 32, "epyc-zen5": 64, "xeon-sapphire-rapids": 64, "neoverse-v2": 32, "apple-m2": 32}


@pytest.mark.parametrize("name", PEAKS)
def test_a_step_on_the_machines_of_the_package(name: str) -> None:
    machine = read_machine(name)
    assert isinstance(machine, CpuMachine)
    code = read_code(program_of(product(128)), machine)
    assert code.flops_per_cycle == pytest.approx(PEAKS[name])
    step = predict(code, machine)
    rate = step.launches[0].operations["floating_point"] / step.seconds
    assert step.ceilings.arithmetic["floating_point"] / 4 < rate < step.ceilings.arithmetic["floating_point"]
    assert predict(code, machine, machine.cores).seconds > 0


def test_a_file_is_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "made-up.json"
    write_cpu_machine(path, MACHINE, SOURCES)
    check_schema(path)
    assert read_machine(str(path)) == MACHINE


def test_a_file_without_the_power(tmp_path: Path) -> None:
    """Files that `repro roofline calibrate` wrote before it measured the power can still be read."""
    path = tmp_path / "made-up.json"
    written = json.loads(changed())
    del written["performance"]["watts"]
    path.write_text(json.dumps(written))
    check_schema(path)
    assert read_machine(str(path)) == MACHINE


@pytest.mark.parametrize(("name", "value"), [("l1_ways", "x"), ("line_bytes", 0)])
def test_numbers_that_no_prediction_reads_are_checked(name: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    written = json.loads(changed())
    written["sizes"][name] = {"value": value, "source": "made up"}
    path.write_text(json.dumps(written))
    with pytest.raises(ReproError, match=f"expected {name} as a whole number from 1"):
        read_machine(str(path))


def changed(**changes: Any) -> bytes:
    """Returns the text of a valid CPU file, in which the entries `changes` are replaced."""
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
        (changed(extends="x86-64-v9"), "expected extends among .*, got 'x86-64-v9'"),
        (changed(speed={"value": 1, "source": "x"}), "expected a key of performance among .*, got 'speed'"),
        (changed(clock_hz=4e9), "expected clock_hz as an object, got 4000000000.0"),
        (changed(clock_hz={"value": 4e9}), "expected the key source in clock_hz"),
        (changed(clock_hz={"value": 4e9, "source": " "}), "clock_hz: expected a source"),
        (changed(clock_hz={"value": 0, "source": "x"}), "expected clock_hz as a number from 1e-12 to 1e.18, got 0"),
        (changed(clock_hz={"value": True, "source": "x"}), "expected clock_hz as a number"),
        (changed(clock_hz={"value": "4 GHz", "source": "x"}), "expected clock_hz as a number"),
        (changed(cores={"value": 1.5, "source": "x"}), "expected cores as a whole number from 1"),
        (
            changed(modelled_vector_bits={"value": 128, "source": "x"}),
            r"expected modelled_vector_bits among \(256, 512\), got 128",
        ),
        (
            changed(scheduling_model={"value": "-h", "source": "x"}),
            "scheduling_model as an LLVM processor, got '-h'",
        ),
        (
            changed(scheduling_model={"value": "a b", "source": "x"}),
            "expected scheduling_model as an LLVM processor",
        ),
    ],
)
def test_wrong_files(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(text)
    with pytest.raises(ReproError, match=message) as caught:
        read_machine(str(path))
    assert str(caught.value).startswith(str(path)) and len(str(caught.value)) < 1000


A100 = json.loads((ROOT / "python/repro_mlir/roofline/machines/data/a100.json").read_text())


def changed_device(part: str = "performance", left_out: str | None = None, **values: Any) -> dict[str, Any]:
    """Returns a valid GPU file in which some numbers are changed, or one is missing."""
    given: dict[str, Any] = copy.deepcopy(A100)
    for name, value in values.items():
        given[part][name] = {"value": value, "source": "made up"}
    if left_out is not None:
        del given[part][left_out]
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"performance": A100["performance"]}, "expected the key multiprocessors in sizes"),
        (A100 | {"extends": "sm_99"}, "expected extends among x86-64-v2, .*, sm_120, got 'sm_99'"),
        (changed_device(left_out="watts"), "expected the key watts in performance"),
        (changed_device(cores=8), "expected a key of performance among .*, got 'cores'"),
        (changed_device("sizes", l2_bytes=1 << 20), "expected a key of sizes among multiprocessors, got 'l2_bytes'"),
        (
            changed_device("sizes", multiprocessors=0),
            "expected multiprocessors as a whole number from 1 to 40.., got 0",
        ),
        (changed_device("sizes", multiprocessors=5000), "expected multiprocessors as a whole number from 1 to 4096"),
        (changed_device(f32_flops=0), "expected f32_flops as a number from 1e-12"),
        (changed_device(memory_bandwidth=-1), "expected memory_bandwidth as a number from 1e-12"),
        (changed_device(f8_matrix_flops=-1), "expected f8_matrix_flops as 0 or a number from 1e-12"),
        (changed_device(watts=1e19), "expected watts as 0 or a number from 1e-12 to 1e.18"),
        (changed_device(l2_bandwidth=1e-320), "expected l2_bandwidth as 0 or a number from 1e-12 to 1e.18"),
        (changed_device(threads=0), "expected threads as a whole number from 1 to 1048576"),
        (changed_device(node_devices=1.5), "expected node_devices as a whole number"),
        (changed_device(matrix_efficiency=1.5), "expected matrix_efficiency of at most 1, got 1.5"),
        (changed_device(link_efficiency=0), "expected link_efficiency as a number from 1e-12"),
    ],
)
def test_wrong_accelerators(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The reader and the schema both refuse each file."""
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(given))
    with pytest.raises(ReproError, match=message) as caught:
        read_machine(str(path))
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    with pytest.raises(jsonschema.ValidationError):
        check_schema(path)


def test_devices_without_code() -> None:
    found = {name: read_machine(name) for name in machine_names()}
    devices = {name: each for name, each in found.items() if isinstance(each, Accelerator)}
    assert {name: each.architecture for name, each in devices.items()} == {
        "a100": "sm_80", "b200": "sm_100", "h100": "sm_90", "h200": "sm_90", "mi300x": None, "spinnaker2": None,
        "tpu-v5p": None, "v100": None,
    }  # fmt: skip
    assert devices["a100"].with_changes({"node_devices": "2x"}).node_devices == 16


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
        ("cores", "1e308x", "cores: expected a number, or a factor such as 2x, got '1e308x'"),
        ("clock_hz", "1e308x", "clock_hz: expected a number, or a factor such as 2x, got '1e308x'"),
    ):
        if message is None:
            assert MACHINE.with_changes({name: value}).cores == 4
            continue
        with pytest.raises(ReproError, match=message):
            MACHINE.with_changes({name: value})


@pytest.mark.parametrize(
    ("level", "host", "like", "units"),
    [
        ("x86-64-v4", "znver5", "epyc-zen5", ("znver4", 256, 8)),
        ("x86-64-v4", "emeraldrapids", "xeon-sapphire-rapids", ("sapphirerapids", 512, 6)),
        ("aarch64", "apple-m1", "apple-m2", ("neoverse-v2", 512, 8)),
        # Processors for which the package has no similar machine file.
        ("x86-64-v3", "znver3", None, ("znver3", 512, 6)),
        ("x86-64-v3", "haswell", None, ("haswell", 512, 4)),
        ("aarch64", "cortex-a72", None, ("cortex-a72", 512, 3)),
    ],
)
def test_units_of_processors(level: str, host: str, like: str | None, units: tuple[str, int, int]) -> None:
    asked = replace(MACHINE, level=level, scheduling_model=host, issue_width=1)
    machine, sources = with_units(asked)
    assert (machine.scheduling_model, machine.modelled_vector_bits, machine.issue_width) == units
    assert all((f"as {like}: " in each) == (like is not None) for each in sources.values())
    assert sources["modelled_vector_bits"].startswith("assumption: ") == (like is None)
    assert replace(machine, scheduling_model=host, modelled_vector_bits=512, issue_width=1) == asked


def test_processors_of_a_core_are_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2, 3, 4}, raising=False)
    assert count_cores(tmp_path) == 5
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3", "4,5")):
        (tmp_path / f"cpu{number}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{number}/topology/thread_siblings_list").write_text(f"{siblings}\n")
    assert count_cores(tmp_path) == 3


@pytest.mark.exhaustive
def test_this_machine_is_measured(tmp_path: Path) -> None:
    told: list[str] = []
    found = calibrate("here", tell=told.append)
    assert told[:2] == ["clock", "launches"]
    path = tmp_path / "here.json"
    write_cpu_machine(path, found.machine, found.sources)
    check_schema(path)
    assert read_machine(str(path)) == found.machine
    assert found.machine.level == cpu.native_level()
