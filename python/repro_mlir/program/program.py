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
from repro_mlir.program.canonical import (
    Examined,
    compiler_identity,
    examine,
    examine_admitted,
    from_bytes,
    write_module,
)
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.importing import IMPORT, run_passes_on_text
from repro_mlir.sandbox import admit

_FORMAT = 2
_NUMERICS = 1
_WHAT = "a program file of repro-mlir"
_PROGRAM, _SIGNATURE, _STATE = "program.repro", "signature.json", "state.safetensors"


_MOST_LISTED = 3
"""The maximum number of tensors of each role that the text of a program lists."""


def _listed(kinds: Sequence[TensorType]) -> str:
    """Returns the first tensors as text, with the number of the others."""
    texts = [str(each) for each in kinds[:_MOST_LISTED]]
    if len(kinds) > _MOST_LISTED:
        texts.append(f"{len(kinds) - _MOST_LISTED} more")
    return ", ".join(texts) or "none"


@dataclass(frozen=True, repr=False)
class Program:
    """A canonical program, which defines every bit of its results on every target.

    The constructor verifies the program: it raises ReproError if `data` is not a canonical program, or if the signature
    or the initial state does not match it. An untrusted program has been verified in a child process (sandbox.admit);
    the constructor reads it without MLIR.

    Attributes:
      data: the stored canonical module (docs/verification/identity.md); `canonical.to_bytes` converts MLIR text.
      state: the state tensors, in the order of the first arguments and results of `main`.
      inputs: the inputs; the first `num_hyper_parameters` are hyper-parameters such as `lr`.
      num_hyper_parameters: the number of inputs that are read from the optimizer before each step.
      initial: the initial value of each state tensor, or empty; do not write to the arrays, see `initial_state`.
      untrusted: whether the program comes from a file or a peer, and is thus compiled in a child process with limits.
    """

    data: bytes
    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int
    initial: tuple[np.ndarray, ...]
    untrusted: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        self.examined.check(self.state, self.inputs, self.outputs)
        count = self.num_hyper_parameters
        if type(count) is not int or not 0 <= count <= len(self.inputs):
            raise ReproError(f"expected 0 to {len(self.inputs)} hyper-parameters, got {count!r}")
        if self.initial and [(array.dtype, array.shape) for array in self.initial] != [
            (kind.dtype, kind.shape) for kind in self.state
        ]:
            raise ReproError("expected an initial array of its type and shape for each state tensor")

    def __repr__(self) -> str:
        counts = (("state", self.state), ("inputs", self.inputs), ("outputs", self.outputs))
        kinds = "; ".join(f"{role} {_listed(kinds)}" for role, kinds in counts)
        return f"<Program {self.hash[:16]}: {kinds}>"

    def __reduce__(self) -> tuple[type[Program], tuple[Any, ...]]:
        """Makes copy and pickle create the new program with the constructor, which verifies it unless it is
        `untrusted`."""
        return Program, tuple(getattr(self, each.name) for each in fields(self))

    @cached_property
    def examined(self) -> Examined:
        """The properties that are read from the module."""
        return examine_admitted(self.data) if self.untrusted else examine(self.data)

    @property
    def hash(self) -> str:
        """The identity of the program (H2), in hexadecimal.

        The identity does not depend on names, locations or the initial state.
        """
        return self.examined.identity

    def with_initial(self, initial: Sequence[np.ndarray]) -> Program:
        """Returns the same program with another initial state."""
        return dataclasses.replace(self, initial=tuple(initial))

    @cached_property
    def text(self) -> str:
        """The canonical module as readable MLIR text."""
        return from_bytes(self.data)

    def initial_state(self) -> dict[str, np.ndarray]:
        """Returns new arrays with the initial state, by name. Raises ReproError if there is no initial state."""
        self._require_initial()
        return {kind.name: value.copy() for kind, value in zip(self.state, self.initial, strict=True)}

    def save(self, path: str | Path) -> None:
        """Writes a zip file with `program.repro`, `signature.json` and `state.safetensors`; equal programs result in
        equal bytes. Raises ReproError if the file cannot be written or there is no initial state."""
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
            _PROGRAM: self.data,
            _SIGNATURE: (json.dumps(signature, indent=1) + "\n").encode(),
            _STATE: write_tensors(self.state, self.initial),
        }
        write_file(path, archive_of(members, members))

    def _require_initial(self) -> None:
        if len(self.initial) != len(self.state):
            raise ReproError(f"the program has {len(self.state)} state tensors without initial values")

    @staticmethod
    def load(path: str | Path) -> Program:
        """Loads a program from a file that `save` has written, from a bundle, or from an MLIR module.

        A module is text or bytecode of linalg, TOSA or StableHLO (docs/contributors/architecture.md), without initial
        values of the state. Raises ReproError for any other file.
        """
        from repro_mlir.program.modules import is_module, read_module_file
        from repro_mlir.runner.bundle import Bundle, is_bundle

        if is_module(path):
            data = read_module_file(path)
            with _within(path):
                return read_signature(data, untrusted=True)
        if is_bundle(path):
            bundle = Bundle(path)
            kinds = bundle.state, bundle.inputs, bundle.outputs
            data = read_untrusted(bundle.module(), path)
            with _within(path):
                examined = examine_admitted(data)
                if examined.identity != bundle.program:
                    raise ReproError(f"expected the program {bundle.program} of the manifest, got {examined.identity}")
                examined.check(*kinds)
                initial = tuple(bundle.initial_state())
                return Program(data, *kinds, bundle.num_hyper_parameters, initial, untrusted=True)
        # A file of another format version may have other members, so the names of the members are checked after the
        # version.
        members = read_archive(path, lambda name: True, _WHAT)
        try:
            signature = json.loads(members[_SIGNATURE])
        except (KeyError, ValueError, RecursionError):
            raise ReproError(f"{path}: expected {_WHAT}") from None
        given = signature if isinstance(signature, dict) else {}
        form, numerics = given.get("format"), given.get("numerics")
        if type(form) is not int or form != _FORMAT or numerics != _NUMERICS:
            raise ReproError(
                f"{path}: expected {_WHAT} of format {_FORMAT} and numerics {_NUMERICS}, "
                f"got format {foreign(str(form))} and numerics {foreign(str(numerics))}"
            )
        if members.keys() != {_PROGRAM, _SIGNATURE, _STATE}:
            raise ReproError(f"{path}: expected {_WHAT}")
        try:
            state, inputs, outputs = (
                tuple(map(TensorType.of_json, signature[key])) for key in ("state", "inputs", "outputs")
            )
            count = signature["num_hyper_parameters"]
        except (AttributeError, KeyError, TypeError):
            raise ReproError(f"{path}: the signature is damaged") from None
        data = read_untrusted(members[_PROGRAM], path)
        with _within(path):
            examine_admitted(data).check(state, inputs, outputs)
        # The signature was checked above, so the sizes are within the limits.
        initial = read_tensors(state, members[_STATE], str(path))
        with _within(path):
            return Program(data, state, inputs, outputs, count, initial, untrusted=True)


