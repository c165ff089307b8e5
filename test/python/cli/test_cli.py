# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the command line: every mistake of a user gives one clear line and a nonzero status, never a traceback."""

import json
import re
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.cli.main import main
from repro_mlir.program import Program
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.runner.driver import LIBRARY_VARIABLE


def failing(capsys, *arguments: str) -> str:
    """Runs a command that must fail with a single line, and returns this line without its prefix."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("repro: error: ")
    return lines[0].removeprefix("repro: error: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["paint"], "argument COMMAND: expected train, compile, inputs, run, "),
        (["train"], "the following arguments are required: SCRIPT, --steps"),
        (["train", "x.py", "--steps", "0"], "expected a whole number of at least 1, got '0'"),
        (["train", "x.py", "--steps", "3", "--threads", "two"], "expected a whole number of at least 1, got 'two'"),
        (["train", "none.py", "--steps", "3"], "none.py: expected a script, but there is no such file"),
        (
            ["train", "x.py", "--steps", "3", "--exact-digits", "4"],
            "argument --exact-digits: expected 2 or 3, got 4 (see repro train --help)",
        ),
        (["verify", "none", "--exact-digits", "3"], "exact digits can be given for a script only"),
        (["dispute", "one", "other", "--exact-digits", "3"], "exact digits can be given for a script only"),
        (
            ["dispute", "--serve", "one", "--listen", "unix:x", "--exact-digits", "3"],
            "exact digits can be given for a script only",
        ),
        (["diff", "one", "other", "--exact-digits", "3"], "exact digits can be given for a script only"),
        (["inspect", "none.repro"], "cannot read none.repro: No such file or directory"),
        (["run", "none.repro"], "cannot read none.repro: No such file or directory"),
    ],
)
def test_mistakes_in_arguments(capsys, arguments: list[str], message: str) -> None:
    assert message in failing(capsys, *arguments)


TRAINED = "import torch\nmodel = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def training(:\n", "script.py:1: invalid syntax"),
        ("x = 1\n", "expected a function training() that returns (model, loss_fn, optimizer, batches)"),
        (
            "def training():\n    return 1\n",
            "expected training() to return (model, loss_fn, optimizer, batches), got a int",
        ),
        ("def training():\n    return 1, 2\n", "got 2 values"),
        (
            "def training():\n    return 1, 2, 3, [], {'speed': 1}\n",
            "expected options of training() among accumulate, attention_block, autocast, ",
        ),
        ("def training():\n    x = {}\n    return x['lr']\n", "script.py:3: KeyError: 'lr'"),
        ("def training():\n    return 1, 2, 3, 4\n", "expected training() to return batches, got a int"),
        (
            "def batches():\n    yield {}['x']\n\n"
            f"{TRAINED}def training():\n    return model, None, optimizer, batches()\n",
            "script.py:2: KeyError: 'x'",
        ),
        (
            "class Batches:\n    def __iter__(self):\n        return {}['x']\n\n"
            f"{TRAINED}def training():\n    return model, None, optimizer, Batches()\n",
            "script.py:3: KeyError: 'x'",
        ),
        ("def training():\n    return 1, 2, 3, [], {1: 2, 'speed': 1}\n", "seed, got 1, speed"),
        ("import nothing_like_this\ntraining = None\n", "script.py:1: ModuleNotFoundError"),
        ("from os import path as training\n", "expected a function training() that"),
        ("import repro_mlir\nrepro_mlir.Trainer(1, None, 2)\nfrom os import *\n", "script.py:2: the model is a"),
        (
            "import repro_mlir\n\ndef training():\n    return next(repro_mlir.batches(-1, 2))\n",
            "script.py:4: expected",
        ),
        (
            "def training():\n    raise SystemExit('no data')\n",
            "script.py:2: the script ends itself (SystemExit('no data')): ",
        ),
    ],
)
def test_mistakes_in_scripts(capsys, monkeypatch, tmp_path: Path, text: str, message: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    assert message in failing(capsys, "train", str(script), "--steps", "1")
    monkeypatch.chdir(tmp_path)
    assert message in failing(capsys, "train", "script.py", "--steps", "1")


@pytest.mark.parametrize("text", ["", "def train():\n    training()\n", "import training.data\n", "training: int\n"])
def test_a_script_without_training_does_not_run(capsys, tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"raise RuntimeError('ran')\n{text}")
    told = failing(capsys, "train", str(script), "--steps", "1")
    found = ("docs/guides/scripts.md" in told, "script.py:1: RuntimeError: ran" in told)
    assert found == ((False, True) if "int" in text else (True, False))


@pytest.mark.parametrize(
    "text",
    [
        "training = make()",
        "training, other = make(), 1",
        "if True:\n    def training(): ...",
        "class training: ...",
        *("from other import training", "from other import make as training", "from other import *"),
        *("globals()['training'] = make()", "with a as training: ...", "import other as training"),
    ],
)
def test_a_script_that_may_define_training_runs(capsys, tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"raise RuntimeError('ran')\n{text}\n")
    assert "script.py:1: RuntimeError: ran" in failing(capsys, "train", str(script), "--steps", "1")


def test_version(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    pyproject = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text()
    (declared,) = re.findall(r'^version = "(.*)"$', pyproject, flags=re.M)
    assert shown["repro-mlir"] == declared == repro_mlir.__version__
    assert shown["LLVM/MLIR"].startswith("22.")
    assert shown["torch"] == metadata.version("torch") and shown["torch-mlir"] == metadata.version("torch-mlir")


def test_version_without_pytorch(capsys, monkeypatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert "torch      not installed" in capsys.readouterr().out


def test_targets_lists_every_target(capsys) -> None:
    assert main(["targets", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["targets"]
    assert [each["name"] for each in report] == repro_mlir.targets()
    assert all(each["description"] and each["detail"] for each in report)
    assert {each["name"] for each in report if each["execution"] == "native"} >= {"cpu", "reference"}
    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == repro_mlir.targets()


def test_compile_executes_the_targets_that_targets_lists(capsys, program: Program) -> None:
    """`compile` executes the targets that `repro targets` lists as native or emulated, and refuses those listed as
    "compile only"."""
    main(["targets", "--json"])
    for each in json.loads(capsys.readouterr().out)["targets"]:
        try:
            repro_mlir.compile(program, each["name"])
            executed = True
        except repro_mlir.ReproError:
            executed = False
        assert executed == (each["execution"] != "compile only"), each


def test_targets_on_a_machine_with_a_gpu(capsys, monkeypatch) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    main(["targets", "--json"])
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["targets"]}
    # The simulated driver has a GPU of sm_90.
    assert [found[name]["execution"] for name in ("cuda", "cuda:sm_75", "cuda:sm_90")] == ["native"] * 3
    assert found["cuda:sm_100"]["execution"] == "compile only"
    assert "which this GPU (sm_90) cannot run" in found["cuda:sm_100"]["detail"]


def test_inspect(capsys, program: Program, tmp_path: Path) -> None:
    path = str(tmp_path / "p.repro")
    program.save(path)
    assert main(["inspect", path, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["program"] == program.hash
    assert report["state"] == ["w: 2x3xf32", "n: i64"] and report["state_bytes"] == 32
    assert report["operations"] == {"func.return": 1}
    assert main(["inspect", path]) == 0
    assert "2 tensors, 7 elements, 32 bytes" in capsys.readouterr().out
    assert main(["inspect", path, "--text"]) == 0
    assert examine(to_bytes(capsys.readouterr().out)).identity == program.hash


def test_run_on_the_reference(capsys, program: Program, tmp_path: Path) -> None:
    path, inputs = str(tmp_path / "p.repro"), str(tmp_path / "i.npz")
    program.save(path)
    np.savez(inputs, lr=np.float32(0.5), x=np.zeros((2, 3), np.float32))
    arguments = ["run", path, "--inputs", inputs, "--target", "reference", "--steps", "2"]
    assert main([*arguments, "--json", "--save", str(tmp_path / "s"), "--outputs", str(tmp_path / "o.npz")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["steps"] == 2 and len(report["state_hash"]) == 64
    assert np.load(tmp_path / "o.npz")["loss"] == np.float32(0.5)
    assert main([*arguments, "--state", str(tmp_path / "s")]) == 0
    shown = capsys.readouterr().out
    assert "loss: f32 = 0.5" in shown and report["state_hash"] in shown


def test_run_mistakes(capsys, program: Program, tmp_path: Path) -> None:
    path, inputs = str(tmp_path / "p.repro"), str(tmp_path / "i.npz")
    program.save(path)
    assert "expected --inputs FILE with lr: f32, x: 2x3xf32" in failing(capsys, "run", path, "--target", "reference")
    np.savez(inputs, lr=np.float32(0.5))
    run = ["run", path, "--inputs", inputs, "--target", "reference"]
    assert "expected the inputs lr, x, got lr" in failing(capsys, *run)
    np.savez(inputs, lr=np.float32(0.5), x=np.zeros((2, 3), np.float32), momentum=np.float32(0.9))
    assert "unknown inputs momentum, expected lr, x" in failing(capsys, *run)
    np.savez(inputs, lr=np.float32(0.5), x=np.zeros((2, 4), np.float32))
    assert "input x: expected shape [2, 3], got [2, 4]" in failing(capsys, *run)
    Path(inputs).write_text("no arrays")
    assert "expected an .npz file" in failing(capsys, *run)
    np.savez(inputs, lr=np.float32(0.5), x=np.zeros((2, 3), np.float32))
    state = tmp_path / "state"
    state.write_text("no state")
    assert "expected a safetensors file" in failing(capsys, *run, "--state", str(state))
    assert "cannot write" in failing(capsys, *run, "--save", str(tmp_path / "no" / "folder"))


def test_unknown_target(capsys, program: Program, tmp_path: Path) -> None:
    path, inputs = str(tmp_path / "p.repro"), str(tmp_path / "i.npz")
    program.save(path)
    np.savez(inputs, lr=np.float32(0.5), x=np.zeros((2, 3), np.float32))
    message = failing(capsys, "run", path, "--inputs", inputs, "--target", "cpu:z80")
    assert message.startswith("unknown target 'cpu:z80': did you mean cpu")
    for target, meant in (("gpu", "cuda"), ("GPU", "cuda"), ("cpu:avx512", "cpu:x86-64-v4"), ("refrence", "reference")):
        message = failing(capsys, "run", path, "--target", target)
        assert message == f"unknown target {target!r}: did you mean {meant}? repro targets lists all targets"
    message = failing(capsys, "run", path, "--target", "abacus")
    kinds = "cpu, cuda, ptx-emulator, cores:NAME, reference"
    assert message == f"unknown target 'abacus', expected one of {kinds}: repro targets lists all"


@pytest.mark.parametrize(
    "command",
    [
        ["train", "script.py", "--steps", "1"],
        ["run", "none.repro"],
        ["verify", "none"],
        ["dispute", "none", "none"],
        ["compile", "script.py", "-o", "none"],
    ],
)
def test_unknown_target_before_anything_is_read(capsys, monkeypatch, tmp_path: Path, command: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text("def training():\n    raise SystemExit('ran')\n")
    for target in ("tpu", "cpu:z80", "ptx-emulator:sm_20"):
        message = failing(capsys, *command, "--target", target)
        assert message.startswith(f"unknown target {target!r}: did you mean ")
    message = failing(capsys, "diff", "script.py", "--targets", "cpu,tpu")
    assert message.startswith("unknown target 'tpu': did you mean cpu?")
