# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prover's commitment to the operators of a step: a Merkle tree with one leaf per operator."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import blake3
import numpy as np

from repro_mlir.verification import merkle
from repro_mlir.verification.operators.graph import Operator, OperatorGraph, Value
from repro_mlir.verification.operators.tracing import Tracer, value_hash

_OPERATOR = b"repro-operator\0\0"


@dataclass(frozen=True)
class OperatorClaim:
    """A claim about the inputs and outputs of an operator.

    Attributes:
      inputs: the hash (H1) of each element of `Operator.inputs`.
      outputs: the hash (H1) of each element of `Operator.outputs`.
    """

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]

    def leaf(self, program: bytes, index: int) -> bytes:
        """(O1) Returns the leaf of operator `index` of the step with the identity `program`, (H2) or (B4).

        The identity and the index determine the operation and which values are its inputs.
        """
        counts = struct.pack("<QII", index, len(self.inputs), len(self.outputs))
        content = _OPERATOR + program + counts + b"".join((*self.inputs, *self.outputs))
        return merkle.leaf(f"operator:{index}", blake3.blake3(content).digest())


class OperatorTree:
    """(O2) The claims of all operators of one step, and the Merkle tree over their leaves."""

    def __init__(self, program: bytes, claims: Sequence[OperatorClaim]) -> None:
        self.claims = tuple(claims)
        self.leaves = [claim.leaf(program, index) for index, claim in enumerate(self.claims)]

    @cached_property
    def levels(self) -> list[list[bytes]]:
        """All nodes, see `merkle.levels`; for a step without operators, the hash of the empty string."""
        return merkle.levels(self.leaves) if self.leaves else [[blake3.blake3().digest()]]

    @property
    def root(self) -> bytes:
        """The root: 32 bytes that commit to every value of the step."""
        return merkle.seal(len(self.leaves), self.levels[-1][0])


def commit_operators(graph: OperatorGraph, tracer: Tracer, arrays: Sequence[np.ndarray]) -> OperatorTree:
    """Runs a step and commits to each of its operators.

    Args:
      graph: the operators of the program.
      tracer: runs the operators.
      arrays: the state before the step, then the inputs.
    Raises:
      StepFailed: (E1) if a check of the program fails.
    """
    hashes = {value: value_hash(value, array) for value, array in zip(graph.arguments, arrays, strict=True)}
    claims = []
    for operator, values in tracer.run(arrays):
        hashes.update((v, value_hash(v, a)) for v, a in zip(operator.outputs, values, strict=True))
        claims.append(claim_of(operator, hashes))
    return OperatorTree(bytes.fromhex(graph.step.hash), claims)


def claim_of(operator: Operator, hashes: dict[Value, bytes]) -> OperatorClaim:
    """Returns the claim of an operator, given the hashes of its values."""
    return OperatorClaim(
        tuple(hashes[value] for value in operator.inputs), tuple(hashes[value] for value in operator.outputs)
    )
