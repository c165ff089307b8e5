# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes bundles. A bundle is one file with everything that is needed to train a program on a GPU
(docs/reference/bundle.md)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import archive_of
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.hashing import state_hash, tensor_hash
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.progress import Progress
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.execute.executable import compile
from repro_mlir.program import Program
from repro_mlir.runner.bundle import Expected, signed_bytes
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.initial import describe_initial
from repro_mlir.runner.manifest import FORMAT, INPUTS, MANIFEST, NUMERICS, PROGRAM, SIGNATURE, STATE
from repro_mlir.runner.packing import runner_members
from repro_mlir.runner.plan import write_plan
from repro_mlir.verification.receipts.signing import PrivateKey

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.scripts import Training

Steps = Sequence[Sequence[np.ndarray]]
"""The inputs of each step, hyper-parameters first."""


def expect(program: Program, steps: Steps, target: str = "cpu") -> Expected:
    """Runs the steps on `target`; returns the hashes of the outputs of every step, and of the state after the first and
    the last step."""
    executable = compile(program, target)
    state: dict[str, Any] = dict(program.initial_state())
    states: dict[int, str] = {}
    tensors: dict[int, list[str]] = {}
    outputs: dict[str, list[str]] = {kind.name: [] for kind in program.outputs}
    with Progress(len(steps), "computing what to expect") as progress:
        for number, inputs in enumerate(steps, 1):
            state, given = executable(state, *inputs)
            for kind in program.outputs:
                outputs[kind.name].append(tensor_hash(given[kind.name], kind.element))
            if number in (1, len(steps)):
                pairs = [(state[kind.name], kind.element) for kind in program.state]
                states[number] = state_hash(pairs)
                tensors[number] = [tensor_hash(*pair) for pair in pairs]
            progress.advance(f"step {number}")
    return Expected(states, tensors, outputs)


def capture_steps(given: Training, count: int, skipped: int = 0) -> tuple[Program, list[list[np.ndarray]]]:
    """Captures the program of a script's training step, and the inputs of some of the training's steps.

    Args:
      given: the training that the script defines; its batches are consumed.
      count: the number of steps, at least 1.
      skipped: the number of batches to skip before these steps.
    Returns:
      the program and the inputs of each step, which include the optimizer's hyper-parameters at the time of the step's
      batch.
    Raises:
      ReproError: the step cannot be captured, the batches end too early, or a batch needs a different program than the
        first batch.
    """
    batches = iter(given.batches)
    steps: list[list[np.ndarray]] = []
    number = 0
    for number, batch in enumerate(itertools.islice(batches, skipped + count), 1):
        if number == 1:
            captured, imported = given.capture(batch)
            if not isinstance(captured, Program):
                raise ReproError("expected a script without microbatches, whose step is one program")
            program = captured
            if imported.bindings.depends_on_state:
                raise ReproError("expected an optimizer whose step is one program in all states")
            form = given.form(imported, batch)
        elif given.form(imported, batch) != form:
            raise ReproError(
                f"batch {number} of training() needs another program than batch 1: expected batches of one shape "
                "and an unchanged model, whose step is one program"
            )
        # Copied, because the script may reuse its arrays for the next batch.
        if number > skipped:
            steps.append([value.copy() for value in imported.read_inputs(batch)])
    if len(steps) < count:
        raise ReproError(f"expected training() to yield {skipped + count} batches, got {number}")
    return program, steps


def write_bundle(
    path: str | Path,
    program: Program,
    codes: Sequence[TargetCode],
    *,
    steps: Steps = (),
    expected: Expected | None = None,
    seed: int = 0,
    sign: PrivateKey | None = None,
) -> dict[str, int]:
    """Writes a bundle; equal arguments give equal bytes.

    Args:
      path: the path of the new file.
      program: the program with its initial state. Parameters that `initialize` drew and constant tensors are stored as
        descriptions, the other tensors as their bytes.
      codes: device code for one or more architectures.
      steps: the inputs to record.
      expected: the expected results of these steps, with which the runner compares its results.
      seed: the seed that was passed to `initialize`.
      sign: the key that signs the bundle; None for no signature.
    Returns:
      the size of each member in bytes, before compression.
    Raises:
      ReproError: an input does not fit, or the file cannot be written.
    """
    states, members = _describe_state(program, seed)
    members[PROGRAM] = program.data
    targets = {}
    for code in codes:
        names = {"ptx": f"{code.architecture}.ptx", "plan": f"{code.architecture}.plan"}
        members[names["ptx"]] = code.ptx
        members[names["plan"]] = write_plan(code.plan)
        names["constants"] = _constants_member(members, code)
        targets[code.architecture] = {**names, "cubin": None}
        if code.cubin is not None:
            targets[code.architecture]["cubin"] = f"{code.architecture}.cubin"
            members[f"{code.architecture}.cubin"] = code.cubin
    if steps and program.inputs:
        members[INPUTS] = _recorded(program.inputs, steps)
    members |= runner_members()
    manifest = {
        "format": FORMAT,
        "numerics": NUMERICS,
        "program": program.hash,
        "compiler": f"repro-mlir {_repro.__version__}",
        "num_hyper_parameters": program.num_hyper_parameters,
        "state": states,
        "inputs": [kind.as_user_json() for kind in program.inputs],
        "outputs": [kind.as_user_json() for kind in program.outputs],
        "targets": targets,
        "steps": len(steps),
        "initial_state": state_hash(
            (array, kind.element) for array, kind in zip(program.initial, program.state, strict=True)
        ),
        "expected": expected and {"state": expected.state, "tensors": expected.tensors, "outputs": expected.outputs},
        "members": {name: {"bytes": len(data), "blake3": blake3_of(data).hex()} for name, data in members.items()},
    }
    members = {MANIFEST: (json.dumps(manifest, indent=1) + "\n").encode(), **members}
    if sign is not None:
        key, signature = sign.sign(signed_bytes(members[MANIFEST]))
        members[SIGNATURE] = json.dumps({"key": key.hex(), "ed25519": signature.hex()}).encode()
    write_file(path, archive_of(members, {STATE}))
    return {name: len(data) for name, data in members.items()}


def _describe_state(program: Program, seed: int) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Returns the state's entries for the manifest, and a dict with the bundle member of the tensors that no
    description can replace; the dict is empty if there are none."""
    entries, kinds, arrays = [], [], []
    for kind, array in zip(program.state, program.initial, strict=True):
        description = describe_initial(kind, array, seed, len(program.state))
        if description is None:
            kinds.append(kind)
            arrays.append(array)
        entries.append({**kind.as_user_json(), "initial": description or {"from": "file"}})
    return entries, {STATE: write_tensors(kinds, arrays)} if kinds else {}


def _constants_member(members: dict[str, bytes], code: TargetCode) -> str:
    """Adds a member with the constants of `code` to `members`, unless one has equal contents; returns the member's
    name."""
    for name, data in members.items():
        if name.endswith(".constants") and data == code.constants:
            return name
    name = f"{code.architecture}.constants"
    members[name] = code.constants
    return name


def _recorded(kinds: Sequence[TensorType], steps: Steps) -> bytes:
    stacked = [np.stack([as_array(inputs[i], kind, "input") for inputs in steps]) for i, kind in enumerate(kinds)]
    return write_tensors([replace(kind, shape=(len(steps), *kind.shape)) for kind in kinds], stacked)
