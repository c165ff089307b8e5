# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Trains examples/names_gpt.py with each precision recipe on every target of this machine, and compares all bits.

    python test/targets/recipes.py [--steps N] [--recipes NAME,NAME] [--without TARGET,TARGET] [--json FILE]

The fast CPU levels train all steps. x86-64-v2, aarch64 in qemu, the emulator of GPUs and the reference interpreter
compute some steps, including the first and the last, each from the state that training had there. The interpreter
takes more than five minutes for a step in accumulators of `hopper`; `--without reference` skips it. Prints a table
of losses and hashes; the exit status is 1 if a state differs.
"""

import argparse
import json
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import names_gpt
import repro_mlir
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.progress import Progress
from repro_mlir.compilation import cpu
from repro_mlir.execute import qemu
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.capture.programs import training_program
from repro_mlir.precision import Format, Recipe, RolePrecision

_TF32 = Format("tf32")
HOPPER = Recipe(
    "tf32 in accumulators of hopper",
    {
        role: RolePrecision(dict.fromkeys(operands, _TF32), accumulator="hopper")
        for role, operands in (
            ("fprop", ("activation", "weight")),
            ("dgrad", ("gradient", "weight")),
            ("wgrad", ("activation", "gradient")),
        )
    },
)
RECIPES: dict[str, str | Recipe | None] = {
    "f32": None,
    **{
        name: name
        for name in ("bf16", "f16", "mxfp8", "mxfp6", "mxfp4", "mxint8", "nvfp4", "fp8_tensorwise", "fp8_delayed")
    },
    **{name: name for name in ("deepseek_v3", "blocks_mxfp8", "blocks_mxfp4", "blocks_nvfp4")},
    "hopper": HOPPER,
    **{name: name for name in ("blackwell_mxfp8", "blackwell_mxfp4", "blackwell_nvfp4", "deepseek_v3_promoted")},
}
SOME_STEPS = {"cpu:x86-64-v2": 9, "cpu:aarch64": 3, "ptx-emulator": 3, "reference": 2}
"""The number of steps that slow targets compute."""

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Training:
    """A captured training program, and its inputs (learning rate and batch) of each step."""

    program: repro_mlir.Program
    inputs: list[list[np.ndarray]]


@dataclass
class Run:
    """The results on a target: the hash of the state after each step that ran, the last loss, and the states before the
    steps for which `train` was asked to keep the state."""

    hashes: dict[int, str] = field(default_factory=dict)
    loss: float = 0.0
    states: dict[int, State] = field(default_factory=dict)


def capture(recipe: str | Recipe | None, steps: int) -> Training:
    """Captures the training of examples/names_gpt.py with a recipe. Returns the program and the inputs of `steps`
    steps."""
    model, loss_fn, optimizer, batches, extra = names_gpt.training(steps)
    batch = next(batches)
    options = CaptureOptions.parsed(**extra, precision=recipe)
    program, imported = training_program(model, loss_fn, optimizer, batch, options)
    inputs = []
    for step in range(steps):
        inputs.append([value.copy() for value in imported.read_inputs(batch)])
        if step + 1 < steps:
            batch = next(batches)
    return Training(program, inputs)


def train(training: Training, target: str, keep: set[int]) -> Run:
    """Trains all steps on a target from the initial state; keeps the state before each step whose number is in `keep`.
    Runs in a process of the pool."""
    run = Run()
    executable = repro_mlir.compile(training.program, target, 1)
    state = training.program.initial_state()
    for step, inputs in enumerate(training.inputs):
        if step in keep:
            run.states[step] = {name: value.copy() for name, value in state.items()}
        state, outputs = executable(state, *inputs)
        run.hashes[step] = _hash(training.program, state)
        run.loss = float(outputs["loss"])
    return run


def compute(training: Training, target: str, states: dict[int, State]) -> Run:
    """Computes on a target the steps that are keys of `states`, each from its state in `states`. Runs in a process of
    the pool."""
    run = Run()
    executable = repro_mlir.compile(training.program, target, 1)
    for step, state in states.items():
        after, outputs = executable({name: value.copy() for name, value in state.items()}, *training.inputs[step])
        run.hashes[step] = _hash(training.program, after)
        run.loss = float(outputs["loss"])
    return run


def chosen(steps: int, count: int) -> list[int]:
    """Returns the numbers of `count` steps, evenly spaced from the first to the last one."""
    return sorted({round(each) for each in np.linspace(0, steps - 1, count)})


def _hash(program: repro_mlir.Program, state: State) -> str:
    return state_hash([(state[kind.name], kind.element) for kind in program.state])


def _targets() -> tuple[list[str], list[str]]:
    """Returns the fast targets, which train all steps, and the slow ones, which compute some steps."""
    levels = [f"cpu:{level}" for level in cpu.runnable_levels()]
    fast = [level for level in levels if level != "cpu:x86-64-v2"] or levels
    slow = ["reference", "ptx-emulator", *(level for level in levels if level not in fast)]
    if "cpu:aarch64" not in levels and qemu.is_available():
        slow.append("cpu:aarch64")
    return fast, slow


def main() -> int:
    """Returns 1 if the state of a target differs, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--recipes", default=",".join(RECIPES), help=f"of {', '.join(RECIPES)} (all)")
    parser.add_argument("--without", default="", metavar="TARGET,TARGET", help=f"of {', '.join(SOME_STEPS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write hashes of all steps that were computed")
    options = parser.parse_args()
    names = options.recipes.split(",")
    if unknown := [name for name in names if name not in RECIPES]:
        parser.error(f"expected recipes of {', '.join(RECIPES)}, got {unknown[0]}")
    left_out = [target for target in options.without.split(",") if target]
    if unknown := [target for target in left_out if target not in SOME_STEPS]:
        parser.error(f"expected targets of {', '.join(SOME_STEPS)}, got {unknown[0]}")
    if options.steps < 1:
        parser.error(f"expected at least one step, got {options.steps}")

    fast, slow = _targets()
    slow = [target for target in slow if target not in left_out]
    kept = set().union(*(chosen(options.steps, SOME_STEPS[target]) for target in slow))
    report: dict[str, dict[str, Run]] = {}
    context = multiprocessing.get_context("spawn")
    with Progress(len(names) * (len(fast) + len(slow)), "training") as progress:
        with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
            for name in names:
                training = capture(RECIPES[name], options.steps)
                runs = report[name] = {}
                futures = {pool.submit(train, training, target, kept if target == fast[-1] else set()): target
                           for target in fast}  # fmt: skip
                for future in as_completed(futures):
                    runs[futures[future]] = future.result()
                    progress.advance(f"{name} on {futures[future]}")
                states = runs[fast[-1]].states
                steps = {target: chosen(options.steps, SOME_STEPS[target]) for target in slow}
                futures = {
                    pool.submit(compute, training, target, {step: states[step] for step in steps[target]}): target
                    for target in slow
                }
                for future in as_completed(futures):
                    runs[futures[future]] = future.result()
                    progress.advance(f"{name} on {futures[future]}")
                states.clear()
                if options.json:
                    options.json.write_text(_json(report))
    problems = _print(report, fast, slow)
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _json(report: dict[str, dict[str, Run]]) -> str:
    found = {
        name: {target: {"loss": run.loss, "hashes": run.hashes} for target, run in runs.items()}
        for name, runs in report.items()
    }
    return json.dumps(found, indent=1) + "\n"


def _print(report: dict[str, dict[str, Run]], fast: list[str], slow: list[str]) -> list[str]:
    """Prints a row of the table for each recipe; returns a line for each difference between targets."""
    problems = []
    print("| recipe | loss | state | all steps on | some steps on |\n| --- | ---: | --- | --- | --- |")
    for name, runs in report.items():
        expected = runs[fast[-1]]
        for target, run in runs.items():
            problems += [
                f"{name} on {target}, step {step + 1}: {digest}, not {expected.hashes[step]}"
                for step, digest in run.hashes.items()
                if digest != expected.hashes[step]
            ]
        last = expected.hashes[max(expected.hashes)]
        some = ", ".join(f"{target} ({len(runs[target].hashes)})" for target in slow)
        print(f"| `{name}` | {expected.loss:.4f} | {last[:12]} | {', '.join(fast)} | {some} |")
    return problems


if __name__ == "__main__":
    sys.exit(main())
