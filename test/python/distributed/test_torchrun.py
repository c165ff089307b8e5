# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ranks on several targets compute the same hash, even if one process is killed and the others continue.

test_page.py and the test that kills a rank start torchrun; the other ranks are forks."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run_on_ranks
from repro_mlir.cli.main import main
from repro_mlir.execute import qemu
from support.forked_python import ForkedPython

SCRIPT = run_on_ranks.__file__
STEPS = 20
KINDS = ("cpu:x86-64-v2", "cpu", "cpu:aarch64" if qemu.is_available() else "reference", "ptx-emulator")


def forked(size: int, *command: str) -> list[subprocess.CompletedProcess[str]]:
    """Runs a command on `size` ranks. Each rank is a fork with the environment variables that torchrun sets."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    group = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "TORCHELASTIC_RUN_ID": "test",
    }
    ranks = [ForkedPython(command, environment={**os.environ, **group, "RANK": str(rank)}) for rank in range(size)]
    return [rank.wait() for rank in ranks]


def hashes(output: str) -> list[str]:
    return [line.split()[2] for line in output.splitlines() if line[:1].isdigit()]


def test_ranks_of_four_kinds_have_the_hash_of_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_on_ranks.main("alone", 6, tmp_path / "alone.safetensors", "cpu")
    (want,) = hashes(capsys.readouterr().out)
    ranks = forked(4, SCRIPT, "torchrun", "6", str(tmp_path / "ranks.safetensors"), *KINDS, "--shares=2,3,1,2")
    assert [hashes(rank.stdout) for rank in ranks] == [[want]] * 4, ranks
    assert (tmp_path / "ranks.safetensors").read_bytes() == (tmp_path / "alone.safetensors").read_bytes()


TRAINING = """
import torch

def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(32, 3)
    )
    x = torch.randn(960, 6)
    y = (x.sum(1) > 0).long()
    batches = [(x[i : i + 96], y[i : i + 96]) for i in range(0, 960, 96)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return model, torch.nn.functional.cross_entropy, optimizer, batches, {"microbatches": 12}
"""


def training(folder: Path) -> Path:
    path = folder / "training.py"
    path.write_text(TRAINING)
    return path


def arguments(script: Path, receipt: Path | None, *options: str, steps: int = STEPS) -> list[str]:
    recorded = [] if receipt is None else ["--receipt", str(receipt), "--checkpoint-every", "5"]
    return ["train", str(script), "--steps", str(steps), "--json", *recorded, "--threads", "1", *options]


def train(size: int, *given: str) -> subprocess.Popen[str]:
    """Starts torchrun with `size` processes that run the command `repro` with the given arguments."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    return subprocess.Popen(
        [sys.executable, *start, "-m", "repro_mlir", *given],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def state_of(size: int, given: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Runs `repro` on `size` ranks and returns the state hash that it prints. A single rank runs in this process. This
    is faster, because the modules are already imported."""
    if size > 1:
        ranks = forked(size, "-m", "repro_mlir", *given)
        assert all(rank.returncode == 0 for rank in ranks), ranks
        output = "".join(rank.stdout for rank in ranks)
    else:
        status = main(given)
        output, errors = capsys.readouterr()
        assert status == 0, output + errors
    (line,) = output.splitlines()
    found: str = json.loads(line)["state_hash"]
    return found


def children_of(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
@pytest.mark.exhaustive
def test_others_go_on_where_a_rank_was_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills one of 3 ranks and resumes the run on another number of ranks. The environment variable RANK_KILLS is the
    number of such runs, by default 1."""
    script, whole = training(tmp_path), tmp_path / "whole.receipt"
    want = state_of(1, arguments(script, whole), capsys)
    draw = random.Random(int(os.environ.get("RANK_KILLS_SEED", "0")))
    for kill in range(int(os.environ.get("RANK_KILLS", "1"))):
        receipt = tmp_path / f"{kill}.receipt"
        sharded = ["--shard-optimizer"] if kill % 2 == 0 else []
        kinds = ["--shares", "2:1:1", "--target-of", "1=cpu:x86-64-v2,2=reference"]
        process = train(3, *arguments(script, receipt, *kinds, *sharded))
        steps, last = receipt / "steps.jsonl", draw.randrange(1, STEPS - 5)
        while not steps.exists() or steps.read_bytes().count(b"\n") < last:
            assert process.poll() is None, process.communicate()
        time.sleep(draw.uniform(0, 0.2))
        os.kill(draw.choice(children_of(process.pid)), signal.SIGKILL)
        began = time.monotonic()
        process.communicate(timeout=120)
        assert process.returncode != 0 and time.monotonic() - began < 60
        others = (2, 5, 1, 3)[kill % 4]
        assert state_of(others, arguments(script, receipt, "--resume"), capsys) == want, (kill, last, others)
        assert (receipt / "steps.jsonl").read_bytes() == (whole / "steps.jsonl").read_bytes()


@pytest.mark.exhaustive
def test_ranks_that_share_the_optimizer_save_its_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, saved = training(tmp_path), [tmp_path / f"{size}.safetensors" for size in (1, 3)]
    states = [
        state_of(size, arguments(script, None, *options, "--save", str(path), steps=3), capsys)
        for size, options, path in zip((1, 3), ([], ["--shard-optimizer"]), saved, strict=True)
    ]
    assert states[0] == states[1] and saved[0].read_bytes() == saved[1].read_bytes()


def test_ranks_of_a_receipt_end_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, receipt = training(tmp_path), tmp_path / "run.receipt"
    assert len(state_of(1, arguments(script, receipt, steps=3), capsys)) == 64
    wrong = {
        "give the receipt another name, or delete it": arguments(script, receipt, steps=3),
        "expected --target-of such as 0=cpu,1=ptx-emulator with ranks below 2, got '7=cpu'": (
            arguments(script, receipt, "--resume", "--target-of", "7=cpu")
        ),
    }
    for message, given in wrong.items():
        ranks = forked(2, "-m", "repro_mlir", *given)
        # A rank that loses the other one before it finds the mistake reports only the loss.
        assert all(rank.returncode == 2 for rank in ranks) and any(message in rank.stderr for rank in ranks), ranks
