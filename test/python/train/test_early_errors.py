# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps that cannot run, and files that cannot be written, are rejected before a capture."""

import sys
from pathlib import Path

import pytest
import repro_mlir
import torch
from repro_mlir import ReproError, Trainer
from repro_mlir.cli.main import main
from repro_mlir.execute import executable
from torch import nn

_SCRIPT = """
import sys
from pathlib import Path
Path({note!r}).write_text("imported")
"""


class _Counting(nn.Linear):
    """A layer that counts its calls. Traces also call it, so a count of 0 shows that there was no capture."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


@pytest.fixture
def without_target(monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns a target and makes it fail as if this machine could not run it."""
    target = "cpu:aarch64"
    executable.check_runs.cache_clear()

    def backend(program: object, target: str, threads: int) -> object:
        raise ReproError(f"cannot run {target} on this machine")

    monkeypatch.setattr(executable, "_backend", backend)
    return target


def test_targets(without_target: str) -> None:
    model, x = _Counting(3, 2), torch.zeros(4, 3)
    with pytest.raises(ReproError, match="cannot run"):
        repro_mlir.compile(model, without_target, inputs=x)
    trainer = Trainer(model, nn.MSELoss(), torch.optim.SGD(model.parameters()), target=without_target)
    with pytest.raises(ReproError, match="cannot run"):
        trainer.step(x, torch.zeros(4, 2))
    assert model.calls == 0


def test_receipts(tmp_path: Path) -> None:
    model = _Counting(3, 2)
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "exists and is not a receipt: give the receipt another name$"),
        ("", "expected the path of a folder as receipt, got an empty name"),
        (tmp_path / "missing" / "receipt", "cannot write .*: No such file or directory"),
        (tmp_path / "file" / "receipt", "cannot write .*: Not a directory"),
    ):
        with pytest.raises(ReproError, match=reason):
            Trainer(model, nn.MSELoss(), torch.optim.SGD(model.parameters()), receipt=path)
    assert model.calls == 0


def test_commands(tmp_path: Path, without_target: str, capsys: pytest.CaptureFixture[str]) -> None:
    script, note = tmp_path / "script.py", tmp_path / "note"
    script.write_text(_SCRIPT.format(note=str(note)))
    missing = str(tmp_path / "missing" / "file")
    receipt = tmp_path / "receipt"
    receipt.mkdir()
    (receipt / "receipt.json").write_text("{}")
    for arguments, reason in (
        (["train", str(script), "--steps", "1", "--target", without_target], "cannot run"),
        (["train", str(script), "--steps", "1", "--receipt", str(tmp_path)], "exists and is not a receipt"),
        (["train", str(script), "--steps", "1", "--save", missing], "cannot write"),
        (["train", str(script), "--steps", "1", "--save", f"{tmp_path}/x.pt"], "ends in .safetensors"),
        (["inputs", str(script), "-o", f"{tmp_path}/x.safetensors"], "ends in .npz"),
        (["compile", str(script), "-o", f"{tmp_path}/x.onnx"], "ends in .repro"),
        (["train", str(script), "--steps", "1", "--receipt", f"{tmp_path}/new", "--sign", missing], "cannot read"),
        (["train", str(script), "--steps", "1", "--save", str(tmp_path)], "Is a directory"),
        (["compile", str(script), "--target", without_target, "-o", str(tmp_path / "out")], "cannot run"),
        (["compile", str(script), "-o", missing], "cannot write"),
        (["run", str(script), "--target", without_target], "cannot run|expected"),
        (["precision", str(script), "--recipes", "bf16", "--steps", "1", "--target", without_target], "cannot run"),
        (["diff", str(script), "--targets", f"cpu,{without_target}"], "cannot run"),
        (["diff", str(script), "--targets", "cpu,eager", "--html", missing], "cannot write"),
        (["inputs", str(script), "-o", missing], "cannot write"),
        (["train", str(script), "--steps", "1", "--precision", "mxfp9"], "did you mean mxfp"),
        (["roofline", "predict", str(script), "--machine", "h200", "--html", missing], "cannot write"),
        (["verify", str(receipt), "--target", without_target], "cannot run"),
        (["dispute", str(receipt), str(receipt), "--target", without_target], "cannot run"),
    ):
        assert main(arguments) != 0
        captured = capsys.readouterr()
        assert reason.split("|")[0] in captured.err or reason.split("|")[-1] in captured.err
    assert not note.exists()


def test_loss_that_is_a_number() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> float:
        return (output - target).square().mean().item()

    model = nn.Linear(3, 2)
    trainer = Trainer(model, loss, torch.optim.SGD(model.parameters()))
    line = loss.__code__.co_firstlineno + 1
    with pytest.raises(
        ReproError, match=rf"test_early_errors.py:{line}: the loss is a Python number, expected a tensor: .*\.item\(\)"
    ):
        trainer.step(torch.zeros(4, 3), torch.zeros(4, 2))


@pytest.mark.parametrize(
    ("module", "package"),
    [
        (
            "torch_mlir",
            "scripts need PyTorch and torch-mlir: install the extra torch",
        ),
        (
            "transformers",
            "script.py:1: ModuleNotFoundError: no transformers: install the extra",
        ),
        ("tables.rows", "script.py:1: ModuleNotFoundError: no tables.rows: install the package that has tables, or"),
    ],
)
def test_missing_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str, package: str
) -> None:
    """A package that is missing is named with the command that installs it; torch-mlir before the script runs."""

    class Missing:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name in (module, module.partition(".")[0]):
                raise ModuleNotFoundError(f"no {module}", name=module)

    script = tmp_path / "script.py"
    first = f"import {module}" if module != "torch_mlir" else "raise SystemExit('ran')"
    script.write_text(f"{first}\n\ndef training(): ...\n")
    for name in [each for each in sys.modules if each.split(".")[0] == module.split(".")[0]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    assert main(["train", str(script), "--steps", "1"]) == 2
    assert package in capsys.readouterr().err
