# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The command line of the runner, which runs a bundle."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from repro_mlir.base.command_line import Parser, Status, positive, run_command
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.npz import load_inputs
from repro_mlir.base.files.storage import check_can_write, write_file
from repro_mlir.base.files.tensor_file import load_tensors, write_tensors
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.base.printing import tell
from repro_mlir.runner.bundle import Bundle, is_bundle
from repro_mlir.runner.session import Session


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a bundle; returns the exit status.

    The status is 1 if results differ from the expected ones; see `run_command` for the status of errors.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return run_command("runner", lambda: _options(given), lambda options: run(Bundle(options.bundle), options))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="runner", description="Runs the steps of a bundle on a GPU.")
    # If this process was started as `python model.rmb`, the runner inside the bundle is running, so no argument names
    # the bundle.
    own = sys.argv[0] if is_bundle(sys.argv[0]) else None
    if own is None:
        parser.add_argument("bundle", metavar="BUNDLE", help="a file written by repro compile --target cuda")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if own is not None:
        options.bundle = own
    return options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `run`. The callers add --json and the argument for the bundle."""
    parser.add_argument(
        "--steps", type=positive, metavar="N", help="steps (as many as the bundle has inputs for, at least 1)"
    )
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the number of the GPU (0)")
    parser.add_argument("--inputs", metavar="FILE", help=".npz with an array for each input, the same in each step")
    parser.add_argument("--state", metavar="FILE", help="start from this state (safetensors) instead of the bundle's")
    parser.add_argument("--save", metavar="FILE", help="write the final state (safetensors)")
    parser.add_argument("--ptx", action="store_true", help="let the driver assemble the PTX, even if there is a cubin")


def run(bundle: Bundle, options: argparse.Namespace) -> int:
    """Runs steps of a bundle and prints their results. Returns 1 if they are not the results that the bundle expects,
    else 0."""
    steps = options.steps or max(bundle.steps, 1)
    if options.save:
        check_can_write(options.save, ".safetensors")
    inputs = load_inputs(options.inputs, bundle.inputs) if options.inputs else None
    if inputs is None:
        bundle.recorded_inputs(steps - 1)
    with Session(bundle, options.device, use_cubin=not options.ptx) as session:
        if options.state:
            arrays = load_tensors(bundle.state, options.state)
            session.set_state({kind.name: array for kind, array in zip(bundle.state, arrays, strict=True)})
        elif session.state_hash() != bundle.initial_state_hash:
            raise ReproError(f"{bundle.path}: the initial state does not have the hash that the manifest gives")
        hashes: dict[str, list[str]] = {kind.name: [] for kind in bundle.outputs}
        scalars: dict[str, list[float]] = {kind.name: [] for kind in bundle.outputs if not kind.shape}
        start = time.perf_counter()
        for step in range(steps):
            outputs = session.step(*(bundle.recorded_inputs(step) if inputs is None else inputs))
            for kind in bundle.outputs:
                hashes[kind.name].append(tensor_hash(outputs[kind.name], kind.element))
                if not kind.shape:
                    scalars[kind.name].append(outputs[kind.name].item())
        seconds = time.perf_counter() - start
        compares = inputs is None and not options.state
        differences = _differences(session, bundle, steps, hashes) if compares else None
        if options.save:
            state = session.state()
            write_file(options.save, write_tensors(bundle.state, [state[kind.name] for kind in bundle.state]))
        report = {
            "program": bundle.program,
            "device": session.device.name,
            "driver": session.device.driver.version(),
            "code": f"{session.image} for {session.architecture}",
            "memory": session.allocated,
            "steps": steps,
            "outputs": {name: values[-1] for name, values in hashes.items()},
            "scalars": scalars,
            "seconds": round(seconds, 4),
            "state_hash": session.state_hash(),
            "differences": differences,
        }
    _print(report, options.json)
    if differences:
        told = "; ".join(differences[:3])
        tell(f"runner: the results are not those that the bundle expects: {told}", stream=sys.stderr)
        return Status.WRONG
    return 0


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        tell(json.dumps(report))
        return
    for name, values in report["scalars"].items():
        told = f"after {report['steps']} step{'' if report['steps'] == 1 else 's'}"
        tell(f"{name:8} {values[-1]:.6f} {told} (first {values[0]:.6f})")
    tell(f"state    {report['state_hash']}")
    tell(f"program  {report['program']}")
    tell(f"device   {report['device']}, {report['code']}, {report['memory']:,} bytes, CUDA {report['driver']}")
    tell(f"time     {report['seconds']:.3f} s")
    if report["differences"] == []:
        tell("equal to what the bundle expects")


def _differences(session: Session, bundle: Bundle, steps: int, hashes: dict[str, list[str]]) -> list[str] | None:
    """Returns a line for each result that differs from what the bundle expects; None if the bundle has no expected
    results."""
    expected = bundle.expected
    if expected is None:
        return None
    found = []
    for name, values in expected.outputs.items():
        for step, (wanted, got) in enumerate(zip(values, hashes[name], strict=False)):
            if wanted != got:
                found.append(f"output {name} of step {step + 1}: expected {wanted}, got {got}")
                break
    if steps in expected.tensors:
        digests = [digest.hex() for digest in session.tensor_digests()]
        pairs = zip(bundle.state, expected.tensors[steps], digests, strict=True)
        found += [f"state {kind.name}: expected {wanted}, got {got}" for kind, wanted, got in pairs if wanted != got]
    return found
