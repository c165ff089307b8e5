# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads bundles: device code, launch plans, state and recorded inputs in one file (docs/bundle.md)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..archive import member_names, read_archive
from ..arrays import TensorType
from ..digest import blake3_of
from ..errors import ReproError
from ..tensor_file import read_tensors
from .execution import TargetCode
from .initial import initial_array
from .plan import read_plan

FORMAT = 1
NUMERICS = 1
MANIFEST, PROGRAM, STATE, INPUTS = "manifest.json", "program.mlir", "state.safetensors", "inputs.safetensors"

_MEMBER = re.compile(
    r"manifest\.json|program\.mlir|(state|inputs)\.safetensors|sm_[0-9]{2,3}[af]?\.(ptx|cubin|json|constants)"
    r"|__main__\.py|repro_mlir(/[a-z0-9_]+)+\.py"
)
"""What a member may be called."""


def is_bundle(path: str | Path) -> bool:
    """Whether the file is a zip with a manifest of ours; False too if it cannot be read."""
    return MANIFEST in member_names(path)


@dataclass(frozen=True)
class Expected:
    """What a run must give, from the machine that made the bundle.

    Attributes:
      state: the hash of the state (H3) after so many steps.
      tensors: the hash of each state tensor (H1) after so many steps, in the order of the program.
      outputs: the hash of each output (H1) by name, of each step in turn.
    """

    state: dict[int, str]
    tensors: dict[int, list[str]]
    outputs: dict[str, list[str]]


class Bundle:
    """An open bundle.

    Attributes:
      path: the file.
      program: the identity of the program (H2).
      compiler: the version of the compiler that made the code.
      state, inputs, outputs: as of `Program`.
      num_hyper_parameters: how many of the inputs come from an optimizer.
      architectures: for which GPUs there is code, such as "sm_90".
      steps: for how many steps inputs are recorded.
      expected: what these steps give, or None.
      initial_state_hash: of the state before the first step (H3).
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a bundle and checks every member against its checksum.

        Raises:
          ReproError: no bundle, one of another format or numerics, or a damaged one.
        """
        self.path = Path(path)
        self._data = read_archive(path, lambda name: _MEMBER.fullmatch(name) is not None, "a bundle of repro-mlir")
        if MANIFEST not in self._data:
            raise ReproError(f"{path}: expected a bundle of repro-mlir: it has no {MANIFEST}")
        try:
            self._manifest = json.loads(self._data[MANIFEST])
            self._read_manifest(self._manifest)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ReproError(f"{path}: {MANIFEST} is damaged ({type(error).__name__}: {error})") from None

    def _read_manifest(self, manifest: Any) -> None:
        if manifest["format"] != FORMAT or manifest["numerics"] != NUMERICS:
            raise ReproError(
                f"{self.path}: expected a bundle of format {FORMAT} and numerics {NUMERICS}, "
                f"got format {manifest['format']} and numerics {manifest['numerics']}"
            )
        for name, entry in manifest["members"].items():
            if name not in self._data:
                raise ReproError(f"{self.path}: no member {name}")
            found = blake3_of(self._data[name]).hex()
            if found != entry["blake3"]:
                raise ReproError(f"{self.path}: {name} is damaged: expected BLAKE3 {entry['blake3']}, got {found}")
        unknown = sorted(set(self._data) - set(manifest["members"]) - {MANIFEST})
        if unknown:
            raise ReproError(f"{self.path}: {unknown[0]} is not in {MANIFEST}")
        self.program: str = manifest["program"]
        self.compiler: str = manifest["compiler"]
        self.state, self.inputs, self.outputs = (
            tuple(TensorType(t["name"], t["element"], tuple(t["shape"])) for t in manifest[key])
            for key in ("state", "inputs", "outputs")
        )
        self.num_hyper_parameters = int(manifest["num_hyper_parameters"])
        self.architectures: list[str] = list(manifest["targets"])
        self.steps = int(manifest["steps"])
        self.initial_state_hash: str = manifest["initial_state"]
        given = manifest["expected"]
        self.expected = given and Expected(
            {int(step): value for step, value in given["state"].items()},
            {int(step): value for step, value in given["tensors"].items()},
            given["outputs"],
        )

    def module(self) -> bytes:
        """The text of the canonical module, as the bundle has it."""
        try:
            return self._data[PROGRAM]
        except KeyError:
            raise ReproError(f"{self.path}: no member {PROGRAM}") from None

    def member_sizes(self) -> dict[str, int]:
        """Bytes of each member, not compressed."""
        return {name: len(data) for name, data in self._data.items()}

    def has_cubin(self, architecture: str) -> bool:
        """Whether there is machine code for one of `architectures`, beside PTX."""
        return self._manifest["targets"][architecture]["cubin"] is not None

    def code(self, architecture: str) -> TargetCode:
        """The code for one of `architectures`. ReproError where it does not fit the bundle."""
        where = f"{self.path}: {architecture}"
        try:
            target = self._manifest["targets"][architecture]
            members = {key: self._data[target[key]] for key in ("ptx", "plan", "constants")}
            cubin = None if target["cubin"] is None else self._data[target["cubin"]]
            plan = read_plan(json.loads(members["plan"]), len(members["constants"]), where)
        except (KeyError, TypeError, ValueError) as error:
            raise ReproError(f"{where}: the target is damaged ({type(error).__name__}: {error})") from None
        for role, kinds, buffers in (
            ("state", self.state, plan.states),
            ("input", self.inputs, plan.inputs),
            ("output", self.outputs, plan.outputs),
        ):
            found = [(buffer.kind.element, buffer.kind.shape, buffer.size) for buffer in buffers]
            if found != [(kind.element, kind.shape, size_of(kind)) for kind in kinds]:
                raise ReproError(f"{where}: the {role} buffers of the plan are not those of the program")
        return TargetCode(architecture, cubin, members["ptx"], plan, members["constants"])

    def initial_state(self) -> list[np.ndarray]:
        """New arrays with the state before the first step. ReproError where it is not the state that was bundled."""
        try:
            entries = [entry["initial"] for entry in self._manifest["state"]]
            stored = [kind for kind, entry in zip(self.state, entries, strict=True) if entry["from"] == "file"]
            arrays = iter(read_tensors(stored, self._data[STATE], f"{self.path}: {STATE}") if stored else ())
            return [
                next(arrays) if entry["from"] == "file" else initial_array(kind, entry)
                for kind, entry in zip(self.state, entries, strict=True)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ReproError(f"{self.path}: the initial state is damaged ({type(error).__name__}: {error})") from None

    @cached_property
    def _recorded(self) -> tuple[np.ndarray, ...]:
        kinds = [TensorType(kind.name, kind.element, (self.steps, *kind.shape)) for kind in self.inputs]
        return read_tensors(kinds, self._data[INPUTS], f"{self.path}: {INPUTS}") if self.steps and kinds else ()

    def recorded_inputs(self, step: int) -> list[np.ndarray]:
        """The inputs of step 0, 1, ... ReproError where none are recorded."""
        if self.inputs and not step < self.steps:
            raise ReproError(f"{self.path} has the inputs of {self.steps} steps, expected those of {step + 1}")
        return [array[step] for array in self._recorded]


def size_of(kind: TensorType) -> int:
    """Bytes of a tensor."""
    return int(np.prod(kind.shape, dtype=np.int64)) * kind.dtype.itemsize
