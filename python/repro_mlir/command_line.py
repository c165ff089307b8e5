# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the command lines of `repro` and of the runner have in common: errors of options, and how commands end."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from .errors import ReproError
from .printing import foreign, tell

_LONGEST = 2000
"""Characters of a message, which may quote others."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ReproErrors."""

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

    Whatever keeps the command from its answer is one line on standard error and status 2, a fault of ours included: 1
    is an answer of commands that ask something, such as `repro verify`, and no failure may pass for one. An
    interruption is 130, standard output that nobody reads any more 141.

    Args:
      program: the name before messages.
      parse: gives the options; may end the process, as --help does.
      command: takes the options and returns the status.
    """
    try:
        options = parse()
        try:
            status = command(options)
        except SystemExit as error:
            # Of a script, say: its status is not ours.
            raise ReproError(f"the command was ended by SystemExit({error.code!r})") from None
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
        _drop_output()
        return _fail(program, f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
    except MemoryError:
        return _fail(program, "error: not enough memory")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = foreign(str(error), 300)
        return _fail(
            program, f"internal error: {type(error).__name__}: {reason} ({Path(place.filename).name}:{place.lineno})"
        )


def _fail(program: str, message: str, status: int = 2) -> int:
    tell(f"{program}: {foreign(message, _LONGEST)}", stream=sys.stderr)
    return status


def _drop_output() -> None:
    """Standard output goes nowhere from now on: that Python cannot write it at its end would change the status."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        # Not a file.
        pass
