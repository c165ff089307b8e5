# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the time of each launch of a step on the GPU, with the clock of the GPU (CUPTI, through PyTorch's
profiler)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from cases import Call, calls
from inputs import arrays
from machine import torch_on_gpu
from repro_mlir.runner import Bundle, Device, Session
from repro_mlir.runner.execution import choose_runnable
from results import Results
from run_programs import facts_of, steps_of
from tensor_cores import products

_STEPS = 5


def run_launches(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Adds a row for each function, training step and matrix product, with the median times of its launches."""
    torch = torch_on_gpu()
    if torch is None:
        return
    torch.zeros(1, device="cuda")
    for facts in facts_of(directory, "training", "call", "product"):
        if time.perf_counter() > deadline:
            results.note("launches", f"no time left for {facts['name']} and what follows it")
            return
        results.attempt("launches", facts["name"], lambda facts=facts: _run(directory, facts, device, results, torch))


def _inputs(facts: dict[str, Any], bundle: Bundle) -> list[np.ndarray]:
    if facts["kind"] == "training":
        return steps_of(facts, bundle)[0]
    cases: list[Any] = calls(facts["tiny"]) if facts["kind"] == "call" else products(facts["tiny"])
    (case,) = [each for each in cases if each.name == facts["name"]]
    return arrays(case.arguments) if isinstance(case, Call) else case.operands()


def _run(directory: Path, facts: dict[str, Any], device: Device, results: Results, torch: Any) -> None:
    bundle = Bundle(directory / "bundles" / facts["file"])
    architecture = choose_runnable(bundle.architectures, device, facts["name"])
    code = bundle.code(architecture)
    names = [code.plan.kernels[launch.kernel].name for launch in code.plan.launches]
    with Session(bundle, device, architecture=architecture) as session:
        session.step(*_inputs(facts, bundle))
        step = session.replay(_STEPS)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            session.replay(_STEPS)
    found = [event for event in profile.profiler.kineto_results.events() if event.name() in set(names)]
    found.sort(key=lambda event: event.start_ns())
    # replay() first runs an additional step, which is not timed.
    if [event.name() for event in found] != names * (_STEPS + 1):
        raise AssertionError(f"expected {len(names)} launches of {_STEPS + 1} steps, the profiler saw {len(found)}")
    times = np.array([event.duration_ns() for event in found]).reshape(_STEPS + 1, len(names))[1:]
    starts = np.array([event.start_ns() for event in found]).reshape(_STEPS + 1, len(names))[1:]
    gaps = starts[:, 1:] - (starts + times)[:, :-1]
    results.add(
        "launches",
        name=facts["name"],
        architecture=architecture,
        digest=code.digest,
        step_ms=1e3 * step,
        kernels_ms=1e-6 * float(np.median(times.sum(1))),
        gap_us=1e-3 * float(np.median(gaps)) if gaps.size else 0.0,
        kernels=names,
        us=np.round(1e-3 * np.median(times, 0), 3).tolist(),
    )
