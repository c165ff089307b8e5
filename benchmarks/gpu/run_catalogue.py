# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the programs of the tests on the GPU and compares every bit of the results with those of the reference
interpreter."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import numpy as np
from catalogue import Expectation, load_catalogue
from repro_mlir.base.errors import StepFailed
from repro_mlir.runner import Device
from repro_mlir.runner.execution import Execution
from results import Results

_BATCH = 100
_RUNS = 2
_GARBAGE = 0xA5


def run_catalogue(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Adds a row for each batch of programs, with the names of those whose results differ."""
    path = directory / "catalogue.zip"
    if not path.exists():
        return
    cases = load_catalogue(path)
    number = 0
    while batch := list(islice(cases, _BATCH)):
        if time.perf_counter() > deadline:
            results.note("catalogue", f"no time left for program {number} and what follows it")
            return
        results.attempt(
            "catalogue",
            f"programs from {number}",
            lambda batch=batch, number=number: _run_batch(batch, number, device, results),
        )
        number += len(batch)


def _run_batch(batch: list[Expectation], number: int, device: Device, results: Results) -> None:
    different = [f"{case.name}: {found}" for case in batch if (found := _difference(case, device))]
    results.add(
        "catalogue",
        programs=f"{number} to {number + len(batch) - 1}",
        by_PTX=sum(case.code.cubin is None for case in batch),
        failing_steps=sum(case.results is None for case in batch),
        bits=f"DIFFERENT: {'; '.join(different)}" if different else "equal",
    )


def _difference(case: Expectation, device: Device) -> str:
    """Returns a description of the first error in a program's results; empty if they are right."""
    plan = case.code.plan
    states, outputs = len(plan.states), len(plan.outputs)
    with Execution(device, case.code) as execution:
        for run in range(_RUNS):
            for space, arrays in (("state", case.states), ("input", case.inputs)):
                for index, array in enumerate(arrays):
                    execution.write(space, index, np.ascontiguousarray(array))
            for index in range(outputs):
                garbage = execution.read("output", index)
                garbage.reshape(-1).view(np.uint8)[:] = _GARBAGE
                execution.write("output", index, garbage)
            execution.start()
            try:
                execution.finish()
                failed = False
            except StepFailed:
                failed = True
            if failed != (case.results is None):
                return f"run {run}: the step {'fails' if failed else 'does not fail'}"
            found = [execution.read("state", index) for index in range(states)]
            if case.results is not None:
                found += [execution.read("output", index) for index in range(outputs)]
            wanted = case.states if case.results is None else case.results
            if len(found) != len(wanted):
                return f"run {run}: {len(found)} results, expected {len(wanted)}"
            for index, (want, got) in enumerate(zip(wanted, found, strict=True)):
                got = got.reshape(-1).view(f"u{got.itemsize}").reshape(want.shape)
                wrong = np.flatnonzero(want.reshape(-1).view(got.dtype) != got.reshape(-1))
                if wrong.size:
                    first = tuple(int(i) for i in np.unravel_index(wrong[0], want.shape))
                    return f"run {run}: result {index}: {wrong.size} of {want.size} elements, first at {list(first)}"
    return ""
