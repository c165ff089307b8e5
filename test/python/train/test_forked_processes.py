# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A forked process, such as a DataLoader worker, runs steps and ends; only the parent may write a receipt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.numerics.digest import blake3_of

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked on this system")

X, Y = torch.arange(1024.0).reshape(64, 16) / 512, torch.arange(64) % 2


def in_child(run: Callable[[], object], *, ends: bool = False) -> str:
    """Runs a function in a forked process and returns the text of its result. With `ends`, the process ends as Python
    programs do, with destructors."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = str(run())
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(sink, found.encode())
        if ends:
            sys.exit(0)
        os._exit(0)
    os.close(sink)
    deadline = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the forked process hangs")
        time.sleep(0.01)
    with os.fdopen(source, "rb") as file:
        return file.read().decode()


def trainer_of(**options: object) -> repro_mlir.Trainer:
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return repro_mlir.Trainer(model, torch.nn.functional.cross_entropy, optimizer, threads=2, **options)


def test_a_receipt_is_not_written_by_a_forked_process(tmp_path: Path) -> None:
    path = tmp_path / "run.receipt"
    with trainer_of(receipt=path) as trainer:
        trainer.step(X, Y)
        before = (path / "steps.jsonl").read_bytes()
        for use in (lambda: trainer.step(X, Y), trainer.close, lambda: trainer.__exit__(None, None, None)):
            assert "ReproError: " in (told := in_child(use)) and f"process {os.getpid()} writes this receipt" in told
        in_child(lambda: trainer.__exit__(KeyError, KeyError(), None))
        assert (path / "steps.jsonl").read_bytes() == before
        assert in_child(lambda: trainer.state_hash()) == trainer.state_hash()
        trainer.step(X, Y)
    assert repro_mlir.verify(path, target="reference").steps == 2
    assert in_child(lambda: repro_mlir.verify(path, target="reference").steps) == "2"


def test_steps_and_hashes_of_a_forked_process() -> None:
    data = np.arange(1 << 20, dtype=np.float32).tobytes()
    want = blake3_of(data).hex()
    assert in_child(lambda: blake3_of(data).hex()) == want
    trainer = trainer_of()
    trainer.step(X, Y)
    loss = in_child(lambda: trainer.step(X, Y))
    assert loss == str(trainer.step(X, Y))


def test_a_forked_process_ends() -> None:
    """When a forked process ends, it destroys the parent's executables. These have threads, which do not exist in the
    forked process."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_forked_processes import X, Y, in_child, trainer_of
trainer = trainer_of()
trainer.step(X, Y)
print(in_child(lambda: trainer.step(X, Y), ends=True))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and float(done.stdout.splitlines()[0]) > 0, done.stderr
