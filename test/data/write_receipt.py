# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes receipts of a run with two programs and a change of the state into a folder next to this file.

    python test/data/write_receipt.py form-2         run.receipt
    python test/data/write_receipt.py receipts-2     signed.receipt with its key, and stopped.receipt

Stored files never change: later versions must read them (test/python/program/test_stored_files.py).
"""

import sys
import tempfile
from pathlib import Path

import repro_mlir
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

STEPS = 5


class Stopped(Exception):
    """Simulates the end of the process."""


def write(path: Path, *, stop: int | None = None, sign: Path | None = None, resume: bool = False) -> None:
    """Trains with a receipt.

    Args:
      stop: the number of steps after which the process ends.
      sign: the file with the private key.
      resume: whether to resume the receipt of a process that ended.
    """
    model = repro_mlir.initialize(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.2)), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.arange(60, dtype=torch.float32).reshape(20, 3) / 32
    options = repro_mlir.ReceiptOptions(path, checkpoint_every=2, sign=sign, resume=resume)
    loss_fn = torch.nn.functional.cross_entropy
    with repro_mlir.Trainer(model, loss_fn, optimizer, seed=5, receipt=options) as trainer:
        chosen = [*zip(range(STEPS), repro_mlir.batches(20, 4), strict=False)]
        trainer.prepare(data[chosen[0][1]], torch.from_numpy(chosen[0][1] % 2))
        for step, rows in chosen[trainer.steps :]:
            if step == stop:
                raise Stopped
            # Without momentum, the optimizer would have no momentum buffers in its state.
            optimizer.param_groups[0]["weight_decay"] = 0.01 if step == 3 else 0.0
            if step == 3:
                with torch.no_grad():
                    model[0].weight[1].zero_()
            trainer.step(data[rows], torch.from_numpy(rows % 2))


def write_signed_and_stopped(folder: Path) -> None:
    """Writes one run twice: complete and signed with a key that is not kept, and up to the change before step 4."""
    folder.mkdir()
    key = Ed25519PrivateKey.generate()
    public, encoding = key.public_key(), serialization.Encoding.PEM
    (folder / "public.pem").write_bytes(public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
    private = encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with tempfile.NamedTemporaryFile() as file:
        file.write(key.private_bytes(*private))
        file.flush()
        write(folder / "signed.receipt", sign=Path(file.name))
    try:
        write(folder / "stopped.receipt", stop=4)
    except Stopped:
        pass


if __name__ == "__main__":
    folder = Path(__file__).parent / sys.argv[1]
    if folder.name.startswith("form-"):
        write(folder / "run.receipt")
    else:
        write_signed_and_stopped(folder)
