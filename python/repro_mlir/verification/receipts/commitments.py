# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The commitments of a run: a Merkle tree over all data that a step reads and writes, and a hash chain over the
steps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import blake3
import numpy as np

from repro_mlir.base.numerics.hashing import tensor_digests
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification import merkle

_CURSOR = b"repro-cursor-v1\0"
_HEADER = b"repro-header-v1\0"
_CHAIN = b"repro-chain-v1\0\0"
_STEPS = b"repro-steps-v1\0\0"


@dataclass(frozen=True)
class Commitment:
    """(C3) The digests of one record, which is a step or a state that the user set, such as the initial state.

    Attributes:
      cursor: the number of batches taken from the data up to and including this step.
      state: the digest (H1) of each state tensor after the step, in the order of the program; these include parameters,
        buffers, optimizer state, and the seed and step of the random numbers.
      inputs: the digest (H1) of each input: hyper-parameters such as the learning rate, then the batch.
      outputs: the digest (H1) of each output, including the loss.
      steps: (C7) the number of steps up to this record; None for the initial state.
      program: (C7) the identity (H2) of the step's program; None for a state that the user set.
      signature: (C7) the hash of the names and types of the program's inputs and outputs; None if `program` is None.
      microbatches: (C8) for a step that commits to its microbatches, the hash of each microbatch's results.
    """

    cursor: int
    state: tuple[bytes, ...]
    inputs: tuple[bytes, ...] = ()
    outputs: tuple[bytes, ...] = ()
    steps: int | None = None
    program: bytes | None = None
    signature: bytes | None = None
    microbatches: tuple[bytes, ...] = ()

    def labelled(self) -> list[tuple[str, bytes]]:
        """(C3) Returns the label and digest of each leaf, in the order of the tree."""
        groups = (("state", self.state), ("input", self.inputs), ("output", self.outputs))
        named = [(f"{role}:{i}", digest) for role, digests in groups for i, digest in enumerate(digests)]
        named.append(("cursor", blake3.blake3(_CURSOR + struct.pack("<Q", self.cursor)).digest()))
        if self.steps is not None:
            named.append(("steps", blake3.blake3(_STEPS + struct.pack("<Q", self.steps)).digest()))
        if self.program is not None:
            named.append(("program", self.program))
        if self.signature is not None:
            named.append(("signature", self.signature))
        named += [(f"microbatch:{i}", digest) for i, digest in enumerate(self.microbatches)]
        return named

    def leaves(self) -> list[bytes]:
        """(C1) Returns the leaves of the tree."""
        return [merkle.leaf(label, digest) for label, digest in self.labelled()]

    @cached_property
    def root(self) -> bytes:
        """(C2) The root of the tree: 32 bytes that commit to the whole step."""
        return merkle.root(self.leaves())


def commit(
    program: StepProgram,
    cursor: int,
    state: Sequence[np.ndarray],
    inputs: Sequence[np.ndarray] = (),
    outputs: Sequence[np.ndarray] = (),
    pool: ThreadPoolExecutor | None = None,
    *,
    steps: int | None = None,
    signature: bytes | None = None,
    microbatches: tuple[bytes, ...] = (),
    digests: Sequence[bytes] | None = None,
) -> Commitment:
    """(C3) Returns the commitment to a step, or to a state if there are no inputs and outputs.

    Args:
      cursor: see `Commitment`.
      steps, signature: if given, the commitment names the program (C7).
      microbatches: see `Commitment`.
      state, inputs, outputs: arrays in the order of the program; the state is the one after the step.
      pool: threads that share the hashing.
      digests: the digests (H1) of the state, if already known.
    """
    arrays, kinds = (*inputs, *outputs), (*program.inputs, *program.outputs)
    if digests is None:
        arrays, kinds = (*state, *arrays), (*program.state, *kinds)
    # strict=False because an initial state has neither inputs nor outputs.
    tensors = [(array, kind.element) for array, kind in zip(arrays, kinds, strict=False)]
    found = (*(digests or ()), *tensor_digests(tensors, pool))
    first, second = len(state), len(state) + len(inputs)
    identity = None if steps is None else bytes.fromhex(program.hash)
    given, gave = found[first:second], found[second:]
    return Commitment(cursor, found[:first], given, gave, steps, identity, signature, microbatches)


def first_link(header: bytes) -> bytes:
    """(C4) Returns link 0 of the chain, which commits to what is declared before the run, such as the initial state.
    `header` is the canonical JSON of `run` in receipt.json."""
    return blake3.blake3(_HEADER + header).digest()


def next_link(link: bytes, record: int, root: bytes) -> bytes:
    """(C5) Returns the link of record `record`, counted from 1. The link commits to this record, to all earlier records
    and to the header."""
    return blake3.blake3(_CHAIN + link + struct.pack("<Q", record) + root).digest()
