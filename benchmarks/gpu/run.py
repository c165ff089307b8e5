# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Bits and speed on a GPU, from a directory that prepare.py made elsewhere.

    python benchmarks/gpu/run.py DIR [--output results/h200] [--budget 450]

Needs the CUDA driver, Python 3.11, NumPy and, for the peers, PyTorch; nothing of ours but DIR and the files beside this
one, and no network. Parts: `operations` compares checksums of single PTX operations over all patterns with the CPU's;
`programs` compares hashes of training steps with the CPU's, for machine code and for PTX that the driver assembles;
`speed` times functions and training steps beside PyTorch with TF32 off. Results are written after every row. The exit
status is 1 if any bit differs or anything failed.
"""

import argparse
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="PATH", help="results without suffix (DIR/results)")
    parser.add_argument("--budget", type=float, default=450, metavar="S", help="seconds for everything (450)")
    parser.add_argument("--only", metavar="PART", choices=("operations", "programs", "speed"), help="only this part")
    options = parser.parse_args()
    # The runner, and of it alone the modules that the parts import.
    sys.path.insert(0, str(options.directory / "runner.pyz"))
    from machine import describe
    from repro_mlir.runner import Device
    from results import Results
    from run_operations import run_operations
    from run_programs import run_programs
    from run_speed import run_speed

    device = Device()
    start = time.perf_counter()
    output = options.output or options.directory / "results"
    output.parent.mkdir(parents=True, exist_ok=True)
    results = Results(output, describe(device))
    parts = {
        # Each part may take what those before it left, up to a share of the whole.
        "operations": (run_operations, 0.2),
        "programs": (run_programs, 0.6),
        "speed": (run_speed, 1.0),
    }
    for name, (part, share) in parts.items():
        if options.only in (None, name):
            deadline = start + share * options.budget
            results.run(name, lambda part=part, deadline=deadline: part(options.directory, device, results, deadline))
    results.facts["seconds in all"] = round(time.perf_counter() - start, 1)
    results.write()
    return int(results.failed)


if __name__ == "__main__":
    sys.exit(main())
