# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Three processes of mpirun with different targets have the state hash and the receipt of one process."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = str(Path(__file__).parents[1] / "python" / "distributed" / "run_on_ranks.py")
MPIRUN = str(Path(sys.executable).with_name("mpirun"))


LAUNCH = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable]
TRAINING = """
import torch

def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
    x, y = torch.randn(48, 6), torch.arange(48) % 3
    optimizer = torch.optim.AdamW(model.parameters())
    return model, torch.nn.functional.cross_entropy, optimizer, [(x, y), (x.flip(0), y.flip(0))], {"microbatches": 6}
"""


def hashes(command: list[str]) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.split()[2] for line in done.stdout.splitlines() if line[:1].isdigit()]


def test_ranks_of_mpirun_have_the_hash_of_one_process(tmp_path: Path) -> None:
    alone, ranks = tmp_path / "alone.safetensors", tmp_path / "ranks.safetensors"
    want = hashes([sys.executable, SCRIPT, "alone", "6", str(alone), "cpu"])
    kinds = ["cpu:x86-64-v2", "cpu", "reference", "--shares=1,2,1"]
    assert hashes([*LAUNCH, SCRIPT, "mpirun", "6", str(ranks), *kinds]) == want * 3
    assert ranks.read_bytes() == alone.read_bytes()


def test_ranks_of_mpirun_have_the_receipt_of_one_process(tmp_path: Path) -> None:
    script, alone, ranks = tmp_path / "training.py", tmp_path / "alone.receipt", tmp_path / "ranks.receipt"
    script.write_text(TRAINING)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def train(start: list[str], receipt: Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = [*start, "-m", "repro_mlir", "train", str(script), "--steps", "4", "--receipt", str(receipt)]
        return subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, env=environment)

    assert train([sys.executable], alone).returncode == 0
    done = train([*LAUNCH, "-m", "mpi4py"], ranks, "--shares", "3:2:1", "--target-of", "1=cpu:x86-64-v2,2=reference")
    assert done.returncode == 0, done.stderr[-2000:]
    assert (ranks / "steps.jsonl").read_bytes() == (alone / "steps.jsonl").read_bytes()
    # If mpi4py runs the script (`-m mpi4py`), an error in one rank ends all ranks.
    done = train([*LAUNCH, "-m", "mpi4py"], ranks)
    assert done.returncode != 0 and "give the receipt another name, or delete it" in done.stderr
