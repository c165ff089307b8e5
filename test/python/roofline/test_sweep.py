# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests sweeps over machines' numbers: all combinations of values, one compilation per program, loss against time, and
refused arguments."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.compilation import cpu
from repro_mlir.precision_report import compare_recipes
from repro_mlir.roofline import Code, predict, read_code, sweep, write_cpu_machine
from repro_mlir.roofline.report import sweep_page
from repro_mlir.roofline.sweep_points import POINTS, SweepPoint
from support.browser import OVERLAPS, check_structure, different_rows, needs_browser, used
from support.predicted import MACHINE, SOURCES, doubled, product, program_of

HOSTILE = "</script><img src=x onerror=alert(1)>"
OTHER = replace(MACHINE, name="other", clock_hz=2e9)

SCRIPT = """
import torch
def training():
    torch.manual_seed(0)
    model = torch.nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = torch.ones(4, 32), torch.ones(4, dtype=torch.long)
    return model, torch.nn.functional.cross_entropy, optimizer, [batch] * 9, {"precision": "mxfp4"}
"""


def test_all_combinations_without_another_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def read_once(*arguments: object) -> Code:
        read.append(arguments)
        return read_code(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("repro_mlir.roofline.prediction.read_code", read_once)
    programs = {"a": program_of(doubled(1 << 20)), "b": program_of(product(32))}
    values = {"memory_bandwidth": ["0.5x", "1x", "2x"], "clock_hz": ["4e9", "2x"], "l3_bytes": ["0", "1x"]}
    points = sweep(programs, [(MACHINE, values), (OTHER, {})], 2)
    assert len(points) == 2 * (12 + 1) and len(read) == 2
    for point in points:
        machine = {"made-up": MACHINE, "other": OTHER}[point.machine].with_changes(point.given)
        step = predict(read_code(programs[point.program], machine), machine, 2)
        assert (point.seconds, point.causes) == (step.seconds, step.causes)
        assert point.numbers == {name: getattr(machine, name) for name in point.given}
    assert points[0].given == {"memory_bandwidth": "0.5x", "clock_hz": "4e9", "l3_bytes": "0"}


def test_other_execution_units_are_read_again() -> None:
    points = sweep({"": program_of(product(64))}, [(MACHINE, {"issue_width": ["2", "6", "2"]})])
    assert points[0].seconds == points[2].seconds > points[1].seconds


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clock_hz": ["1x"] * 65, "l2_bytes": ["1x"] * 64}, f"expected at most {POINTS} points of a sweep, got 4160"),
        ({"clock_hz": []}, "expected at least one value for clock_hz of made-up"),
        ({"speed": ["2x"]}, "expected what is set among"),
        ({"clock_hz": ["fast"]}, "clock_hz: expected a number"),
    ],
)
def test_invalid_values_are_refused(values: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        sweep({"": program_of(product(16))}, [(MACHINE, values)])


def points_of(count: int, program: str = "") -> list[SweepPoint]:
    return [
        SweepPoint(program, HOSTILE, {"clock_hz": f"{i}x"}, {"clock_hz": i * 1e9}, 1e-3 / i, {"work": 1e-3 / i})
        for i in range(1, count + 1)
    ]


LOSSES = {"f32": [2.0, None, 1.0], HOSTILE: [2.5, 2.0, None]}

USE = """
const texts = query => [...document.querySelectorAll(query)].map(each => each.textContent.trim());
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
say("images", document.images.length);
say("losses", $("losses").checkVisibility());
say("recipes", texts("#recipes span").length + " " + document.querySelectorAll("#losses path").length);
say("machines", $("point").options.length);
say("series", document.querySelectorAll("#times path").length);
press(document.querySelector("#times svg"), "End");
say("point", tip.textContent.split("\\n")[2]);
say("rows", document.querySelectorAll("#points tbody tr").length);
say("numbers", /NaN|Infinity|undefined/.test(document.querySelector("main").innerHTML));
say("fits", document.documentElement.scrollWidth <= innerWidth);
"""


@needs_browser
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_in_a_browser(tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    page.write_text(sweep_page(f"a{HOSTILE}", [*points_of(3, "f32"), *points_of(3, HOSTILE)], LOSSES))
    check_structure(page.read_text())
    assert "<img" not in page.read_text()
    assert used(page, OVERLAPS + USE, width) == [
        "overlaps: 0",
        "images: 0",
        "losses: true",
        "recipes: 2 2",
        "machines: 3",
        "series: 2",
        "point: 333 µs a step",
        "rows: 6",
        "numbers: false",
        "fits: true",
    ]
    assert different_rows(page, width, 1200) > 150


@needs_browser
def test_a_page_without_losses(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(sweep_page("a", points_of(1), {}))
    said = used(page, USE.replace('$("losses")', '$("losses").closest("section")'))
    assert said[1] == "losses: false" and said[4:] == [
        "series: 1",
        "point: 1.00 ms a step",
        "rows: 1",
        "numbers: false",
        "fits: true",
    ]
    # If no number is changed, there is no axis along which to draw the times.
    page.write_text(sweep_page("a", [SweepPoint("", "m", {}, {}, 1e-3, {})], {}))
    assert used(page, 'say("times", $("times").textContent);') == ["times: There is nothing to draw."]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "product.mlir").write_text(product(32))
    for name in ("one", "two"):
        write_cpu_machine(tmp_path / f"{name}.json", MACHINE, SOURCES)
    machines = [f"--machine={tmp_path / name}.json" for name in ("one", "two")]
    command = ["roofline", "sweep", str(tmp_path / "product.mlir"), *machines, "--set", "clock_hz=0.5x,1x"]
    html = tmp_path / "page.html"
    assert main([*command, "--set", "two:cores=4, 8", f"--html={html}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["machine", "clock_hz", "cores", "step"] and len(lines) == 1 + 2 + 4 + 1
    check_structure(html.read_text())
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["machine"], each["given"]) for each in found["points"]] == [
        (name, {"clock_hz": value}) for name in ("one", "two") for value in ("0.5x", "1x")
    ]
    for wrong, message in (
        (["--set", "l1_bytes=" + ",".join(["1x"] * 5000)], f"at most {POINTS} points of a sweep, got 20000"),
        (["--set", "l1_bytes=1x,fast"], "l1_bytes: expected a number"),
        (["--set", "l1_bytes=,"], "expected at least one value for l1_bytes of one"),
        (["--set", "two:clock_hz=2x"], "expected one --set for clock_hz of two, got two"),
        (["--html", ""], "cannot write"),
        (["--precision", "bf16"], "expected a script with --precision"),
        (["--precision", ",,"], "--precision: expected names of recipes, got ',,'"),
        (["--steps", "3"], "expected a script and --precision, without --exact-digits, with --steps"),
    ):
        assert main([*command, *wrong]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.exhaustive
def test_losses_against_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    write_cpu_machine(tmp_path / "here.json", replace(MACHINE, level=cpu.runnable_levels()[0]), SOURCES)
    command = ["roofline", "sweep", str(script), "--machine", str(tmp_path / "here.json"), "--set", "clock_hz=1x,2x"]
    assert main([*command, "--precision", "mxfp8,f32", "--steps", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    report = compare_recipes(str(script), ["mxfp8"], 3, samples=0)
    assert found["losses"] == {run.recipe: list(run.losses) for run in report.runs}
    assert [each["program"] for each in found["points"]] == ["f32", "f32", "mxfp8", "mxfp8"]
    times = [each["seconds"] for each in found["points"]]
    assert times[2] > times[0] > times[1]
    # The recipe of a point in the sweep replaces the script's recipe; `f32` means no recipe.
    assert main([*command, "--precision", "f32,mxfp4", "--json"]) == 0
    one, _, own, _ = json.loads(capsys.readouterr().out)["points"]
    assert one["seconds"] == times[0]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"][0]["seconds"] == own["seconds"]
    assert main([*command, "--precision", "mxfp8", "--steps", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["machine", "recipe", "clock_hz", "step", "training", "loss"]
    assert re.search(r"f32 .* " + re.escape(f"{report.runs[0].losses[-1]:.6f}"), lines[1])
