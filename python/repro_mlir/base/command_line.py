# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the command lines of `repro` and of the runner have in common: errors of options, and how commands end."""

from __future__ import annotations

import argparse
import enum
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign, tell

_LONGEST = 2000
"""Characters of a message, which may quote others."""


_LEAST_ADDRESS_SPACE = 256 << 20
"""Bytes."""


class Status(enum.IntEnum):
    """The finding of a command that asks something, as its exit status; all others return 0."""

    RIGHT = 0
    WRONG = 1
    NO_ANSWER = 2
    UNDECIDED = 3


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ReproErrors, and those of its output OSErrors, which argparse hides."""

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        raise ReproError(f"{message} (see {self.prog} --help)")


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def run_command(
    program: str, parse: Callable[[], argparse.Namespace], command: Callable[[argparse.Namespace], int]
) -> int:
    """Runs a command; returns the exit status.

    Status 1 is an answer of commands that ask something, such as `repro verify`: only a command that returns
    `Status.WRONG`, and whose output is written, gives it. All else that ends a command, a fault of ours included, is
    one line on standard error and status 2. An interruption is 130, and standard output that nobody reads any more 141.

    Args:
      program: the name before messages.
      parse: gives the options; may end the process with status 0, as --help does.
      command: takes the options and returns 0 or a `Status`.
    """
    try:
        _open_standard_streams()
        _check_address_space()
        status = _answer(parse, command)
        sys.stdout.flush()
        return status
    except ReproError as error:
        return _fail(program, f"error: {error}")
    except KeyboardInterrupt:
        return _fail(program, "interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _drop_output()
        return 141
    except OSError as error:
        return _fail(program, f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
    except MemoryError:
        return _fail(program, "error: not enough memory")
    except SystemExit as error:
        if error.code in (None, 0):
            raise
        return _fail(program, f"error: the command was ended by SystemExit({error.code!r})")
    except BaseException as error:
        # A panic of a Rust package is not an Exception.
        reason, place = foreign(str(error), 300), _place(error.__traceback__)
        return _fail(program, f"internal error: {type(error).__name__}: {reason} ({place})")


def _answer(parse: Callable[[], argparse.Namespace], command: Callable[[argparse.Namespace], int]) -> int:
    try:
        options = parse()
    except SystemExit:
        sys.stdout.flush()
        raise
    _check_outputs(options)
    try:
        status = command(options)
    except SystemExit as error:
        # The status of a script, for example, is not ours.
        raise ReproError(f"the command was ended by SystemExit({error.code!r})") from None
    if status != 0 and not isinstance(status, Status):
        raise TypeError(f"expected the command to return 0 or a Status, got {status!r}")
    return status


_OUTPUTS = ("output", "outputs", "save", "html", "evidence", "programs")
"""The options that name what a command writes."""

_FOLDERS = ("receipt.json", "saved_model.pb")
"""Files by which a folder is one thing: a receipt or a SavedModel."""


def _check_outputs(options: argparse.Namespace) -> None:
    """ReproError for an output that is an input of the command, lies in a folder that is one, or is another output."""
    given = vars(options)
    outputs = {name: given[name] for name in _OUTPUTS if isinstance(given.get(name), str)}
    files = [os.path.realpath(each) for each in outputs.values()]
    for file in files:
        if files.count(file) > 1 and (os.path.isfile(file) or not os.path.exists(file)):
            raise ReproError(f"{file}: expected one output to be written there, got {files.count(file)}")
    for name, output in outputs.items():
        for other, values in given.items():
            # A state is replaced when the new one is stored.
            if other in outputs or (name, other) == ("save", "state"):
                continue
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, str) and _is_or_holds(value, output):
                    raise ReproError(f"{output}: expected another output, this would change the input {value}")


def _is_or_holds(given: str, output: str) -> bool:
    try:
        if os.path.isdir(given):
            folder, place = os.path.realpath(given), os.path.realpath(output)
            is_one = any(os.path.isfile(os.path.join(folder, name)) for name in _FOLDERS)
            return is_one and os.path.commonpath([folder, place]) == folder
        return os.path.samefile(given, output)
    except (OSError, ValueError):
        # One of them is not there.
        return False


def _open_standard_streams() -> None:
    """Has every standard descriptor open, so that no file of ours takes the number of one that the caller closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Gives the lowest number that is free.
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def _check_address_space() -> None:
    """ReproError where a limit (ulimit -v) leaves too little for NumPy, whose OpenBLAS ends the process with status 1;
    it takes more for each of its threads."""
    try:
        import resource
    except ImportError:
        # No such limits on this system.
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    if limit < _LEAST_ADDRESS_SPACE:
        raise ReproError(
            f"expected at least {_LEAST_ADDRESS_SPACE >> 10:,} KiB of address space (ulimit -v), got {limit >> 10:,}"
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _place(traceback: TracebackType | None) -> str:
    """File and line of the innermost frame; reads no file, as the traceback module would."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return "unknown place"
    return f"{os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"


def _fail(program: str, message: str, status: int = Status.NO_ANSWER) -> int:
    """Tells why the command has no answer, as far as standard error can be written."""
    try:
        tell(f"{program}: {foreign(message, _LONGEST)}", stream=sys.stderr)
        sys.stderr.flush()
    except (OSError, ValueError, MemoryError):
        pass
    _drop_output()
    return status


def _drop_output() -> None:
    """Standard output goes nowhere from now on where it cannot be written: Python would change the status at its
    end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):
            # Not a file.
            pass
