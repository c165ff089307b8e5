# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests mappings onto machines of many cores: their numbers against the simulator, steps that do not fit, the command
and the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.compilation.cores import Machine
from repro_mlir.program import Program
from repro_mlir.roofline.cores import Mapping, least_memory, map_step, mapping_page, simulate
from support.browser import check_structure, different_rows, needs_browser
from support.cores import machine
from support.predicted import doubled, product, program_of

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def mapping() -> Mapping:
    """Products of matrices of 70 x 70 elements, a number that pieces and tiles do not divide."""
    program = program_of(product(70, twice=True))
    x = np.full((70, 70), 0.5, np.float32)
    return simulate(map_step(program, "tiny-2x2"), program, [x, x], timeline=True)


def test_a_mapping_predicts_what_is_simulated(mapping: Mapping) -> None:
    """The bytes are equal, and no bound exceeds the simulated time."""
    data, report = mapping.data, mapping.simulated
    assert report is not None
    simulated = sum(link["bytes"] for link in report["links"] if link["kind"] == "channel")
    assert sum(each["dram_bytes"] for each in data["launches"]) == simulated
    # The simulator rounds the cycles of a run up.
    busy = {(x, y): seconds for x, y, seconds in data["cores"]}
    for core in report["cores"]:
        assert 0.99 * core["run"] < busy[tuple(core["at"])] <= core["run"]
    for name, seconds in data["bounds"].items():
        assert 0 < seconds <= report["bounds"][name] * (1 + 1e-9)
    assert data["bound_seconds"] <= report["seconds"]
    assert data["bound_seconds"] <= data["seconds"]


def test_a_mapping_with_multicasts() -> None:
    """The DRAM moves boxes that several cores need once, and no bound exceeds the simulated time."""
    program = program_of(product(64))
    x = np.full((64, 64), 0.5, np.float32)
    found = simulate(map_step(program, "spinnaker2"), program, [x, x])
    data, report = found.data, found.simulated
    assert report is not None
    moved = sum(each["dram_bytes"] for each in data["launches"])
    simulated = sum(link["bytes"] for link in report["links"] if link["kind"] == "channel")
    # Each of the three matrices has 16 KiB. Without multicasts, this machine moves 21 times as much.
    assert 3 * 2**14 <= moved <= simulated < 8 * 2**14
    for name, seconds in data["bounds"].items():
        assert 0 <= seconds <= report["bounds"][name] * (1 + 1e-9)
    assert data["bound_seconds"] <= report["seconds"]


def test_the_parts_of_a_mapping_add_up(mapping: Mapping) -> None:
    data = mapping.data
    clock = 1e8
    assert sum(each["cycles"] for each in data["launches"]) == pytest.approx(
        sum(seconds for _, _, seconds in data["cores"]) * clock
    )
    assert sum(each.seconds for each in mapping.phases) == pytest.approx(data["seconds"])
    assert sum(each.launches for each in mapping.phases) == len(data["launches"])
    assert mapping.dram["input"] == 2 * 4 * 70 * 70 and mapping.dram["output"] == 4 * 70 * 70
    assert all(0 < each["memory"] <= data["data_bytes"] for each in data["launches"])
    products = [each for each in mapping.phases if each.operation == "contraction"]
    assert sum(each.launches for each in products) == 2


def test_the_least_memory_of_a_step_that_does_not_fit(tmp_path: Path) -> None:
    """With 1,024 bytes less than the least number, the step does not fit."""
    program = program_of(product(512))
    small = machine(tmp_path, core={"data_bytes": 4096})
    with pytest.raises(ReproError, match="expected an operation whose smallest tile fits into the 4096") as raised:
        map_step(program, small)
    found = re.search(r"fits if each core of this machine has ([\d,]+) data bytes, and no number", str(raised.value))
    assert found and "use a machine" not in str(raised.value)
    least = int(found[1].replace(",", ""))
    assert map_step(program, machine(tmp_path, core={"data_bytes": least})).data["data_bytes"] == least > 4096
    with pytest.raises(ReproError, match="expected an operation whose smallest tile"):
        map_step(program, machine(tmp_path, core={"data_bytes": least - 1024}))


def test_the_least_memory_is_a_multiple_of_the_alignment(tmp_path: Path) -> None:
    """A machine file needs data bytes that are a multiple of the alignment of transfers."""
    program = program_of(product(70))
    with pytest.raises(ReproError, match=r"fits if each core of this machine has 16,384 data bytes"):
        map_step(program, machine(tmp_path, core={"data_bytes": 4096}, dma={"alignment": 4096}))
    map_step(program, machine(tmp_path, core={"data_bytes": 16384}, dma={"alignment": 4096}))
    with pytest.raises(ReproError, match="smallest tile"):
        map_step(program, machine(tmp_path, core={"data_bytes": 12288}, dma={"alignment": 4096}))


