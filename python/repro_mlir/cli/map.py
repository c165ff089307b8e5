# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro map: maps a step onto a machine of many cores, and predicts where its time goes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import MODULE, ONNX, PROGRAM, SAVED_MODEL, SCRIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_no_cache, add_numerics, add_sizes, told_next
from repro_mlir.cli.parsers import set_names
from repro_mlir.cli.roofline_options import read_step

_DESCRIPTION = """Maps a step onto a machine of many cores, without executing it. Prints the memory that the tensors and
the cores need, what bounds the time, and the predicted time of each phase. If the step does not fit, the error names
the tensor and the least memory that would do."""


def register(commands: Commands) -> None:
    """Adds the parser of `repro map`."""
    command = add_command(commands, "map", _map, "map a step onto a machine of many cores", _DESCRIPTION)
    kinds = "a script, a program file, an ONNX model, a SavedModel or an MLIR module"
    command.add_argument("program", metavar="FILE", help=kinds)
    machine = command.add_argument(
        "--machine", required=True, metavar="M", help="a machine of many cores, or a .json file that describes one"
    )
    set_names(machine, _machines, or_path=True)
    add_numerics(command)
    add_sizes(command)
    command.add_argument(
        "--simulate", action="store_true", help="also simulate the step of a script, and print the use of the machine"
    )
    command.add_argument("--rows", type=positive, default=20, metavar="N", help="phases and tensors in the tables (20)")
    command.add_argument("--html", metavar="PAGE", help="also write a page")
    add_no_cache(command)


def _machines() -> list[str]:
    from repro_mlir.compilation.cores import has_dram, machines

    return [name for name in machines() if has_dram(name)]


def _map(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.storage import check_can_write, write_file
    from repro_mlir.program import Program
    from repro_mlir.roofline.cores import lines_of, map_step, mapping_page, simulate

    kind = expect(options.program, SCRIPT, PROGRAM, MODULE, ONNX, SAVED_MODEL)
    if options.simulate and kind is not SCRIPT:
        raise ReproError(f"{options.program}: expected a script with --simulate, which needs a state and inputs")
    if options.html is not None:
        check_can_write(options.html, ".html")
    program, inputs = read_step(options, options.precision)
    assert isinstance(program, Program)
    mapping = map_step(program, options.machine)
    if options.simulate:
        assert inputs is not None
        mapping = simulate(mapping, program, inputs, timeline=options.html is not None)
    if options.html is not None:
        write_file(options.html, mapping_page(Path(options.program).name, mapping).encode())
    if options.json:
        tell(json.dumps(mapping.described()))
        return 0
    tell(*lines_of(mapping, options.rows))
    if options.html is not None:
        tell(f"page       {options.html}")
    if kind is SCRIPT and not options.simulate:
        tell(told_next("repro", "map", options.program, "--machine", options.machine, "--simulate"))
    elif kind is SCRIPT:
        tell(told_next("repro", "train", options.program, "--target", f"cores:{options.machine}"))
    return 0
