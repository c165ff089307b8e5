# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Exit statuses of commands: a failure never exits with 1, because 1 is an answer, such as "the result is wrong"."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.base.command_line import Status, run_command
from repro_mlir.cli.main import main


class Panic(BaseException):
    """An exception that is not derived from Exception, like the panics of packages written in Rust."""


def deep(depth: int) -> int:
    return deep(depth + 1)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ReproError("expected this, got that"), 2, "error: expected this, got that"),
        (KeyError("x"), 2, r"internal error: KeyError: 'x' (test_ending.py:"),
        (StopIteration(), 2, "internal error: StopIteration: (test_ending.py:"),
        (ValueError("two\nlines"), 2, "internal error: ValueError: two lines (test_ending.py:"),
        (MemoryError(), 2, "error: not enough memory: end other programs, or use a smaller model or batch"),
        (OSError(28, "No space left on device", "/file"), 2, "error: /file: No space left on device: free space, or "),
        (
            FileNotFoundError(2, "No such file or directory", "/file"),
            2,
            "error: /file: No such file or directory: check ",
        ),
        (OSError(5, "Input/output error", "/file"), 2, "error: /file: Input/output error"),
        (SystemExit(0), 2, "error: the command ended early with SystemExit(0)"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
        (
            PermissionError(13, "Permission denied", "/file"),
            2,
            "error: /file: Permission denied: check the permissions",
        ),
        (Panic("no threads"), 2, "internal error: Panic: no threads (test_ending.py:"),
        (GeneratorExit(), 2, "internal error: GeneratorExit: (test_ending.py:"),
    ],
)
def test_every_failure_has_its_status(capsys, error: BaseException, status: int, message: str) -> None:
    def command(options: argparse.Namespace) -> int:
        raise error

    assert run_command("repro", argparse.Namespace, command) == status
    captured = capsys.readouterr()
    assert ("report this fault" in captured.err) == message.startswith("internal error")
    assert captured.err.startswith(f"repro: {message}" if message else "") and captured.err.count("\n") == bool(message)


def test_recursion_and_answers(capsys) -> None:
    assert run_command("repro", argparse.Namespace, lambda options: deep(0)) == 2
    assert "internal error: RecursionError" in capsys.readouterr().err
    assert run_command("repro", argparse.Namespace, lambda options: Status.WRONG) == 1
    assert run_command("repro", argparse.Namespace, lambda options: Status.UNDECIDED) == 3
    for other in (1, True, None, 1.0, "wrong"):
        assert run_command("repro", argparse.Namespace, lambda options, other=other: other) == 2
        assert "internal error: TypeError: expected the command to return 0 or a Status" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["verify", "--help"])


def test_a_script_that_ends_the_process(capsys, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\n\ndef training():\n    sys.exit(0)\n")
    assert main(["train", str(script), "--steps", "1"]) == 2
    assert "script.py:4: the script ends itself (SystemExit(0)): " in capsys.readouterr().err


def test_a_step_that_ends_the_process(capsys, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{TRAINED}def loss(outputs, targets):\n    exit(0)\n\n{TRAINING}")
    assert main(["train", str(script), "--steps", "1"]) == 2
    assert "script.py:5: the step ends the process (SystemExit(0)): leave out" in capsys.readouterr().err


def test_a_script_does_not_parse_the_arguments_of_this_program(capsys, monkeypatch, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    parsing = "import argparse, sys\nparser = argparse.ArgumentParser()\nparser.add_argument({})\n"
    used = "options = parser.parse_args()\nassert options.data == 'here' and sys.argv == [__file__]\n"
    optional = parsing.format("'--data', default='here'")
    monkeypatch.setattr(sys, "argv", ["repro", "train", "--steps", "1"])
    script.write_text(f"{optional}{used}{TRAINED}loss = torch.nn.functional.mse_loss\n{TRAINING}")
    assert main(["train", str(script), "--steps", "1"]) == 0 and sys.argv[0] == "repro"
    capsys.readouterr()
    script.write_text(f"{parsing.format(repr('data'))}{used}{TRAINING}")
    assert main(["train", str(script), "--steps", "1"]) == 2
    error = capsys.readouterr().err
    assert "the following arguments are required: data" in error
    assert "script.py:4: the script ends itself (SystemExit(2)): give a default to each argument" in error
    assert sys.argv[0] == "repro"


TRAINED = "import torch\nmodel = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
TRAINING = "def training():\n    return model, loss, optimizer, [(torch.ones(1, 2), torch.ones(1, 1))]\n"

PROGRAM = """
import argparse, sys
from repro_mlir.base.command_line import Status, run_command
def command(options):
    if {finding!r} == "fails":
        raise KeyError("x")
    print("found")
    return Status[{finding!r}]
sys.exit(run_command("repro", argparse.Namespace, command))
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full on this system")
def test_output_that_cannot_be_written() -> None:
    """A command that cannot write its finding to standard output exits with 2. If only standard error cannot be
    written, the status is that of the finding."""
    ways = {
        ">/dev/full": (2, 2, 2),
        ">/dev/full 2>&1": (2, 2, 2),
        ">&-": (2, 2, 2),
        ">&- 2>&-": (2, 2, 2),
        "<&- >&- 2>&-": (2, 2, 2),
        "2>/dev/full": (0, 1, 2),
        "2>&-": (0, 1, 2),
    }
    processes = {
        (way, finding): subprocess.Popen(
            ["sh", "-c", f'"$0" -c "$1" {way}', sys.executable, PROGRAM.format(finding=finding)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for way in ways
        for finding in ("RIGHT", "WRONG", "fails")
    }
    found: dict[str, tuple[int, ...]] = {}
    for (way, _), process in processes.items():
        told = b"".join(process.communicate())
        found[way] = (*found.get(way, ()), process.returncode)
        assert b"Traceback" not in told, told
    assert found == ways


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full on this system")
def test_help_that_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "repro_mlir", "--help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert (
        done.stderr.startswith(b"repro: error: No space left on device: free space") and done.stderr.count(b"\n") == 1
    )


def test_little_address_space_and_few_files() -> None:
    """If the shell limits memory or open files, the command ends with status 2 and one line, whichever library fails
    first."""
    ways = ["ulimit -v 90000", "ulimit -v 270000", "ulimit -n 5", "ulimit -n 7"]
    processes = [
        subprocess.Popen(
            ["sh", "-c", f'{way}; "$0" -m repro_mlir inspect nothing', sys.executable],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for way in ways
    ]
    for way, process in zip(ways, processes, strict=True):
        _, told = process.communicate()
        assert process.returncode == 2, (way, told)
        assert told.startswith("repro: ") and told.count("\n") == 1, told
