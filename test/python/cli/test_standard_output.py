# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Standard output contains only JSON with --json, and only the file if a file is written to it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir.cli.main import main

SIGNED = Path(__file__).resolve().parents[2] / "data" / "compatibility" / "signed.receipt"
PRINTING = """
import torch

print("loaded")

def batches():
    print("a batch")
    yield torch.ones(4, 3), torch.ones(4, 2)

def training():
    model = torch.nn.Linear(3, 2)
    return model, torch.nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1), batches()
"""


def test_only_json_reaches_standard_output(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    """The output of a script does not mix with the JSON of a command."""
    script = tmp_path / "script.py"
    script.write_text(PRINTING)
    for arguments in (
        ["train", str(script), "--steps", "1"],
        ["determinism", str(script)],
        ["inputs", str(script), "-o", str(tmp_path / "batch.npz")],
    ):
        assert main([*arguments, "--json"]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out) and {"loaded", "a batch"} <= {*shown.err.splitlines()}
        assert main(arguments) == 0
        assert {"loaded", "a batch"} < {*capsys.readouterr().out.splitlines()}


def test_files_written_to_standard_output(tmp_path: Path) -> None:
    """An output that is standard output, here a pipe or a file that has other text, receives the bytes of the file, and
    the messages go to standard error."""
    command = [sys.executable, "-m", "repro_mlir", "attest", str(SIGNED), "--format", "cyclonedx", "-o"]
    subprocess.run([*command, str(tmp_path / "file")], check=True, capture_output=True)
    expected = (tmp_path / "file").read_bytes()
    done = subprocess.run([*command, "/dev/stdout"], check=True, capture_output=True)
    assert done.stdout == expected and b"wrote    /dev/stdout" in done.stderr
    done = subprocess.run([*command, "-"], check=True, capture_output=True, cwd=SIGNED)
    assert done.stdout == expected and not (SIGNED / "-").exists()
    done = subprocess.run([*command, "/dev/stdout", "--json"], check=True, capture_output=True)
    assert done.stdout == expected and json.loads(done.stderr)["output"] == "/dev/stdout"
    with open(tmp_path / "log", "wb") as file:
        file.write(b"before\n")
        file.flush()
        subprocess.run([*command, "/dev/stdout"], check=True, stdout=file, stderr=subprocess.PIPE)
    assert (tmp_path / "log").read_bytes() == b"before\n" + expected
    # Another pipe, such as that of >(gzip) in bash.
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        done = subprocess.run([*command, f"/dev/fd/{write}"], check=True, capture_output=True, pass_fds=[write])
        os.close(write)
        assert pipe.read() == expected and b"wrote    /dev/fd/" in done.stdout
