# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs: a canonical module, its signature and its initial state."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import archive_of, read_archive
from repro_mlir.base.files.cache import cached
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.files.tensor_file import read_tensors, write_tensors
from repro_mlir.base.numerics.tensors import TensorType, canonical_of
from repro_mlir.base.printing import foreign
from repro_mlir.program.canonical import compiler_identity, examine, from_bytes, write_module
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.importing import IMPORT, run_passes
from repro_mlir.sandbox import admit, admit_text

_FORMAT = 2
_NUMERICS = 1
_WHAT = "a program file of repro-mlir"
_SIGNATURE, _STATE = "signature.json", "state.safetensors"
# The program of each format: that of the first is MLIR text.
_PROGRAMS = {1: "program.mlir", _FORMAT: "program.repro"}


@dataclass(frozen=True)
class Program:
    """A canonical program: what is computed, bit by bit, on every target.

    Making one verifies it: ReproError for data that is no canonical program, and for a signature or an initial state
    that is not that of the program.

    Attributes:
      data: the canonical module as it is stored (docs/identity.md); `canonical.to_bytes` makes it from MLIR text.
      state: the state tensors, in the order of the first arguments and results of `main`.
      inputs: the inputs; the first `num_hyper_parameters` are hyper-parameters such as `lr`.
      outputs: the outputs.
      num_hyper_parameters: how many inputs are read from the optimizer before each step.
      initial: the initial value of each state tensor, or none at all; do not write to them, see `initial_state`.
      untrusted: whether the program comes from a file or a peer: it is compiled in a child process with limits.
    """

    data: bytes = field(repr=False)
    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int
    initial: tuple[np.ndarray, ...] = field(repr=False)
    untrusted: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        examine(self.data).check(self.state, self.inputs, self.outputs)
        count = self.num_hyper_parameters
        if type(count) is not int or not 0 <= count <= len(self.inputs):
            raise ReproError(f"expected 0 to {len(self.inputs)} hyper-parameters, got {count!r}")
        if self.initial and [(array.dtype, array.shape) for array in self.initial] != [
            (kind.dtype, kind.shape) for kind in self.state
        ]:
            raise ReproError("expected an initial array of its type and shape for each state tensor")

    def __reduce__(self) -> tuple[type[Program], tuple[Any, ...]]:
        """Copies and what is pickled are made anew, and verified."""
        return Program, tuple(getattr(self, each.name) for each in fields(self))

    @cached_property
    def hash(self) -> str:
        """The identity of the program (H2), in hexadecimal.

        Names, locations and the initial state are no part of it.
        """
        return examine(self.data).identity

    def is_named(self, identity: str) -> bool:
        """Whether this is an identity of the program, in hexadecimal, of whichever version."""
        return examine(self.data).is_named(identity)

    def with_initial(self, initial: Sequence[np.ndarray]) -> Program:
        """The same program with another initial state."""
        return dataclasses.replace(self, initial=tuple(initial))

    @cached_property
    def text(self) -> str:
        """The canonical module as MLIR text, for people."""
        return from_bytes(self.data)

    def initial_state(self) -> dict[str, np.ndarray]:
        """New arrays with the initial state, by name. ReproError for a program that came without one."""
        self._require_initial()
        return {kind.name: value.copy() for kind, value in zip(self.state, self.initial, strict=True)}

    def save(self, path: str | Path) -> None:
        """Writes one file: a zip of `program.repro`, `signature.json` and `state.safetensors`; equal programs give
        equal bytes. ReproError where the file cannot be written, and without an initial state."""
        self._require_initial()
        signature = {
            "format": _FORMAT,
            "numerics": _NUMERICS,
            "num_hyper_parameters": self.num_hyper_parameters,
            "state": [kind.as_user_json() for kind in self.state],
            "inputs": [kind.as_user_json() for kind in self.inputs],
            "outputs": [kind.as_user_json() for kind in self.outputs],
        }
        members = {
            _PROGRAMS[_FORMAT]: self.data,
            _SIGNATURE: (json.dumps(signature, indent=1) + "\n").encode(),
            _STATE: write_tensors(self.state, self.initial),
        }
        write_file(path, archive_of(members, members))

    def _require_initial(self) -> None:
        if len(self.initial) != len(self.state):
            raise ReproError(f"the program has {len(self.state)} state tensors without initial values")

    @staticmethod
    def load(path: str | Path) -> Program:
        """Reads what `save` wrote, now or in a version before, the program of a bundle, or an MLIR module.

        A module is text or bytecode of linalg, TOSA or StableHLO (docs/architecture.md); the initial values of a state
        are not in it. ReproError for all else.
        """
        from repro_mlir.bundle.runner.bundle import Bundle, is_bundle
        from repro_mlir.program.modules import is_module, read_module_file

        if is_module(path):
            data = read_module_file(path)
            with _within(path):
                return dataclasses.replace(read_signature(data), untrusted=True)
        if is_bundle(path):
            bundle = Bundle(path)
            kinds = bundle.state, bundle.inputs, bundle.outputs
            data = read_untrusted(bundle.module(), path, is_text=bundle.has_text)
            with _within(path):
                examined = examine(data)
                if not examined.is_named(bundle.program):
                    raise ReproError(f"the program is {examined.identity}, the manifest says {bundle.program}")
                examined.check(*kinds)
                initial = tuple(bundle.initial_state())
                return Program(data, *kinds, bundle.num_hyper_parameters, initial, untrusted=True)
        members = read_archive(path, {*_PROGRAMS.values(), _SIGNATURE, _STATE}.__contains__, _WHAT)
        try:
            signature = json.loads(members[_SIGNATURE])
        except (KeyError, ValueError, RecursionError):
            raise ReproError(f"{path}: expected {_WHAT}") from None
        given = signature if isinstance(signature, dict) else {}
        form, numerics = given.get("format"), given.get("numerics")
        if type(form) is not int or form not in _PROGRAMS or numerics != _NUMERICS:
            raise ReproError(
                f"{path}: expected format {' or '.join(map(str, _PROGRAMS))} of numerics {_NUMERICS}, "
                f"got format {foreign(str(form))} of numerics {foreign(str(numerics))}"
            )
        if members.keys() != {_PROGRAMS[form], _SIGNATURE, _STATE}:
            raise ReproError(f"{path}: expected {_WHAT}")
        try:
            state, inputs, outputs = (
                tuple(map(TensorType.of_json, signature[key])) for key in ("state", "inputs", "outputs")
            )
            count = signature["num_hyper_parameters"]
        except (AttributeError, KeyError, TypeError):
            raise ReproError(f"{path}: the signature is damaged") from None
        data = read_untrusted(members[_PROGRAMS[form]], path, is_text=form != _FORMAT)
        with _within(path):
            examine(data).check(state, inputs, outputs)
        # Of a true signature, so that the sizes are within the limits.
        initial = read_tensors(state, members[_STATE], str(path))
        with _within(path):
            return Program(data, state, inputs, outputs, count, initial, untrusted=True)


