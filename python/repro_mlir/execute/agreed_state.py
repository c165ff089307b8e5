# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The state of a rank, which is the new one when all ranks agree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.execute.executable import Executable


class AgreedState(ABC):
    """A state on which the ends of steps are tried; the peer of `Kept`, in the arrays themselves on every target.

    A step ends on a copy. Between steps the copy has what the arrays had when their hash was last computed: to compare
    the two takes less time than to hash one of them.
    """

    ahead = False

    def __init__(self, kinds: Iterable[TensorType], pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        """
        Args:
          kinds: the outputs of a step.
          pairs: of arrays and their copies.
        """
        self._pairs = [(words(array), words(copy)) for array, copy in pairs]
        self._outputs = {kind.name: np.empty(kind.shape, kind.dtype) for kind in kinds}
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

    @abstractmethod
    def hash(self) -> bytes:
        """The hash of the state (H3), in which every bit that this rank has been given has been looked at."""

    @abstractmethod
    def attempt(self, inputs: Sequence[np.ndarray]) -> tuple[bytes, BaseException | None]:
        """A step from the state whose hash was asked for last.

        Returns:
          the hash of the state (H3) after it; where there is none, what was raised, of which the others do not know.
        Raises:
          Agreed: ranks have told each other that some of them have failed.
        """

    def accept(self, hash: bytes) -> None:
        """Takes the state that was attempted last, and its hash."""
        self._done = (self._done[0] + 1, True)
        self.finish()
        self._note(hash)

    def finish(self) -> None:
        """As of `Kept`."""
        count, is_due = self._done
        if is_due:
            self._copy_back()
            self._done = (count, False)

    def _copy_back(self) -> None:
        """Gives the arrays what the copies have; may be cut short, and is called again then."""
        for array, copy in self._pairs:
            np.copyto(array, copy)

    @abstractmethod
    def _note(self, hash: bytes) -> None:
        """The hash of what the arrays have now."""

    @abstractmethod
    def fetch(self) -> None:
        """As of `Kept`."""

    @abstractmethod
    def load(self) -> None:
        """As of `Kept`."""


class ReplicatedState(AgreedState):
    """A state of which every rank has everything."""

    def __init__(self, executable: Executable, state: Mapping[str, Any]) -> None:
        self._executable = executable
        self._state = state
        arrays = executable.arguments.kept_states(state)
        self._copies = [array.copy() for array in arrays]
        super().__init__(executable.program.outputs, zip(arrays, self._copies, strict=True))
        # Of the copies; None where they may differ from the arrays.
        self._hash: bytes | None = None

    def hash(self) -> bytes:
        if self._hash is None or not all(bool((array == copy).all()) for array, copy in self._pairs):
            # Somebody has written to them.
            self._executable.arguments.kept_states(self._state)
            for array, copy in self._pairs:
                np.copyto(copy, array)
            self._hash = self._hash_of_copies()
        return self._hash

    def attempt(self, inputs: Sequence[np.ndarray]) -> tuple[bytes, BaseException | None]:
        self._hash = None
        try:
            self._executable.write(self._copies, inputs, [*self._outputs.values()])
            return self._hash_of_copies(), None
        except BaseException as error:
            return bytes(32), error

    def _note(self, hash: bytes) -> None:
        self._hash = hash

    def fetch(self) -> None:
        pass

    def load(self) -> None:
        pass

    def _hash_of_copies(self) -> bytes:
        # With one thread the other processors belong to other ranks.
        alone = self._executable.threads > 1
        tensors = zip(self._copies, self._executable.program.state, strict=True)
        digests = [tensor_digest(copy, kind.element, alone=alone) for copy, kind in tensors]
        return bytes.fromhex(combine_digests(digests))


def words(array: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array, as the largest integers that fit."""
    size = next(size for size in (8, 4, 2, 1) if array.nbytes % size == 0)
    return array.reshape(-1).view(f"u{size}")
