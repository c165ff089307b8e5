# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a run commits to: a tree over everything that a step reads and writes, and a chain over the steps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import blake3
import numpy as np

from repro_mlir.audit import merkle
from repro_mlir.base.numerics.hashing import tensor_digests
from repro_mlir.program.microbatches import StepProgram

_CURSOR = b"repro-cursor-v1\0"
_HEADER = b"repro-header-v1\0"
_CHAIN = b"repro-chain-v1\0\0"
_STEPS = b"repro-steps-v1\0\0"


@dataclass(frozen=True)
class Commitment:
    """(C3) The digests of one record: of a step, or of a state that the user gave, such as the initial one.

    Attributes:
      cursor: how many batches have been taken from the data up to and with this step.
      state: of each state tensor after it (H1), in the order of the program; among them parameters, buffers,
        optimizer state, and seed and step of the random numbers.
      inputs: of each input (H1): hyper-parameters such as the learning rate, then the batch.
      outputs: of each output (H1), the loss among them.
      steps: (C7) how many steps the state has seen; None in receipts of version 1 and for the initial state.
      program: (C7) the identity (H2) of the step's program; None in receipts of version 1 and for a state that the user
        gave.
      signature: (C7) the hash of what else that program says of inputs and outputs; None where `program` is.
      microbatches: (C8) of a step that commits to its microbatches, the hash of what each gave.
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
        """(C3) Label and digest of each leaf, in the order of the tree."""
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
        """(C1) The leaves of the tree."""
        return [merkle.leaf(label, digest) for label, digest in self.labelled()]

    @cached_property
    def root(self) -> bytes:
        """(C2) The root of the tree: 32 bytes that stand for the whole step."""
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
    """(C3) The commitment to a step, or without inputs and outputs to an initial state.

    Args:
      cursor: see `Commitment`.
      steps, signature: with them the commitment names the program (C7).
      microbatches: see `Commitment`.
      state, inputs, outputs: arrays in the order of the program; the state is that after the step.
      pool: threads that share the hashing.
      digests: (H1) of the state, where they are known.
    """
    arrays, kinds = (*inputs, *outputs), (*program.inputs, *program.outputs)
    if digests is None:
        arrays, kinds = (*state, *arrays), (*program.state, *kinds)
    # strict=False: an initial state has neither inputs nor outputs.
    tensors = [(array, kind.element) for array, kind in zip(arrays, kinds, strict=False)]
    found = (*(digests or ()), *tensor_digests(tensors, pool))
    first, second = len(state), len(state) + len(inputs)
    identity = None if steps is None else bytes.fromhex(program.hash)
    given, gave = found[first:second], found[second:]
    return Commitment(cursor, found[:first], given, gave, steps, identity, signature, microbatches)


def first_link(header: bytes) -> bytes:
    """(C4) Link 0 of the chain: what was to be run and from where, as the canonical JSON of a receipt's `run`."""
    return blake3.blake3(_HEADER + header).digest()


def next_link(link: bytes, record: int, root: bytes) -> bytes:
    """(C5) The link of record `record`, from 1: it stands for this record, all before it and the header."""
    return blake3.blake3(_CHAIN + link + struct.pack("<Q", record) + root).digest()
