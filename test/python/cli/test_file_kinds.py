# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""For a file of the wrong kind, a command reports an error that names the kind and the commands that accept such
files."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.cli.file_kinds import RECEIPT, file_kind_of
from repro_mlir.cli.main import main
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.program import Program

COMMANDS = {
    "inspect": ({"program", "bundle", "receipt", "onnx", "module", "stored"}, []),
    "run": ({"program", "bundle", "onnx", "module"}, []),
    "run-bundle": ({"bundle"}, []),
    "verify": ({"receipt"}, []),
    "train": ({"script"}, ["--steps", "1"]),
    "compile": ({"script", "onnx", "module"}, ["-o", "out.repro"]),
    "diff": ({"script", "receipt"}, []),
}
KINDS = {
    "program": "a program file (taken by repro run, repro inspect, repro roofline predict, repro determinism)",
    "bundle": "a bundle (taken by repro run-bundle, repro inspect, repro roofline predict)",
    "receipt": "a receipt (taken by repro verify, repro inspect, repro diff, repro dispute, repro attest)",
    "script": "a Python script (taken by repro train, repro compile, repro precision, repro diff --targets, "
    "repro roofline predict, repro determinism)",
    "onnx": "an ONNX model (taken by repro compile, repro run, repro inspect, repro roofline predict, "
    "repro determinism)",
    "part": "a file of a receipt (taken by no command: give the directory)",
    "module": "an MLIR module (taken by repro compile, repro run, repro inspect, repro roofline predict, "
    "repro determinism)",
    "stored": "a stored module (taken by repro inspect, repro-opt)",
    "state": "a safetensors file (taken by repro run --state, repro diff --dumps)",
    "arrays": "an .npz file (taken by repro run --inputs, repro diff --dumps)",
    "checkpoint": "a file of torch.save (taken by repro diff --dumps)",
}


@pytest.fixture
def files(program: Program, tmp_path: Path) -> dict[str, Path]:
    """Writes one file of each kind; returns their paths by the name of the kind."""
    torch = pytest.importorskip("torch")
    from repro_mlir.bundle.writer import write_bundle

    names = {
        "program": "p.repro",
        "bundle": "b.rmb",
        "receipt": "run.receipt",
        "script": "script.py",
        "onnx": "model.onnx",
        "part": "run.receipt/receipt.json",
        "module": "p.mlir",
        "stored": "module.repro",
        "state": "s.safetensors",
        "arrays": "i.npz",
        "checkpoint": "m.pt",
    }
    paths = {kind: tmp_path / name for kind, name in names.items()}
    program.save(paths["program"])
    write_bundle(paths["bundle"], program, compile_for(program, ["sm_75"], assembled=False))
    paths["receipt"].mkdir()
    paths["part"].write_text("{}")
    paths["script"].write_text("x = 1\n")
    paths["onnx"].write_bytes(b"")
    paths["module"].write_text(program.text)
    paths["stored"].write_bytes(program.data)
    paths["state"].write_bytes(write_tensors(program.state, program.initial))
    np.savez(paths["arrays"], x=np.zeros(2))
    torch.save({"x": torch.zeros(2)}, paths["checkpoint"])
    return paths


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_the_kind_of_its_file(capsys, files: dict[str, Path], command: str) -> None:
    taken, options = COMMANDS[command]
    for kind, path in files.items():
        assert main([command, str(path), *options]) == 2 or kind in taken
        shown = capsys.readouterr().err
        assert (f"got {KINDS[kind]}" in shown) == (kind not in taken), (kind, shown)
        assert len(shown.splitlines()) <= 1


def test_two_runs_are_receipts(capsys, files: dict[str, Path]) -> None:
    for command in ("diff", "dispute"):
        assert main([command, str(files["program"]), str(files["bundle"])]) == 2
        assert f"expected a receipt, got {KINDS['program']}" in capsys.readouterr().err


def test_tools_name_the_kind_of_their_file(files: dict[str, Path]) -> None:
    code = "import sys; sys.argv[0] = 'repro-opt'; from repro_mlir._tools import repro_opt; repro_opt()"
    for kind, path in files.items():
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
        if kind in ("module", "stored"):
            assert done.returncode == 0 and "func.func @main" in done.stdout, done.stderr
        else:
            expected = f"repro-opt: error: {path}: expected an MLIR module or a stored module, got {KINDS[kind]}\n"
            assert (done.returncode, done.stderr) == (1, expected)


def test_files_of_unknown_kinds(tmp_path: Path) -> None:
    assert file_kind_of(tmp_path / "none") is None and file_kind_of(tmp_path) is None
    (tmp_path / "text").write_text("some text")
    assert file_kind_of(tmp_path / "text") is None
    (tmp_path / "empty").write_bytes(b"")
    assert file_kind_of(tmp_path / "empty") is None
    assert file_kind_of("/dev/zero") is None
    (tmp_path / "receipt.json").write_text("no JSON")
    assert file_kind_of(tmp_path) is RECEIPT


def test_a_receipt_with_the_file_of_a_saved_model_is_a_receipt(tmp_path: Path) -> None:
    """A folder with the files of both kinds is treated as a receipt, because reading it as a SavedModel would run code
    from it."""
    (tmp_path / "receipt.json").write_text("{}")
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert file_kind_of(tmp_path) is RECEIPT
