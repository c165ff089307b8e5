# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Trains both examples on every target of this machine and compares every bit of the results.

    python examples/demo.py [--steps N]

Each example is captured once; the same program and the same batches then go to each target. The reference interpreter,
the emulator of GPUs, x86-64-v2 and aarch64 (in qemu, where installed) run the first steps only. The exit status is 0 if
all hashes agree, the digits are classified well and the names are predicted better than by counting letter pairs.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import repro_mlir
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.progress import Progress
from repro_mlir.compilation import cpu
from repro_mlir.execute import qemu

EXAMPLES = ("names_gpt", "digits_cnn")
SLOW_STEPS = {"cpu:x86-64-v2": 5, "cpu:aarch64": 5, "ptx-emulator": 3, "reference": 3}
ACCURACY = 0.97
# The loss must be lower than that of the bigram model by at least this margin, in nats per letter.
MARGIN = 0.05


@dataclass(frozen=True)
class Example:
    """A program, and the input arrays of each step: all that a worker process needs, without PyTorch."""

    name: str
    program: repro_mlir.Program
    inputs: list[list[np.ndarray]]


@dataclass(frozen=True)
class Job:
    example: str
    target: str
    threads: int
    steps: int


@dataclass
class Result:
    """The results of a job: the losses, the seconds of the steps (without compilation), the state's hash after some of
    the steps and, for the target `cpu`, the final state."""

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    hashes: dict[int, str] = field(default_factory=dict)
    state: dict[str, np.ndarray] = field(default_factory=dict)


def capture(name: str, steps: int) -> tuple[Example, Any, Callable[[dict[str, np.ndarray]], float]]:
    """Captures an example. Returns the example with its first `steps` batches, the example's module, and a function
    that evaluates a final state."""
    import importlib

    from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
    from repro_mlir.frontends.torch.capture.programs import training_program

    module = importlib.import_module(name)
    model, loss_fn, optimizer, batches, *rest = module.training(steps)
    batches = iter(batches)
    batch = next(batches)
    options = CaptureOptions.parsed(**(rest[0] if rest else {}))
    program, imported = training_program(model, loss_fn, optimizer, batch, options)
    inputs = []
    for step in range(steps):
        # The batch generator has just set the learning rate for this batch, so the inputs are read before the next
        # batch.
        inputs.append([value.copy() for value in imported.read_inputs(batch)])
        if step + 1 < steps:
            batch = next(batches)

    def evaluate(state: dict[str, np.ndarray]) -> float:
        imported.bindings.write_state([state[kind.name] for kind in program.state])
        return module.evaluate(model)

    return Example(name, program, inputs), module, evaluate


def run(example: Example, job: Job) -> Result:
    """Compiles the program for the job's target and runs its steps. Called in a worker process."""
    executable = repro_mlir.compile(example.program, job.target, job.threads)
    state = example.program.initial_state()
    kinds = example.program.state
    result = Result()
    for step in range(job.steps):
        start = time.perf_counter()
        state, outputs = executable(state, *example.inputs[step])
        result.seconds += time.perf_counter() - start
        result.losses.append(float(outputs["loss"]))
        if step + 1 in {*SLOW_STEPS.values(), job.steps}:
            result.hashes[step + 1] = state_hash([(state[kind.name], kind.element) for kind in kinds])
    if job.target == "cpu":
        result.state = state
    return result


def plan(name: str, steps: int) -> Iterator[Job]:
    """Yields the jobs of an example, the slowest ones first."""
    available = cpu.runnable_levels()
    yield Job(name, "reference", 1, SLOW_STEPS["reference"])
    yield Job(name, "ptx-emulator", 1, SLOW_STEPS["ptx-emulator"])
    if "aarch64" not in available and qemu.is_available():
        yield Job(name, "cpu:aarch64", 1, SLOW_STEPS["cpu:aarch64"])
    if "x86-64-v2" in available:
        yield Job(name, "cpu:x86-64-v2", 1, SLOW_STEPS["cpu:x86-64-v2"])
    targets = ["cpu", *(f"cpu:{level}" for level in ("x86-64-v3", "x86-64-v4", "aarch64") if level in available)]
    for threads in (1, 2):
        for target in targets:
            yield Job(name, target, threads, steps)


