# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Child processes end with their parent process, even if the parent is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_LOWERING = """
import signal
import sys
from pathlib import Path
# A job in the background of a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from repro_mlir.frontends.torch.lower import lowering_process
lowering_process.OPT = Path(sys.argv[1])
lowering_process.run_torch_mlir(b"", "")
"""
_UNTRUSTED = """
import sys
from pathlib import Path
from repro_mlir.sandbox.server import serve
def perform(request):
    import os, time
    Path(sys.argv[2]).write_text(str(os.getpid()))
    time.sleep(60)
serve(perform)
"""


def _has_ended(process: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def _written(file: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("no child was started")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_lowering(tmp_path: Path, how: signal.Signals) -> None:
    note, tool = tmp_path / "process", tmp_path / "opt"
    tool.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 60\n")
    tool.chmod(0o755)
    parent = subprocess.Popen([sys.executable, "-c", _LOWERING, str(tool)], stderr=subprocess.DEVNULL)
    child = _written(note)
    os.kill(parent.pid, how)
    parent.wait(20)
    assert _has_ended(child)


def test_untrusted_work(tmp_path: Path) -> None:
    import socket

    from repro_mlir.sandbox.server import HEADER

    note = tmp_path / "process"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-c", _UNTRUSTED, "", str(note)]
        server = subprocess.Popen(command, stdin=theirs.fileno())
        theirs.close()
        ours.sendall(HEADER.pack(1, 60, 1 << 34, 1000) + b"x")
        child = _written(note)
    server.wait(20)
    assert _has_ended(child)
