# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The state of a rank, which is the new one when all ranks have the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..numerics.hashing import combine_digests, tensor_digest
from .executable import Executable


class AgreedState:
    """A state on which the ends of steps are tried; the peer of `Kept`, in the arrays themselves on every target.

    A step ends on a copy. Between steps the copy has what the arrays had when their hash was last computed: to compare
    the two takes less time than to hash one of them.
    """

    ahead = False

    def __init__(self, executable: Executable, state: Mapping[str, Any]) -> None:
        self._executable = executable
        self._state = state
        arrays = executable.arrays_of(state)
        self._copies = [array.copy() for array in arrays]
        self._pairs = [*zip(map(_words, arrays), map(_words, self._copies), strict=True)]
        self._outputs = {kind.name: np.empty(kind.shape, kind.dtype) for kind in executable.program.outputs}
        # Of the copies; None where they may differ from the arrays.
        self._hash: bytes | None = None
        # Steps, and whether the arrays have yet to get what the last one gave.
        self._done = (0, False)

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the last step by name."""
        return self._outputs

    @property
    def completed(self) -> int:
        """How many steps have been accepted."""
        return self._done[0]

    def hash(self) -> bytes:
        """The hash of the arrays (H3), in which every bit has been looked at."""
        if self._hash is None or not all(bool((array == copy).all()) for array, copy in self._pairs):
            # Somebody has written to them.
            self._executable.arrays_of(self._state)
            for array, copy in self._pairs:
                np.copyto(copy, array)
            self._hash = self._hash_of_copies()
        return self._hash

    def attempt(self, inputs: Sequence[np.ndarray]) -> bytes:
        """The hash of the state (H3) after a step from the state whose hash was asked for last.

        Raises:
          ReproError, StepFailed: as `Executable.write`.
        """
        self._hash = None
        self._executable.write(self._copies, inputs, [*self._outputs.values()])
        return self._hash_of_copies()

    def accept(self, hash: bytes) -> None:
        """Takes the state that was attempted last, and its hash."""
        self._done = (self._done[0] + 1, True)
        self.finish()
        self._hash = hash

    def finish(self) -> None:
        """As of `Kept`."""
        count, is_due = self._done
        if is_due:
            for array, copy in self._pairs:
                np.copyto(array, copy)
            self._done = (count, False)

    def fetch(self) -> None:
        """As of `Kept`."""

    def load(self) -> None:
        """As of `Kept`."""

    def _hash_of_copies(self) -> bytes:
        # With one thread the other processors belong to other ranks.
        alone = self._executable.threads > 1
        tensors = zip(self._copies, self._executable.program.state, strict=True)
        digests = [tensor_digest(copy, kind.element, alone=alone) for copy, kind in tensors]
        return bytes.fromhex(combine_digests(digests))


def _words(array: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array, as the largest integers that fit."""
    size = next(size for size in (8, 4, 2, 1) if array.nbytes % size == 0)
    return array.reshape(-1).view(f"u{size}")
