# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro roofline machines and repro roofline presets: list the names that the other commands accept."""

from __future__ import annotations

import argparse
import json

from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command


def register(parts: Commands) -> None:
    """Adds the parsers of `repro roofline machines` and `repro roofline presets`."""
    add_command(parts, "machines", _machines, "list the machines that --machine accepts")
    add_command(parts, "presets", _presets, "list the transformers that repro roofline transformer accepts")


def machine_names() -> list[str]:
    """Returns the names of the machines that the package includes."""
    from repro_mlir.roofline.machines import machine_names

    return machine_names()


def accelerator_names() -> list[str]:
    """Returns the names of the machines that `repro roofline transformer` accepts."""
    from repro_mlir.roofline import Accelerator, read_machine

    return [name for name in machine_names() if isinstance(read_machine(name), Accelerator)]


def _machines(options: argparse.Namespace) -> int:
    from repro_mlir.roofline import CpuMachine, read_machine

    rows = []
    for name in machine_names():
        machine = read_machine(name)
        is_cpu = isinstance(machine, CpuMachine)
        code = machine.level if isinstance(machine, CpuMachine) else machine.architecture
        rows.append({"name": name, "kind": "CPU" if is_cpu else "accelerator", "code": code or None})
    if options.json:
        tell(json.dumps({"machines": rows}))
        return 0
    for row in rows:
        code = f"code for {row['code']}" if row["code"] else "only for repro roofline transformer"
        tell(f"{row['name']:22} {row['kind']:12} {code}")
    tell("a machine of your own: repro roofline calibrate -o here.json, then --machine here.json")
    return 0


def _presets(options: argparse.Namespace) -> int:
    from repro_mlir.roofline.transformer import PRESETS

    if options.json:
        sizes = "layers", "hidden", "sequence", "parameters"
        rows = [{"name": name, **{each: getattr(preset, each) for each in sizes}} for name, preset in PRESETS.items()]
        tell(json.dumps({"presets": rows}))
        return 0
    for name, preset in PRESETS.items():
        size = f"{preset.parameters / 1e9:8.1f} billion parameters"
        tell(f"{name:16} {size}, {preset.layers:3} layers of {preset.hidden:,}, {preset.sequence:,} tokens")
    tell("a transformer of your own: a .json file with its sizes (docs/guides/roofline.md)")
    return 0
