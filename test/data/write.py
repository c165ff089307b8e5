# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes a program file and a bundle of the current format into a new folder next to this file.

    python test/data/write.py form-2

Stored files never change: later versions must read them (test/python/program/test_stored_files.py).
"""

import json
import os
import sys
from pathlib import Path

from repro_mlir.bundle.writer import capture_steps, expect, write_bundle
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.frontends.torch.scripts import load_training

HERE = Path(__file__).parent
STEPS = 2


def write(folder: Path) -> None:
    # Locations contain the path of the script as given here.
    os.chdir(HERE)
    program, steps = capture_steps(load_training("training.py"), STEPS)
    expected = expect(program, steps)
    folder.mkdir()
    program.save(folder / "program.repro")
    codes = compile_for(program, ["sm_75"], assembled=False)
    write_bundle(folder / "bundle.rmb", program, codes, steps=steps, expected=expected)
    record = {"program": program.hash, "steps": STEPS, "state": expected.state[STEPS]}
    (folder / "expected.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    write(HERE / sys.argv[1])
