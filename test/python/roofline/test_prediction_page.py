# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the HTML page of a prediction: its contents, its drawings, and the escaping of names from outside."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from repro_mlir.cli.main import main
from repro_mlir.compilation import cpu
from repro_mlir.roofline import (
    Ceilings,
    GpuLaunchPrediction,
    GpuLedger,
    GpuStepPrediction,
    LaunchPrediction,
    Ledger,
    LedgerEntry,
    StepPrediction,
    write_cpu_machine,
)
from repro_mlir.roofline.report import Case, comparison_lines, prediction_page
from repro_mlir.roofline.report.text import time_text
from support.browser import OVERLAPS, check_structure, different_rows, needs_browser, used
from support.predicted import GPU, MACHINE, SOURCES, product

HOSTILE = "</script><img src=x onerror=alert(1)>&'\"\u202e"


def launch(kernel: str, work: float, moved: int, flops: int) -> LaunchPrediction:
    """Returns a launch with invented causes and memory levels, because the page must not know any of them by name."""
    causes = {"work": work, "hbm": moved / 1e9, "idle": 0.0}
    return LaunchPrediction(
        kernel, "addf", "model.py:7", 1, causes, {"shared": 0, "hbm": moved}, {"floating_point": flops}
    )


LAUNCHES = (
    launch("first", 3e-3, 10**6, 10**8),
    launch("second", 1e-4, 10**6, 10**5),
    launch("first", 3e-3, 10**6, 10**8),
    launch(HOSTILE, 1e-5, 1000, 0),
)
CEILINGS = Ceilings({"f32": 1e11, "f16 matrix": 8e11}, {"shared": 1e11, "hbm": 1e9})
STEP = StepPrediction(replace(MACHINE, name=HOSTILE), LAUNCHES, {"state": 2048, "arena": 1024}, CEILINGS, 1, ())
OTHER = replace(STEP, machine=replace(MACHINE, name="other"), launches=LAUNCHES[:3])
# The first launch takes longer than predicted, the second less.
LEDGER = Ledger(
    tuple(LedgerEntry(each, each.seconds * part) for each, part in zip(LAUNCHES, (1.5, 0.5, 1, 1), strict=True)), 7
)
CASES = [Case(STEP, LEDGER), Case(OTHER, None, {"memory_bandwidth": "2x"}, OTHER)]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(prediction_page(f"a{HOSTILE}.py", CASES))
    return path


