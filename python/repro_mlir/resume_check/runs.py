# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a user's script in a process of its own, in which the recorder is active."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.child_processes import ending_with_this
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign
from repro_mlir.resume_check import import_hook
from repro_mlir.resume_check.records import Record

PLACEHOLDERS = ("steps", "total", "more", "save", "resume")
"""The names that a command may contain in braces."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")

RECORD_BYTES = 256 << 20
"""The limit on the size of a record."""

_VARIABLE = "REPRO_MLIR_RESUME_RECORD"
"""The environment variable that recorder.py reads."""

_OUTPUT_BYTES = 1 << 16
"""The number of bytes at the end of a script's output that are kept for messages."""

_SITECUSTOMIZE = """
import importlib.util
spec = importlib.util.spec_from_file_location("repro_mlir_import_hook", {path!r})
hook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hook)
hook.begin({folder!r})
"""


@dataclass(frozen=True)
class Template:
    """A command with placeholders.

    Attributes:
      option: the option that gave the command, for messages.
      parts: the program and its arguments.
      fixed: the number of parts at the begin whose braces have no meaning.
    """

    option: str
    parts: tuple[str, ...]
    fixed: int = 0

    def __post_init__(self) -> None:
        if not self.parts:
            raise ReproError(f"{self.option}: expected a command, got an empty text")
        for name in self.names():
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                raise ReproError(f"{self.option}: expected placeholders among {known}, got {{{name}}}")

    def names(self) -> set[str]:
        """Returns the names of the placeholders in the command."""
        return {name for part in self.parts[self.fixed :] for name in _PLACEHOLDER.findall(part)}

    def require(self, *names: str) -> None:
        """Raises ReproError if the command contains none of the placeholders."""
        if not self.names() & {*names}:
            expected = " or ".join(f"{{{name}}}" for name in names)
            raise ReproError(f"{self.option}: expected the placeholder {expected} in the command, found none")

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Returns the command with the value of each placeholder."""
        filled = (_PLACEHOLDER.sub(lambda match: values[match[1]], part) for part in self.parts[self.fixed :])
        return [*self.parts[: self.fixed], *filled]


def template(option: str, text: str) -> Template:
    """Returns the template that a text in the syntax of a POSIX shell describes. Raises ReproError if the text is
    malformed or contains an unknown placeholder."""
    return Template(option, tuple(words(option, text)))


def words(option: str, text: str) -> list[str]:
    """Returns the words of a text in the syntax of a POSIX shell. Raises ReproError if the text is malformed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ReproError(f"{option}: expected the syntax of a shell: {error}, got {foreign(text, 80)}") from None


def run_script(name: str, command: Sequence[str], folder: Path, timeout: float, until: str | None = None) -> Record:
    """Runs a command; returns its record.

    Args:
      name: names the run in messages, such as "the run of 10 steps"; the record gets a file of that name.
      command: the program and its arguments.
      folder: a folder for the record.
      timeout: the limit on the time of the run, in seconds.
      until: a path; the process ends itself before the first step after this path exists.
    Raises:
      ReproError: the command cannot be started, takes too long or fails; or it records nothing.
    """
    hook = folder / "startup"
    hook.mkdir(exist_ok=True)
    source = _SITECUSTOMIZE.format(path=os.path.abspath(import_hook.__file__), folder=str(hook))
    (hook / "sitecustomize.py").write_text(source)
    path = folder / f"{name}.jsonl"
    options = {"path": str(path), "limit": RECORD_BYTES, "until": until}
    environment = {
        **os.environ,
        _VARIABLE: json.dumps(options),
        "PYTHONPATH": os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    status, output = _run(name, command, environment, timeout)
    if status != 0:
        cause = f"signal {-status}" if status < 0 else f"exit status {status}"
        raise ReproError(f"{name} failed with {cause}: {shlex.join(command)}: {_last_line(output)}")
    if path.with_name(f"{path.name}.second").exists():
        raise ReproError(
            f"{name}: expected one process that trains, found several; a launcher must set RANK in each process"
        )
    if not path.exists():
        raise ReproError(
            f"{name} made no optimizer step that could be seen: expected {shlex.join(command)} to run Python with "
            "PyTorch and to call step() of a torch.optim.Optimizer"
        )
    return Record(path)


def _run(name: str, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Runs a command to its end; returns the exit status and the end of its output."""
    process = subprocess.Popen(
        ending_with_this(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    kept = bytearray()
    reader = threading.Thread(target=_keep_end, args=(process, kept), daemon=True)
    reader.start()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise ReproError(
            f"{name} did not end within {timeout:g} s: {shlex.join(command)}; --timeout is the limit"
        ) from None
    finally:
        # Also ends processes that the script has left, which may hold the pipe open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(5)
    return status, bytes(kept).decode(errors="replace")


def _keep_end(process: subprocess.Popen[bytes], kept: bytearray) -> None:
    assert process.stdout is not None
    while data := os.read(process.stdout.fileno(), 1 << 16):
        kept += data
        del kept[:-_OUTPUT_BYTES]


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return foreign(lines[-1], 300) if lines else "no output"


def default_templates(script: str, arguments: Sequence[str]) -> tuple[Template, Template]:
    """Returns the commands that begin and resume a run of a script with the options --steps, --save and --resume."""
    fixed = (sys.executable, script, *arguments)
    run = (*fixed, "--steps", "{steps}", "--save", "{save}")
    return Template("--run", run, len(fixed)), Template("--resume", (*run, "--resume", "{resume}"), len(fixed))
