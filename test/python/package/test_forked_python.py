# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A command in a fork of the fork server (support/forked_python.py) behaves like one in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked_python import ForkedPython, run_python

pytest.importorskip("torch")

SHOWN = """
import json, os, sys
found = __name__, sys.argv, os.getcwd(), sys.stdin.read(), os.environ.get("FORKED"), sys.path
print(json.dumps(found))
print("error", file=sys.stderr)
"""


@pytest.mark.parametrize("kind", ["code", "module", "script"])
def test_the_command_is_that_of_a_process(kind: str, tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(SHOWN)
    start = {"code": ["-c", SHOWN], "module": ["-m", "shown"], "script": [str(tmp_path / "shown.py")]}[kind]
    environment = {"FORKED": "yes", "PYTHONPATH": os.pathsep.join([str(tmp_path), "/none"])}
    done = run_python([*start, "one", "two words"], data="given ü", cwd=tmp_path, environment=environment)
    real = subprocess.run(
        [sys.executable, *start, "one", "two words"],
        input="given ü",
        cwd=tmp_path,
        env=environment | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (real.returncode, real.stderr) == (0, "error\n")
    assert json.loads(done.stdout) == json.loads(real.stdout)


@pytest.mark.parametrize(
    ("code", "status", "output", "error"),
    [
        ("raise SystemExit(3)", 3, "", ""),
        ("raise SystemExit(256)", 0, "", ""),
        ("raise SystemExit(-1)", 255, "", ""),
        ("raise SystemExit(True)", 1, "", ""),
        ("import sys; sys.exit('no')", 1, "", "no\n"),
        ("raise SystemExit((1, 2))", 1, "", "(1, 2)\n"),
        ("print(1); raise KeyError('x')", 1, "1\n", "KeyError: 'x'\n"),
        ("import atexit; atexit.register(print, 'end'); print('begin')", 0, "begin\nend\n", ""),
        ("import os; print('lost'); os.abort()", -6, "", ""),
        ("import os, sys; sys.stdout.write('kept'); sys.stdout.flush(); os._exit(7)", 7, "kept", ""),
        ("import multiprocessing; print(multiprocessing.get_start_method(allow_none=True))", 0, "None\n", ""),
    ],
)
def test_how_commands_end(code: str, status: int, output: str, error: str) -> None:
    done = run_python(["-c", code])
    assert (done.returncode, done.stdout) == (status, output)
    assert done.stderr.endswith(error) and bool(done.stderr) == bool(error)


def test_forks_know_nothing_of_each_other() -> None:
    code = "import os, random, numpy, torch; os.environ['FORKED'] = 'changed'; torch.forked = 1"
    assert run_python(["-c", code]).returncode == 0
    code = """
import os, random, numpy, torch
print(os.environ.get("FORKED"), hasattr(torch, "forked"))
print(random.random(), numpy.random.rand(), torch.rand(1).item())
"""
    (first, *drawn), (second, *others) = (run_python(["-c", code]).stdout.split("\n")[:2] for _ in range(2))
    assert first == second == "None False" and not {*drawn[0].split()} & {*others[0].split()}


def test_a_command_that_takes_too_long_is_killed() -> None:
    command = ForkedPython(["-c", "import os, time; print(os.getpid(), flush=True); time.sleep(300)"])
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        command.wait(2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(caught.value.output), 0)