def test_the_page_holds_the_data_and_needs_nothing_else(page: Path) -> None:
    text = page.read_text()
    check_structure(text)
    (embedded,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    found = json.loads(embedded)["predictions"]
    assert [each["label"] for each in found] == [HOSTILE, "other", "other memory_bandwidth=2x"]
    assert found[0]["launches"][3]["kernel"] == HOSTILE
    assert sum(found[0]["ledger"].values()) == pytest.approx(found[0]["measured"])
    # Differences are added regardless of their sign. The first launch took half of its time more than predicted, the
    # second half of its time less.
    assert found[0]["unsigned_unknown"] == pytest.approx(0.5 * LAUNCHES[0].seconds + 0.5 * LAUNCHES[1].seconds)
    assert "measured" not in found[1]
    assert "<img" not in text and "\u202e" not in text
    assert "http" not in re.sub("http-equiv|http://www.w3.org/2000/svg", "", text.replace(embedded, ""))


def test_lines_of_a_comparison() -> None:
    lines = comparison_lines(CASES)
    assert len(lines) == 4 and lines[2].split()[:3] == ["other", "9.10", "ms"]
    assert "memory_bandwidth=2x" in lines[3] and lines[3].endswith("work 67%, hbm 33%")


def test_a_comparison_names_routines_without_a_time() -> None:
    """Routines are named only for the machine whose code calls them."""
    without = Case(replace(STEP, machine=MACHINE, calls=("repro_fma", "repro_fmod")))
    *_, last = comparison_lines([CASES[1], without])
    assert last == f"{MACHINE.name}: without the time of repro_fma and repro_fmod"


USE = """
const change = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change")); };
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const texts = query => [...document.querySelectorAll(query)].map(each => each.textContent.trim());
const dots = () => document.querySelectorAll("#roofline circle").length;
say("title", document.querySelector("h1").textContent === document.title);
say("images", document.images.length);
say("causes", texts("#causes span").join(" "));
say("bars", document.querySelectorAll("#steps .stack").length);
say("unknown", document.querySelectorAll("#steps .unknown").length);
say("beyond", document.querySelectorAll("#kernels .beyond").length);
say("sums", texts("#ledger tbody tr").length);
say("dots", dots());
say("lines", texts("#lines span").join("; "));
say("left out", $("left-out").textContent);
press(document.querySelector("#roofline svg"), "Home");
say("dot", tip.textContent.split("\\n")[0] + ", " + tip.textContent.split("\\n").length + " lines");
press(document.body, "Escape");
say("hidden", tip.hidden);
change("machine", "1");
say("without measurement", dots());
change("level", "1");
say("level", $("level").selectedOptions[0].textContent + " " + dots());
say("kernels", texts("#kernels tbody tr td:first-child").join(" "));
say("lanes", texts("#timeline text").filter(each => each.includes("ed")).length);
const lane = document.querySelectorAll("#timeline svg")[1];
press(lane, "End");
say("launch", tip.textContent.split("\\n")[4]);
say("by machine", texts("#machines tbody tr").length);
say("numbers", /NaN|Infinity|undefined/.test(document.querySelector("main").innerHTML));
say("fits", document.documentElement.scrollWidth <= innerWidth);
"""


@needs_browser
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_in_a_browser(page: Path, width: int) -> None:
    assert used(page, OVERLAPS + USE, width) == [
        "overlaps: 0",
        "title: true",
        "images: 0",
        "causes: work hbm unknown",
        "bars: 3",
        "unknown: 1",
        "beyond: 1",
        "sums: 6",
        "dots: 4",
        "lines: f32 100 Gflop/s; f16 matrix 800 Gflop/s; shared 100 GB/s; hbm 1.00 GB/s",
        "left out: 1 of 3 kernels, 0.1 % of the time, have no such operations or no such bytes.",
        "dot: second, 1 launch, 8 lines",
        "hidden: true",
        "without measurement: 2",
        "level: from hbm 2",
        "kernels: first second",
        "lanes: 4",
        "launch: measured 11.0 µs",
        "by machine: 3",
        "numbers: false",
        "fits: true",
    ]


@needs_browser
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_is_not_empty(page: Path, width: int) -> None:
    assert different_rows(page, width, 1600) > 300


@needs_browser
def test_a_page_without_launches(tmp_path: Path) -> None:
    path = tmp_path / "empty.html"
    path.write_text(prediction_page("empty", [Case(replace(STEP, launches=()))]))
    script = 'say("numbers", /NaN|Infinity|undefined/.test(document.querySelector("main").innerHTML));'
    script += 'say("machine", $("machine").checkVisibility()); say("level", $("level").checkVisibility());'
    assert used(path, script) == ["numbers: false", "machine: false", "level: true"]


GPU_STEP = GpuStepPrediction(
    GPU,
    tuple(
        GpuLaunchPrediction(each.kernel, each.causes, each.traffic, each.operations, "f32", 1, 1, 1.0)
        for each in LAUNCHES
    ),
    {"state": 2048},
    CEILINGS,
    True,
    "",
)


@needs_browser
@pytest.mark.parametrize("part", [0.5, 2.0])
def test_a_step_without_times_of_launches(tmp_path: Path, part: float) -> None:
    """If only the whole step was measured, as on a GPU, the page draws no measured launches, and the table shows shares
    of the prediction."""
    ledger = GpuLedger(GPU_STEP, GPU_STEP.seconds * part, "a GPU", True)
    path = tmp_path / "page.html"
    path.write_text(prediction_page("a", [Case(GPU_STEP, ledger), Case(OTHER, LEDGER)]))
    script = """
const texts = query => [...document.querySelectorAll(query)].map(each => each.textContent.trim());
say("lanes", texts("#timeline text").filter(each => each.includes("ed")).join("; "));
say("rings", document.querySelectorAll("#roofline circle").length);
say("kernels", texts("#kernels th").slice(0, 6).join(" "));
say("shares", texts("#kernels td").filter(each => each.endsWith("%")).join(" "));
say("unknown", texts("#ledger tr").filter(each => each.startsWith("unknown,")).length);
say("numbers", /NaN|Infinity|undefined/.test(document.querySelector("main").innerHTML));
"""
    expected = ["shares: 88 % 12 % 0.1 %", "unknown: 1", "numbers: false"]
    assert used(path, script) == [
        "lanes: made-up-gpu, predicted; other, predicted; other, measured",
        "rings: 2",
        "kernels: kernel operation source launches predicted of the step",
        *expected,
    ]
    # Without a prediction for a CPU, no kernel is described.
    path.write_text(prediction_page("a", [Case(GPU_STEP, ledger)]))
    assert used(path, script) == [
        "lanes: made-up-gpu, predicted",
        "rings: 2",
        "kernels: kernel launches predicted of the step causes work",
        *expected,
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "product.mlir").write_text(product(32))
    for name in ("one", "two"):
        write_cpu_machine(tmp_path / f"{name}.json", replace(MACHINE, level=cpu.runnable_levels()[0]), SOURCES)
    machines = [f"--machine={tmp_path / name}.json" for name in ("one", "two")]
    html = tmp_path / "page.html"
    command = ["roofline", "predict", str(tmp_path / "product.mlir"), *machines, f"--html={html}"]
    assert main([*command, "--set", "two:clock_hz=0.5x"]) == 0
    said = capsys.readouterr().out
    assert "two clock_hz=0.5x" in said and f"page       {html}" in said and "of the peak of" in said
    check_structure(html.read_text())
    assert main([*command, "--json", "--set", "clock_hz=0.5x"]) == 0
    one, two = json.loads(capsys.readouterr().out)["predictions"]
    assert (one["machine"], two["machine"], two["changes"]) == ("one", "two", {"clock_hz": "0.5x"})
    assert one["given"]["seconds"] < one["seconds"] == two["seconds"]
    for wrong, message in (
        (["--set", "three:clock_hz=2x"], "--set three:clock_hz: expected a machine among one, two"),
        (["--machine", str(tmp_path / "one.json")], "expected machines with different names, got one twice"),
        (["--html", str(tmp_path / "none" / "page.html")], "none/page.html"),
        (["--html", ""], "cannot write"),
        (["--set", "clock_hz=2x", "--set", "one:clock_hz=1x"], "expected one --set for clock_hz of one, got two"),
    ):
        assert main([*command, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_units_of_time() -> None:
    times = {2.5: "2.50 s", 2.5e-3: "2.50 ms", 2.5e-6: "2.50 µs", 2.5e-9: "2.50 ns", 2.5e-10: "0.25 ns"}
    assert {seconds: time_text(seconds) for seconds in times} == times
