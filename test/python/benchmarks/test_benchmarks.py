# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that the CPU benchmark runs and prints its report. The measured times are not tested."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.compilation import cpu
from support.forked_python import run_python

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"


def run(script: str, *options: str, folder: Path | None = None) -> subprocess.CompletedProcess:
    packages = str(Path(repro_mlir.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": packages}
    file = script if script == "-c" else str(FOLDER / script)
    return run_python([file, *options], environment=environment, cwd=folder)


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("benchmarks") / "report.json"
    level = cpu.native_level()
    options = ["--filter", "matmul 64x1000x512 NN", "--threads", "1", "--level", level, "--seconds", "0.001"]
    done = run("run.py", *options, "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "matmul 64x1000x512 NN" in done.stdout
    return file


@pytest.mark.exhaustive
def test_one_row_has_all_its_fields(report):
    content = json.loads(report.read_text())
    (row,) = content["rows"]
    assert row["name"] == "matmul 64x1000x512 NN" and row["threads"] == 1
    assert {"ours", "torch", "oneDNN"} == set(row["figures"])
    for figure in row["figures"].values():
        assert 0 < figure["best"] <= figure["median"] and figure["samples"] >= 4
    assert row["GFLOP/s"] > 0 and row["percent of peak"] > 0
    assert content["machine"]["cpu"] and not content["failures"]


def test_the_page_holds_the_row_and_its_verdict(report):
    done = run("report.py", str(report))
    assert done.returncode == 0, done.stderr
    assert "| matmul 64x1000x512 NN |" in done.stdout
    if cpu.native_level() in ("x86-64-v3", "x86-64-v4"):
        assert "## Goals" in done.stdout and f"| matmul | {cpu.native_level()} | 1 |" in done.stdout


PAGES = {"2026-11-22-xeon-avx512": "xeon-avx512", "2026-11-23-epyc-zen5": "epyc-zen5"}


@pytest.mark.parametrize("results", PAGES)
def test_a_page_is_that_of_its_results(results: str) -> None:
    done = run("report.py", f"benchmarks/results/{results}.json", folder=FOLDER.parent)
    assert done.stdout == (FOLDER.parent / "docs" / "performance" / f"{PAGES[results]}.md").read_text()


def test_percentages_are_those_of_the_highest_peak() -> None:
    """The peak is measured before and after the rows of a level."""
    code = (
        "import report\n"
        "found = {'peaks': [], 'rows': []}\n"
        "peak = {'level': 'v3', 'threads': 2, 'GFLOP/s': 4.0}\n"
        "report.add_measured(found, 'peaks', peak | {'GB/s': 80.0})\n"
        "report.add_measured(found, 'rows', {'level': 'v3', 'threads': 2, 'GB/s': 50.0})\n"
        "report.add_measured(found, 'peaks', peak | {'GB/s': 100.0})\n"
        "print(found['rows'][0]['percent of peak'])"
    )
    done = run("-c", code, folder=FOLDER)
    assert done.stdout == "50.0\n", done.stderr


def test_names_are_unique_and_a_wrong_filter_is_an_error():
    done = run("run.py", "--list")
    names = done.stdout.splitlines()
    assert len(names) == len(set(names)) > 50
    done = run("run.py", "--filter", "no such row")
    assert done.returncode == 2 and "no row has a name with no such row" in done.stderr


def test_a_failing_peer_is_skipped_and_reported():
    """The code runs with the benchmark's folder on the path, because worker.py imports modules from its own folder."""
    code = """
import worker
def fails(): raise ValueError("no")
told = []
print(list(worker._working({worker.OURS: list, "torch": list, "torch.compile": fails}, told.append)), told)
try:
    worker._working({worker.OURS: fails, "torch": list}, told.append)
except ValueError as error:
    print(error)
"""
    packages = str(Path(repro_mlir.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([packages, str(FOLDER)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "['ours', 'torch'] ['torch.compile: no']\nno\n", done.stderr
