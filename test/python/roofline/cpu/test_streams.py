# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that measured steps use buffers that have been written, and always the same ones, as real steps do.

Otherwise the measurement would be wrong: all pages that were never written are the same page, which stays in a cache,
and the first write to each page is a page fault.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from repro_mlir.compilation import cpu
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.roofline import measure, predict, read_code
from repro_mlir.roofline.cpu.calibration import bandwidth
from support.predicted import MACHINE, program_of, streamed

# More bytes than the allocator keeps for reuse, so that pages are new and become resident only when they are written.
BYTES = 64 << 20
HERE = replace(MACHINE, level=cpu.native_level(), scheduling_model="generic", launch_seconds=0.0)
_PAGE = 4096


def in_memory(address: int) -> bool:
    """Returns whether the pages of the BYTES bytes that start at `address` are resident. Pages that also contain other
    bytes are not checked."""
    begin, end = -(-address // _PAGE) * _PAGE, (address + BYTES) // _PAGE * _PAGE
    pages = (ctypes.c_ubyte * ((end - begin) // _PAGE))()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), pages):
        raise OSError(ctypes.get_errno(), "mincore")
    return all(page & 1 for page in bytes(pages))


@dataclass
class Observed:
    """An executable that records for each step whether its buffers were resident before the step.

    Attributes:
      steps: for each step, the address of the input and that of the output; after each address, whether the memory
        there was resident.
    """

    executable: Any
    steps: list[tuple[tuple[int, bool], ...]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)

    def _note(self, addresses: Sequence[int]) -> None:
        self.steps.append(tuple((address, in_memory(address)) for address in addresses))

    def run(self, addresses: Sequence[int]) -> None:
        self._note(addresses)
        self.executable.run(addresses)

    def profile(self, addresses: Sequence[int], counters: Sequence[int]) -> tuple[list[int], list[int]]:
        self._note(addresses)
        return self.executable.profile(addresses, counters)

    def check(self) -> None:
        """Checks that the input is written before the first step, and that all later steps use the buffers of the
        first."""
        first, *later = self.steps
        assert first[0][1]
        kept = tuple((address, True) for address, _ in first)
        assert len(later) > 1 and all(step == kept for step in later)


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> list[Observed]:
    """Returns the list to which each loaded executable is added. Each reading of the clock advances it by 0.1
    seconds."""
    monkeypatch.setattr(time, "perf_counter", itertools.count(0.0, 0.1).__next__)
    found: list[Observed] = []
    load = CpuBackend.__init__

    def observe(self: CpuBackend, artifact: bytes, threads: int | None = None) -> None:
        load(self, artifact, threads)
        found.append(Observed(self._executable))
        self._executable = found[-1]

    monkeypatch.setattr(CpuBackend, "__init__", observe)
    return found


def test_the_calibrated_bandwidth(observed: list[Observed]) -> None:
    bandwidth(HERE, 2 * BYTES, 1)
    (only,) = observed
    only.check()


def test_the_measured_step(observed: list[Observed]) -> None:
    program = program_of(streamed(BYTES // 4))
    measure(program, predict(read_code(program, HERE), HERE), seconds=0.4)
    (only,) = observed
    only.check()
