# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures capture and compilation of the models of test/models, and compares training steps and inference with
PyTorch.

    build/environments/models/bin/python benchmarks/models.py [--filter TEXT ...] [--seconds N]

Our programs and PyTorch use one thread and take turns in one process (timing.py). Times are processor times of all
threads and child processes, which are less noisy than wall-clock time if the machine also does other work. The
compilation cache is empty. Prints the rows of the table in docs/performance/models.md as they are measured. Needs the
environment that `make models-test` creates.
"""

import argparse
import copy
import datetime
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "models"))

import repro_mlir
import torch
from timing import Figure, interleaved
from zoo import CASES, Case

OURS, EAGER = "ours", "PyTorch"
cross_entropy = torch.nn.functional.cross_entropy


def _processor_seconds() -> float:
    """Returns the processor time in seconds of this process and of the child processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = _processor_seconds()
    return function(), _processor_seconds() - start


def _in_turns(ours: Callable[[], Any], eager: Callable[[], Any], seconds: float) -> dict[str, Figure]:
    return dict(interleaved({OURS: ours, EAGER: eager}, seconds, time.process_time))


def _training(case: Case, seconds: float) -> tuple[float, float, dict[str, Figure]]:
    model, batch = case.model(), case.batch()
    eager = copy.deepcopy(model)
    loss_fn, arguments = (None, (batch,)) if isinstance(batch, dict) else (cross_entropy, batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    program, captured = _timed(lambda: repro_mlir.capture(model, loss_fn, optimizer, batch))
    _, compiled = _timed(lambda: repro_mlir.compile(program, "cpu", 1))
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, threads=1)
    other = torch.optim.SGD(eager.parameters(), lr=1e-4)

    def step() -> None:
        other.zero_grad()
        loss = eager(**batch).loss if loss_fn is None else loss_fn(eager(batch[0]), batch[1])
        loss.backward()
        other.step()
        loss.item()

    return captured, compiled, _in_turns(lambda: trainer.step(*arguments), step, seconds)


def _inference(case: Case, seconds: float) -> tuple[float, float, dict[str, Figure]]:
    model, batch = case.model().eval(), case.batch()
    named = isinstance(batch, dict)
    inputs = batch if named else batch[:1]
    program, captured = _timed(lambda: repro_mlir.capture(model, inputs))
    executable, compiled = _timed(lambda: repro_mlir.compile(program, "cpu", 1))
    state = program.initial_state()
    arrays = [*inputs.values()] if named else [*inputs]

    def forward() -> None:
        with torch.no_grad():
            model(**inputs) if named else model(*inputs)

    return captured, compiled, _in_turns(lambda: executable(state, *arrays), forward, seconds)


def _row(name: str, kind: str, captured: float, compiled: float, figures: dict[str, Figure]) -> str:
    ours, eager = figures[OURS], figures[EAGER]
    cells = [f"{1e3 * figure.median:.2f} ({1e3 * figure.best:.2f})" for figure in (ours, eager)]
    ratios = f"{eager.median / ours.median:.2f} ({eager.best / ours.best:.2f})"
    return f"| {name} | {kind} | {captured:.1f} | {compiled:.1f} | {cells[0]} | {cells[1]} | {ratios} |"


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", nargs="*", default=[""], help="parts of the names of models")
    parser.add_argument("--seconds", type=float, default=2.0, help="to spend on each of both")
    options = parser.parse_args()
    torch.set_num_threads(1)
    date = datetime.datetime.now(datetime.UTC)
    print(f"{platform.machine()}; PyTorch {torch.__version__}; {date:%Y-%m-%d %H:%M} UTC; load {_load()}")
    print("| model | | capture, s | compile, s | ours, ms | PyTorch, ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in CASES:
        if not any(text in name for text in options.filter):
            continue
        for kind, measure in (("training step", _training), ("inference", _inference)):
            # The cache is empty for each model and mode. Otherwise code that was compiled for an earlier model or mode
            # could be reused.
            with tempfile.TemporaryDirectory() as cache:
                os.environ["REPRO_MLIR_CACHE"] = cache
                print(_row(name, kind, *measure(CASES[name], options.seconds)), flush=True)
    print(f"load {_load()}")


if __name__ == "__main__":
    main()
