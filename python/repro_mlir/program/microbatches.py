# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training steps in microbatches: rules (B1) to (B5) of docs/reference/numerics.md."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.exact import exact_contractions
from repro_mlir.program.imported import ImportedProgram, Microbatches
from repro_mlir.program.program import Program, cached_import, initial_of, read_signature

_MAGIC = b"repro-microbatches-v1\0"
_MAGIC_OF_OWN = b"repro-microbatches-v2\0"
"""The magic bytes of a stored step that has a part of some state tensors per microbatch (B5)."""


class MicrobatchError(ReproError):
    """Raised if the bytes of a step in microbatches are invalid, or if its parts do not match each other."""


@dataclass(frozen=True)
class MicrobatchProgram:
    """A training step whose batch is split into microbatches (B1).

    Attributes:
      part: the program of one microbatch, which maps state and inputs to `sums` and then the new tensors of `own`; the
        program itself has no state.
      finish: the program that maps state, sums, the new tensors of `own` and the inputs shared by all microbatches to
        the new state and the outputs.
      microbatches: the number of microbatches and their summation tree.
      cut: the ascending positions in `inputs` of the inputs that are split along their first dimension.
      inputs: the inputs of the whole step.
      random: the position, in the state, of the step number of the random numbers (R1); None if the step draws none.
      num_hyper_parameters: the number of inputs that are hyper-parameters.
      own: the positions, in the state, of the tensors with one part per microbatch along the first dimension (B5).
    Raises:
      ReproError: the attributes do not match each other.
    """

    part: Program
    finish: Program
    microbatches: Microbatches
    cut: tuple[int, ...]
    inputs: tuple[TensorType, ...]
    random: int | None
    num_hyper_parameters: int
    own: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count, inputs = self.microbatches.count, self.inputs
        if list(self.cut) != sorted({*self.cut}) or any(not 0 <= i < len(inputs) for i in self.cut) or not self.cut:
            raise ReproError(f"(B1) expected ascending positions of inputs to cut, got {self.cut}")
        for i in self.cut:
            if not inputs[i].shape or inputs[i].shape[0] % count:
                raise ReproError(f"(B1) input {inputs[i]}: expected a first dimension that {count} microbatches divide")
        if self.random is not None:
            kind = self.state[self.random] if 0 <= self.random < len(self.state) else None
            if kind is None or (kind.element, kind.shape) != ("i64", ()):
                raise ReproError(f"(B1) expected the step of random numbers as an i64 of shape [], got {kind}")
        if list(self.own) != sorted({*self.own}) or any(not 0 <= i < len(self.state) for i in self.own):
            raise ReproError(f"(B5) expected ascending positions of state of microbatches, got {self.own}")
        for i in self.own:
            if self.state[i].shape[:1] != (count,):
                raise ReproError(f"(B5) state {self.state[i]}: expected a first dimension of {count} microbatches")
        rows = [
            (kind.element, (kind.shape[0] // count, *kind.shape[1:])) if i in self.cut else (kind.element, kind.shape)
            for i, kind in enumerate(inputs)
        ]
        shared = [row for i, row in enumerate(rows) if i not in self.cut]
        taken = [(kind.element, kind.shape[i in self.own :]) for i, kind in enumerate(self.state)]
        if self.part.state or _types(self.part.inputs) != [*taken, *rows]:
            raise ReproError("(B1) expected a program of a microbatch that takes the state and a microbatch of inputs")
        own = [self.state[i] for i in self.own]
        if _types(self.part.outputs[len(self.sums) :]) != [taken[i] for i in self.own]:
            raise ReproError("(B5) expected a program of a microbatch that returns its own state")
        if _types(self.finish.inputs) != [*_types(self.sums), *_types(own), *shared]:
            raise ReproError("(B1) expected an end of the step that takes the microbatches' sums and the shared inputs")
        if not 0 <= self.num_hyper_parameters <= len(inputs):
            raise ReproError(f"expected 0 to {len(inputs)} hyper-parameters, got {self.num_hyper_parameters}")

    @property
    def state(self) -> tuple[TensorType, ...]:
        """The state tensors, which are those of `finish`."""
        return self.finish.state

    @property
    def outputs(self) -> tuple[TensorType, ...]:
        """The outputs of the step, which are those of `finish`."""
        return self.finish.outputs

    @property
    def initial(self) -> tuple[np.ndarray, ...]:
        """The initial value of each state tensor; empty if there are no initial values."""
        return self.finish.initial

    @property
    def sums(self) -> tuple[TensorType, ...]:
        """The results of a microbatch that are combined: floats are summed, and results of other element types must be
        equal in all microbatches (B3)."""
        return self.part.outputs[: len(self.part.outputs) - len(self.own)]

    @cached_property
    def hash(self) -> str:
        """The identity of the step (B4), in hexadecimal."""
        identities = bytes.fromhex(self.part.hash) + bytes.fromhex(self.finish.hash)
        return blake3_of(self._magic, identities, self._numbers()).hex()

    @cached_property
    def data(self) -> bytes:
        """The stored form of the step (docs/verification/identity.md)."""
        size = struct.pack("<Q", len(self.part.data))
        return b"".join([self._magic, self._numbers(), size, self.part.data, self.finish.data])

    @property
    def _magic(self) -> bytes:
        return _MAGIC_OF_OWN if self.own else _MAGIC

    def _numbers(self) -> bytes:
        random = 0 if self.random is None else self.random + 1
        numbers = [self.microbatches.leaves, self.microbatches.accumulate, random, len(self.cut), *self.cut]
        if self.own:
            numbers += [len(self.own), *self.own]
        return struct.pack(f"<{len(numbers)}Q", *numbers)

    @property
    def text(self) -> str:
        """The two programs as readable MLIR text."""
        return f"// A microbatch.\n{self.part.text}\n// The end of the step.\n{self.finish.text}"

    def with_initial(self, initial: Sequence[np.ndarray]) -> MicrobatchProgram:
        """Returns the same step with another initial state."""
        return dataclasses.replace(self, finish=dataclasses.replace(self.finish, initial=tuple(initial)))

    def initial_state(self) -> dict[str, np.ndarray]:
        """Returns new arrays with the initial state, by name. Raises ReproError if there is no initial state."""
        return self.finish.initial_state()


class StepSignature(NamedTuple):
    """The tensors of a step in microbatches; the attributes are those of `Program`."""

    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int


def microbatch_program_of(
    imported: ImportedProgram[Any], microbatches: Microbatches, cut: Sequence[int], exact_digits: int | None = None
) -> MicrobatchProgram:
    """Splits a step that was captured with one microbatch as its batch into the two programs of a step in microbatches.

    Args:
      imported: the captured step, in which every changed value depends on its microbatch through a
        `repro.reduce_microbatches`.
      microbatches: the number of microbatches and their summation tree.
      cut: the positions of inputs that differ between microbatches.
      exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
    Raises:
      ReproError: the split fails, for example because a microbatch changes a state tensor directly; the message is the
        first diagnostic.
    """
    count = len(imported.state)
    random = None if imported.random is None else imported.random[1]
    options = f"microbatches={microbatches.count} cut={','.join(str(count + each) for each in cut)}"
    if random is not None:
        options += f" step={random}"
    if imported.own:
        options += f" own={','.join(map(str, imported.own))}"

    def program(keep: str) -> Program:
        found = _split(imported.text, f"keep={keep} {options}")
        return found if exact_digits is None else exact_contractions(found, exact_digits)

    part, finish = program("part"), program("finish")
    whole = _whole(imported.inputs, cut, microbatches)
    own, number = imported.own, microbatches.count
    state = tuple(
        dataclasses.replace(kind, shape=(number, *kind.shape)) if i in own else kind
        for i, kind in enumerate(imported.state)
    )
    signature = StepSignature(state, whole, imported.outputs, imported.num_hyper_parameters)
    initial = tuple(
        np.repeat(value[np.newaxis], number, 0) if i in own else value for i, value in enumerate(initial_of(imported))
    )
    return _joined(part, finish, microbatches, tuple(cut), random, signature, initial, own)


def _whole(rows: Sequence[TensorType], cut: Sequence[int], microbatches: Microbatches) -> tuple[TensorType, ...]:
    """Returns the types of the inputs of a whole step, from those of a microbatch."""
    for i in cut:
        if i >= len(rows) or not rows[i].shape:
            raise ReproError(f"(B1) expected an input {i} with a dimension to cut")
    return tuple(
        dataclasses.replace(kind, shape=(kind.shape[0] * microbatches.count, *kind.shape[1:])) if i in cut else kind
        for i, kind in enumerate(rows)
    )


def _joined(
    part: Program,
    finish: Program,
    microbatches: Microbatches,
    cut: tuple[int, ...],
    random: int | None,
    signature: StepSignature,
    initial: tuple[np.ndarray, ...],
    own: tuple[int, ...],
) -> MicrobatchProgram:
    """Combines two programs into a step. The signature says which integers are unsigned and which pairs are complex,
    because the programs do not represent this."""
    state, inputs, outputs, num_hyper_parameters = signature

    def typed(own: Sequence[TensorType], given: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return tuple(
            dataclasses.replace(kind, unsigned=of_user.unsigned, complex=of_user.complex)
            for kind, of_user in zip(own, given, strict=True)
        )

    shared = [kind for i, kind in enumerate(inputs) if i not in cut]
    if len(part.inputs) != len(state) + len(inputs) or len(finish.inputs) != len(part.outputs) + len(shared):
        raise ReproError("(B1) the programs of a step in microbatches have other tensors than its signature")
    _check_names(part, [*state, *inputs], 0)
    _check_names(finish, [*state, *shared], len(part.outputs))
    part = dataclasses.replace(part, inputs=typed(part.inputs, [*state, *inputs]))
    taken = typed(finish.inputs, [*part.outputs, *shared])
    finish = dataclasses.replace(finish, state=state, inputs=taken, outputs=outputs, initial=initial)
    return MicrobatchProgram(part, finish, microbatches, cut, inputs, random, num_hyper_parameters, own)


def _check_names(program: Program, wanted: Sequence[TensorType], between: int) -> None:
    """Raises ReproError if the name of an argument of `program` is not the one in `wanted`. The `between` arguments
    after the state are not checked, because they are not tensors of the step."""
    found = program.examined
    arguments = [*found.arguments[: found.num_state], *found.arguments[found.num_state + between :]]
    for own, kind in zip(arguments, wanted, strict=True):
        if own.name not in ("", kind.name):
            raise ReproError(f"expected a tensor {own.name!r} in the signature, as in the program, got {kind.name!r}")


StepProgram = Program | MicrobatchProgram
"""A training step with or without microbatches."""


def sum_program(element: str, length: int) -> Program:
    """Returns a program that adds two vectors of `length` floats (B2). The first vector is the state, which receives
    the sum."""
    kind = f"tensor<{length}x{element}>"
    text = (
        f"func.func @main(%0: {kind}) -> {kind} attributes {{repro.num_state = 1 : i64}} {{\n"
        f"  %1 = repro.reduce_microbatches %0 : {kind}\n  return %1 : {kind}\n}}\n"
    )
    return _split(text, "keep=add")


def _split(text: str, options: str) -> Program:
    """Returns one of the programs that `repro-split-microbatches` generates, without an initial state."""
    passes = f"import-linalg,repro-split-microbatches{{{options}}},convert-linalg-to-repro,canonical"
    return read_signature(cached_import(text, passes))


def is_microbatch_data(data: bytes) -> bool:
    """Returns whether `data` begins with the magic bytes of a stored step in microbatches."""
    return data.startswith((_MAGIC, _MAGIC_OF_OWN))


class _Stored(NamedTuple):
    """The parsed fields of the stored form of a step in microbatches."""

    leaves: int
    accumulate: int
    random: int
    cut: tuple[int, ...]
    own: tuple[int, ...]
    part: bytes
    finish: bytes


def _stored(data: bytes) -> _Stored:
    # `_MAGIC` and `_MAGIC_OF_OWN` have the same length.
    position = len(_MAGIC)

    def take(count: int) -> tuple[int, ...]:
        nonlocal position
        begin, position = position, position + 8 * count
        if position > len(data):
            raise MicrobatchError("(B4) the bytes of a step in microbatches end early")
        return struct.unpack(f"<{count}Q", data[begin:position])

    leaves, accumulate, random, num_cut = take(4)
    cut = take(num_cut)
    own = take(*take(1)) if data.startswith(_MAGIC_OF_OWN) else ()
    for positions, what in ((cut, "inputs that are cut"), (own, "state of microbatches")):
        if any(a >= b for a, b in itertools.pairwise(positions)):
            raise MicrobatchError(f"(B4) expected ascending positions of {what}")
    if not own and data.startswith(_MAGIC_OF_OWN):
        raise MicrobatchError("(B4) expected at least one position of state of microbatches")
    (size,) = take(1)
    if size > len(data) - position:
        raise MicrobatchError("(B4) the bytes of a step in microbatches end early")
    end = position + size
    return _Stored(leaves, accumulate, random, cut, own, data[position:end], data[end:])


def programs_of(data: bytes) -> tuple[bytes, bytes]:
    """Returns the two programs in an untrusted step in microbatches. Raises MicrobatchError if it is malformed."""
    stored = _stored(data)
    return stored.part, stored.finish


def read_microbatches(
    data: bytes, signature: StepSignature | None = None, initial: tuple[np.ndarray, ...] = ()
) -> MicrobatchProgram:
    """Reads an untrusted step in microbatches from the stored form (`MicrobatchProgram.data`).

    Args:
      data: the stored form; `sandbox.admit` must have accepted both programs.
      signature: the tensors of the step; None derives them from the programs.
      initial: the initial value of each state tensor, or an empty tuple.
    Raises:
      MicrobatchError: the bytes are malformed, or the signature does not match.
    """
    stored = _stored(data)
    try:
        part, finish = (read_signature(each, untrusted=True) for each in stored[-2:])
        microbatches = Microbatches(stored.leaves * stored.accumulate, stored.accumulate)
        random = stored.random - 1 if stored.random else None
        if signature is None:
            rows = part.inputs[len(finish.state) :]
            signature = StepSignature(finish.state, _whole(rows, stored.cut, microbatches), finish.outputs, 0)
        return _joined(part, finish, microbatches, stored.cut, random, signature, initial, stored.own)
    except ReproError as error:
        raise MicrobatchError(str(error)) from None


def _types(kinds: Sequence[TensorType]) -> list[tuple[str, tuple[int, ...]]]:
    return [(kind.element, kind.shape) for kind in kinds]
