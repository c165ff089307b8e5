# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro train: trains what a script describes."""

from __future__ import annotations

import argparse
import json
import time

from .options import Commands, add_command, add_script, add_target, positive, write_file


def register(commands: Commands) -> None:
    """Adds the parser of `repro train`."""
    command = add_command(commands, "train", _train, "train what a script's training() describes")
    add_target(command)
    add_script(command)
    command.add_argument("--steps", type=positive, required=True, metavar="N", help="training steps")
    command.add_argument("--save", metavar="FILE", help="write the final state (safetensors)")


def _train(options: argparse.Namespace) -> int:
    from ..script import load_training
    from ..tensor_file import write_tensors
    from ..trainer import Trainer

    given = load_training(options.script)
    trainer = Trainer(
        given.model, given.loss_fn, given.optimizer, target=options.target, threads=options.threads, **given.options
    )
    start = time.perf_counter()
    losses = trainer.fit(given.batches, options.steps)
    seconds = time.perf_counter() - start
    if options.save:
        write_file(options.save, write_tensors(trainer.program.state, list(trainer.state.values())))
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
