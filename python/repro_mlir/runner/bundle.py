# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads bundles: device code, launch plans, state and recorded inputs in one file (docs/reference/bundle.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.files.archive import member_names, read_archive
from repro_mlir.base.files.tensor_file import read_tensors
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import foreign
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.initial import initial_array
from repro_mlir.runner.manifest import (
    INPUTS,
    MANIFEST,
    PROGRAM,
    SIGNATURE,
    STATE,
    is_runner_member,
    needed_members,
    parse_json,
    read_manifest,
)
from repro_mlir.runner.plan import read_plan

_SIGNED_MAGIC = b"repro-bundle-v1\0"
_SIGNATURE = shapes.record({"key": shapes.hexadecimal(64), "ed25519": shapes.hexadecimal(128)})


def is_bundle(path: str | Path) -> bool:
    """Returns whether the file is a zip with a bundle's manifest; also False if the file cannot be read."""
    return MANIFEST in member_names(path)


@dataclass(frozen=True)
class Expected:
    """The expected results of a run, computed on the machine that wrote the bundle.

    Attributes:
      state: maps a number of steps to the hash of the state after them (H3).
      tensors: maps a number of steps to the hashes of the state tensors after them (H1), in the order of the program.
      outputs: maps the name of an output to its hash (H1) in each step, in order.
    """

    state: dict[int, str]
    tensors: dict[int, list[str]]
    outputs: dict[str, list[str]]


