# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes plans of machines of many cores, runs them in the simulator, and compares the bits with the reference
interpreter."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from repro_mlir._mlir_libs import _repro
from repro_mlir.compilation import cores
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.cores import CoresBackend

from support import kit


def machine(folder: Path, file: str = "machine.json", **sections: dict[str, Any]) -> str:
    """Writes a machine like tiny-2x2 with other numbers, and returns the path of its file."""
    changed = {
        section: {name: {"value": value, "source": "a test"} for name, value in numbers.items()}
        for section, numbers in sections.items()
    }
    path = folder / file
    path.write_text(json.dumps({"kind": "cores", "extends": "tiny-2x2", **changed}))
    return str(path)


def tool(name: str, *options: str, text: str) -> bytes:
    """Returns what a tool of the compiler writes. Raises ValueError with its error output if it fails."""
    path = Path(_repro.__file__).parent / name
    done = subprocess.run([path, *options], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace"))
    return done.stdout


def mapped(program: str, machine: str, options: str = "") -> str:
    """Returns the `cores.plan` of a canonical program, and its kernels, as text."""
    pipeline = f"builtin.module(cores-map{{machine={machine} {options}}})"
    return tool("repro-opt", f"--pass-pipeline={pipeline}", text=program).decode()


def core_plan(text: str) -> bytes:
    """Returns the core plan of a `cores.plan` with its kernels."""
    level = native_level()
    lowered = tool("repro-opt", f"--pass-pipeline=builtin.module(cores-lower{{level={level}}})", text=text)
    return tool("repro-translate", "--cores-to-plan", f"--level={level}", text=lowered.decode())


def check(program: str, inputs: Sequence[np.ndarray], machine: str, *, plan: bytes | None = None) -> CoresBackend:
    """Raises Mismatch unless a program without states has the bits of the reference interpreter on the machine, by
    default with the plan that the compiler makes. Returns the backend, with the report of the step."""
    known = kit.read(program)
    if plan is None:
        plan = cores.compile(program, cores.read_machine(machine), native_level(), jobs=1)
    backend = CoresBackend(plan)
    given = [kit.public(array, kind) for array, kind in zip(inputs, known.body.argument_types, strict=True)]
    outputs = [kind.empty() for kind in backend.outputs]
    backend.run([], given, outputs)
    got = [kit.bits(value, kind) for value, kind in zip(outputs, known.result_types, strict=True)]
    kit.compare(known, kit.reference(program, inputs), got, machine)
    return backend
