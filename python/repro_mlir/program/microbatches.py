# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training steps in microbatches: rules (B1) to (B4) of docs/numerics.md."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ReproError
from ..frontends.interface import ImportedProgram, Microbatches
from ..numerics.digest import blake3_of
from ..numerics.tensors import TensorType
from .exact import exact_contractions
from .program import Program, cached_import, initial_of, read_signature

_MAGIC = b"repro-microbatches-v1\0"


@dataclass(frozen=True)
class MicrobatchProgram:
    """A training step whose batch is cut into microbatches (B1).

    Attributes:
      part: of a microbatch: state and inputs to `sums` and nothing else; it has no state of its own.
      finish: state, sums and the inputs that all microbatches share to the new state and the outputs.
      microbatches: how many there are, and in which leaves.
      cut: the positions among `inputs` of those that are cut along their first dimension, one behind the other.
      inputs: of the whole step.
      random: the position in the state of the step of the random numbers, None where there are none.
    """

    part: Program
    finish: Program
    microbatches: Microbatches
    cut: tuple[int, ...]
    inputs: tuple[TensorType, ...]
    random: int | None
    num_hyper_parameters: int
    untrusted: bool = field(default=False, repr=False, compare=False)

    @property
    def state(self) -> tuple[TensorType, ...]:
        """The state tensors, as of `finish`."""
        return self.finish.state

    @property
    def outputs(self) -> tuple[TensorType, ...]:
        """The outputs of the step, as of `finish`."""
        return self.finish.outputs

    @property
    def initial(self) -> tuple[np.ndarray, ...]:
        """The initial value of each state tensor, or none at all."""
        return self.finish.initial

    @property
    def sums(self) -> tuple[TensorType, ...]:
        """What a microbatch gives; floats are summed, all others are equal in all microbatches (B3)."""
        return self.part.outputs

    @cached_property
    def hash(self) -> str:
        """The identity of the step (B4), in hexadecimal."""
        numbers = self.microbatches.leaves, self.microbatches.accumulate, len(self.cut), *self.cut
        identities = bytes.fromhex(self.part.hash) + bytes.fromhex(self.finish.hash)
        return blake3_of(_MAGIC, identities, struct.pack(f"<{len(numbers)}Q", *numbers)).hex()

    @property
    def data(self) -> tuple[Any, ...]:
        """What is compiled, for comparisons."""
        return self.part.data, self.finish.data, self.microbatches, self.cut

    def initial_state(self) -> dict[str, np.ndarray]:
        """New arrays with the initial state, by name. ReproError for a program that came without one."""
        return self.finish.initial_state()


def microbatch_program_of(
    imported: ImportedProgram[Any], microbatches: Microbatches, cut: Sequence[int], exact_digits: int | None = None
) -> MicrobatchProgram:
    """The programs of a step that was captured from one microbatch.

    Args:
      imported: with a `repro.reduce_microbatches` on the way to all that the step changes.
      cut: positions among its inputs of those of which each microbatch has its own.
      exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
    Raises:
      ReproError: the first diagnostic of the compiler, as for a state that a microbatch changes by itself.
    """
    count = len(imported.state)
    random = None if imported.random is None else imported.random[1]
    options = f"microbatches={microbatches.count} cut={','.join(str(count + each) for each in cut)}"
    if random is not None:
        options += f" step={random}"

    def program(keep: str) -> Program:
        found = _split(imported.text, f"keep={keep} {options}")
        return found if exact_digits is None else exact_contractions(found, exact_digits)

    part, finish = program("part"), program("finish")
    if len(part.outputs) != len(finish.inputs) - (len(imported.inputs) - len(cut)):
        raise ReproError("expected a step in microbatches to give nothing of a single one")
    hyper = imported.num_hyper_parameters
    whole = tuple(
        dataclasses.replace(kind, shape=(kind.shape[0] * microbatches.count, *kind.shape[1:])) if i in cut else kind
        for i, kind in enumerate(imported.inputs)
    )
    initial = initial_of(imported)
    finish = dataclasses.replace(finish, state=imported.state, outputs=imported.outputs, initial=initial)
    return MicrobatchProgram(part, finish, microbatches, tuple(cut), whole, random, hyper)


def sum_program(element: str, length: int) -> Program:
    """The sum of two vectors of floats (B2); the first one is the state."""
    kind = f"tensor<{length}x{element}>"
    text = (
        f"func.func @main(%0: {kind}) -> {kind} attributes {{repro.num_state = 1 : i64}} {{\n"
        f"  %1 = repro.reduce_microbatches %0 : {kind}\n  return %1 : {kind}\n}}\n"
    )
    return _split(text, "keep=add")


def _split(text: str, options: str) -> Program:
    """One of the programs that `repro-split-microbatches` makes, without an initial state."""
    passes = f"import-linalg,repro-split-microbatches{{{options}}},convert-linalg-to-repro,canonical"
    return read_signature(cached_import(text, passes))
