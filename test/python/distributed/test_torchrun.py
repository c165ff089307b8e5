# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ranks that are processes of torchrun, of several kinds: one hash, also where one is killed and others go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from repro_mlir.execute import qemu

SCRIPT = str(Path(__file__).with_name("run_on_ranks.py"))
KINDS = ("cpu:x86-64-v2", "cpu", "cpu:aarch64" if qemu.is_available() else "reference", "ptx-emulator")


def launched(size: int, steps: int, checkpoint: Path, *targets: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size), SCRIPT]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "torchrun", str(steps), str(checkpoint), *targets],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def hashes(output: str) -> list[str]:
    return [line.split()[2] for line in output.splitlines() if line[:1].isdigit()]


def alone(steps: int, checkpoint: Path) -> str:
    command = [sys.executable, SCRIPT, "alone", str(steps), str(checkpoint), "cpu"]
    (found,) = hashes(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def test_ranks_of_four_kinds_have_the_hash_of_one_process(tmp_path: Path) -> None:
    want = alone(6, tmp_path / "alone.safetensors")
    process = launched(4, 6, tmp_path / "ranks.safetensors", *KINDS, "--shares=2,3,1,2")
    output, errors = process.communicate(timeout=300)
    assert hashes(output) == [want] * 4, output + errors[-2000:]
    assert (tmp_path / "ranks.safetensors").read_bytes() == (tmp_path / "alone.safetensors").read_bytes()


def children_of(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_others_go_on_where_a_rank_was_killed(tmp_path: Path) -> None:
    want = alone(60, tmp_path / "alone.safetensors")
    checkpoint = tmp_path / "ranks.safetensors"
    process = launched(3, 60, checkpoint, "cpu")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 7"):
            break
    os.kill(children_of(process.pid)[-1], signal.SIGKILL)
    began = time.monotonic()
    process.communicate(timeout=120)
    assert process.returncode != 0 and time.monotonic() - began < 60
    output, errors = launched(2, 60, checkpoint, "cpu", "cpu:x86-64-v2").communicate(timeout=300)
    assert hashes(output) == [want] * 2, output + errors[-2000:]
