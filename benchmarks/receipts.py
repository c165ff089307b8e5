# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a receipt costs: a training step with and without commitments, in turns, and a kept state.

    python benchmarks/receipts.py [--step GPT] [--threads 2] [--seconds 60] [--target cpu] [--json]

The step with commitments is timed until its record is written, though in a run the hashing goes on while the caller
fetches the next batch.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import repro_mlir
from repro_mlir.arrays import as_array
from repro_mlir.program import capture_training
from repro_mlir.receipts import checkpoints
from repro_mlir.receipts.recorder import Recorder
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

    model, optimizer, batch = STEPS[options.step].make()
    program, captured = capture_training(model, None, optimizer, batch)
    executable = repro_mlir.compile(program, options.target, options.threads)
    tensors = [*captured.hyper_parameters(), *captured.flatten_batch(batch)]
    inputs = [as_array(value, kind, "input") for value, kind in zip(tensors, program.inputs, strict=True)]
    plain = program.initial_state()
    with tempfile.TemporaryDirectory() as folder:
        receipt = repro_mlir.ReceiptOptions(Path(folder) / "receipt", checkpoint_every=10**9)
        recorder = Recorder(receipt, program, options.target, options.threads)

        def recorded() -> None:
            taken = recorder.take(inputs)
            _, outputs = executable(recorder.state, *taken)
            recorder.commit(taken, list(outputs.values()))

        figures = interleaved({"plain": lambda: executable(plain, *inputs), "recorded": recorded}, options.seconds)
        seconds = []
        for step in range(1, CHECKPOINTS + 1):
            start = time.perf_counter()
            checkpoints.write(receipt.path, step, program.state, list(recorder.state.values()))
            seconds.append(time.perf_counter() - start)
        log = (Path(receipt.path) / "steps.jsonl").stat().st_size / recorder.steps
        recorder.close()
    size = sum(array.nbytes for array in plain.values())
    report = {
        "step": STEPS[options.step].shape,
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
