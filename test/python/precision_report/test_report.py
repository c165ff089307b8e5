# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests reports that compare recipes: runs, statistics of sampled steps, the report's files, and refusals."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError
from repro_mlir.cli.main import main
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.precision import Recipe, RolePrecision, blocks, recipe_to_json
from repro_mlir.precision_report import Report, compare_recipes
from repro_mlir.precision_report.compare import spread
from repro_mlir.precision_report.page import page
from repro_mlir.precision_report.results import Operand
from support.browser import check_structure, needs_browser, used

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "precision-report.schema.json").read_text())

SCRIPT = """
import torch
from torch import nn

def batch(step, rows=32):
    rng = torch.Generator().manual_seed(step)
    return torch.randn(rows, 48, generator=rng), torch.randint(16, (rows,), generator=rng)

def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    def batches():
        step = 0
        while True:
            optimizer.param_groups[0]["lr"] = RATE / (1 + step)
            yield batch(step)
            step += 1
    return model, nn.functional.cross_entropy, optimizer, batches(), OPTIONS

def validation():
    return [batch(-1), batch(-2)]
"""

FLOOR = Recipe("floor", {"fprop": RolePrecision({"activation": blocks("f4E2M1FN", "mx", "floor")})})
NOTHING = Recipe("nothing", {"product": RolePrecision({"left": blocks("f4E2M1FN", "mx", "floor")})})
RECIPES = [FLOOR, "mxfp8", "f32", "nvfp4"]


def write(folder: Path, rate: str = "0.1", options: str = "{}", text: str = SCRIPT) -> str:
    path = folder / "mlp.py"
    path.write_text(text.replace("RATE", rate).replace("OPTIONS", options))
    return str(path)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    # The script has a recipe that no run of the report uses: each run must replace it.
    return write(tmp_path_factory.mktemp("script"), options='{"precision": "mxfp4", "nonfinite_loss": "stop"}')


@pytest.fixture(scope="module")
def report(script: str) -> Report:
    return compare_recipes(script, RECIPES, 4, target="reference")


def operands(report: Report, recipe: str, step: int, role: str, layer: str) -> dict[str, Operand]:
    (run,) = (run for run in report.runs if run.recipe == recipe)
    (sample,) = (sample for sample in run.samples if sample.step == step)
    (found,) = (
        part
        for part in sample.contractions
        if (run.contractions[part.number].role, run.contractions[part.number].layer) == (role, layer)
    )
    return {operand.name: operand for operand in found.operands}


# --- Runs ---


def test_runs_are_those_of_the_trainer(script: str, report: Report) -> None:
    """The runs have the losses, programs and states of `repro train --precision`."""
    assert [run.recipe for run in report.runs] == ["f32", "floor", "mxfp8", "nvfp4"]
    for run in report.runs:
        given = load_training(script)
        options = given.options | {"precision": run.definition}
        trainer = repro_mlir.Trainer(given.model, given.loss_fn, given.optimizer, target="reference", **options)
        losses = trainer.fit(given.batches, 4)
        assert (run.losses, run.loss, run.first_nonfinite) == (tuple(losses), losses[-1], None)
        assert (run.state, run.program) == (trainer.state_hash(), trainer.program.hash)
        assert given.validation is not None
        held_out = [trainer.evaluate(*batch) for batch in given.validation()]
        assert [step for step, _ in run.validation] == [1, 2, 3, 4]
        assert run.validation[-1] == (4, math.fsum(held_out) / 2)
    assert len({run.state for run in report.runs}) == 4


def test_sampled_steps_are_those_of_the_run(report: Report) -> None:
    assert report.sampled == (1, 2, 4)
    assert not report.runs[0].samples and not report.runs[0].weights
    for run in report.runs[1:]:
        assert [sample.step for sample in run.samples] == [1, 2, 4]
        for sample in run.samples:
            assert sample.loss == run.losses[sample.step - 1]
        # The first sample of each run has the initial state, so its loss in f32 is the first loss of the run in f32.
        assert run.samples[0].loss_f32 == report.runs[0].losses[0]
        assert [each.name for each in run.weights] == ["0.weight", "2.weight"]
        assert all(each.relative_error is not None and 0 < each.relative_error < 0.1 for each in run.weights)


