# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares steps of a GPT in `Trainer` with those in loops that use torch.compile; all take turns in one process.

    python benchmarks/loops.py [--model GPT ...] [--optimizer AdamW ...] [--threads 1] [--seconds 20]

The loss is compiled by torch.compile with our backend; the update is `repro_mlir.compile_optimizer`, or torch.compile
of `optimizer.step`. Prints rows for docs/performance: milliseconds of a step (median, best in brackets) in wall-clock
and processor time, and their ratio to a step of `Trainer`. Fails if a loop that must compute the bits of `Trainer`
computes different bits.
"""

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable, Mapping

import repro_mlir
import torch
from timing import Figure, interleaved
from training_models import GPT

TRAINER, RULE, TRACED = "Trainer", "compile_optimizer", "torch.compile of step"
# For each model: its layers, heads, width, length and vocabulary; then the batch size.
MODELS = {"GPT": ((4, 4, 256, 128, 8192), 8), "small GPT": ((3, 4, 128, 64, 256), 8)}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1),
}
CLOCKS = {"clock": time.perf_counter, "processor": time.process_time}
# The number of steps after which the bits are compared.
COMPARED = 3


def _loop(model: GPT, optimizer: torch.optim.Optimizer, update: str, threads: int, batch: tuple[torch.Tensor, ...]):
    backend = repro_mlir.backend(threads=threads)
    loss_of = torch.compile(model, backend=backend, fullgraph=True)
    if update == RULE:
        step = repro_mlir.compile_optimizer(optimizer, threads=threads)
    else:
        step = torch.compile(optimizer.step, backend=backend)

    def call() -> float:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        step()
        return loss.item()

    return call


def _contestants(name: str, optimizer: str, threads: int) -> dict[str, Callable[[], float]]:
    sizes, count = MODELS[name]
    steps: dict[str, Callable[[], float]] = {}
    found = {}
    for kind in (TRAINER, RULE, TRACED):
        torch.manual_seed(0)
        model = GPT(*sizes)
        batch = tuple(torch.randint(sizes[-1], (2, count, sizes[3])).unbind())
        made = OPTIMIZERS[optimizer](model.parameters())
        if kind == TRAINER:
            trainer = repro_mlir.Trainer(model, None, made, threads=threads)
            steps[kind] = lambda trainer=trainer, batch=batch: trainer.step(*batch)
        else:
            steps[kind] = _loop(model, made, kind, threads, batch)
        losses = [steps[kind]() for _ in range(COMPARED)]
        found[kind] = losses, [value.detach().numpy().tobytes() for value in model.parameters()]
    for kind in (RULE, TRACED) if optimizer == "SGD" else (RULE,):
        if found[kind] != found[TRAINER]:
            raise SystemExit(f"{name}, {optimizer}: {kind} has other bits than {TRAINER}")
    return steps


def _rows(name: str, optimizer: str, threads: int, clock: str, figures: Mapping[str, Figure]) -> str:
    cells = [f"{1e3 * figure.median:.2f} ({1e3 * figure.best:.2f})" for figure in figures.values()]
    own = figures[TRAINER]
    for kind in (RULE, TRACED):
        cells.append(f"{figures[kind].median / own.median:.3f} ({figures[kind].best / own.best:.3f})")
    return f"| {name}, {optimizer} | {threads} | {clock} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="*", choices=MODELS, default=[*MODELS])
    parser.add_argument("--optimizer", nargs="*", choices=OPTIMIZERS, default=[*OPTIMIZERS])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="time to spend on each of the three and each clock")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    date = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    print(f"{platform.machine()}; PyTorch {torch.__version__}; {date}; load {os.getloadavg()[0]:.1f}")
    print(f"| what | threads | ms by | {TRAINER} | {RULE} | {TRACED} | {RULE}, ratio | {TRACED}, ratio |")
    print("| --- " * 8 + "|", flush=True)
    for name in options.model:
        for optimizer in options.optimizer:
            torch._dynamo.reset()
            contestants = _contestants(name, optimizer, options.threads)
            for clock, read in CLOCKS.items():
                figures = interleaved(contestants, options.seconds, read)
                print(_rows(name, optimizer, options.threads, clock, figures), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
