# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests `repro check-resume` on training loops that do and do not restore their state."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from repro_mlir.cli.main import main
from repro_mlir.resume_check import runs

LOOP = Path(__file__).with_name("training_loop.py")
OTHER_LOOPS = Path(__file__).with_name("other_loops.py")


def check(capsys, *arguments: str, options: tuple[str, ...] = (), script: Path = LOOP) -> tuple[int, dict]:
    """Runs the command on a script with arguments; returns the exit status and the report."""
    status = main(["check-resume", str(script), "--json", *options, f"--arguments={shlex.join(arguments)}"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else {"error": captured.err}


def test_a_loop_that_restores_everything_is_exact(forks, capsys) -> None:
    status, report = check(capsys)
    assert status == 0
    assert report == {
        "verdict": "exact", "steps": 20, "saved_after": 10, "step": None, "findings": [], "gradients": [],
        "without_effect": [], "not_compared": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("omitted", "kind", "names", "text"),
    [
        ("order", "data order", ["DataLoader"], "batch 1 of its iteration, expected batch 5"),
        ("torch", "rng", ["PyTorch's CPU generator"], "PyTorch's CPU generator differs before step 11"),
        ("numpy", "rng", ["NumPy's random"], "NumPy's random differs before step 11"),
        ("python", "rng", ["Python's random"], "Python's random differs before step 11"),
        ("scheduler", "scheduler", ["last_epoch of StepLR"], "last_epoch of StepLR is 0, expected 10"),
        ("scaler", "scaler", ["scale of GradScaler"], "scale of GradScaler is 32768.0, expected 131072.0"),
        ("optimizer", "optimizer state", ["momentum_buffer of model.0.weight"], "model.0.weight is absent"),
        ("buffers", "buffer", ["model.1.running_mean", "model.1.running_var"], "model.1.running_mean"),
        ("calls", "non-persistent buffer", ["model.2.calls"], "model.2.calls"),
        ("scale", "attribute", ["model.2.scale"], "model.2.scale is 1.0, expected 0.9"),
        ("average", "parameter", ["average.module.0.weight"], "average.module.0.weight"),
        ("model", "parameter", ["model.0.weight", "model.0.bias"], "model.0.weight"),
    ],
)
def test_state_that_is_not_restored_is_named(forks, capsys, omitted, kind, names, text) -> None:
    status, report = check(capsys, "--omit", omitted)
    assert (status, report["verdict"], report["step"]) == (1, "not exact", 11)
    first = report["findings"][0]
    assert first["kind"] == kind and first["step"] == 11
    assert {*names} <= {*first["names"]} and text in first["text"]


def test_all_that_is_not_restored_is_named(forks, capsys) -> None:
    status, report = check(capsys, "--omit", "torch,order,buffers,optimizer")
    assert status == 1
    kinds = [each["kind"] for each in report["findings"]]
    assert kinds == ["buffer", "optimizer state", "hyper-parameter", "data order", "rng", "rng"]
    assert report["gradients"][0] == "model.0.weight"


def test_the_text_names_step_state_and_remedy(forks, capsys) -> None:
    assert main(["check-resume", str(LOOP), "--arguments=--omit torch"]) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "not exact: the resumed run differs from the whole run at step 11 of 20, 10 after the resume",
        "  random numbers: the state of PyTorch's CPU generator differs before step 11",
        "    save and restore it with torch.get_rng_state() and torch.set_rng_state()",
    ]


def test_a_loop_that_is_not_reproducible_is_not_blamed_on_the_resume(forks, capsys) -> None:
    status, report = check(capsys, "--break", "seed")
    assert (status, report["verdict"], report["step"]) == (2, "not reproducible", 1)
    assert report["findings"][0]["kind"] == "parameter"


def test_a_schedule_that_depends_on_the_steps_needs_an_interrupt(forks, capsys) -> None:
    status, report = check(capsys, "--break", "schedule")
    assert (status, report["verdict"]) == (2, "not comparable")
    assert report["findings"][0]["names"][0] == "T_max of CosineAnnealingLR"
    run = f"python {LOOP} --break schedule --steps {{total}} --save-every {{steps}} --save {{save}}"
    command = ["check-resume", "--json", "--interrupt", "--run", run]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["steps"], report["saved_after"]) == (20, 10)


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        *[("accumulate", 6), ("two", 12), ("lbfgs", 6), ("refused", 6), ("own", 6)],
        pytest.param("compiled", 6, marks=pytest.mark.exhaustive),
    ],
)
def test_loops_of_other_forms_are_exact(forks, capsys, form, steps) -> None:
    status, report = check(capsys, "--form", form, options=("--steps", "3"), script=OTHER_LOOPS)
    assert (status, report["verdict"], report["steps"], report["saved_after"]) == (0, "exact", steps, steps // 2)
    # The script draws from Python's generator, which it does not restore, and ignores the number.
    assert [each["names"] for each in report["without_effect"]] == [["Python's random"]]


def test_a_loop_like_that_of_nanogpt_starts_its_data_again(forks, capsys) -> None:
    script = LOOP.with_name("language_model_loop.py")
    status, report = check(capsys, options=("--steps", "3"), script=script)
    assert (status, report["step"]) == (1, 4)
    order, generator = report["findings"]
    assert (order["kind"], order["text"]) == ("data order", "the batch of step 4 is that of step 1")
    assert (generator["kind"], generator["names"]) == ("rng", ["PyTorch's CPU generator"])
    # Tied weights have one name.
    assert "model.embedding.weight" in report["gradients"] and "model.head.weight" not in report["gradients"]


def test_a_generator_of_this_package_is_named(forks, capsys) -> None:
    arguments = ("--form", "own", "--omit", "noise")
    status, report = check(capsys, *arguments, options=("--steps", "3"), script=OTHER_LOOPS)
    assert (status, report["step"]) == (1, 4)
    (finding,) = [each for each in report["findings"] if each["names"] == ["the generator self.noise"]]
    assert finding["kind"] == "rng" and "its get_state() and set_state()" in finding["hint"]


def test_state_without_readable_values_is_not_called_exact(forks, capsys) -> None:
    options = ("--steps", "3")
    status, report = check(capsys, "--form", "unreadable", options=options, script=OTHER_LOOPS)
    assert (status, report["verdict"], report["not_compared"]) == (2, "not readable", ["self.model.unused"])
    assert main(["check-resume", str(OTHER_LOOPS), *options, "--arguments=--form unreadable"]) == 2
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "not readable: nothing differs in 6 steps, 3 after the resume, but not all state was compared"
    assert last == "  not compared, because PyTorch cannot read the values: self.model.unused"


def test_a_counter_that_is_not_restored_is_one_error(forks, capsys) -> None:
    arguments = ("--form", "accumulate", "--omit", "step")
    status, report = check(capsys, *arguments, options=("--steps", "3"), script=OTHER_LOOPS)
    assert status == 2
    assert "expected the resumed run to make 3 steps, from 3 to 6, got 6: the script must restore" in report["error"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("crash", "the first run failed with exit status 1: "),
        ("save", "the first run ended without a checkpoint: expected the script to write the file or folder {save}"),
        ("hang", "the first run did not end within 2 s"),
        ("steps", "expected the whole run to make more steps than the first run, got 3 and 3"),
    ],
)
def test_a_script_that_cannot_be_checked_is_one_error(forks, capsys, broken, message) -> None:
    options = ("--timeout", "2") if broken == "hang" else ()
    status, report = check(capsys, "--break", broken, options=options)
    assert status == 2
    assert report["error"].startswith(f"repro: error: {message}") and report["error"].count("\n") == 1
    assert broken != "crash" or ": ValueError: no such data set: " in report["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected SCRIPT, which comes before --interrupt, or --run, and not both"),
        (["none.py"], "none.py: expected a script, but there is no such file"),
        (["--run", "x", "--arguments=1"], "--arguments belongs to SCRIPT"),
        (["--run", "x '"], "--run: expected the syntax of a shell: No closing quotation, got x '"),
        (["--run", "x {step}"], "--run: expected placeholders among {steps}, {total}, {more}, {save}, {resume}, got "),
        (["--run", "x {steps}"], "--run: expected the placeholder {save} in the command, found none"),
        (["--run", "x {save}"], "--run: expected the placeholder {steps} or {total} or {more} in the command"),
        (["--run", "x {steps} {save}", "--resume", "x"], "--resume: expected the placeholder {resume}"),
        (["--run", "x {steps} {save}", "--interrupt", "."], "--interrupt: expected a file that the first run creates"),
        (["--run", "x {steps} {save}", "--interrupt", ""], "--interrupt: expected a file that the first run creates"),
        (["--run", "sh -c exit {steps} {save}"], "the first run made no optimizer step that could be seen"),
        (["--run", "no-such-program {steps} {save}"], "the first run failed with exit status 1: "),
    ],
)
def test_mistakes_in_arguments(capsys, arguments: list[str], message: str) -> None:
    assert main(["check-resume", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"repro: error: {message}") and error.count("\n") == 1


def test_the_example_of_the_page_gives_the_output_of_the_page(forks, capsys, tmp_path, monkeypatch) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "check-resume.md").read_text()
    (script,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    (output,) = re.findall(r"^```text\n(.*?)^```", page, flags=re.M | re.S)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(script)
    assert main(["check-resume", "train.py"]) == 1
    assert capsys.readouterr().out == output


def own_script(folder: Path, end: str = "") -> Path:
    """Returns a script that fails unless it runs as it does alone, in an environment with a sitecustomize module, which
    has the statement `end` at its end."""
    (folder / "sitecustomize.py").write_text(f"import builtins\nbuiltins.own_sitecustomize = True\n{end}\n")
    script = folder / "train.py"
    script.write_text(
        "import sys\nassert own_sitecustomize and not any('repro-check-resume' in path for path in sys.path)\n"
        "assert not any(name.startswith('repro_mlir') for name in sys.modules)\n" + LOOP.read_text()
    )
    return script


def test_braces_in_a_script_and_its_arguments_stay(tmp_path: Path) -> None:
    script, arguments = "{save}/train {x}.py", ["--name={steps}", "{y}"]
    run, resume = runs.default_templates(script, arguments)
    filled = [sys.executable, script, *arguments, "--steps", "2", "--save", "{new}", "--resume", "old"]
    assert run.filled({"steps": "2", "save": "{new}"}) == filled[:-2]
    assert resume.filled({"steps": "2", "save": "{new}", "resume": "old"}) == filled
    for each in (run, resume):
        each.require("save")


def test_a_process_of_the_script_has_only_the_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python reports the exception and goes on.
    script = own_script(tmp_path, "raise ValueError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run, _ = runs.default_templates(str(script), [])
    command = run.filled({"steps": "2", "save": str(tmp_path / "checkpoint.pt")})
    record = runs.run_script("the first run", command, tmp_path, 120)
    *steps, end = record.steps()
    assert [step.number for step in steps] == [1, 2] and end.is_end
    assert record.labels["SGD\t0.0"] == "model.0.weight"


def test_the_check_imports_neither_pytorch_nor_the_compiler() -> None:
    code = """
import sys
from repro_mlir.cli.main import main
assert main(["check-resume", "none.py"]) == 2
assert "repro_mlir.resume_check.check" in sys.modules
assert not {"torch", "repro_mlir.ir", "repro_mlir._mlir_libs._mlir"} & {*sys.modules}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        0,
        "repro: error: none.py: expected a script, but there is no such file: check the path\n",
    )


@pytest.mark.exhaustive
def test_the_command_runs_processes(tmp_path: Path) -> None:
    """Runs the command as a user does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "repro_mlir", "check-resume", str(own_script(tmp_path)), "--steps", "4"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    expected = "exact: the resumed run equals the whole run in 8 steps, 4 after the resume\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
