# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the comparison of records that are written by hand, without PyTorch."""

import json
from pathlib import Path

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.resume_check.comparison import compare
from repro_mlir.resume_check.findings import causes, causes_of_resume, unread_names, without_effect
from repro_mlir.resume_check.records import UNREADABLE, Key, Record

WEIGHT = "parameter\tSGD\t0.0"
CPU = "rng\tPyTorch's CPU generator\tstate"
TIME = "variable\tmain\tstart"
STEP = "variable\tmain\tstep"


def record(path: Path, *steps: dict[str, str], inputs: str = "", gradients: str = "", optimizer: str = "SGD") -> Record:
    """Writes a record of steps with the given entries; `inputs` and `gradients` have a character for each step."""
    lines = []
    for index, state in enumerate(steps):
        labels = {f"{optimizer}\t0.0": "model.weight"}
        line = {"step": index + 1, "optimizer": optimizer, "state": state, "labels": labels}
        if inputs:
            line["inputs"] = [["Linear", inputs[index]]]
        if gradients:
            line["gradients"] = {f"{optimizer}\t0.0": gradients[index]}
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines))
    return Record(path)


def test_entries_hold_until_they_change(tmp_path: Path) -> None:
    found = record(tmp_path / "a", {WEIGHT: "1", CPU: "x"}, {CPU: "y"}, {CPU: None, WEIGHT: "3"})
    states = [dict(step.state) for step in found.steps()]
    weight, generator = Key("parameter", "SGD", "0.0"), Key("rng", "PyTorch's CPU generator", "state")
    assert states == [{weight: "1", generator: "x"}, {weight: "1", generator: "y"}, {weight: "3"}]
    assert found.count == 3 and found.moving == {generator: 2, weight: 3}


def test_a_partial_last_line_is_ignored(tmp_path: Path) -> None:
    record(tmp_path / "a", {WEIGHT: "1"})
    with (tmp_path / "a").open("a") as file:
        file.write('{"step": 2, "sta')
    assert Record(tmp_path / "a").count == 1


def test_a_record_that_is_full_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "the first run.jsonl").write_text('{"full": true}\n')
    with pytest.raises(ReproError, match=r"the first run: the record of its state has reached .* \(--steps\)"):
        Record(tmp_path / "the first run.jsonl")


def test_a_failure_of_the_recorder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "the first run.jsonl").write_text('{"failed": "TypeError: x"}\n')
    with pytest.raises(ReproError, match="the first run: the recorder failed: TypeError: x"):
        Record(tmp_path / "the first run.jsonl")


def test_equal_steps_have_no_difference(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {WEIGHT: "1"}, {WEIGHT: "2"}, {WEIGHT: "3"})
    assert compare(whole, record(tmp_path / "b", {WEIGHT: "2"}, {WEIGHT: "3"}), 1).difference is None
    found = compare(whole, record(tmp_path / "c", {WEIGHT: "2"}, {WEIGHT: "4"}), 1).difference
    assert found.step == 3 and not found.is_end


def test_an_owner_that_only_one_process_knows_is_ignored(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {WEIGHT: "1", "buffer\tCritic\tmean": "5"})
    assert compare(whole, record(tmp_path / "b", {WEIGHT: "1"})).difference is None


@pytest.mark.parametrize("kind", ["scheduler", "scaler"])
@pytest.mark.parametrize("has_whole", [True, False])
def test_a_scheduler_or_scaler_that_only_one_process_has_is_a_difference(
    tmp_path: Path, kind: str, has_whole: bool
) -> None:
    entry = f"{kind}\tOwner\tscale"
    states = {WEIGHT: "1", entry: "5"}, {WEIGHT: "1"}
    expected, actual = states if has_whole else states[::-1]
    whole = record(tmp_path / "a", expected)
    found = compare(whole, record(tmp_path / "b", actual)).difference
    (cause,) = causes_of_resume(found, whole, frozenset())
    text = "is absent" if has_whole else "is present, expected none"
    assert (cause.kind, cause.text) == (kind, f"before step 1: scale of Owner {text}")


