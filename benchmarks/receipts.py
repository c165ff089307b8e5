# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the cost of a receipt: compares a trainer's steps with and without a receipt, and times a checkpoint.

    python benchmarks/receipts.py [--step GPT] [--threads 2] [--seconds 60] [--target cpu] [--json]

A recorded step hashes its inputs, its results, and the state before the step. The hash of the state detects writes by
the user.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import repro_mlir
from repro_mlir.verification.receipts.kept_tensors import checkpoints
from timing import interleaved
from training_models import STEPS

CHECKPOINTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", choices=STEPS, default="GPT")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--seconds", type=float, default=60, help="time to spend on each of the two (60)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        receipt = Path(folder) / "receipt"
        step = STEPS[options.step]
        chosen = {"target": options.target, "threads": options.threads, "attention_block": step.attention_block}

        def trainer(receipt: repro_mlir.ReceiptOptions | None) -> repro_mlir.Trainer:
            model, optimizer, _ = step.make()
            return repro_mlir.Trainer(model, None, optimizer, receipt=receipt, **chosen)

        _, _, batch = step.make()

        plain = trainer(None)
        with trainer(repro_mlir.ReceiptOptions(receipt, checkpoint_every=10**9)) as recorded:
            steps = {"plain": lambda: plain.step(*batch), "recorded": lambda: recorded.step(*batch)}
            figures = interleaved(steps, options.seconds)
            state = list(recorded.state.values())
            seconds = []
            for number in range(1, CHECKPOINTS + 1):
                start = time.perf_counter()
                checkpoints.write(receipt, number, recorded.program.state, state)
                seconds.append(time.perf_counter() - start)
                checkpoints.path_of(receipt, number).unlink()
            log = (receipt / "steps.jsonl").stat().st_size / recorded.steps
    size = sum(array.nbytes for array in state)
    report = {
        "step": step.shape,
        "target": options.target,
        "threads": options.threads,
        "state_bytes": size,
        "plain_ms": {"median": 1e3 * figures["plain"].median, "best": 1e3 * figures["plain"].best},
        "recorded_ms": {"median": 1e3 * figures["recorded"].median, "best": 1e3 * figures["recorded"].best},
        "slower_percent": {
            "median": 100 * (figures["recorded"].median / figures["plain"].median - 1),
            "best": 100 * (figures["recorded"].best / figures["plain"].best - 1),
        },
        "samples": figures["plain"].samples,
        "record_bytes": log,
        "checkpoint_ms": {"median": 1e3 * float(np.median(seconds)), "best": 1e3 * min(seconds)},
        "load": round(os.getloadavg()[0], 2),
    }
    if options.json:
        print(json.dumps(report, indent=1))
        return
    print(f"{options.step}: {report['step']}, state {size / 1e6:.0f} MB, {options.target}, threads: {options.threads}")
    for name, title in (("plain_ms", "plain"), ("recorded_ms", "recorded"), ("checkpoint_ms", "checkpoint")):
        print(f"{title:<11} {report[name]['median']:9.1f} ms median {report[name]['best']:9.1f} ms best")
    slower = report["slower_percent"]
    print(f"slower      {slower['median']:9.1f} %         {slower['best']:9.1f} %   of {report['samples']} samples")
    print(f"record      {log:9.0f} bytes per step; load of the machine {report['load']}")


if __name__ == "__main__":
    main()
