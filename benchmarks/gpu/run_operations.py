# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the results of single PTX operations on the GPU with checksums that a CPU has computed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from repro_mlir.runner import Device
from repro_mlir.runner.execution import Execution, TargetCode
from repro_mlir.runner.plan import read_plan
from results import Results


def run_operations(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Adds a row for the machine code, if it was compiled for this GPU, and one for each PTX module that the GPU
    accepts. A row has the number of operations whose checksums match, and the names of the others."""
    folder = directory / "conformance"
    expected = json.loads((folder / "expected.json").read_text())
    for architecture in (75, 90):
        for use_cubin in (True, False):
            cubin = folder / f"sm_{architecture}.cubin"
            fits = cubin.exists() and device.architecture == f"sm_{architecture}"
            newer = architecture > 10 * device.capability[0] + device.capability[1]
            if newer or (use_cubin and not fits) or time.perf_counter() > deadline:
                continue
            plan = read_plan((folder / f"sm_{architecture}.plan").read_bytes(), "gpu", folder.name)
            code = TargetCode(
                f"sm_{architecture}",
                cubin.read_bytes() if fits else None,
                (folder / f"sm_{architecture}.ptx").read_bytes(),
                plan,
                b"",
            )
            results.attempt(
                "operations",
                f"{'cubin' if use_cubin and fits else 'PTX'} sm_{architecture}",
                lambda code=code, cubin=use_cubin: _run(code, device, results, cubin, expected),
            )


def _run(code: TargetCode, device: Device, results: Results, use_cubin: bool, expected: dict) -> None:
    start = time.perf_counter()
    with Execution(device, code, use_cubin=use_cubin) as execution:
        loaded = time.perf_counter()
        execution.start()
        execution.finish()
        done = time.perf_counter()
        different = []
        for index, output in enumerate(code.plan.outputs):
            found = (
                execution.read("output", index).view(np.uint64).reshape(-1, expected["parts"]).sum(0, dtype=np.uint64)
            )
            wrong = np.flatnonzero(found != np.array(expected["sums"][output.name], np.uint64))
            if wrong.size:
                different.append(f"{output.name} ({wrong.size} of {expected['parts']} parts)")
    results.add(
        "operations",
        code=f"{execution.image} sm_{code.architecture.removeprefix('sm_')}",
        operations=len(code.plan.outputs),
        patterns=expected["threads"] * expected["steps"],
        bits=f"DIFFERENT: {', '.join(different)}" if different else "equal",
        load_s=loaded - start,
        run_s=done - loaded,
    )