def test_entries_without_values_are_not_compared(tmp_path: Path) -> None:
    buffer = "buffer\tModel\tmean"
    whole = record(tmp_path / "a", {WEIGHT: UNREADABLE, buffer: UNREADABLE}, {WEIGHT: "2"})
    found = compare(whole, record(tmp_path / "b", {WEIGHT: UNREADABLE, buffer: UNREADABLE}))
    assert found.difference is None and unread_names(found, whole) == ["model.weight", "Model.mean"]
    # An entry that one record has values of is another one.
    found = compare(whole, record(tmp_path / "c", {WEIGHT: "1", buffer: UNREADABLE}))
    assert [*found.difference.state] == [Key("parameter", "SGD", "0.0")]
    assert unread_names(found, whole) == ["Model.mean"]


def test_gradients_without_values_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "a"
    line = {"step": 1, "state": {}, "gradients": {"SGD\t0.0": UNREADABLE}, "labels": {"SGD\t0.0": "model.weight"}}
    path.write_text(json.dumps(line) + "\n")
    whole = Record(path)
    assert unread_names(compare(whole, whole), whole) == ["gradient of model.weight"]


def test_another_optimizer_is_a_difference(tmp_path: Path) -> None:
    rate = "hyper-parameter\t{}\tlr of group 0"
    whole = record(tmp_path / "a", {rate.format("SGD"): "1"}, gradients="a")
    resumed = record(tmp_path / "b", {rate.format("Adam"): "1"}, gradients="a", optimizer="Adam")
    found = compare(whole, resumed).difference
    (cause,) = causes_of_resume(found, whole, frozenset())
    assert (found.step, cause.kind) == (1, "hyper-parameter")
    assert cause.text == (
        "before step 1: lr of group 0 of SGD is absent; lr of group 0 of Adam is present, expected none"
    )


def test_a_generator_that_changes_gradients_later_is_the_cause(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {CPU: "1"}, {CPU: "2"}, {CPU: "3"}, gradients="aab")
    resumed = record(tmp_path / "b", {CPU: "7"}, {CPU: "8"}, gradients="ac")
    found = compare(whole, resumed, 1)
    assert found.difference.step == 3 and found.difference.gradients == ["SGD\t0.0"]
    (cause,) = causes_of_resume(found.difference, whole, frozenset())
    assert (cause.kind, cause.step) == ("rng", 2) and "torch.set_rng_state" in cause.hint


def test_a_generator_without_effect_is_reported_as_such(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {CPU: "1", WEIGHT: "1"}, {CPU: "2", WEIGHT: "2"}, {CPU: "3"})
    resumed = record(tmp_path / "b", {CPU: "7", WEIGHT: "2"}, {CPU: "8"})
    found = compare(whole, resumed, 1)
    assert found.difference is None
    assert [each.kind for each in without_effect(found.unused, whole, frozenset())] == ["rng"]
    assert without_effect(found.unused, whole, {*found.unused}) == []


def test_a_generator_that_nothing_draws_from_is_ignored(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {CPU: "1", WEIGHT: "1"}, {WEIGHT: "2"})
    found = compare(whole, record(tmp_path / "b", {CPU: "7", WEIGHT: "2"}), 1)
    assert found.unused and without_effect(found.unused, whole, frozenset()) == []


@pytest.mark.parametrize(("inputs", "text"), [("a", "is that of step 1"), ("x", "the input of the model differs")])
def test_another_batch_is_found_among_the_earlier_ones(tmp_path: Path, inputs: str, text: str) -> None:
    whole = record(tmp_path / "a", {}, {}, inputs="ab", gradients="cd")
    found = compare(whole, record(tmp_path / "b", {}, inputs=inputs, gradients="e"), 1)
    (cause,) = causes_of_resume(found.difference, whole, frozenset())
    assert cause.kind == ("data order" if inputs == "a" else "data") and text in cause.text


def test_a_counter_is_the_last_resort(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {STEP: "0", TIME: "1"}, {STEP: "1"}, {STEP: "2"}, gradients="abc")
    resumed = record(tmp_path / "b", {STEP: "0", TIME: "9"}, gradients="x")
    (cause,) = causes(compare(whole, resumed, 1).difference, whole, frozenset())
    assert (cause.kind, cause.names) == ("variable", ("step in main",))
    assert cause.text == "before step 2: step in main is 0, expected 1"


def test_a_difference_without_a_visible_cause_is_unseen(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", {WEIGHT: "1"}, gradients="a")
    found = compare(whole, record(tmp_path / "b", {WEIGHT: "1"}, gradients="b")).difference
    (cause,) = causes_of_resume(found, whole, frozenset())
    assert cause.kind == "unseen" and cause.text == "equal state and equal data gave other gradients"
