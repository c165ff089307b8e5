# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Child processes that end when this process ends, also where it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1

# Run by a Python of its own before the program: after a fork of a process with threads, Python must not run here.
_START = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_this(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """A command that runs `command` and is killed when the thread that starts it ends, however that ends."""
    return [sys.executable, "-ISc", _START, str(os.getpid()), *(os.fspath(part) for part in command)]


def end_with_parent(parent: int) -> None:
    """Lets this process, the child of a fork, be killed when `parent` ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
