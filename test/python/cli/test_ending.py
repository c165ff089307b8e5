# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exit status of a command, whatever happens in it: no failure is 1, which is an answer."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.cli.main import main
from repro_mlir.command_line import run_command


def deep(depth: int) -> int:
    return deep(depth + 1)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ReproError("expected this, got that"), 2, "error: expected this, got that"),
        (KeyError("x"), 2, r"internal error: KeyError: 'x' (test_ending.py:"),
        (StopIteration(), 2, "internal error: StopIteration: (test_ending.py:"),
        (ValueError("two\nlines"), 2, "internal error: ValueError: two lines (test_ending.py:"),
        (MemoryError(), 2, "error: not enough memory"),
        (OSError(28, "No space left on device", "/file"), 2, "error: /file: No space left on device"),
        (SystemExit(0), 2, "error: the command was ended by SystemExit(0)"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_every_failure_has_its_status(capsys, error: BaseException, status: int, message: str) -> None:
    def command(options: argparse.Namespace) -> int:
        raise error

    assert run_command("repro", argparse.Namespace, command) == status
    captured = capsys.readouterr()
    assert captured.err.startswith(f"repro: {message}" if message else "") and captured.err.count("\n") == bool(message)


def test_recursion_and_answers(capsys) -> None:
    assert run_command("repro", argparse.Namespace, lambda options: deep(0)) == 2
    assert "internal error: RecursionError" in capsys.readouterr().err
    assert run_command("repro", argparse.Namespace, lambda options: 1) == 1
    with pytest.raises(SystemExit, match="0"):
        main(["verify", "--help"])


def test_a_script_that_ends_the_process(capsys, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\n\ndef training():\n    sys.exit(0)\n")
    assert main(["train", str(script), "--steps", "1"]) == 2
    assert "SystemExit: 0" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full on this system")
def test_output_that_cannot_be_written() -> None:
    program = """
import argparse, sys
from repro_mlir.command_line import run_command
sys.exit(run_command("repro", argparse.Namespace, lambda options: print("right") or 0))
"""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left on device" in done.stderr
