# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes and reads a file with the programs of the tests, compiled for a GPU, and their results on the reference
interpreter.

For each program, the file contains its machine code (or its PTX, for every `_PTX_SHARE`th program), launch plan,
constants and inputs. It also contains the bits of the results, or the fact that the step fails (E1).
"""

from __future__ import annotations

import io
import json
import random
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.plan import read_plan

if TYPE_CHECKING:
    from support.catalogue import Case

_TESTS = Path(__file__).resolve().parents[2] / "test"
_PTX_SHARE = 16
_SEED = 22
_RANDOM_PROGRAMS = 1000
# The maximum size of one program's inputs and results, compressed, because only a limited amount of data can be sent to
# a GPU machine.
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Expectation:
    """A program with its inputs and results.

    Attributes:
      name: unique name.
      code: the program's compiled code and launch plan.
      states, inputs: arrays of bits.
      results: new states and outputs as bits, or None if the step fails.
    """

    name: str
    code: TargetCode
    states: tuple[np.ndarray, ...]
    inputs: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...] | None


def _cases(tiny: bool) -> list[Case]:
    """Returns the test programs, shuffled so that any prefix is a representative sample."""
    from support import accumulated, block_programs, catalogue, random_programs

    if tiny:
        return [*list(catalogue.checks())[:2], *list(catalogue.float_operations())[:2]]
    found = list(catalogue.cases())
    for group in block_programs.GROUPS.values():
        found += group()
    found += [block_programs.contraction(number) for number in range(40)]
    found += [*block_programs.large_contractions(), *block_programs.extreme_contractions()]
    for seed in range(30):
        product, kind = accumulated.random_product(random.Random(1000 + seed))
        operands = product.operands(accumulated.OPERANDS[kind], seed)
        found.append(catalogue.Case(f"accumulator-{seed}", product.program(), operands))
    found += [random_programs.program(number) for number in range(_RANDOM_PROGRAMS)]
    random.Random(_SEED).shuffle(found)
    return found


def _prepare(case: Case, architecture: str, with_ptx: bool) -> tuple[str, dict[str, bytes]]:
    """Compiles a program and runs it on the reference interpreter. Returns its name, and the files to write: the
    contents by file suffix."""
    from repro_mlir.base.errors import StepFailed
    from repro_mlir.base.numerics.formats import canonical, to_bits
    from repro_mlir.compilation import gpu
    from repro_mlir.compilation.assembler import assemble, find_assembler
    from repro_mlir.reference.interpreter import import_array
    from support import kit

    known = kit.read(case.program)
    outcome = kit.reference(case.program, case.inputs)
    code = gpu.compile(case.program, architecture)
    by_ptx = with_ptx or find_assembler() is None
    given = []
    for number, (array, kind) in enumerate(zip(case.inputs, known.body.argument_types, strict=True)):
        value = import_array(array, kind, "argument")
        given.append(to_bits(canonical(value, kind.element) if number < known.num_state else value, kind.element))
    arrays = {f"given_{i}": np.asarray(array) for i, array in enumerate(given)}
    failed = isinstance(outcome, StepFailed)
    if not isinstance(outcome, StepFailed):
        arrays |= {f"result_{i}": array for i, array in enumerate(outcome)}
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    facts = {"name": case.name, "states": known.num_state, "given": len(given), "fails": failed}
    return case.name, {
        "json": json.dumps(facts).encode(),
        "npz": data.getvalue(),
        "plan": code.plan,
        "constants": code.constants,
        **({"ptx": code.ptx.encode()} if by_ptx else {"cubin": assemble(code.ptx, architecture)}),
    }


def save_catalogue(path: Path, architecture: str, tiny: bool, jobs: int) -> None:
    """Writes the test programs to the file `path`; leaves out programs whose inputs and results exceed
    `_MOST_BYTES`."""
    sys.path.insert(0, str(_TESTS))
    cases = _cases(tiny)
    with ProcessPoolExecutor(jobs) as pool, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        made = pool.map(
            _prepare,
            cases,
            [architecture] * len(cases),
            [tiny or i % _PTX_SHARE == 0 for i in range(len(cases))],
            chunksize=4,
        )
        number = 0
        for name, contents in made:
            if len(contents["npz"]) > _MOST_BYTES:
                print(f"{name} is left out: {len(contents['npz']):,} bytes", flush=True)
                continue
            for suffix, content in contents.items():
                archive.writestr(f"{number}.{suffix}", content)
            number += 1
        archive.writestr("architecture", architecture)


def load_catalogue(path: Path) -> Iterator[Expectation]:
    """Yields the programs in a file that `save_catalogue` has written."""
    with zipfile.ZipFile(path) as archive:
        members = set(archive.namelist())
        architecture = archive.read("architecture").decode()
        for number in range(len(members)):
            if f"{number}.json" not in members:
                return
            facts: dict[str, Any] = json.loads(archive.read(f"{number}.json"))
            images = {
                suffix: archive.read(f"{number}.{suffix}") if f"{number}.{suffix}" in members else None
                for suffix in ("cubin", "ptx")
            }
            plan = read_plan(archive.read(f"{number}.plan"), "gpu", facts["name"])
            constants = archive.read(f"{number}.constants")
            code = TargetCode(architecture, images["cubin"], images["ptx"] or b"", plan, constants)
            with np.load(io.BytesIO(archive.read(f"{number}.npz"))) as arrays:
                given = tuple(arrays[f"given_{i}"] for i in range(facts["given"]))
                count = sum(key.startswith("result_") for key in arrays)
                results = None if facts["fails"] else tuple(arrays[f"result_{i}"] for i in range(count))
            yield Expectation(facts["name"], code, given[: facts["states"]], given[facts["states"] :], results)
