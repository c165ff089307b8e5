# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares results with recorded outputs, which are files in the folder that an environment variable names."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from edge_values import as_f32

PROPERTY = "recorded"


def files(variable: str, target: str) -> list[object]:
    """Returns a parameter of a test for each .npz file in the folder that `variable` names. If the variable is not set,
    returns one that is skipped; the reason mentions the make target `target`."""
    folder = os.environ.get(variable)
    if not folder:
        reason = f"recorded outputs are no part of this repository: make {target} VECTORS=DIR"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")]
    found = sorted(Path(folder).glob("*.npz"))
    if not found:
        raise pytest.UsageError(f"expected .npz files in {folder}")
    return [pytest.param(file, id=file.stem) for file in found]


@dataclass
class Comparison:
    """The comparison with one file: the numbers of elements that were compared, that differ, and that were skipped for
    each reason.

    Attributes:
      differing: descriptions of some compared elements that differ; `wrong` is the number of all such elements.
      tolerated: the number of skipped elements that differ, by reason.
    """

    name: str
    compared: int = 0
    differing: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    tolerated: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: int = 0

    def arrays(self, what: str, got: np.ndarray, want: np.ndarray, **without: np.ndarray) -> None:
        """Compares the elements of two arrays, except those that a mask in `without` marks. The name of a mask is the
        reason to skip these elements.

        An element that several masks mark is counted for the first of them.
        """
        assert got.shape == want.shape, (self.name, what, got.shape, want.shape)
        chosen = np.ones(want.shape, np.bool_)
        for reason, mask in without.items():
            mask = np.broadcast_to(mask, want.shape) & chosen
            chosen &= ~mask
            self.left_out[reason] = self.left_out.get(reason, 0) + int(mask.sum())
            self.tolerated[reason] = self.tolerated.get(reason, 0) + int((mask & (got != want)).sum())
        wrong = np.argwhere(chosen & (got != want))
        self.compared += int(chosen.sum())
        self.wrong += len(wrong)
        for index in wrong[:3]:
            place = tuple(int(i) for i in index)
            self.differing.append(f"{what}{list(place)}: {got[place]} for {want[place]}")
        self.differing += [f"{what}: {len(wrong) - 3} more"] if len(wrong) > 3 else []

    def line(self) -> str:
        """Returns the report's line about this file. For each reason to skip elements, it includes how many of them
        differ."""
        parts = [
            f"{count} {reason.replace('_', ' ')} ({self.tolerated[reason]} differ)"
            for reason, count in self.left_out.items()
            if count
        ]
        left_out = [f"left out: {', '.join(parts)}"] if parts else []
        return "; ".join([f"{self.name}: {self.compared} compared, {self.wrong} differ", *left_out, *self.notes])


def floats(data: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Returns the f32 array `name` of a file. The file stores the bits of the array."""
    return as_f32(data[name]).reshape(data[name].shape)


def without_nan_bits(bits: np.ndarray) -> np.ndarray:
    """(V4) Replaces the bits of each NaN by those of the canonical NaN."""
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FC00000), bits)
