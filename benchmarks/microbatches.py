# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares steps of a GPT in microbatches with the sum of their parts and with PyTorch, in one process.

    python benchmarks/microbatches.py [--model "small GPT" ...] [--counts 1 4 8] [--threads 2] [--clock processor]

The sum of the parts is the time of one call of the microbatch program per microbatch, plus one call of the program that
ends the step. These programs are called with fixed addresses. PyTorch accumulates gradients. Prints rows for
docs/performance: milliseconds of a step (median, best in brackets), and ratios. Processor time is less noisy if the
machine also does other work.
"""

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import repro_mlir
import torch
from loops import MODELS
from repro_mlir.base.numerics.tensors import start_of
from timing import interleaved
from training_models import GPT

OURS, SUM, EAGER = "Trainer", "sum of microbatches", "PyTorch eager"
CLOCKS = {"clock": time.perf_counter, "processor": time.process_time}


def _contestants(name: str, count: int, threads: int) -> dict[str, Callable[[], object]]:
    sizes, rows = MODELS[name]
    *_, length, vocabulary = sizes
    draw = torch.Generator().manual_seed(0)
    letters = torch.randint(vocabulary, (rows, length + 1), generator=draw)
    batch = letters[:, :-1].contiguous(), letters[:, 1:].contiguous()

    def make() -> tuple[GPT, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = GPT(*sizes)
        return model, torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)

    model, optimizer = make()
    trainer = repro_mlir.Trainer(model, None, optimizer, threads=threads, microbatches=count)
    trainer.step(*batch)
    program, step = trainer.program, trainer._step
    assert step is not None
    part, finish = (repro_mlir.compile(each, threads=threads) for each in (program.part, program.finish))
    state = [array.copy() for array in trainer.state.values()]
    numbers = [value.numpy() for value in step.captured.hyper_parameters()]
    pieces = [[each.numpy() for each in piece] for piece in zip(*(each.chunk(count) for each in batch), strict=True)]
    sums = [np.empty(kind.shape, kind.dtype) for kind in program.sums]
    outputs = [np.empty(kind.shape, kind.dtype) for kind in program.outputs]

    parts = [[*state, *numbers, *piece, *sums] for piece in pieces]
    end = [*state, *sums, *numbers, *outputs]
    # Programs are called with addresses. Each tuple also contains the arrays, to keep the memory alive.
    starts = [([start_of(array) for array in arrays], arrays) for arrays in (*parts, end)]

    def alone() -> None:
        *first, (last, _) = starts
        for each, _ in first:
            part.write_at(each)
        finish.write_at(last)

    eager, rule = make()

    def accumulated() -> float:
        rule.zero_grad()
        total = 0.0
        for piece in zip(*(each.chunk(count) for each in batch), strict=True):
            loss = eager(*piece) / count
            loss.backward()
            total += loss.item()
        rule.step()
        return total

    return {OURS: lambda: trainer.step(*batch), SUM: alone, EAGER: accumulated}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=20, help="time to spend on each of the three")
    parser.add_argument("--clock", choices=[*CLOCKS], default="clock")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = platform.processor() or platform.machine()
    print(f"{datetime.date.today()}, {machine}, {options.threads} threads, by the {options.clock}")
    print(f"| model | microbatches | {OURS} ms | {SUM} ms | ratio | {EAGER} ms | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in options.model:
        for count in options.counts:
            found = interleaved(_contestants(name, count, options.threads), options.seconds, CLOCKS[options.clock])
            ours, total, eager = (found[each] for each in (OURS, SUM, EAGER))
            times = [f"{each.median * 1e3:.2f} ({each.best * 1e3:.2f})" for each in (ours, total, eager)]
            ratios = [f"{ours.median / each.median:.3f} ({ours.best / each.best:.3f})" for each in (total, eager)]
            cells = name, count, times[0], times[1], ratios[0], times[2], ratios[1]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