@pytest.mark.parametrize(("data_bytes", "alignment"), [(8192, 8), (16384, 2048)])
def test_what_maps_also_compiles(data_bytes: int, alignment: int, tmp_path: Path) -> None:
    """Tiles at the ends of pieces need more scratch memory than the largest tile."""
    program = program_of(product(70))
    sections = {"dma": {"alignment": alignment}, "dram": {"interleave_bytes": 4096}}
    mapping = map_step(program, machine(tmp_path, core={"data_bytes": data_bytes}, **sections))
    x = np.full((70, 70), 0.5, np.float32)
    report = simulate(mapping, program, [x, x]).simulated
    assert report is not None and report["bound_seconds"] <= report["seconds"]
    assert all(each["memory"] <= data_bytes for each in mapping.data["launches"])


def test_only_overflows_start_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other errors of the mapping are not changed. If the search finds another error, the message has no number."""
    program = program_of(product(1024))
    searched: list[int] = []
    search = least_memory._fits

    def fits(program: Program, machine: Machine, data_bytes: int) -> bool:
        searched.append(data_bytes)
        return search(program, machine, data_bytes)

    monkeypatch.setattr(least_memory, "_fits", fits)
    with pytest.raises(ReproError, match=r"DRAM of '.*'.*use a machine of at least") as raised:
        map_step(program, machine(tmp_path, dram={"bytes": 1 << 20}))
    assert "data bytes" not in str(raised.value) and not searched
    with pytest.raises(ReproError, match="expected an operation whose smallest tile") as raised:
        map_step(program, machine(tmp_path, core={"data_bytes": 8192}, dram={"bytes": 1 << 20}))
    assert "this machine has" not in str(raised.value) and searched == [1 << 30]


def test_the_least_number_of_chips_of_a_step_that_does_not_fit(tmp_path: Path) -> None:
    program = program_of(doubled(1 << 20))
    links = {"link_bytes_per_second": 1e9, "link_latency_seconds": 1e-6}
    error = (
        r"fit into the 2097152 bytes of DRAM of '.*': they take 4194304 bytes, of which 'x' take 4194304; "
        r"use a machine of at least 2 chips \(8 cores\)"
    )
    with pytest.raises(ReproError, match=error):
        map_step(program, machine(tmp_path, dram={"bytes": 1 << 21}))
    several = machine(tmp_path, dram={"bytes": 1 << 21}, chips={"columns": 2, "rows": 1, **links})
    data = map_step(program, several).data
    assert data["cores_available"] == 8
    # Each chip has half of the state, and so does the other one: a quarter of the bytes crosses in each direction and
    # for each of reading and writing.
    crossing = 2 * (1 << 22) / 4
    assert data["bounds"]["bisection"] == pytest.approx(crossing / 1e9, rel=0.01)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, page = tmp_path / "step.repro", tmp_path / "page.html"
    program_of(product(24)).save(program)
    assert main(["map", str(program), "--machine", "tiny-2x2", "--html", str(page)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "machine    tiny-2x2: 4 cores on 1 chip"
    assert any(line.startswith("code       not checked") for line in lines) and lines[-1] == f"page       {page}"
    assert any("  contraction" in line for line in lines)
    check_structure(page.read_text())
    assert main(["map", str(program), "--machine", "tiny-2x2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["simulated"] is None and found["phases"][0]["bound"] in ("compute", "dram", "bisection")
    assert main(["map", str(program), "--machine", "tiny-2x2", "--simulate"]) == 2
    assert "expected a script with --simulate" in capsys.readouterr().err
    assert main(["map", str(program), "--machine", "tiny-3x3"]) == 2
    assert "tiny-3x3" in capsys.readouterr().err


@pytest.fixture
def page(mapping: Mapping, tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    hostile = {**mapping.data, "machine": HOSTILE}
    path.write_text(mapping_page(f"a{HOSTILE}.py", replace(mapping, data=hostile)))
    return path


def test_the_page_of_a_mapping(page: Path) -> None:
    text = page.read_text()
    check_structure(text)
    (embedded,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    found = json.loads(embedded)
    assert found["machine"] == HOSTILE and found["simulated"]["left_out"] == 0
    assert {kind for kind, *_ in found["simulated"]["timeline"]} >= {"run", "transfer"}
    assert "<img" not in text and "\u202e" not in text


@needs_browser
def test_the_browser_draws_the_mapping(page: Path) -> None:
    assert different_rows(page, 1280, 2000) > 300