def test_the_steps_that_are_sampled() -> None:
    assert [spread(300, count) for count in (0, 1, 2, 3)] == [(), (300,), (1, 300), (1, 150, 300)]
    assert spread(1, 3) == (1,) and spread(2, 5) == (1, 2)


def test_contractions_left_in_f32(report: Report) -> None:
    left = {
        run.recipe: sorted((each.role, each.layer) for each in run.contractions if each.in_f32)
        for run in report.runs[1:]
    }
    assert left["mxfp8"] == []
    assert left["floor"] == [("dgrad", "2.weight"), ("wgrad", "0.weight"), ("wgrad", "2.weight")]
    assert left["nvfp4"] == [("dgrad", "2.weight"), ("fprop", "2.weight"), ("wgrad", "2.weight")]
    assert all(each.in_f32 for each in report.runs[0].contractions)


def test_the_error_of_gradients(script: str, report: Report) -> None:
    gradients = []
    for recipe in (None, "nvfp4"):
        given = load_training(script)
        options = given.options | {"precision": recipe}
        trainer = repro_mlir.Trainer(given.model, given.loss_fn, given.optimizer, target="reference", **options)
        result = trainer.step(*next(iter(given.batches)), returns=("gradients",))
        gradients.append({name: value.double().flatten().tolist() for name, value in result.gradients.items()})
    run = report.runs[3]
    ratios = {
        (run.contractions[part.number].role, run.contractions[part.number].layer): part.result_sqnr_db
        for part in run.samples[0].contractions
    }
    assert len(ratios) == 5
    for layer in ("0.weight", "2.weight"):
        exact, rounded = (each[layer] for each in gradients)
        noise = [after - before for before, after in zip(exact, rounded, strict=True)]
        assert ratios["wgrad", layer] == ratio(exact, noise)


# --- Statistics, compared with a computation by hand ---

VALUES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
"""The values of f4E2M1FN, by code."""


def to_f4(x: float) -> float:
    """Returns a value rounded to f4E2M1FN, to nearest, with ties to even codes and saturation."""
    _, code = min((abs(abs(x) - value), code % 2, code) for code, value in enumerate(VALUES))[1:]
    return math.copysign(VALUES[code], x)


def exponent(x: float) -> int:
    return math.frexp(x)[1] - 1


def ratio(signal: list[float], noise: list[float]) -> float:
    power = math.fsum(x * x for x in signal) / math.fsum(x * x for x in noise)
    return float(f"{10 * math.log10(power):.6g}")


