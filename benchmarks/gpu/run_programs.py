# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs training steps on the GPU, compares their results with hashes recorded on the CPU, and times the steps."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cases import trainings
from inputs import arrays
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.runner import Bundle, Device, Session
from repro_mlir.runner.execution import choose_architecture
from results import Results


def facts_of(directory: Path, *kinds: str) -> list[dict[str, Any]]:
    """Returns the facts about each prepared bundle of these kinds ("example", "training", "call", "product"), as
    prepare.py wrote them."""
    found = [json.loads(path.read_text()) for path in sorted((directory / "bundles").glob("*.json"))]
    return [facts for facts in found if facts["kind"] in kinds]


def steps_of(facts: dict[str, Any], bundle: Bundle) -> list[list[np.ndarray]]:
    """Returns the inputs of each step of a bundle."""
    if facts["kind"] == "example":
        return [bundle.recorded_inputs(step) for step in range(bundle.steps)]
    (training,) = [training for training in trainings(facts["tiny"]) if training.name == facts["name"]]
    hyper = [np.array(value, kind.dtype) for value, kind in zip(facts["hyper"], bundle.inputs, strict=False)]
    return [[*hyper, *arrays(training.arguments)]] * 2


def runnable(names: Sequence[str], capability: tuple[int, int]) -> list[str]:
    """Returns those architectures of a bundle whose PTX can run on a GPU of this compute capability."""
    found = []
    for name in names:
        with contextlib.suppress(ReproError):
            found.append(choose_architecture([name], capability, name))
    return found


def run_programs(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Adds rows for each program: one for machine code, if it is for this GPU, and one for each PTX that the GPU
    accepts. All runs of machine code come first."""
    runs: list[tuple[dict[str, Any], Bundle, str, bool]] = []
    for facts in facts_of(directory, "example", "training"):
        results.attempt("programs", f"open {facts['name']}", lambda facts=facts: Bundle(_path(directory, facts)))
        try:
            bundle = Bundle(_path(directory, facts))
        except ReproError:
            continue
        if bundle.expected is None:
            continue
        best = choose_architecture(bundle.architectures, device.capability, facts["name"])
        if bundle.has_cubin(best) and best == device.architecture:
            runs.append((facts, bundle, best, True))
        runs += [(facts, bundle, name, False) for name in runnable(bundle.architectures, device.capability)]
    for facts, bundle, architecture, use_cubin in sorted(runs, key=lambda run: not run[3]):
        what = f"{facts['name']}, {'cubin' if use_cubin else 'PTX'} {architecture}"
        if what in results.begun["programs"]:
            continue
        if time.perf_counter() > deadline:
            results.note("programs", f"no time left for {what} and what follows it")
            return
        results.attempt(
            "programs",
            what,
            lambda facts=facts, bundle=bundle, architecture=architecture, use_cubin=use_cubin: _run(
                facts, bundle, device, results, architecture, use_cubin
            ),
        )


def _path(directory: Path, facts: dict[str, Any]) -> Path:
    return directory / "bundles" / facts["file"]


def _run(
    facts: dict[str, Any], bundle: Bundle, device: Device, results: Results, architecture: str, use_cubin: bool
) -> None:
    assert bundle.expected is not None
    begin = time.perf_counter()
    different: list[str] = []
    with Session(bundle, device, use_cubin=use_cubin, architecture=architecture) as session:
        loaded = time.perf_counter()
        steps = steps_of(facts, bundle)
        for number, inputs in enumerate(steps, 1):
            outputs = session.step(*inputs)
            for kind in bundle.outputs:
                wanted = bundle.expected.outputs[kind.name][number - 1]
                if tensor_hash(outputs[kind.name], kind.element) != wanted:
                    different.append(f"{kind.name} of step {number}")
            if number in bundle.expected.tensors:
                pairs = zip(bundle.state, bundle.expected.tensors[number], session.tensor_digests(), strict=True)
                different += [
                    f"{kind.name} after step {number}" for kind, wanted, found in pairs if found.hex() != wanted
                ]
        done = time.perf_counter()
        seconds = session.replay(3)
    more = f" and {len(different) - 5} more" if len(different) > 5 else ""
    results.add(
        "programs",
        program=facts["name"],
        code=f"{session.image} {architecture}",
        steps=len(steps),
        tensors=len(bundle.state),
        bits=f"DIFFERENT: {', '.join(different[:5])}{more}" if different else "equal",
        step_ms=1e3 * seconds,
        load_s=loaded - begin,
        check_s=done - loaded,
        device_MB=session.allocated / 1e6,
    )
