# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the command `repro` in a process without `fork` and what else Windows lacks: `without_unix.py COMMAND ...`."""

import concurrent.futures  # noqa: F401
import ctypes
import os
import random  # noqa: F401
import signal
import socket
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401

# These packages, and the modules above that are not used, are imported before they could miss what is hidden below.
import blake3  # noqa: F401
import gmpy2  # noqa: F401
import numpy  # noqa: F401

_NAMES = {
    os: (
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "geteuid", "getuid"),
        *("killpg", "memfd_create", "mkfifo", "pread", "register_at_fork", "sched_getaffinity", "sysconf"),
    ),
    signal: ("SIGKILL", "SIGPIPE", "SIGXCPU"),
    socket: ("AF_UNIX",),
}
_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")


class _Hidden:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in _MODULES:
            raise ImportError(f"no module {name}")


class _Kernel:
    """A library `kernel32` with the one function that the package calls."""

    def GetPhysicallyInstalledSystemMemory(self, kibibytes) -> int:
        kibibytes._obj.value = 4 << 20
        return 1


def hide() -> None:
    for module, names in _NAMES.items():
        for name in names:
            delattr(module, name)
    for name in _MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden())
    load, load_library = ctypes.PyDLL.__init__, ctypes.CDLL

    def refuse_no_name(self, name, *arguments, **options) -> None:
        if name is None:
            raise TypeError("expected the name of a library")
        load(self, name, *arguments, **options)

    ctypes.PyDLL.__init__ = refuse_no_name
    ctypes.CDLL = lambda name, *given, **named: _Kernel() if name == "kernel32" else load_library(name, *given, **named)
    sys.platform = "win32"


if __name__ == "__main__":
    hide()
    from repro_mlir.cli.main import main

    sys.exit(main(sys.argv[1:]))
