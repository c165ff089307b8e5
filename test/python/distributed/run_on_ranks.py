# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A user's script, with and without ranks: run_on_ranks.py ENGINE STEPS CHECKPOINT TARGET... [--shares=N,N,...].

ENGINE is `torchrun`, `mpirun` or `alone`. The script resumes from the checkpoint if it exists, and rank 0 writes it
after each step. At the end each rank prints its number, target and the hash of the state.
"""

import sys
from pathlib import Path
from typing import Any

import repro_mlir
import torch


def main(engine: str, steps: int, checkpoint: Path, *targets: str) -> None:
    """Trains a model; rank i uses the target at position i, modulo the number of targets."""
    shares = None
    if targets[-1].startswith("--shares="):
        *targets, last = targets
        shares = [int(share) for share in last.removeprefix("--shares=").split(",")]
    ranks: Any = None
    if engine == "torchrun":
        from repro_mlir.integrations.torch_distributed import connect

        ranks = connect(shares)
    elif engine == "mpirun":
        from repro_mlir.integrations.mpi import connect as connect_mpi

        ranks = connect_mpi(shares)
    rank = 0 if ranks is None else ranks.rank
    target = targets[rank % len(targets)]
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(32, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(960, 6, generator=torch.Generator().manual_seed(1))
    y = (x.sum(1) > 0).long()
    trainer = repro_mlir.Trainer(
        model, torch.nn.functional.cross_entropy, optimizer, target=target, threads=1, microbatches=8, ranks=ranks
    )
    if checkpoint.exists():
        trainer.load_checkpoint(checkpoint)
    while trainer.steps < steps:
        first = trainer.steps * 96 % 960
        optimizer.param_groups[0]["lr"] = repro_mlir.cosine_with_warmup(trainer.steps, peak=1e-2, warmup=5, total=100)
        trainer.step(x[first : first + 96], y[first : first + 96])
        if rank == 0:
            trainer.save_checkpoint(checkpoint)
            say(f"step {trainer.steps}")
    say(f"{rank} {target} {trainer.state_hash()}")


def say(line: str) -> None:
    """Writes the line and its end in one call. The ranks share a pipe. `print` would write the line and its end in two
    calls, and another rank could write between them."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