def test_statistics_of_blocks(script: str, report: Report) -> None:
    """With the rule `floor`, a scaled element can be almost 8; elements above 7 count as saturated."""
    found = operands(report, "floor", 2, "fprop", "0.weight")
    assert list(found) == ["activation"] and found["activation"].format == "f4E2M1FN 1x32 floor rne"
    given = load_training(script)
    batches = iter(given.batches)
    x = [next(batches) for _ in range(2)][1][0].numpy().astype(np.float64)
    scales = []
    pairs = []
    saturated = 0
    for row in x:
        for block in (row[:32], row[32:]):
            scale = exponent(max(abs(block))) - 2
            scales.append(scale)
            pairs += [(float(value), to_f4(float(value) / 2.0**scale) * 2.0**scale) for value in block]
            saturated += sum(abs(value) / 2.0**scale > 7 for value in block)
    counts = found["activation"].statistics
    assert saturated > 0
    assert counts.saturated == saturated
    assert counts.underflowed == sum(before != 0 and after == 0 for before, after in pairs)
    assert counts.sqnr_db == ratio([before for before, _ in pairs], [after - before for before, after in pairs])
    assert (counts.elements, counts.zeros, counts.nans, counts.infinities, counts.nans_after) == (32 * 48, 0, 0, 0, 0)
    # Two codes share a byte, and each of the 64 scales has one byte.
    assert (counts.bytes, counts.bytes_f32) == (32 * 48 // 2 + 64, 32 * 48 * 4)
    assert counts.blocks is not None and dataclasses.astuple(counts.blocks) == (64, 0, 0, 0, 0)
    exponents = [exponent(before) for before, _ in pairs]
    assert counts.histogram is not None and counts.histogram.first == min(exponents)
    expected = tuple(exponents.count(e) for e in range(min(exponents), max(exponents) + 1))
    assert counts.histogram.counts == expected
    # The range of non-zero elements: from 0.5 to 6, times the scales.
    scales.sort()
    assert counts.range is not None and dataclasses.astuple(counts.range) == (
        *(scales[32] - 1, scales[32] + 2),
        *(scales[0] - 1, scales[-1] + 2),
    )


@pytest.mark.exhaustive
def test_another_target_gives_the_same(script: str, report: Report) -> None:
    found = compare_recipes(script, ["nvfp4"], 4)
    assert found.target == "cpu" and found.initial_state == report.initial_state
    assert list(found.runs) == [report.runs[0], report.runs[3]]


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    found = compare_recipes(write(tmp_path, rate="1e38"), ["f16"], 4, samples=2, target="reference")
    for run in found.runs:
        assert run.loss is None and run.losses[0] is not None
        assert run.first_nonfinite is not None and run.losses[run.first_nonfinite - 1] is None
    (last,) = (sample for sample in found.runs[1].samples if sample.step == 4)
    assert (last.loss, last.loss_f32) == (None, None)
    counts = operands(found, "f16", 4, "fprop", "0.weight")["weight"].statistics
    assert counts.nans == counts.nans_after > 0 and counts.sqnr_db is None
    text = json.dumps(found.as_json(), allow_nan=False)
    jsonschema.validate(json.loads(text), SCHEMA)
    assert "not finite from" in page(json.loads(text))


def test_a_last_smaller_batch(tmp_path: Path) -> None:
    """The last batch is smaller and thus has another program. The step of this batch is sampled as well."""
    text = SCRIPT.replace("yield batch(step)", "yield batch(step, 16 if step == 2 else 32)")
    found = compare_recipes(write(tmp_path, text=text), ["mxfp8"], 3, target="reference", samples=2)
    sizes = [operands(found, "mxfp8", step, "fprop", "0.weight")["activation"] for step in (1, 3)]
    assert [each.statistics.elements for each in sizes] == [32 * 48, 16 * 48]


def test_a_step_in_microbatches_has_losses_alone(tmp_path: Path) -> None:
    found = compare_recipes(write(tmp_path, options='{"microbatches": 2}'), ["mxfp8"], 2, target="reference")
    assert found.sampled == () and "microbatches" in found.note
    assert len(found.runs[1].losses) == 2 and not found.runs[1].samples
    jsonschema.validate(json.loads(json.dumps(found.as_json())), SCHEMA)


@pytest.mark.parametrize("later", [False, True], ids=["frozen", "unfrozen"])
def test_steps_with_other_contractions_have_losses_alone(later: bool, tmp_path: Path) -> None:
    """Freezing or unfreezing a layer before the third step changes the contractions. Weight decay, which begins with
    the second step, does not change the contractions."""
    changed = SCRIPT.replace(
        "            yield",
        f"            model[0].requires_grad_((step >= 2) == {later})\n"
        '            optimizer.param_groups[0]["weight_decay"] = 0.1 * (step >= 1)\n'
        "            yield",
    )
    found = compare_recipes(write(tmp_path, text=changed), ["mxfp8"], 4, samples=4, target="reference")
    run = found.runs[1]
    assert len(run.losses) == 4 and [each.step for each in run.samples] == [1, 2]
    roles = [run.contractions[each.number].role for each in run.samples[1].contractions]
    assert roles.count("wgrad") == 1 + (not later)
    other = "it has other contractions than the first step"
    assert re.findall(rf"step (\d) are not measured: {other}", found.note) == ["3", "4"]


def test_a_forward_pass_that_is_rounded_stochastically_has_no_validation(script: str) -> None:
    recipe = Recipe("sr", {"fprop": RolePrecision({"weight": blocks("f8E4M3FN", "mx", "rceil", "sr4")})})
    found = compare_recipes(script, [recipe], 2, target="reference", samples=1)
    assert found.note == "No validation under sr: it rounds the forward pass stochastically."
    assert [len(run.validation) for run in found.runs] == [2, 0]
    assert found.sampled == (2,) and found.runs[1].samples[0].contractions[0].operands[0].name == "weight"


def test_contractions_in_blocks_have_statistics(script: str) -> None:
    found = compare_recipes(script, ["mxfp8", "blocks_mxfp8"], 1, target="reference", samples=1)
    _, values, codes = found.runs
    assert {each.accumulator for each in codes.contractions} == {"blocks"}
    for one, other in zip(values.samples[0].contractions, codes.samples[0].contractions, strict=True):
        assert len(one.operands) == len(other.operands) == 2
        assert isinstance(other.result_sqnr_db, float) and isinstance(one.result_sqnr_db, float)
        assert abs(other.result_sqnr_db - one.result_sqnr_db) < 1
    # The first layer reads the same operands in both runs.
    assert values.samples[0].contractions[0].operands == codes.samples[0].contractions[0].operands


def test_a_validation_draws_no_numbers_of_the_training(tmp_path: Path) -> None:
    """The global generators draw the batches of training. A validation must not change the generators, so the losses
    are those of a run without validation."""
    drawn = SCRIPT.replace("rng = torch.Generator().manual_seed(step)", "rng = None")
    others = "\nimport random\nimport numpy\n"
    drawn = others + drawn
    drawn = drawn.replace("torch.randn(rows, 48, generator=rng)", "torch.randn(rows, 48) * random.random()")
    drawn = drawn.replace("(rows,), generator=rng)", "(rows,)) // (1 + numpy.random.randint(2))")
    drawn = drawn.replace("torch.manual_seed(0)", "torch.manual_seed(0), random.seed(0), numpy.random.seed(0)")
    losses = []
    for text in (drawn, drawn.replace("def validation", "def unused")):
        found = compare_recipes(write(tmp_path, text=text), ["bf16"], 2, target="reference", samples=0)
        losses.append([run.losses for run in found.runs])
    assert losses[0] == losses[1]


def test_a_validation_that_is_not_used_is_not_computed(tmp_path: Path) -> None:
    text = SCRIPT + "\nbatches_of = validation\ndef validation():\n"
    text += "    open(__file__ + '.calls', 'a').write('x')\n    return batches_of()\n"
    recipe = Recipe("sr", {"fprop": RolePrecision({"weight": blocks("f8E4M3FN", "mx", "rceil", "sr4")})})
    script = write(tmp_path, text=text)
    compare_recipes(script, [recipe], 1, target="reference", samples=0)
    assert Path(script + ".calls").read_text() == "x"


# --- Files ---


def test_the_files(report: Report, tmp_path: Path) -> None:
    html, data = report.write(tmp_path / "one" / "folder")
    value = json.loads(data.read_text())
    assert value == json.loads(json.dumps(report.as_json()))
    jsonschema.validate(value, SCHEMA)
    text = html.read_text()
    check_structure(text)
    (embedded,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(embedded) == value
    assert "http" not in re.sub("http-equiv|http://www.w3.org/2000/svg", "", text.replace(embedded, ""))


def test_the_page_names_drawn_marks(report: Report) -> None:
    assert "dots are the validation, triangles are the sampled steps." in page(report.as_json())
    runs = tuple(dataclasses.replace(run, validation=(), samples=()) for run in report.runs)
    text = page(dataclasses.replace(report, runs=runs, sampled=()).as_json())
    assert "A cross is the first loss that is not finite.</p>" in text


def test_names_end_no_element(report: Report) -> None:
    name = "</script><b>&.py"
    text = page(report.as_json() | {"script": name})
    assert "<b>" not in text and "<h1>Precision of &lt;/script&gt;&lt;b&gt;&amp;.py</h1>" in text
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(json.dumps(report.as_json() | {"steps": 0})), SCHEMA)


USE = """
const change = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("change"));
};
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const cells = (id, column) => [...document.querySelectorAll(`#${id} tbody tr`)]
  .map(row => row.children[column].textContent.trim()).join(" ");
say("runs", cells("runs", 0));
document.querySelectorAll("#runs th button")[0].click();
document.querySelectorAll("#runs th button")[0].click();
say("sorted", cells("runs", 0) + " " + document.querySelector("#runs th").getAttribute("aria-sort"));
press(document.querySelector("#losses svg"), "End");
say("last", tip.textContent.split("\\n")[0] + ", " + tip.textContent.split("\\n").length + " lines");
for (const view of ["log", "difference", "loss"]) {
  change("loss-view", view);
  say(view, document.querySelectorAll("#losses svg path[stroke]").length);
}
document.querySelector("#legend button").click();
say("without f32", document.querySelectorAll("#losses svg path[stroke]").length);
change("role", "wgrad");
say("layers", cells("layers", 0));
const measures = [...document.getElementById("measure").options].map(each => each.value);
for (const measure of measures) change("measure", measure);
say("measures", measures.length);
[...document.querySelectorAll('[data-cell^="2 "]')].pop().click();
say("chosen", document.getElementById("operands-title").textContent);
say("panels", document.querySelectorAll("#operands svg").length);
press(document.querySelector("#operands svg"), "Home");
say("bar", tip.textContent.startsWith("2^") && !tip.hidden);
press(document.body, "Escape");
say("hidden", tip.hidden);
change("all-run", "1");
say("all", document.querySelectorAll("#all tbody tr").length);
say("weights", cells("weights", 0));
say("left", [...document.querySelectorAll("#left summary")].map(each => each.textContent).join("; "));
"""


SHAPES = """
const svg = () => document.querySelector("#losses svg");
for (const view of ["loss", "log"]) {
  document.getElementById("loss-view").value = view;
  document.getElementById("loss-view").dispatchEvent(new Event("change"));
  say(view, `${svg().querySelectorAll("circle").length} dots, NaN ${/NaN|Infinity/.test(svg().outerHTML)}`);
}
say("titles", [...svg().querySelectorAll("text")].map(each => each.textContent)
  .filter(text => /^[a-z]/.test(text)).join(", "));
"""


def used_page(report: Report, folder: Path, script: str) -> list[str]:
    """Writes a report, runs a script in its page in a browser, and returns what the script says."""
    return used(report.write(folder)[0], script)


@needs_browser
def test_losses_without_a_logarithm_in_a_browser(report: Report, tmp_path: Path) -> None:
    """If the loss axis is logarithmic, validation losses that are not positive have no dots."""
    held_out = ((1, 0.5), (2, 0.0), (3, -0.25), (4, None))
    runs = tuple(dataclasses.replace(run, validation=held_out) for run in report.runs)
    said = used_page(dataclasses.replace(report, runs=runs), tmp_path, SHAPES)
    assert said == ["loss: 12 dots, NaN false", "log: 4 dots, NaN false", "titles: step, loss, logarithmic"]


@needs_browser
def test_the_page_in_a_browser(report: Report, tmp_path: Path) -> None:
    assert used_page(report, tmp_path, USE) == [
        "runs: f32 floor mxfp8 nvfp4",
        "sorted: nvfp4 mxfp8 floor f32 descending",
        "last: step 4, 5 lines",
        "log: 8",
        "difference: 3",
        "loss: 8",
        "without f32: 6",
        "layers: 2.weight 0.weight",
        "measures: 6",
        "chosen: nvfp4: 0.weight, wgrad, step 4",
        "panels: 2",
        "bar: true",
        "hidden: true",
        "all: 10",
        "weights: 0.weight 2.weight",
        "left: floor: 3 of 5; mxfp8: 0 of 5; nvfp4: 3 of 5",
    ]


# --- Refusals ---


@pytest.mark.parametrize(
    ("recipes", "options", "message"),
    [
        (["fp3"], {}, "expected a recipe among"),
        (["none.json"], {}, "cannot read none.json: No such file"),
        ([], {}, "expected at least one recipe in addition to f32"),
        (["f32"], {}, "expected at least one recipe in addition to f32"),
        (["bf16", "bf16"], {}, "expected recipes with different names, not f32, got 'bf16'"),
        (["bf16"], {"steps": 0}, "expected a number of steps of at least 1, got 0"),
        (["bf16"], {"samples": -1}, "expected a number of samples of at least 0, got -1"),
        (["bf16", NOTHING], {}, "the recipe 'nothing' matches no contraction"),
        (["bf16"], {"target": "abacus"}, "abacus"),
    ],
)
def test_recipes_that_cannot_be_compared(script: str, recipes: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReproError, match=re.escape(message)) as error:
        compare_recipes(script, recipes, **{"steps": 2} | options)
    assert "\n" not in str(error.value)


def texts() -> Iterator[tuple[str, str]]:
    yield SCRIPT.replace("    torch.manual_seed(0)\n", ""), "mlp.py: expected the same model each time"
    unseeded = SCRIPT.replace("def validation", "def unused").replace("torch.Generator().manual_seed(step)", "None")
    yield unseeded.replace("manual_seed(0)", "seed()"), "mlp.py: expected the same batch 1 each time"
    yield SCRIPT.replace("batch(-2)", "batch(torch.seed())"), "mlp.py: expected the same validation batches each time"
    endless = SCRIPT.replace("return [batch(-1), batch(-2)]", "return (batch(-1) for _ in iter(int, 1))")
    yield endless, "mlp.py: expected at most 1000 batches of validation()"
    yield SCRIPT.replace("while True", "while step < 1"), "mlp.py: expected 2 batches, got 1"
    yield "x = 1", "mlp.py: expected a function training()"
    yield SCRIPT + "    raise KeyError(3)", "mlp.py:22: KeyError: 3"


@pytest.mark.parametrize(("text", "message"), [*texts()])
def test_scripts_that_cannot_be_compared(tmp_path: Path, text: str, message: str) -> None:
    text = text.replace("    return [batch(-1), batch(-2)]\n    raise", "    raise")
    with pytest.raises(ReproError, match=re.escape(message)):
        compare_recipes(write(tmp_path, text=text), ["bf16"], 2, samples=0)


# --- The command, and the documentation ---


def test_the_example_of_the_documentation(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp.py").write_text(Path(script).read_text())
    text = (ROOT / "docs" / "guides" / "precision.md").read_text()
    code = text.split("In Python:\n\n")[1].split("\n- The script")[0]
    # Two steps on the reference interpreter take less time than compiling.
    code = code.replace("steps=20", 'steps=2, target="reference"')
    exec("\n".join(line.removeprefix("    ") for line in code.splitlines()), {})
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[:4]] == ["f32", "bf16", "mxfp8", "nvfp4"]
    assert len(said) == 4 + 5 and said[4].startswith("0.weight fprop ")
    assert (tmp_path / "mlp.precision" / "report.html").is_file()


def test_the_command(
    script: str, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # A recipe whose JSON has no name gets the name of its file.
    value = {name: each for name, each in json.loads(recipe_to_json(FLOOR)).items() if name != "name"}
    (tmp_path / "mine.json").write_text(json.dumps(value))
    options = "--recipes mxfp8,mine.json --steps 4 --samples 0 --target reference"
    assert main(["precision", script, *options.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    by_name = {run.recipe: run for run in report.runs}
    for line, shown, name in zip(lines[1:4], ("f32", "mxfp8", "mine"), ("f32", "mxfp8", "floor"), strict=True):
        assert line.split() == [shown, f"{by_name[name].loss:.6f}", by_name[name].state]
    assert lines[4:] == ["page   mlp.precision/report.html", "data   mlp.precision/report.json"]
    assert json.loads((tmp_path / "mlp.precision" / "report.json").read_text())["sampled"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipes", "fp3", "--steps", "2"], "expected a recipe among"),
        (["--recipes", "bf16", "--steps", "0"], "--steps"),
        (["--recipes", "bf16", "--steps", "2", "--samples", "-1"], "expected a number of samples"),
        (["--recipes", "bf16", "--steps", "2", "--output", "file"], "cannot write file: File exists"),
        (["--steps", "2"], "--recipes"),
    ],
)
def test_the_command_refuses_in_one_line(
    script: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["precision", script, *options]) == 2
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1]
    assert not (tmp_path / "mlp.precision").exists()
