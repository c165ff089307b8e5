# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Time per step of both examples and of a matrix product, beside PyTorch eager in the same process.

    python benchmarks/run.py [--threads N ...] [--rounds N] [--json]

Rounds alternate between the two, so that a machine that slows down slows both. Printed are the median and the best time
of a step in milliseconds, and the ratio of the medians (above 1: we take longer).
"""

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import repro_mlir
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
STEPS_PER_ROUND = 5
MATRIX = 1024


def example_steps(name: str, threads: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """One training step by us and by PyTorch eager, on the same batch."""
    module = importlib.import_module(name)
    model, loss_fn, optimizer, batches, *options = module.training()
    clip_norm = options[0].get("clip_norm") if options else None
    batch = next(iter(batches))
    trainer = repro_mlir.Trainer(model, loss_fn, optimizer, threads=threads, clip_norm=clip_norm)
    trainer.prepare(*batch)
    *inputs, target = batch

    def eager() -> None:
        loss = loss_fn(model(*inputs), target)
        optimizer.zero_grad()
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()

    return lambda: trainer.step(*batch), eager


def product_steps(threads: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """A product of two square matrices of float32."""

    class Product(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a @ b

    a, b = torch.rand(2, MATRIX, MATRIX).unbind()
    a, b = a.contiguous(), b.contiguous()
    executable = repro_mlir.compile(repro_mlir.capture(Product(), (a, b)), threads=threads)
    return lambda: executable({}, a, b), lambda: torch.mm(a, b)


def measure(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> dict[str, float]:
    """Milliseconds of a step."""
    times: tuple[list[float], list[float]] = ([], [])
    for function in (ours, theirs):
        function()
    for _ in range(rounds):
        for function, collected in zip((ours, theirs), times, strict=True):
            for _ in range(STEPS_PER_ROUND):
                start = time.perf_counter()
                function()
                collected.append(1e3 * (time.perf_counter() - start))
    medians = [statistics.median(collected) for collected in times]
    return {
        "median": medians[0],
        "best": min(times[0]),
        "torch_median": medians[1],
        "torch_best": min(times[1]),
        "ratio": medians[0] / medians[1],
        "best_ratio": min(times[0]) / min(times[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    report = {}
    if not options.json:
        titles = ("threads", "ours ms", "best", "torch ms", "best", "ratio", "best")
        print("{:<12} {:>7} {:>9} {:>8} {:>9} {:>8} {:>6} {:>6}".format("what", *titles))
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name in ("digits_cnn", "names_gpt", f"mm {MATRIX}"):
            steps = product_steps(threads) if name.startswith("mm") else example_steps(name, threads)
            row = measure(*steps, options.rounds)
            report[f"{name}, threads {threads}"] = row
            if not options.json:
                print(
                    f"{name:<12} {threads:>7} {row['median']:>9.2f} {row['best']:>8.2f} {row['torch_median']:>9.2f} "
                    f"{row['torch_best']:>8.2f} {row['ratio']:>6.2f} {row['best_ratio']:>6.2f}",
                    flush=True,
                )
    if options.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
