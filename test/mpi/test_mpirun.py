# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ranks that are processes of mpirun, of three kinds: the hash of one process."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = str(Path(__file__).parents[1] / "python" / "distributed" / "run_on_ranks.py")
MPIRUN = str(Path(sys.executable).with_name("mpirun"))


def hashes(command: list[str]) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.split()[2] for line in done.stdout.splitlines() if line[:1].isdigit()]


def test_ranks_of_mpirun_have_the_hash_of_one_process(tmp_path: Path) -> None:
    alone, ranks = tmp_path / "alone.safetensors", tmp_path / "ranks.safetensors"
    want = hashes([sys.executable, SCRIPT, "alone", "6", str(alone), "cpu"])
    launch = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, SCRIPT]
    kinds = ["cpu:x86-64-v2", "cpu", "reference", "--shares=1,2,1"]
    assert hashes([*launch, "mpirun", "6", str(ranks), *kinds]) == want * 3
    assert ranks.read_bytes() == alone.read_bytes()
