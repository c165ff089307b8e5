# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far each of PyTorch's OpInfo entries gets: captured, imported, close to eager, bit-equal on CPUs and as PTX.

As a script: runs every entry of an element type (float32 by default), forward and backward, through all stages, in
separate processes, and writes one JSON line per entry and a table of counts. Types other than float32 end with the
comparison with eager PyTorch.

    python test/python/coverage/operator_coverage.py [--dtype TYPE] [--jobs N] [--out FILE] [--programs FOLDER]
        [--accept] [NAME ...]

With --programs, captured programs are stored in the folder and reused if they exist. With --accept, the outcomes
become the expected ones (expected.json or expected_TYPE.json), and docs/coverage/TYPE.md is rewritten.
"""

from __future__ import annotations

import functools
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from processes import run_in_processes
from stages import Run
from suite import Outcome, Suite, report
from suite import parser as command_line

DTYPES = ("float32", "bfloat16", "int64", "uint8", "bool", "complex64")
"""Element types whose entries are run."""

STAGES = [
    *("no-sample", "capture", "import", "interpret", "accuracy", "compile", "bits"),
    *("ptx-compile", "ptx-bits", "assemble", "crash", "timeout", "ok"),
]
"""Stages at which an entry can end: the stage that failed, or `ok`. `no-sample`: there is nothing to compare."""

DEVICES = ("sm_75", "sm_90")
"""Architectures whose PTX runs on the emulator."""


def _captured(name: str, folder: Path | None, dtype: str) -> dict[str, Any]:
    """Captures an entry, or reads it from `folder` if it is stored there. Returns a dictionary: the program's text, its
    arguments, the expected results (None if they are random), and whether it has a backward pass."""
    import torch

    file = folder / f"{name}.pickle" if folder else None
    if file and file.exists():
        found: dict[str, Any] = pickle.loads(file.read_bytes())
        return found
    import opinfo_capture

    program = opinfo_capture.capture_entry(name, getattr(torch, dtype))
    found = {
        "text": program.text,
        "arguments": [_numpy(a) for a in program.arguments],
        "expected": None if program.expected is None else [_numpy(e) for e in program.expected],
        "backward": program.has_backward,
    }
    if file:
        file.write_bytes(pickle.dumps(found))
    return found


def _numpy(tensor: Any) -> Any:
    """Converts a torch tensor to a NumPy array; bfloat16 becomes float32 with the same values."""
    import torch

    tensor = tensor.detach().resolve_conj().resolve_neg()
    # PyTorch may represent a gradient that is zero by a tensor without memory.
    tensor = torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()


def compare(got: Any, want: Any, number: int, dtype: str) -> None:
    """Raises AssertionError unless a result is close to that of eager PyTorch. Integers must be equal unless `dtype` is
    float32."""
    import numpy as np

    if dtype != "float32" and want.dtype.kind in "bi":
        np.testing.assert_array_equal(got.astype(want.dtype), want, err_msg=f"result {number}", verbose=False)
        return
    # Both PyTorch and a program (V1) round to bfloat16 after each operator. Within an operator, a program computes in
    # f32, but PyTorch may not, so the results may differ.
    rtol, atol = (2e-2, 1e-2) if dtype == "bfloat16" else (1e-3, 1e-4)
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol, atol, err_msg=f"result {number}", verbose=False)


def run_entry(name: str, folder: Path | None = None, dtype: str = "float32") -> Outcome:
    """Runs an entry through the stages in this process. Returns the stage that it reached; never raises an
    exception."""
    import torch
    from opinfo_capture import NoSampleError
    from repro_mlir.compilation import gpu as device_code
    from support import assembling, device_kit, kit

    torch.set_num_threads(1)
    run = Run(name, "capture")
    try:
        captured = _captured(name, folder, dtype)
        run.backward = captured["backward"]
        run.load(captured["text"])
        results = run.interpret(*captured["arguments"])
        if captured["expected"] is not None:
            for number, (got, want) in enumerate(zip(results, captured["expected"], strict=True)):
                compare(got, want, number, dtype)
        if dtype != "float32":
            # Here, targets are compared only on float32; test/python/differential compares them on other element types.
            return run.ok()
        run.stage = "compile"
        kit.compiled(run.canonical, run.inputs, kit.configurations()[0], runs=1)
        run.stage = "bits"
        kit.check(run.canonical, run.inputs, want=run.bits)
        program = run.interpreter.program
        for arch in DEVICES:
            run.stage = "ptx-compile"
            code = device_code.compile(run.canonical, arch)
            run.stage = "ptx-bits"
            kit.compare(program, run.bits, device_kit.run_code(code, program, run.inputs), arch)
        run.stage = "assemble"
        # Each entry is assembled for one architecture, chosen by its name's hash, so that all entries cover all
        # architectures.
        arch = device_code.architectures()[zlib.crc32(name.encode()) % len(device_code.architectures())]
        assembling.check([device_code.compile(run.canonical, arch).ptx], arch)
    except NoSampleError:
        return Outcome(name, "no-sample", "no sample with two elements in a result")
    except (Exception, SystemExit) as error:
        return run.failed(error)
    return run.ok()


def run_all(
    names: Sequence[str], jobs: int, run: Callable[[str], Outcome] = run_entry, limit: float = 300.0
) -> Iterator[Outcome]:
    """Runs each entry in a process of its own, `jobs` at a time, and yields the outcomes as the processes end."""
    # Imports these modules here, before the fork, so that the child processes need not import them.
    import opinfo_capture  # noqa: F401
    import torch
    from support import kit  # noqa: F401

    # Several entries run at the same time; waiting OpenMP threads of one would take processor time from the others.
    torch.set_num_threads(1)
    return run_in_processes(run, names, jobs, limit, "fork")


_MEANINGS = {
    "float32": [
        "with results close to eager PyTorch (rtol 1e-3, atol 1e-4), bit-equal to it on every CPU level of the",
        f"machine and as PTX for {' and '.join(DEVICES)} on the emulator, and taken by ptxas for one GPU.",
    ],
    "bfloat16": ["with results close to eager PyTorch (rtol 2e-2, atol 1e-2)."],
    "int64": ["with results equal to eager PyTorch, floats among them close (rtol 1e-3, atol 1e-4)."],
    "uint8": ["with results equal to eager PyTorch, floats among them close (rtol 1e-3, atol 1e-4)."],
    "bool": ["with results equal to eager PyTorch, floats among them close (rtol 1e-3, atol 1e-4)."],
    "complex64": ["with results close to eager PyTorch (rtol 1e-3, atol 1e-4), complex numbers as pairs (Z1)."],
}


def suite(dtype: str = "float32") -> Suite:
    """Returns the suite for an element type, with its stages and documents."""
    is_plain = dtype == "float32"
    return Suite(
        script="operator_coverage.py",
        name="" if is_plain else dtype,
        title="Coverage of PyTorch's operators" + ("" if is_plain else f" on {dtype}"),
        stages=STAGES,
        about=lambda: [
            f"Each entry is an operator test of PyTorch (OpInfo) for {dtype}: the first sample whose result has two",
            "elements, forward and backward. `ok` means: captured, imported, run by the reference interpreter",
            *_MEANINGS[dtype],
        ],
        columns={"with backward": lambda outcome: outcome.backward},
    )


def main() -> None:
    """Runs all entries, or those named on the command line, and prints their table."""
    parser = command_line(__doc__)
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="element type of the entries")
    parser.add_argument("--programs", type=Path, help="folder that keeps what was captured")
    options = parser.parse_args()
    import opinfo_capture
    import torch

    if options.programs:
        options.programs.mkdir(parents=True, exist_ok=True)
    run = functools.partial(run_entry, folder=options.programs, dtype=options.dtype)
    names = options.names or list(opinfo_capture.entries(getattr(torch, options.dtype)))
    report(suite(options.dtype), run_all(names, options.jobs, run), options)


if __name__ == "__main__":
    main()
