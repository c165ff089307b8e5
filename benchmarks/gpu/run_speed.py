# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the speed of functions and training steps on the GPU, and of PyTorch's eager mode in the same process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases import Call, Training, calls, trainings
from inputs import arrays
from machine import peak_flops, torch_on_gpu
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.runner import Bundle, Device, Session
from repro_mlir.runner.execution import choose_runnable
from results import Results
from run_programs import facts_of, steps_of

_BANDWIDTH = "bandwidth of a copy, GB/s"
_ROUNDS = 3
_SECONDS = 0.04  # GPU time in seconds for each contestant in each round


def run_speed(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Adds one row for each prepared function and training step; the training steps come first."""
    peak = peak_flops(device)
    results.attempt("speed", "bandwidth of a copy", lambda: results.facts.update({_BANDWIDTH: _bandwidth() * 1e-9}))
    bandwidth = results.facts.get(_BANDWIDTH, 0.0) * 1e9
    cases: dict[str, Call | Training] = {}
    found = facts_of(directory, "training", "call")
    for facts in found:
        for case in (*trainings(facts["tiny"]), *calls(facts["tiny"])):
            cases[case.name] = case
    order = list(cases)
    for facts in sorted((facts for facts in found if facts["name"] in cases), key=lambda f: order.index(f["name"])):
        if facts["name"] in results.begun.get("speed", []):
            continue
        if time.perf_counter() > deadline:
            results.note("speed", f"no time left for {facts['name']} and what follows it")
            return
        case = cases[facts["name"]]
        measure = _call if isinstance(case, Call) else _training

        def row(case: Any = case, facts: dict[str, Any] = facts, measure: Callable[..., Any] = measure) -> None:
            bundle = Bundle(directory / "bundles" / facts["file"])
            ours, theirs, bits = measure(case, facts, bundle, device)
            digest = bundle.code(choose_runnable(bundle.architectures, device, case.name)).digest
            entry: dict[str, Any] = {"name": case.name, "digest": digest, "ours_ms": 1e3 * ours}
            if theirs:
                entry |= {"torch_ms": 1e3 * theirs, "torch/ours": theirs / ours}
            if case.flops:
                entry |= {"TFLOP/s": case.flops / ours * 1e-12}
                # The f32 peak does not limit exact contractions, because they run on tensor cores.
                if peak and not getattr(case, "digits", 0):
                    entry["% of peak"] = 100 * case.flops / ours / peak
            elif getattr(case, "bytes", 0):
                entry |= {"GB/s": case.bytes / ours * 1e-9}
                if bandwidth:
                    entry["% of copy"] = 100 * case.bytes / ours / bandwidth
            results.add("speed", **entry, bits=bits or compared(case.name, results))

        results.attempt("speed", facts["name"], row)


def interleaved(ours: Callable[[int], float], theirs: Callable[[int], float] | None) -> tuple[float, float | None]:
    """Returns the median seconds per call of `ours` and of `theirs`, which take turns. Each is a function that makes n
    calls and returns the seconds per call."""
    contestants = [ours] if theirs is None else [ours, theirs]
    counts = [max(2, min(200, int(_SECONDS / max(function(2), 1e-7)))) for function in contestants]
    times: list[list[float]] = [[] for _ in contestants]
    for _ in range(_ROUNDS):
        for function, count, collected in zip(contestants, counts, times, strict=True):
            collected.append(function(count))
    medians = [statistics.median(collected) for collected in times]
    return medians[0], medians[1] if theirs is not None else None


def timed(torch: Any, function: Callable[[], object]) -> Callable[[int], float]:
    """Returns a function that calls `function` a given number of times and returns the GPU seconds per call."""

    def run(count: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            function()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / count

    return run


def compared(name: str, results: Results) -> str:
    """Returns the text for the bits of this training step: it refers to the part `programs`, which compares them, and
    says if they differ or were not compared."""
    rows = [row for row in results.parts.get("programs", []) if row["program"] == name]
    if not rows:
        return "not compared"
    return "see programs" if all(row["bits"] == "equal" for row in rows) else "DIFFERENT: see programs"


def _call(case: Call, facts: dict[str, Any], bundle: Bundle, device: Device) -> tuple[float, float | None, str]:
    given = arrays(case.arguments)
    torch = torch_on_gpu()
    if torch is None:
        with Session(bundle, device) as session:
            bits = _compare(session, session.step(*given), facts)
            ours, _ = interleaved(session.replay, None)
            return ours, None, bits
    tensors = [torch.from_numpy(value).cuda() for value in given]
    torch.cuda.synchronize()
    bound = {kind.name: tensor for kind, tensor in zip(bundle.inputs, tensors, strict=True)}
    with Session(bundle, device, inputs=bound) as session:
        bits = _compare(session, session.step(), facts)
        ours, theirs = interleaved(session.replay, timed(torch, lambda: case.function(*tensors)))
    return ours, theirs, bits


def _compare(session: Session, outputs: dict[str, Any], facts: dict[str, Any]) -> str:
    different = [
        kind.name
        for kind in session.bundle.outputs
        if tensor_hash(outputs[kind.name], kind.element) != facts["outputs"][kind.name]
    ]
    return f"DIFFERENT: {', '.join(different)}" if different else "equal"


def _training(case: Training, facts: dict[str, Any], bundle: Bundle, device: Device) -> tuple[float, float | None, str]:
    torch = torch_on_gpu()
    theirs = None
    if torch is not None:
        model = case.model().cuda()
        optimizer = case.optimizer(model)
        batch = [torch.from_numpy(value).cuda() for value in arrays(case.arguments)]

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            model(*batch).backward()
            optimizer.step()

        theirs = timed(torch, step)
    with Session(bundle, device) as session:
        session.step(*steps_of(facts, bundle)[0])
        ours, other = interleaved(session.replay, theirs)
    if torch is not None:
        # The memory of the peer is freed only after these names are deleted.
        del model, optimizer, batch, step, theirs
        torch.cuda.empty_cache()
    return ours, other, ""  # bits are compared by the part `programs`


def _bandwidth() -> float:
    """Returns the bytes that torch reads and writes per second in a 2 GiB copy, or 0 without torch."""
    torch = torch_on_gpu()
    if torch is None:
        return 0.0
    source = torch.empty(1 << 29, device="cuda")
    target = torch.empty_like(source)
    copy = timed(torch, lambda: target.copy_(source))
    copy(3)
    return 2 * source.nbytes / min(copy(5) for _ in range(3))