class Bundle(ConstantAttributes):
    """An open bundle.

    Attributes:
      path: the file.
      program: the identity of the program (H2).
      compiler: the version of the compiler that produced the code.
      state, inputs, outputs: see `Program`.
      num_hyper_parameters: the number of inputs that come from an optimizer.
      architectures: the GPU architectures with code in the bundle, such as "sm_90".
      steps: the number of steps with recorded inputs.
      expected: the expected results of these steps, or None.
      initial_state_hash: the hash of the state before the first step (H3).
    """

    path: Path
    program: str
    compiler: str
    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int
    steps: int
    initial_state_hash: str
    expected: Expected | None

    def __init__(self, path: str | Path) -> None:
        """Opens a bundle and checks every member against its digest.

        Raises:
          ReproError: the file is not a bundle, is damaged, or has an unsupported format or numerics.
        """
        self.path = Path(path)
        # Reads members of any name: which names are permitted depends on the manifest, which has not been read yet.
        self._data = read_archive(path, lambda name: True, "a bundle of repro-mlir")
        if MANIFEST not in self._data:
            raise ReproError(f"{path}: expected a bundle of repro-mlir: it has no {MANIFEST}")
        self._manifest = manifest = read_manifest(self._data[MANIFEST], str(path))
        self._check_members(manifest)
        self.program = manifest["program"]
        self.compiler = manifest["compiler"]
        self.state, self.inputs, self.outputs = (
            tuple(map(TensorType.of_json, manifest[key])) for key in ("state", "inputs", "outputs")
        )
        self.num_hyper_parameters = manifest["num_hyper_parameters"]
        self.steps = manifest["steps"]
        self.initial_state_hash = manifest["initial_state"]
        given = manifest["expected"]
        self.expected = given and Expected(
            {int(step): value for step, value in given["state"].items()},
            {int(step): value for step, value in given["tensors"].items()},
            given["outputs"],
        )
        held, most = sum(kind.nbytes for kind in self.state), limits().archive_bytes
        if held > most:
            raise ReproError(f"{path}: expected a state of at most {most:,} bytes, got {held:,}")

    @property
    def architectures(self) -> list[str]:
        """The GPU architectures with code in the bundle."""
        return list(self._manifest["targets"])

    def _check_members(self, manifest: Mapping[str, Any]) -> None:
        for name, entry in manifest["members"].items():
            if name not in self._data:
                raise ReproError(f"{self.path}: no member {foreign(name)}")
            size = len(self._data[name])
            if size != entry["bytes"]:
                raise ReproError(f"{self.path}: {name} is damaged: expected {entry['bytes']:,} bytes, got {size:,}")
            found = blake3_of(self._data[name]).hex()
            if found != entry["blake3"]:
                raise ReproError(f"{self.path}: {name} is damaged: expected BLAKE3 {entry['blake3']}, got {found}")
        listed = set(manifest["members"])
        unlisted = sorted(set(self._data) - listed - {MANIFEST, SIGNATURE})
        if unlisted:
            raise ReproError(f"{self.path}: {foreign(unlisted[0])} is not in {MANIFEST}")
        needed = needed_members(manifest)
        if missing := sorted(needed - listed):
            raise ReproError(f"{self.path}: no member {foreign(missing[0])}")
        if unused := sorted(name for name in listed - needed if not is_runner_member(name)):
            raise ReproError(f"{self.path}: {foreign(unused[0])} is not a part of a bundle")

    @cached_property
    def signature(self) -> tuple[bytes, bytes] | None:
        """The public key and the signature (ed25519) of `signed_bytes`, not verified; None without a signature."""
        if SIGNATURE not in self._data:
            return None
        where = f"{self.path}: {SIGNATURE}"
        value = parse_json(self._data[SIGNATURE], where)
        _SIGNATURE(value, where)
        return bytes.fromhex(value["key"]), bytes.fromhex(value["ed25519"])

    def signed_bytes(self) -> bytes:
        """Returns the message that the signature signs. The message covers the manifest and, by the manifest's digests,
        every other member."""
        return signed_bytes(self._data[MANIFEST])

    def module(self) -> bytes:
        """Returns the canonical module in the stored format (docs/verification/identity.md)."""
        return self._data[PROGRAM]

    def member_sizes(self) -> dict[str, int]:
        """Returns the uncompressed size of each member in bytes."""
        return {name: len(data) for name, data in self._data.items()}

    def has_cubin(self, architecture: str) -> bool:
        """Returns whether the bundle has a cubin, in addition to the PTX, for one of its `architectures`."""
        return self._manifest["targets"][architecture]["cubin"] is not None

    def code(self, architecture: str) -> TargetCode:
        """Returns the code for one of `architectures`. Raises ReproError if the code does not fit the bundle's
        program."""
        where = f"{self.path}: {architecture}"
        target = self._manifest["targets"][architecture]
        members = {key: self._data[name] for key, name in target.items() if name is not None}
        plan, constants = read_plan(members["plan"], "gpu", where), members["constants"]
        if plan.constant_size != len(constants):
            raise ReproError(f"{where}: expected constants of {plan.constant_size} bytes, got {len(constants)}")
        for role, kinds in (("state", self.state), ("input", self.inputs), ("output", self.outputs)):
            found = [(kind.element, kind.shape) for kind in plan.tensors(role)]
            if found != [(kind.element, kind.shape) for kind in kinds]:
                raise ReproError(f"{where}: expected the {role} buffers of the program, got others in the plan")
        return TargetCode(architecture, members.get("cubin"), members["ptx"], plan, constants)

    def initial_state(self) -> list[np.ndarray]:
        """Returns new arrays with the state before the first step. Raises ReproError if the stored state is damaged."""
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
        kinds = [replace(kind, shape=(self.steps, *kind.shape)) for kind in self.inputs]
        return read_tensors(kinds, self._data[INPUTS], f"{self.path}: {INPUTS}") if self.steps and kinds else ()

    def recorded_inputs(self, step: int) -> list[np.ndarray]:
        """Returns the recorded inputs of a step, counted from 0. Raises ReproError if the bundle has no inputs for
        it."""
        if self.inputs and not step < self.steps:
            raise ReproError(f"{self.path} has the inputs of {self.steps} steps, expected those of {step + 1}")
        return [array[step] for array in self._recorded]


def signed_bytes(manifest: bytes) -> bytes:
    """Returns the message that the signature of a bundle signs, computed from its manifest.json."""
    return _SIGNED_MAGIC + blake3_of(manifest)