@contextlib.contextmanager
def _within(path: str | Path) -> Iterator[None]:
    """A context manager that prefixes the message of a ReproError with the path of the file."""
    try:
        yield
    except ReproError as error:
        raise type(error)(f"{path}: {error}") from None


def read_untrusted(data: bytes, path: str | Path, seconds: float | None = None) -> bytes:
    """Verifies the program of a file in a child process (`sandbox.admit`) and returns its bytes; errors name the
    file."""
    with _within(path):
        return admit(data, seconds)


def read_signature(data: bytes, *, untrusted: bool = False) -> Program:
    """Returns the program of stored bytes, with the signature of its module and without an initial state.

    Args:
      untrusted: see `Program`.
    Raises:
      ReproError: the bytes are not a canonical program.
    """
    examined = examine_admitted(data) if untrusted else examine(data)

    def named(kinds: Sequence[TensorType], role: str) -> tuple[TensorType, ...]:
        return tuple(TensorType(kind.name or f"{role} {i}", kind.element, kind.shape) for i, kind in enumerate(kinds))

    arguments, results = named(examined.arguments, "argument"), named(examined.results, "result")
    count = examined.num_state
    return Program(data, arguments[:count], arguments[count:], results[count:], 0, (), untrusted)


def import_program(text: str, passes: str = IMPORT) -> bytes:
    """Converts imported linalg from a frontend to a canonical program.

    Args:
      text: MLIR text that follows the contract of imported linalg (docs/contributors/architecture.md).
      passes: the passes that make the program canonical.
    Returns:
      The stored program.
    Raises:
      ReproError: a pass fails; the message is the first diagnostic and how to reproduce it.
    """
    return run_passes_on_text(text, passes, "import", write_module)


def canonicalize(text: str) -> str:
    """Converts imported linalg to a canonical program as `import_program` does; returns its MLIR text, with
    locations."""
    return from_bytes(import_program(text))


def cached_import(text: str, passes: str = IMPORT) -> bytes:
    """Returns the result of `import_program`, from the disk cache (base/files/cache.py) if it is there."""
    from repro_mlir.program import debugging

    if debugging.is_dumping():
        return import_program(text, passes)
    sources = [b"program", compiler_identity(), passes.encode(), text.encode()]
    return cached(sources, lambda: import_program(text, passes))


def program_of(imported: ImportedProgram[Any]) -> Program:
    """Returns the canonical program of a frontend's result.

    Raises:
      ReproError: the import fails (the message is the first diagnostic), or the signature does not match the module.
    """
    data, initial = cached_import(imported.text), initial_of(imported)
    return Program(data, imported.state, imported.inputs, imported.outputs, imported.num_hyper_parameters, initial)


def initial_of(imported: ImportedProgram[Any]) -> tuple[np.ndarray, ...]:
    """Returns the initial value of each state tensor, with canonical NaNs (V4)."""
    pairs = zip(imported.initial, imported.state, strict=True)
    return tuple(canonical_of(value, kind.element) for value, kind in pairs)
