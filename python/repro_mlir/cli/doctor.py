# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro doctor: says what this machine can do, and which command installs what is missing."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence

from repro_mlir.base.command_line import Status
from repro_mlir.base.compiler import INSTALL, has_compiler
from repro_mlir.base.printing import count_of, foreign, tell
from repro_mlir.cli.options import Commands, add_command

_NOTES = """exit status:
  0  this machine runs compiled programs, and everything that is installed fits
  1  a fault, which is listed: no compiled program runs, the driver of the GPU fails, an installed package has a version
     outside of its range, the cache cannot be used, or little disk is free
  2  no answer: this program failed

A package that is not installed is not a fault: "features" lists the command that installs it.
"""

_NOTES_OF_VERIFIER = """exit status:
  0  everything that the verifier needs is installed, in versions that were tried
  1  a fault, which is listed
  2  no answer: this program failed
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro doctor`."""
    command = add_command(commands, "doctor", _doctor, "say what this machine can do, and what is missing")
    command.epilog = _NOTES if has_compiler() else _NOTES_OF_VERIFIER


def _doctor(options: argparse.Namespace) -> int:
    if not has_compiler():
        return _doctor_of_verifier(options)
    from repro_mlir.cli.installation import examine
    from repro_mlir.cli.packages import lines_of

    found = examine()
    status = Status.WRONG if found.faults else Status.RIGHT
    if options.json:
        tell(json.dumps(dataclasses.asdict(found)))
        return status
    tell(f"versions  repro-mlir {found.version}, LLVM {found.llvm}, Python {found.python}, {foreign(found.system)}")
    groups: dict[tuple[str, str], list[str]] = {}
    for target in found.targets:
        groups.setdefault((target.execution, target.detail), []).append(target.name)
    for i, ((execution, detail), names) in enumerate(groups.items()):
        tell(f"{'targets' if i == 0 else '':9} {execution}, {foreign(detail)}: {', '.join(names)}")
    tell(f"GPU       {found.tensor_cores}")
    tell(*lines_of(found.packages))
    for i, door in enumerate(found.doors):
        told = "ready" if door.ready else f"missing: {', '.join(door.missing)}; {door.command}"
        tell(f"{'features' if i == 0 else '':9} {door.name:24} {told}")
    if found.cache.path is None:
        tell("cache     none (REPRO_MLIR_CACHE=off, or no home directory)")
    else:
        told = f"{found.cache.path}: {_size(found.cache.bytes)} of {_size(found.cache.limit)}"
        tell(f"cache     {told}, {_size(found.cache.free)} free on this disk")
    _tell_faults(found.faults)
    if not found.faults:
        tell("next      repro train SCRIPT --steps 100 --receipt run.receipt")
    return status


def _doctor_of_verifier(options: argparse.Namespace) -> int:
    from repro_mlir.cli.main import commands_of_compiler
    from repro_mlir.cli.packages import lines_of
    from repro_mlir.cli.verifier_installation import examine

    found = examine(commands_of_compiler())
    status = Status.WRONG if found.faults else Status.RIGHT
    if options.json:
        tell(json.dumps(dataclasses.asdict(found)))
        return status
    tell(f"versions  repro-mlir-verify {found.version}, Python {found.python}, {foreign(found.system)}")
    memory = "" if found.memory_bytes is None else f", {_size(found.memory_bytes)} of memory"
    tell(f"machine   {count_of(found.cores, 'core')}{memory}")
    tell("target    reference, which defines the bits")
    tell(*lines_of(found.packages), f"signed    receipts: {found.signatures}")
    tell(f"compiler  not installed, and needed for the following: {INSTALL}")
    tell(*(f"          {use}" for use in found.needs_compiler))
    _tell_faults(found.faults)
    if not found.faults:
        tell("next      repro verify RECEIPT --steps sample:2")
    return status


def _tell_faults(faults: Sequence[str]) -> None:
    for i, fault in enumerate(faults):
        tell(f"{'FAULTS' if i == 0 else '':9} {foreign(fault, 500)}")
    if not faults:
        tell("no faults")


def _size(count: int) -> str:
    """Formats a number of bytes in a unit of 1024 bytes."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
