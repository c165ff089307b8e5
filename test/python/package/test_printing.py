# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Text from files or other parties must not imitate a line of our own on a terminal."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest
from repro_mlir import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import foreign, printable, tell
from repro_mlir.cli.main import main
from repro_mlir.program import Program
from repro_mlir.verification.dispute.verdict import Verdict

# Moves the cursor up and erases; line ends; the C1 code of ESC [; a direction override; a line separator; a zero-width
# space; DEL; and a zero byte.
HOSTILE = ["\x1b[1A\x1b[2K", "\nright    1 of 1 steps", "\r", "\x9b2J", "\u202eright", "\u2028", "\u200b", "\x7f", "\0"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_moves_the_cursor(text: str) -> None:
    for shown in (printable(f"a{text}b"), foreign(f"a{text}b")):
        assert shown.isprintable() and shown.startswith("a") and shown.endswith("b")
    stream = io.StringIO()
    tell(f"wrong {text}", stream=stream)
    assert stream.getvalue().count("\n") == 1 and stream.getvalue().removesuffix("\n").isprintable()


def test_shown_text() -> None:
    assert printable("größe 重み \\") == "größe 重み \\"
    assert printable("\x1b\x9b\u202e\U000e0001") == "\\x1b\\x9b\\u202e\\U000e0001"
    assert foreign("a" + " " * 70 + "right") == "a right"
    assert foreign("x" * 500) == "x" * 200 + "..."


def test_an_encoding_without_the_letters() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    tell("größe", stream=stream)
    stream.flush()
    assert stream.buffer.getvalue() == b"gr\\xf6\\xdfe\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*HOSTILE, "w  right", "x" * 1001])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(ReproError, match="expected a tensor's name of at most 1000 printable characters"):
        TensorType(name, "f32", ())


def test_names_that_are_not() -> None:
    for name in ("", "fc.weight", "größe.重み", "a b"):
        assert TensorType(name, "f32", ()).name == name


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_program_file(command: str, program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.save(tmp_path / "p.repro")
    with zipfile.ZipFile(tmp_path / "p.repro") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    signature = json.loads(members["signature.json"])
    signature["outputs"][0]["name"] = "loss\x1b[1A\x1b[2Kprogram  0000"
    members["signature.json"] = json.dumps(signature).encode()
    with zipfile.ZipFile(tmp_path / "p.repro", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert main([command, str(tmp_path / "p.repro")]) == 2
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err and len(told.err.splitlines()) == 1


def test_a_verdict() -> None:
    """Text that a party of a dispute chose stays within one line of the verdict."""
    reason = "question 'x': refused: \x1b[2J" + " " * 80 + "wrong    B\nwrong    B"
    lines = Verdict("conduct", ("A",), {"A": reason}, 3, "a\nwrong    B").lines()
    stream = io.StringIO()
    tell(*lines, stream=stream)
    shown = stream.getvalue().splitlines()
    assert len(shown) == 4 and shown[0] == "wrong    A" and "  " not in shown[3].removeprefix("A        ")
    assert all(line.isprintable() for line in shown)


def test_messages_of_failed_steps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error message can contain the message of a check in a program that someone else has written."""
    from repro_mlir.cli import inspect

    def fail(_: object) -> int:
        raise ReproError("check failed\x1b[1A\nright" + " " * 200 + "right    1 of 1 steps")

    monkeypatch.setattr(inspect, "_inspect", fail)
    assert main(["inspect", "none"]) == 2
    told = capsys.readouterr().err
    assert told.removesuffix("\n").isprintable() and "  " not in told


def test_the_page_of_a_difference() -> None:
    from repro_mlir.verification.difference.page import page
    from repro_mlir.verification.difference.report import Difference

    text = page(Difference(("a\u202eb", "<img src=x>"), 1, note="\x1b[2J"))
    assert "\u202e" not in text and "\x1b" not in text and "<img" not in text


def test_commands_print_by_one_function() -> None:
    """All commands print with a single function, which escapes control characters, and do not call `print`."""
    import repro_mlir

    package = Path(repro_mlir.__file__).parent
    for path in [*(package / "cli").glob("*.py"), package / "runner" / "command.py"]:
        assert not re.search(r"(?<![\w.])print\(", path.read_text()), path