@contextlib.contextmanager
def _within(path: str | Path) -> Iterator[None]:
    """Names the file in the errors of what it holds."""
    try:
        yield
    except ReproError as error:
        raise type(error)(f"{path}: {error}") from None


def read_untrusted(data: bytes, path: str | Path, *, is_text: bool, seconds: float | None = None) -> bytes:
    """The program of a file, as `sandbox.admit` or `admit_text`; the errors name the file."""
    with _within(path):
        return (admit_text if is_text else admit)(data, seconds)


def read_signature(data: bytes) -> Program:
    """The program that is stored as these bytes, its signature read from them, without an initial state.

    Raises:
      ReproError: bytes that are no canonical program.
    """
    examined = examine(data)

    def named(kinds: Sequence[TensorType], role: str) -> tuple[TensorType, ...]:
        return tuple(TensorType(kind.name or f"{role} {i}", kind.element, kind.shape) for i, kind in enumerate(kinds))

    arguments, results = named(examined.arguments, "argument"), named(examined.results, "result")
    count = examined.num_state
    return Program(data, arguments[:count], arguments[count:], results[count:], 0, ())


def import_program(text: str, passes: str = IMPORT) -> bytes:
    """The canonical program of imported linalg, as a frontend hands it over.

    Args:
      text: MLIR text that keeps the contract of imported linalg (docs/architecture.md).
      passes: those that make it canonical.
    Returns:
      the program as it is stored.
    Raises:
      ReproError: the first diagnostic of the compiler, and how to repeat it.
    """
    return run_passes(text, passes, "import", write_module)


def canonicalize(text: str) -> str:
    """The text of what `import_program` gives, with its locations."""
    return from_bytes(import_program(text))


def cached_import(text: str, passes: str = IMPORT) -> bytes:
    """As `import_program`; what it gave before is found on disk (base/files/cache.py)."""
    from repro_mlir.program import debugging

    if debugging.is_dumping():
        return import_program(text, passes)
    sources = [b"program", compiler_identity(), passes.encode(), text.encode()]
    return cached(sources, lambda: import_program(text, passes))


def program_of(imported: ImportedProgram[Any]) -> Program:
    """The canonical program of what a frontend hands over.

    Raises:
      ReproError: the first diagnostic of the compiler, or a signature that is not that of the module.
    """
    data, initial = cached_import(imported.text), initial_of(imported)
    return Program(data, imported.state, imported.inputs, imported.outputs, imported.num_hyper_parameters, initial)


def initial_of(imported: ImportedProgram[Any]) -> tuple[np.ndarray, ...]:
    """The initial value of each state tensor, with canonical NaNs (V4)."""
    pairs = zip(imported.initial, imported.state, strict=True)
    return tuple(canonical_of(value, kind.element) for value, kind in pairs)
