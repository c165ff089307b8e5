# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes a receipt of its form into a folder beside this file: two programs, and a change of the state by the user.

    python test/data/write_receipt.py form-2

What is written once stays as it is: later versions read it (test/python/program/test_stored_files.py).
"""

import sys
from pathlib import Path

import repro_mlir
import torch


def write(path: Path) -> None:
    model = repro_mlir.initialize(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.2)), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.arange(60, dtype=torch.float32).reshape(20, 3) / 32
    options = repro_mlir.ReceiptOptions(path, checkpoint_every=2)
    loss_fn = torch.nn.functional.cross_entropy
    with repro_mlir.Trainer(model, loss_fn, optimizer, seed=5, receipt=options) as trainer:
        for step, chosen in zip(range(5), repro_mlir.batches(20, 4), strict=False):
            # Without its momentum the optimizer would have another state.
            optimizer.param_groups[0]["weight_decay"] = 0.01 if step == 3 else 0.0
            if step == 3:
                with torch.no_grad():
                    model[0].weight[1].zero_()
            trainer.step(data[chosen], torch.from_numpy(chosen % 2))


if __name__ == "__main__":
    write(Path(__file__).parent / sys.argv[1] / "run.receipt")