def run_all(examples: dict[str, Example], jobs: list[Job]) -> dict[Job, Result]:
    """Runs jobs in worker processes, in parallel: first those with one thread, one per processor; then those with two
    threads, one per two processors."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    results: dict[Job, Result] = {}
    context = multiprocessing.get_context("spawn")
    with Progress(len(jobs), "running") as progress:
        for threads, workers in ((1, processors), (2, max(processors // 2, 1))):
            with ProcessPoolExecutor(workers, mp_context=context) as pool:
                futures: dict[Future[Result], Job] = {
                    pool.submit(run, examples[job.example], job): job for job in jobs if job.threads == threads
                }
                for future in as_completed(futures):
                    job = futures[future]
                    results[job] = future.result()
                    progress.advance(f"{job.example} on {job.target}")
    return results


def compare(jobs: list[Job], results: dict[Job, Result]) -> list[str]:
    """Returns a line for each state hash that differs from that of the run on this machine's best level with one
    thread."""
    problems = []
    for job in jobs:
        native = next(other for other in jobs if other.example == job.example and other.target == "cpu")
        for step, digest in results[job].hashes.items():
            expected = results[native].hashes[step]
            if digest != expected:
                problems.append(
                    f"{job.example} on {job.target}, {job.threads} threads, step {step}: {digest}, not {expected}"
                )
    return problems


def print_table(jobs: list[Job], results: dict[Job, Result]) -> None:
    titles = f"{'threads':>7} {'steps':>5} {'loss':>9} {'seconds':>8}"
    print(f"{'example':<11} {'target':<14} {titles}  hash of the final state")
    for job in jobs:
        result = results[job]
        print(
            f"{job.example:<11} {job.target:<14} {job.threads:>7} {job.steps:>5} {result.losses[-1]:>9.6f} "
            f"{result.seconds:>8.1f}  {result.hashes[job.steps]}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="steps of a full run, at least 5 (300)")
    parser.add_argument("--only", choices=EXAMPLES, help="one of the examples")
    options = parser.parse_args()
    if options.steps < max(SLOW_STEPS.values()):
        parser.error(f"expected at least {max(SLOW_STEPS.values())} steps, got {options.steps}")
    start = time.perf_counter()
    captured = {name: capture(name, options.steps) for name in EXAMPLES if options.only in (None, name)}
    examples = {name: example for name, (example, *_) in captured.items()}
    jobs = [job for name in examples for job in plan(name, options.steps)]
    # The slow jobs of both examples start first, so that no processor waits for one of them at the end.
    jobs.sort(key=lambda job: (job.threads, job.target not in SLOW_STEPS))
    results = run_all(examples, jobs)
    jobs.sort(key=lambda job: (job.example, job.target in SLOW_STEPS))
    print_table(jobs, results)

    problems = compare(jobs, results)
    for name, (_, module, evaluate) in captured.items():
        native = next(job for job in jobs if job.example == name and job.target == "cpu")
        measured = evaluate(results[native].state)
        if name == "digits_cnn":
            print(f"\n{name}: {100 * measured:.1f} % of the test images are classified rightly")
            if options.steps >= 300 and measured < ACCURACY:
                problems.append(f"{name}: expected a test accuracy of at least {100 * ACCURACY:.0f} %")
        else:
            bigram = module.bigram_loss()
            print(f"\n{name}: test loss {measured:.4f}, bigram model {bigram:.4f} nats per letter")
            if options.steps >= 300 and measured > bigram - MARGIN:
                problems.append(f"{name}: expected a test loss below {bigram - MARGIN:.4f}")
    hashes = {results[job].hashes[job.steps] for job in jobs if job.steps == options.steps}
    seconds = time.perf_counter() - start
    print(f"\n{len(jobs)} runs, {len(hashes)} final states of {len(examples)} programs, {seconds:.0f} s")
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    if not problems:
        print("All hashes agree.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
