# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the examples of a page of the documentation."""

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from repro_mlir.cli.main import main

BLOCK = re.compile(r"(?P<before>[^\n]*\n\n|^)```(?P<kind>python|console|text)\n(?P<body>.*?)^```$", flags=re.M | re.S)


def printed(text: str) -> str:
    """Returns the text of a page with what its examples print now, in the current folder.

    The blocks run in their order: a ```python block whose preceding line ends with "`NAME.py`:" is written to that
    file, every other one runs as part of one script; a ```text block directly after a ```python block is the output of
    that block. In a ```console block, each line that begins with "$ " runs, and the lines after it are its output.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    output: str | None = None
    end = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal output, end
        before, kind, body = match.group("before", "kind", "body")
        follows, end = before == "\n\n" or match.start() == end, match.end()
        if kind == "python" and (named := re.search(r"`(\w+\.py)`:\n\n$", before)):
            Path(named[1]).write_text(body)
            output = None
        elif kind == "python":
            output = _output_of(lambda: exec(compile(body, "snippet", "exec"), names))
        elif kind == "console":
            body, output = "".join(_of_command(line) for line in re.findall(r"^\$ (.*)$", body, flags=re.M)), None
        elif output is not None and follows:
            body, output = output, None
        return f"{before}```{kind}\n{body}```"

    return BLOCK.sub(replaced, text)


def _output_of(call: Callable[[], object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        call()
    return shown.getvalue()


def _of_command(line: str) -> str:
    """Runs a command. Returns the line and the output of the command; the messages only of a command that fails."""
    if line.startswith("repro "):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status: list[int] = []
            shown = _output_of(lambda: status.append(main(shlex.split(line, comments=True)[1:])))
        return f"$ {line}\n{shown}{said.getvalue() if status == [2] else ''}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    return f"$ {line}\n{done.stdout}{done.stderr}"


def comparable(text: str) -> str:
    """Returns a page without what depends on the machine, on the time or on a random sample."""
    for pattern, replacement in (
        (r"\b[\d.]+ s\b", "N s"),
        (r"threads: \d+", "threads: N"),
        (r"^run on  .*?(?=^format)", "run on\n"),
        (r"(files, )[\d,]+ bytes$", r"\1N bytes"),
        # How far eager PyTorch is from a program depends on the processor.
        (r"(^step     1\n)operator.*?(?=^```)", r"\1"),
    ):
        text = re.sub(pattern, replacement, text, flags=re.M | re.S)
    sampled = re.compile(r"^\$ [^\n]*sample:.*?(?=^(?:\$|```))", flags=re.M | re.S)
    return sampled.sub(lambda match: _without_sample(match[0]), text)


def _without_sample(text: str) -> str:
    text = re.sub(r"^ +whether the state after step .*\n| \(claimed: .*\)", "", text, flags=re.M)
    return re.sub(r"\b\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*\b", "N", text)
