# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Child processes that end when this process ends, even if this process is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1

# A new Python process runs this code and then replaces itself by the command, because a process with threads must not
# run Python code between fork and exec.
_START = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_this(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Returns a command that runs `command` in a process which the kernel kills when the thread that started the
    process ends."""
    return [sys.executable, "-ISc", _START, str(os.getpid()), *(os.fspath(part) for part in command)]


def end_with_parent(parent: int) -> None:
    """Makes the kernel kill this process, a forked child, when `parent` ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
