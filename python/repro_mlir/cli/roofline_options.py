# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Options that the `repro roofline` commands share: a step, machines, and changed parameters of machines."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.near_names import did_you_mean
from repro_mlir.cli.file_kinds import BUNDLE, MODULE, ONNX, PROGRAM, SAVED_MODEL, SCRIPT, expect
from repro_mlir.cli.options import add_no_cache, add_numerics, add_sizes, read_program, refuse_sizes
from repro_mlir.cli.parsers import set_names
from repro_mlir.cli.roofline_lists import machine_names

if TYPE_CHECKING:
    import numpy as np

    from repro_mlir.program import Program
    from repro_mlir.roofline import Accelerator, CpuMachine
    from repro_mlir.runner.bundle import Bundle

KINDS = SCRIPT, PROGRAM, BUNDLE, MODULE, ONNX, SAVED_MODEL


def add_step(command: argparse.ArgumentParser, values: str) -> None:
    """Adds the options of a step and of machines.

    Args:
      values: what the help text shows as the value in `--set NAME=VALUE`.
    """
    kinds = "a script, a program file, a bundle, an ONNX model, a SavedModel or an MLIR module"
    command.add_argument("program", metavar="FILE", help=kinds)
    add_numerics(command)
    add_sizes(command)
    machine = command.add_argument(
        "--machine",
        required=True,
        action="append",
        metavar="M",
        help="a .json file that describes a machine, or a name; may be given again",
    )
    set_names(machine, machine_names, or_path=True)
    command.add_argument("--threads", type=positive, default=1, metavar="N", help="threads of a step (1)")
    add_set(command, f"[M:]NAME={values}", "machines, or of the machine M")
    command.add_argument("--html", metavar="PAGE", help="also write a page")
    add_no_cache(command)


def add_set(command: argparse.ArgumentParser, taken: str, whose: str) -> None:
    """Adds the option `--set`, which changes a parameter of a machine.

    Args:
      taken: what the help text shows as the argument of the option.
      whose: the machines that the option changes, in words for the help text.
    """
    command.add_argument(
        "--set", action="append", default=[], type=_change, metavar=taken, help="another value of a parameter "
        f"of the {whose}, or a factor such as 2x; may be given again",
    )  # fmt: skip


def _change(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"expected NAME=V, got {text!r}")
    return name, value


def read_machines(options: argparse.Namespace) -> list[tuple[CpuMachine | Accelerator, dict[str, str]]]:
    """Returns the machines, each with a dict from the names of the parameters that --set changes to their new values.

    Raises:
      ReproError: a machine is passed twice, --set names a machine that is not passed, or sets a parameter twice.
    """
    from repro_mlir.roofline import read_machine

    found: list[tuple[CpuMachine | Accelerator, dict[str, str]]] = []
    for given in options.machine:
        machine = read_machine(given)
        if any(machine.name == other.name for other, _ in found):
            raise ReproError(f"expected machines with different names, got {machine.name} twice")
        found.append((machine, {}))
    names = [machine.name for machine, _ in found]
    for name, value in options.set:
        where, colon, number = name.rpartition(":")
        if colon and where not in names:
            raise ReproError(f"--set {name}: expected a machine among {', '.join(names)}{did_you_mean(where, names)}")
        for machine, changes in found:
            if not colon or machine.name == where:
                add_change(changes, machine, number, value)
    return found


def add_change(changes: dict[str, str], machine: CpuMachine | Accelerator, number: str, value: str) -> None:
    """Adds a new value of a machine parameter to `changes`. Raises ReproError if `changes` already has a value of this
    parameter."""
    if number in changes:
        raise ReproError(f"expected one --set for {number} of {machine.name}, got two")
    changes[number] = value


def read_step(options: argparse.Namespace, precision: str | None) -> tuple[Program | Bundle, list[np.ndarray] | None]:
    """Returns the program of the step in a file, and the inputs of the step; None instead of inputs if the file is not
    a script.

    Args:
      precision: for a script: the precision recipe, or "f32" for none; None keeps the script's own precision.
    """
    kind = expect(options.program, *KINDS)
    if kind is not SCRIPT:
        if options.exact_digits is not None or precision is not None:
            raise ReproError(f"{options.program}: expected a script with --exact-digits or --precision")
        if kind is BUNDLE:
            from repro_mlir.runner.bundle import Bundle

            return Bundle(options.program), None
        return read_program(options.program, options.size), None
    from repro_mlir.bundle.writer import capture_steps
    from repro_mlir.frontends.torch.scripts import load_training
    from repro_mlir.precision_report.compare import F32

    refuse_sizes(options.program, options.size)
    chosen = None if precision == F32 else precision
    given = load_training(options.program, exact_digits=options.exact_digits, precision=chosen)
    if precision == F32:
        given = dataclasses.replace(given, options={**given.options, "precision": None})
    program, steps = capture_steps(given, 1)
    return program, steps[0]
