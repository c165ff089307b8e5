# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The state of a rank, to which a step's result is written only after all ranks have agreed on that result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.execute.executable import Executable


class AgreedState(ABC):
    """A state on which a step is first attempted (`attempt`) and, after all ranks have agreed on its result, accepted
    (`accept`). `Kept` (executable.py) is the class for a single process.

    The arrays themselves are the state on every target. A step writes its new state to a copy of the arrays. Between
    steps, the copy has the values that the arrays had when they were last hashed: comparing the arrays with the copy is
    faster than hashing them again.
    """

    ahead = False

    def __init__(self, kinds: Iterable[TensorType], pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        """
        Args:
          kinds: the types of a step's outputs.
          pairs: each array of the state and its copy.
        """
        self._pairs = [(words(array), words(copy)) for array, copy in pairs]
        self._outputs = {kind.name: np.empty(kind.shape, kind.dtype) for kind in kinds}
        # The number of accepted steps, and whether the result of the last one still has to be copied to the arrays.
        self._done = (0, False)

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the last step by name."""
        return self._outputs

    @property
    def completed(self) -> int:
        """The number of accepted steps."""
        return self._done[0]

    @abstractmethod
    def hash(self) -> bytes:
        """Returns the hash of the state (H3), after comparing all arrays of this rank with their copies to detect
        writes by the user."""

    @abstractmethod
    def attempt(self, inputs: Sequence[np.ndarray]) -> tuple[bytes, BaseException | None]:
        """Runs a step from the state of the last `hash`, and keeps its result in the copy.

        Returns:
          The hash of the state (H3) after the step; and the exception if the step has failed, else None. The other
          ranks do not know of the failure yet.
        Raises:
          Agreed: a rank has failed, and all ranks know that.
        """

    def accept(self, hash: bytes) -> None:
        """Makes the result of the last `attempt` the state; `hash` is the hash of that result."""
        self._done = (self._done[0] + 1, True)
        self.finish()
        self._note(hash)

    def finish(self) -> None:
        """See `Kept.finish`."""
        count, is_due = self._done
        if is_due:
            self._copy_back()
            self._done = (count, False)

    def _copy_back(self) -> None:
        """Writes the copies back to the arrays; called again if an exception interrupts it."""
        for array, copy in self._pairs:
            np.copyto(array, copy)

    @abstractmethod
    def _note(self, hash: bytes) -> None:
        """Records the hash of the current values of the arrays."""

    @abstractmethod
    def fetch(self) -> None:
        """See `Kept.fetch`."""

    @abstractmethod
    def load(self) -> None:
        """See `Kept.load`."""


class ReplicatedState(AgreedState):
    """A state of which every rank has all tensors."""

    def __init__(self, executable: Executable, state: Mapping[str, Any]) -> None:
        self._executable = executable
        self._state = state
        arrays = executable.arguments.kept_states(state)
        self._copies = [array.copy() for array in arrays]
        super().__init__(executable.program.outputs, zip(arrays, self._copies, strict=True))
        # The hash of the copies; None if they may differ from the arrays.
        self._hash: bytes | None = None

    def hash(self) -> bytes:
        if self._hash is None or not all(bool((array == copy).all()) for array, copy in self._pairs):
            # The user has written to the arrays, or their hash is not known.
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
        # Hash with all processors, unless this rank has only one thread: the other processors are then left to other
        # ranks.
        alone = self._executable.threads > 1
        tensors = zip(self._copies, self._executable.program.state, strict=True)
        digests = [tensor_digest(copy, kind.element, alone=alone) for copy, kind in tensors]
        return bytes.fromhex(combine_digests(digests))


def words(array: np.ndarray) -> np.ndarray:
    """Returns a one-dimensional view of a contiguous array as unsigned integers of 8, 4, 2 or 1 bytes, the largest size
    that divides the size of the array."""
    size = next(size for size in (8, 4, 2, 1) if array.nbytes % size == 0)
    return array.reshape(-1).view(f"u{size}")
