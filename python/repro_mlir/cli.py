# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The command `repro`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .errors import ReproError

_EXAMPLES = """examples:
  repro train examples/digits_cnn.py --steps 300
  repro compile examples/digits_cnn.py -o digits.repro
  repro inspect digits.repro
  repro run digits.repro --inputs batch.npz --target reference
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ReproError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status. A user's mistake is one line on standard error and status 1."""
    try:
        options = _parser().parse_args(arguments)
        status: int = options.command(options)
        return status
    except ReproError as error:
        print(f"repro: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("repro: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 141


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="repro",
        description="Trains and runs neural networks with every bit defined.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, function: Any, summary: str, runs: bool) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.set_defaults(command=function)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        if runs:
            command.add_argument(
                "--target", default="cpu", metavar="T", help="cpu, cpu:x86-64-v3, reference, ... (cpu)"
            )
            command.add_argument("--threads", type=_positive, metavar="N", help="threads of a step (one per processor)")
        return command

    train = add("train", _train, "train what a script's training() describes", runs=True)
    train.add_argument("script", metavar="SCRIPT", help="defines training() -> (model, loss_fn, optimizer, batches)")
    train.add_argument("--steps", type=_positive, required=True, metavar="N", help="training steps")
    train.add_argument("--save", metavar="FILE", help="write the final state (safetensors)")

    compile_ = add("compile", _compile, "write the canonical program of a script's training step", runs=False)
    compile_.add_argument("script", metavar="SCRIPT", help="defines training() -> (model, loss_fn, optimizer, batches)")
    compile_.add_argument("-o", "--output", required=True, metavar="FILE", help="the program file to write")
    compile_.add_argument("--target", metavar="T", help="also compile for this target, which shows whether it can be")

    run = add("run", _run, "run steps of a program file on given inputs", runs=True)
    run.add_argument("program", metavar="PROGRAM", help="a file written by repro compile or Program.save")
    run.add_argument("--inputs", metavar="FILE", help=".npz with an array for each input, by name")
    run.add_argument("--steps", type=_positive, default=1, metavar="N", help="steps, all on the same inputs (1)")
    run.add_argument("--state", metavar="FILE", help="start from this state (safetensors) instead of the initial one")
    run.add_argument("--save", metavar="FILE", help="write the final state (safetensors)")
    run.add_argument("--outputs", metavar="FILE", help="write the last step's outputs (.npz)")

    inspect = add("inspect", _inspect, "show what a program file computes", runs=False)
    inspect.add_argument("program", metavar="PROGRAM", help="a file written by repro compile or Program.save")
    inspect.add_argument("--text", action="store_true", help="print the canonical module")
    return parser


def _train(options: argparse.Namespace) -> int:
    from .script import load_training
    from .tensor_file import write_tensors
    from .trainer import Trainer

    given = load_training(options.script)
    trainer = Trainer(
        given.model, given.loss_fn, given.optimizer, target=options.target, threads=options.threads, **given.options
    )
    start = time.perf_counter()
    losses = trainer.fit(given.batches, options.steps)
    seconds = time.perf_counter() - start
    if options.save:
        _write(options.save, write_tensors(trainer.program.state, list(trainer.state.values())))
    report = {
        "program": trainer.program.hash,
        "target": options.target,
        "threads": trainer.executable.threads,
        "steps": trainer.steps,
        "losses": losses,
        "loss": losses[-1],
        "seconds": round(seconds, 3),
        "state_hash": trainer.state_hash(),
    }
    if options.json:
        print(json.dumps(report))
    else:
        print(f"loss     {losses[-1]:.6f} after {trainer.steps} steps (first {losses[0]:.6f})")
        print(f"state    {report['state_hash']}")
        print(f"program  {report['program']}")
        print(f"time     {seconds:.1f} s on {options.target}, threads: {report['threads']}")
    return 0


def _compile(options: argparse.Namespace) -> int:
    from .compiler import compile
    from .program import capture
    from .script import load_training

    given = load_training(options.script)
    try:
        batch = next(iter(given.batches))
    except StopIteration:
        raise ReproError(f"{options.script}: training() gives no batch") from None
    program = capture(given.model, given.loss_fn, given.optimizer, batch, **given.options)
    if options.target:
        compile(program, options.target)
    program.save(options.output)
    if options.json:
        print(json.dumps({"program": program.hash, "file": options.output}))
    else:
        print(f"program  {program.hash}")
        print(f"file     {options.output}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from .compiler import compile
    from .hashing import state_hash, tensor_hash
    from .program import Program
    from .tensor_file import read_tensors, write_tensors

    program = Program.load(options.program)
    state = program.initial_state()
    if options.state:
        arrays = read_tensors(program.state, _read(options.state), options.state)
        state = dict(zip(state, arrays, strict=True))
    inputs = _load_inputs(options.inputs, program)
    executable = compile(program, options.target, options.threads)
    outputs: dict[str, np.ndarray] = {}
    for _ in range(options.steps):
        state, outputs = executable(state, *inputs)
    if options.save:
        _write(options.save, write_tensors(program.state, list(state.values())))
    if options.outputs:
        try:
            with open(options.outputs, "wb") as file:
                np.savez(file, allow_pickle=False, **outputs)
        except OSError as error:
            raise ReproError(f"cannot write {options.outputs}: {error.strerror}") from None
    report = {
        "program": program.hash,
        "target": options.target,
        "threads": executable.threads,
        "steps": options.steps,
        "outputs": {kind.name: tensor_hash(outputs[kind.name], kind.element) for kind in program.outputs},
        "state_hash": state_hash([(state[kind.name], kind.element) for kind in program.state]),
    }
    if options.json:
        print(json.dumps(report))
    else:
        for kind in program.outputs:
            value = outputs[kind.name]
            shown = f" = {value.item()}" if value.ndim == 0 else ""
            print(f"{kind}{shown}")
            print(f"         {report['outputs'][kind.name]}")
        print(f"state    {report['state_hash']} after {options.steps} steps")
    return 0


def _load_inputs(path: str | None, program: Any) -> list[np.ndarray]:
    wanted = [kind.name for kind in program.inputs]
    if path is None:
        if wanted:
            raise ReproError(f"expected --inputs with {', '.join(str(kind) for kind in program.inputs)}")
        return []
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ReproError(f"{path}: expected an .npz file")
            found = {name: file[name] for name in file.files}
    except OSError as error:
        raise ReproError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise ReproError(f"{path}: expected an .npz file of plain arrays") from None
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ReproError(f"{path}: no input {', '.join(missing)}; it has {', '.join(found) or 'none'}")
    return [found[name] for name in wanted]


def _inspect(options: argparse.Namespace) -> int:
    from .inspection import count_operations
    from .program import Program

    program = Program.load(options.program)
    if options.text:
        print(program.text)
        return 0
    operations = count_operations(program.text)
    elements = sum(int(np.prod(kind.shape, dtype=np.int64)) for kind in program.state)
    size = sum(value.nbytes for value in program.initial)
    if options.json:
        report = {
            "program": program.hash,
            "state": [str(kind) for kind in program.state],
            "inputs": [str(kind) for kind in program.inputs],
            "outputs": [str(kind) for kind in program.outputs],
            "state_elements": elements,
            "state_bytes": size,
            "operations": operations,
        }
        print(json.dumps(report))
        return 0
    print(f"program  {program.hash}")
    print(f"state    {len(program.state)} tensors, {elements:,} elements, {size:,} bytes")
    for title, kinds in (("inputs", program.inputs), ("outputs", program.outputs)):
        for i, kind in enumerate(kinds):
            print(f"{title if i == 0 else '':8} {kind}")
    for i, (name, count) in enumerate(sorted(operations.items(), key=lambda item: (-item[1], item[0]))):
        print(f"{'ops' if i == 0 else '':8} {count:6} {name}")
    return 0


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ReproError(f"cannot read {path}: {error.strerror}") from None


def _write(path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
