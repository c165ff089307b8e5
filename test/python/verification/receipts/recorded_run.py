# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records receipts without importing PyTorch: takes the program and the batches from a finished receipt.

    python recorded_run.py SOURCE STEPS

Reads lines of JSON: the name of a receipt, and the seconds after which to kill its writer (null: never). A forked
process, which has all modules loaded, writes each receipt; prints whether the process ended or was cut off.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from repro_mlir import Receipt, ReceiptOptions, compile
from repro_mlir.execute.executable import Executable
from repro_mlir.verification.receipts.recorder import Recorder

EVERY = 7


def run(source: Receipt, executable: Executable, path: Path, steps: int) -> None:
    """Starts or resumes a receipt at `path`, records steps until it has `steps` of them, and seals it. Repeats the
    batches of `source`."""
    options = ReceiptOptions(path, checkpoint_every=None if path.exists() else EVERY, resume=True)
    recorder = Recorder(options, source.program, "cpu", 1)
    try:
        while recorder.steps < steps:
            inputs = recorder.take(source.program, source.inputs(1 + recorder.cursor % source.log.steps))
            _, outputs = executable(recorder.state, *inputs)
            recorder.commit(inputs, list(outputs.values()))
        recorder.seal()
    finally:
        recorder.close()


if __name__ == "__main__":
    source = Receipt(sys.argv[1])
    executable = compile(source.program, "cpu", 1)
    for line in sys.stdin:
        path, seconds = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                run(source, executable, Path(path), int(sys.argv[2]))
                os._exit(0)
            finally:
                os._exit(1)
        if seconds is not None:
            time.sleep(seconds)
            # The child has not been reaped, so its process ID cannot belong to another process.
            os.kill(child, signal.SIGKILL)
        print("ended" if os.waitpid(child, 0)[1] == 0 else "cut off", flush=True)
