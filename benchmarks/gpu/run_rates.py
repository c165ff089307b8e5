# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures instructions per cycle, latencies, bandwidths and the time of a launch on the GPU."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from rates import (
    BLOCK,
    CHAINS,
    CHASE_LOADS,
    CHASES,
    DEPTH,
    EMPTY,
    STREAMS,
    Stream,
    empty_plan,
    rate_plan,
    rates_of,
    stream_bytes,
    stream_plan,
)
from repro_mlir.runner import Device
from repro_mlir.runner.execution import Execution, TargetCode
from repro_mlir.runner.plan import read_plan
from results import Results

_RUNS = 5

Make = Callable[[bytes], Execution]


def run_rates(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Adds rows: the cycles of each instruction, the latency of each memory level, the bandwidth of each stream, and
    the time of a launch."""
    folder = directory / "rates"
    if not folder.exists():
        return
    architecture = json.loads((folder / "rates.json").read_text())["architecture"]
    cubin = folder / "rates.cubin"
    images = cubin.read_bytes() if cubin.exists() else None, (folder / "rates.ptx").read_bytes()

    def execution(plan: bytes) -> Execution:
        code = TargetCode(architecture, *images, read_plan(plan, "gpu", "rates"), b"")
        # `certifying` permits tensor core instructions on a GPU without a certificate: the results are not used here.
        return Execution(device, code, certifying=True)

    results.attempt("rates", "instructions", lambda: _instructions(execution, architecture, device, results))
    for stream in STREAMS:
        if time.perf_counter() > deadline:
            results.note("rates", f"no time left for {stream.name} and what follows it")
            return
        results.attempt("rates", stream.name, lambda stream=stream: _stream(execution, device, results, stream))
    for blocks in (1, device.processors, 16 * device.processors):
        results.attempt(
            "rates", f"launches of {blocks}", lambda blocks=blocks: _launch(execution, device, results, blocks)
        )


def _seconds(execution: Execution, device: Device) -> float:
    execution.start()
    found = []
    for _ in range(_RUNS):
        start = device.event()
        execution.start()
        found.append(device.elapsed(start, device.event()))
    execution.finish()
    return min(found)


def _instructions(make: Make, architecture: str, device: Device, results: Results) -> None:
    rates = rates_of(architecture)
    with make(rate_plan(architecture, device.processors)) as running:
        running.start()
        running.start()
        running.finish()
        # Runs twice: the first run writes the zeros that the chases of the second run read.
        for number, rate in enumerate(rates):
            cycles = running.read("output", 1 + 2 * number)
            alone = int(running.read("output", 2 + 2 * number)[0])
            asked = rate.iterations * CHAINS * DEPTH * rate.instructions
            results.add(
                "rates",
                name=rate.name,
                per_cycle=BLOCK * asked / float(sorted(cycles.tolist())[len(cycles) // 2]),
                latency=alone / asked,
            )
        for number, chase in enumerate(CHASES, 1 + 2 * len(rates)):
            cycles = running.read("output", number)
            results.add("rates", name=chase.name, latency=int(cycles[0]) / CHASE_LOADS)


def _stream(make: Make, device: Device, results: Results, stream: Stream) -> None:
    with make(stream_plan(stream, device.processors)) as running:
        seconds = _seconds(running, device)
        results.add("rates", name=stream.name, **{"GB/s": 1e-9 * stream_bytes(stream) / seconds})


def _launch(make: Make, device: Device, results: Results, blocks: int) -> None:
    with make(empty_plan(blocks)) as running:
        results.add("rates", name=f"launch of {blocks} blocks in a row", us=1e6 * _seconds(running, device) / EMPTY)
