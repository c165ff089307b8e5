# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro verify` says which steps were run, how a sample can be drawn again, and what the receipt only claims."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from repro_mlir.cli.main import main
from repro_mlir.verification.receipts.choice import choose, ranges_of
from repro_mlir.verification.receipts.form import HEADER, SEAL

# Five steps; a change of the state after the third; states kept after steps 0, 2, 4 and 5.
SIGNED = Path(__file__).resolve().parents[3] / "data" / "compatibility" / "signed.receipt"
STATE = json.loads((SIGNED / SEAL).read_text())["state_hash"]
ASSUMED = "whether the state after step {} is right: it was not computed, and steps were run from it"

Told = Callable[..., tuple[list[str], dict]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Returns a function that returns the output of `repro verify` as lines and as JSON."""

    def run(*arguments: str) -> tuple[list[str], dict]:
        words = ["verify", str(SIGNED), "--target", "reference", *arguments]
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert main([*words, "--json"]) == 0
        return lines, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize(
    ("steps", "executed", "claimed", "assumed"),
    [
        ("1-3", "1-3", "step 5 was not run", None),
        ("4", "3-4", "step 5 was not run", "2"),
        ("5", "5", None, "4"),
        ("1-5", "1-5", None, None),
    ],
)
def test_claims_and_results(told: Told, steps: str, executed: str, claimed: str | None, assumed: str | None) -> None:
    lines, report = told("--steps", steps)
    assert lines[1:3] == [f"chosen   {steps}", f"run      {executed}"]
    assert (report["chosen"], report["executed"]) == ([steps], [executed])
    assert f"state    {STATE}{f' (claimed: {claimed})' if claimed else ''}" in lines
    assert (report["state_hash"], report["state_claimed"]) == (STATE, claimed)
    found = [line for line in report["not_checked"] if line.startswith("whether the state after")]
    assert found == ([ASSUMED.format(assumed)] if assumed else [])
    assert all(any(line.endswith(each) for line in lines) for each in found)


def test_the_initial_state_is_named(told: Told) -> None:
    initial = json.loads((SIGNED / HEADER).read_text())["run"]["initial"]
    lines, report = told("--steps", "1")
    assert f"initial  {initial}" in lines and report["initial"] == initial


def test_a_sample_can_be_repeated(capsys: pytest.CaptureFixture[str], told: Told) -> None:
    drawn = ["verify", str(SIGNED), "--target", "reference", "--steps", "sample:2"]
    assert main(drawn) == 0
    lines = capsys.readouterr().out.splitlines()
    (seed,) = (line.removeprefix("seed     ").partition(":")[0] for line in lines if line.startswith("seed"))
    again, report = told("--steps", "sample:2", "--seed", seed)
    assert again == lines and str(report["seed"]) == seed
    assert lines[1] == f"chosen   {', '.join(report['chosen'])}"
    assert lines[2] == f"run      {', '.join(report['executed'])}"
    assert main(drawn) == 0
    assert f"seed     {seed}:" not in capsys.readouterr().out


def test_the_sample_of_a_seed_is_the_same_in_every_python() -> None:
    assert choose("sample:5", range(1, 1001), "steps", random.Random(20911)) == [106, 617, 806, 846, 857]


def test_a_sample_of_more_steps_than_there_are(told: Told) -> None:
    lines, report = told("--steps", "sample:50", "--seed", "1")
    assert lines[0].startswith("right    5 of 5 steps, 5 run on reference")
    assert lines[1:3] == ["chosen   1-5 (all: there are no more)", "run      1-5"]
    assert report["verified_steps"] == report["executed_steps"] == 5
    lines, _ = told("--steps", "sample:5", "--seed", "1")
    assert lines[1] == "chosen   1-5"


def test_without_a_choice_all_steps_are_run(told: Told) -> None:
    lines, report = told()
    assert lines[0].startswith("right    5 of 5 steps, 5 run on reference") and lines[1].startswith("program  ")
    assert report["chosen"] == report["executed"] == ["1-5"] and "seed" not in report


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "sample:2", "--seed", "-1"), "expected a whole number of at least 0, got '-1'"),
        (("--steps", "sample:2", "--seed", "one"), "expected a whole number of at least 0, got 'one'"),
        (("--seed", "1"), "--seed: expected --steps sample:N or --microbatches sample:N"),
        (("--steps", "1-2", "--seed", "1"), "--seed: expected --steps sample:N"),
    ],
)
def test_wrong_seeds(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert main(["verify", str(SIGNED), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and len(captured.err.splitlines()) == 1


def test_ranges() -> None:
    assert ranges_of([]) == [] and ranges_of([4]) == ["4"]
    assert ranges_of([1, 2, 3, 5, 7, 8]) == ["1-3", "5", "7-8"]
    chosen = sorted(random.Random(0).sample(range(1, 101), 40))
    assert [number for text in ranges_of(chosen) for number in choose(text, range(1, 101), "steps")] == chosen


def test_a_long_list_is_shortened() -> None:
    from repro_mlir.cli.verify import _shortened

    assert _shortened(["1"] * 16).count("1") == 16
    assert _shortened(["2"] * 17) == f"{', '.join(['2'] * 16)} and more (17 ranges, which --json lists)"
    assert _shortened([]) == "none"
