# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes one file of each stored form into a new folder (docs/verification/compatibility.md).

    python test/data/compatibility/write.py FOLDER

The committed files never change: every later version reads them (test/python/program/test_compatibility.py).
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import repro_mlir
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from repro_mlir.bundle.writer import capture_steps, expect, write_bundle
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.generation.sampling import Sampling
from repro_mlir.runner.certificates import UNITS, Certificate, ComparedInstruction, write_certificate
from repro_mlir.serving.receipt import Question, make_receipt
from repro_mlir.serving.transcript import Transcript

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from support.small_server import Pieces, known_identity  # noqa: E402

STEPS, RECORDED_STEPS = 5, 2


def small_trainer(**options: Any) -> repro_mlir.Trainer:
    """Returns a trainer of a linear layer. Its step draws no random numbers, and its batches can be divided into
    microbatches."""
    model = repro_mlir.initialize(torch.nn.Linear(3, 2), 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return repro_mlir.Trainer(model, torch.nn.functional.mse_loss, optimizer, seed=5, target="reference", **options)


def train(trainer: repro_mlir.Trainer, steps: int) -> None:
    """Trains until the trainer has run `steps` steps."""
    for step in range(trainer.steps, steps):
        trainer.step(torch.arange(12.0).reshape(4, 3) / 8 + step, torch.ones(4, 2))


def write_receipt(path: Path, *, sign: Path | None = None, resume: bool = False) -> None:
    """Records a receipt of a training run with two programs and a change of the state by the user.

    Args:
      sign: the file with the private key.
      resume: whether to continue the receipt of a run that was interrupted.
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
            # Weight decay in step 3 needs a second program. The optimizer has momentum because adding it later would
            # change the state's tensors.
            optimizer.param_groups[0]["weight_decay"] = 0.01 if step == 3 else 0.0
            if step == 3:
                with torch.no_grad():
                    model[0].weight[1].zero_()
            trainer.step(data[rows], torch.from_numpy(rows % 2))


def write_program_and_bundle(folder: Path) -> dict[str, Any]:
    """Writes a program and a bundle with recorded steps. Returns the program's identity, the number of steps and the
    hash (H3) of the state after them."""
    # Source locations contain the path of the script as it was given, so the path must be relative.
    os.chdir(HERE)
    program, steps = capture_steps(load_training("training.py"), RECORDED_STEPS)
    expected = expect(program, steps)
    program.save(folder / "program.repro")
    codes = compile_for(program, ["sm_75"], assembled=False)
    write_bundle(folder / "bundle.rmb", program, codes, steps=steps, expected=expected)
    return {"program": program.hash, "steps": RECORDED_STEPS, "state": expected.state[RECORDED_STEPS]}


def write_signed_receipt(folder: Path) -> None:
    """Writes the public key of a new private key, and a receipt that is signed with the private key. Does not keep the
    private key."""
    key = Ed25519PrivateKey.generate()
    public, encoding = key.public_key(), serialization.Encoding.PEM
    (folder / "public.pem").write_bytes(public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
    private = encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with tempfile.NamedTemporaryFile() as file:
        file.write(key.private_bytes(*private))
        file.flush()
        write_receipt(folder / "signed.receipt", sign=Path(file.name))


def write_microbatches(folder: Path) -> None:
    options = repro_mlir.ReceiptOptions(folder / "microbatches.receipt", checkpoint_every=9, microbatches_every=1)
    with small_trainer(microbatches=2, receipt=options) as trainer:
        train(trainer, 2)


def write_checkpoint(folder: Path) -> str:
    """Writes a checkpoint, trains one more step and returns the hash (H3) of the state after it."""
    trainer = small_trainer()
    train(trainer, 2)
    trainer.save_checkpoint(folder / "checkpoint.safetensors")
    train(trainer, 3)
    return trainer.state_hash()


def write_answer(folder: Path) -> None:
    transcript = Transcript(Pieces(), 2, (0,), ())
    for token in (5, 0):
        transcript.add(token, bytes([token]) * 32)
    question = Question((12, 13, 14), Sampling(0.5, seed=2**64 - 1), 2, (0,), ())
    answer = make_receipt(question, transcript, known_identity(), {"target": "cpu"})
    (folder / "answer.json").write_text(json.dumps(answer, indent=1) + "\n")


def write(folder: Path) -> None:
    folder.mkdir()
    record = write_program_and_bundle(folder)
    write_signed_receipt(folder)
    write_microbatches(folder)
    record["checkpoint"] = write_checkpoint(folder)
    write_answer(folder)
    one = ComparedInstruction("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", ("PTX",), 1 << 20, "1" * 64, "2" * 64)
    write_certificate(Certificate("A device", "13.0 580.65.06", UNITS["sm_90"], (one,)), folder / "certificate.json")
    (folder / "expected.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
