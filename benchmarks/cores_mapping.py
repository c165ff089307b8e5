# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the mapping onto machines of many cores with a naive one.

    python benchmarks/cores_mapping.py [--script SCRIPT.py ...] [--machine NAME ...]

Maps and simulates the first training step of each script, by default a perceptron, a transformer of images and the
examples. The naive mapping cuts only the outermost parallel loop of each kernel, the batch, and leaves all tensors in
the DRAM, from which each core copies all that it needs. Prints the simulated time of both mappings, the bound of the
second one (docs/guides/many-cores.md), and the ratio of the times; stops if the mappings give different bits.
"""

import argparse
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from repro_mlir._mlir_libs import _repro
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.cores import CoresBackend
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.program import Program

FOLDER = Path(__file__).resolve().parent
SCRIPTS = ("benchmarks/cores_models/perceptron.py", "benchmarks/cores_models/transformer.py",
           "examples/digits_cnn.py", "examples/names_gpt.py")  # fmt: skip
MAPPINGS = {"naive": "cuts=fit strategy=batch multicasts=none homes=dram", "default": ""}


def tool(name: str, *options: str, text: bytes) -> bytes:
    path = Path(_repro.__file__).parent / name
    return subprocess.run([path, *options], input=text, stdout=subprocess.PIPE, check=True).stdout


def map_program(program: str, machine: str, options: str) -> bytes:
    """Returns the core plan of a canonical program, with options of the pipeline `cores-map`."""
    level = native_level()
    pipeline = f"cores-map{{machine={machine} {options}}},cores-lower{{level={level}}}"
    lowered = tool("repro-opt", f"--pass-pipeline=builtin.module({pipeline})", text=program.encode())
    return tool("repro-translate", "--cores-to-plan", f"--level={level}", text=lowered)


def simulate(plan: bytes, program: Program, inputs: list[np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """Returns the report of the first step, and the bits of its results."""
    backend = CoresBackend(plan)
    state = program.initial_state()
    states = [state[kind.name] for kind in program.state]
    outputs = [kind.empty() for kind in backend.outputs]
    backend.run(states, inputs, outputs)
    return backend.report, b"".join(array.tobytes() for array in (*states, *outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", nargs="*", default=[str(FOLDER.parent / name) for name in SCRIPTS])
    parser.add_argument("--machine", nargs="*", default=["spinnaker2", "wormhole-n150"])
    options = parser.parse_args()
    print(f"{'model':14} {'machine':14} {'naive ms':>9} {'ms':>9} {'bound ms':>9} {'naive/ms':>9} {'ms/bound':>9}")
    for script in options.script:
        program, (inputs,) = capture_steps(load_training(script), 1)
        for name in options.machine:
            (naive, want), (report, bits) = (
                simulate(map_program(program.text, name, mapping), program, inputs) for mapping in MAPPINGS.values()
            )
            if bits != want:
                raise SystemExit(f"{script} on {name}: expected equal bits of both mappings, got different ones")
            before, after, bound = naive["seconds"], report["seconds"], report["bound_seconds"]
            print(
                f"{Path(script).stem:14} {name:14} {1e3 * before:9.3f} {1e3 * after:9.3f} {1e3 * bound:9.3f} "
                f"{before / after:9.2f} {after / bound:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
