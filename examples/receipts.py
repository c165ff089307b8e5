# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts: one party trains and hands over a receipt; a second party checks it on a different type of processor.

    python examples/receipts.py [--example digits_cnn] [--steps 30] [--target cpu:x86-64-v3] [--verify-on T ...]

The same with commands:

    repro train examples/digits_cnn.py --steps 30 --receipt run.receipt
    repro verify run.receipt --target cpu:x86-64-v2
    repro dispute run.receipt other.receipt

A changed receipt does not pass, even if only one bit of one batch has changed. A party that claims a different result
of the same run loses the dispute. The exit status is 0 if everything happened as expected.
"""

import argparse
import importlib
import itertools
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import repro_mlir
import torch
from repro_mlir import ReceiptOptions, ReproError
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.verification import dispute
from repro_mlir.verification.dispute import LocalChannel, Prover, ReceiptRun, Verdict
from repro_mlir.verification.receipts.recorder import Recorder

EXAMPLES = ("digits_cnn", "names_gpt")
# The steps that are checked on each target: on slow targets, only a sample.
CHECKS = {"cpu": "all", "cpu:x86-64-v2": "sample:5", "cpu:aarch64": "sample:1", "reference": "sample:1"}


def train(name: str, steps: int, target: str, path: Path, cheat_at: int | None = None) -> None:
    """Acts as the prover: trains and writes a receipt. With `cheat_at`, it cheats: it halves a parameter before that
    step."""
    module = importlib.import_module(name)
    model, loss_fn, optimizer, batches, *rest = module.training(steps)
    receipt = ReceiptOptions(path, checkpoint_every=5)
    extra = rest[0] if rest else {}
    with repro_mlir.Trainer(model, loss_fn, optimizer, target=target, receipt=receipt, **extra) as trainer:
        if cheat_at is None:
            losses = trainer.fit(batches, steps)
        else:
            losses = trainer.fit(itertools.islice(batches, cheat_at - 1), cheat_at - 1)
            with torch.no_grad():
                next(model.parameters()).mul_(0.5)
            # The recorder raises an error if the state has changed between steps; the cheat disables that check.
            with mock.patch.object(Recorder, "_note_change"):
                losses += trainer.fit(batches, steps - cheat_at + 1)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"trained   {name} on {target}: {steps} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}")
    print(f"receipt   {size / 1e6:.1f} MB, final state {trainer.state_hash()}")


def check(path: Path, target: str, steps: str) -> bool:
    """Acts as the verifier, which needs only the receipt: neither PyTorch nor the data. Returns False if the receipt is
    wrong, and True if it is right or the target cannot run here."""
    start = time.perf_counter()
    try:
        verified = repro_mlir.verify(path, steps, target)
    except ReceiptWrong as wrong:
        print(f"WRONG     on {target}: {wrong}")
        return False
    except ReproError as error:
        # qemu is missing, or the processor lacks instructions of the target.
        print(f"skipped   {target}: {error}")
        return True
    seconds = time.perf_counter() - start
    print(
        f"right     on {target}: {len(verified.chosen)} of {verified.steps} steps, "
        f"{len(verified.executed)} run again in {seconds:.1f} s"
    )
    return True


def settle(honest: Path, cheat: Path, target: str) -> Verdict:
    """Acts as the referee of a dispute: asks both parties for hashes until only one operator of one step is left."""
    verdict = dispute.settle(*(LocalChannel(Prover(ReceiptRun(path, target))) for path in (honest, cheat)))
    print("dispute   between A, who is honest, and B:")
    for line in verdict.lines():
        print(f"          {line}")
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", choices=EXAMPLES, default="digits_cnn")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--target", default="cpu", help="where the prover trains")
    parser.add_argument("--verify-on", nargs="+", default=list(CHECKS), metavar="T", help="where the verifiers run")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error(f"expected at least 2 steps, got {options.steps}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.receipt"
        train(options.example, options.steps, options.target, path)
        as_expected = all([check(path, target, CHECKS.get(target, "all")) for target in options.verify_on])

        print("changed   one bit of the last batch")
        inputs = path / "inputs.bin"
        data = bytearray(inputs.read_bytes())
        data[-1] ^= 1
        inputs.write_bytes(data)
        as_expected &= not check(path, "cpu", "all")

        honest, cheat = Path(folder) / "honest.receipt", Path(folder) / "cheat.receipt"
        cheat_at = options.steps // 2 + 1
        train(options.example, options.steps, options.target, honest)
        train(options.example, options.steps, options.target, cheat, cheat_at)
        verdict = settle(honest, cheat, options.target)
        as_expected &= (verdict.wrong, verdict.step) == (("B",), cheat_at)
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main())
