# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Loads PTX text into the PTX emulator and launches its kernels, without a GPU or a driver.

    module = repro_mlir.execute.emulator.load(ptx)
    memory = repro_mlir.execute.emulator.Memory()
    memory.add(array, "x")                    # a device pointer is a host address
    module.launch("kernel", grid, block, 0, parameters, memory)

The emulator runs the same text that a GPU's driver would load. `load` raises an error if the emulator does not support
an opcode with its modifiers. Every access must be aligned and within a buffer; with `checked=True` data races and reads
of uninitialized shared memory are faults too. docs/guides/gpu.md describes how programs run on it.

The C interface lib/CAPI/Emulator.h of the same emulator needs neither Python nor LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import ReproError


class PtxError(ReproError):
    """Raised for PTX text that is malformed or has an unknown opcode; the message names the line."""


class LaunchError(ReproError):
    """Raised for a launch that cannot begin: the kernel does not exist, or a size or the parameters are wrong."""


class KernelFault(ReproError):
    """Raised for an illegal operation of a kernel.

    Attributes:
      kind: "out of bounds", "misaligned", "race", "uninitialized", "divergence", "trap" or "unfinished".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class OrderDependence(ReproError):
    """Raised for a kernel whose results depend on the order in which its threads run."""


_KINDS = {
    2: "out of bounds",
    3: "misaligned",
    4: "race",
    5: "uninitialized",
    6: "divergence",
    7: "trap",
    8: "unfinished",
}
_ORDERS = {"lockstep": 0, "ascending": 1, "descending": 2}
_SHUFFLED = 3
_ALIGNMENT = 256

Order = str | int


@dataclass(frozen=True)
class Entry:
    """A kernel of a module.

    Attributes:
      parameters: the offset and size of each parameter in the parameter block, in bytes.
      shared_bytes: the size of the static shared memory that the kernel declares.
    """

    name: str
    parameters: tuple[tuple[int, int], ...]
    shared_bytes: int


@dataclass(frozen=True)
class LineCount:
    """The work of one line of PTX text in the counted blocks. A sector is 32 aligned bytes.

    Attributes:
      runs: the number of warp instructions, including those whose guard is false for all threads; 0 if the line has no
        instruction.
      sectors: the number of sectors of global memory that warps access.
      new_sectors: the number of those sectors that a block accesses for the first time.
      wavefronts: the number of cycles in which shared memory, which has 32 banks of 4 bytes, is accessed.
    """

    runs: int = 0
    sectors: int = 0
    new_sectors: int = 0
    wavefronts: int = 0


@dataclass(frozen=True)
class BufferCount:
    """The accesses of the counted blocks to a buffer.

    Attributes:
      begin, end: the first accessed byte and the byte after the last one; both are 0 without an access.
      new_sectors: the number of sectors that a block accesses for the first time.
      reads, writes: whether the blocks read or write the buffer.
    """

    begin: int
    end: int
    new_sectors: int
    reads: bool
    writes: bool


@dataclass(frozen=True)
class Counts:
    """The work of the counted blocks of a launch, by line of the PTX text (from 1) and by name of the buffer."""

    lines: dict[int, LineCount]
    buffers: dict[str, BufferCount]


def levels() -> list[str]:
    """Returns the CPU levels that the emulator can use on this machine, the slowest first. All levels give the same
    bits."""
    return list(_repro.emulator_levels())


class Memory:
    """Device memory: the arrays that kernels may access. A device pointer is the host address of a byte in an array."""

    def __init__(self) -> None:
        self._memory = _repro.EmulatorMemory()
        self._arrays: dict[str, np.ndarray] = {}

    def add(self, array: np.ndarray, name: str) -> int:
        """Makes a C-contiguous, writable array accessible, and keeps it alive.

        Returns:
          The device address of the array.
        Raises:
          ValueError: the array overlaps another one, or the name is in use.
        """
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise ValueError(f"expected a contiguous, writable array as buffer {name!r}")
        address = int(array.ctypes.data)
        if name in self._arrays or not self._memory.add(address, array.nbytes, name):
            raise ValueError(
                f"expected a new buffer, got {name!r} of {array.nbytes} bytes, which exists or overlaps another"
            )
        self._arrays[name] = array
        return address

    def allocate(self, size: int, name: str) -> np.ndarray:
        """Adds a new buffer of `size` bytes, aligned to 256 as on a device, and returns it. Raises ValueError if the
        name is in use."""
        room = np.empty(size + _ALIGNMENT, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT
        buffer = room[start : start + size]
        self.add(buffer, name)
        return buffer

    def remove(self, name: str) -> None:
        """Makes an array inaccessible again."""
        array = self._arrays.pop(name)
        self._memory.remove(int(array.ctypes.data))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The accessible arrays, by name."""
        return dict(self._arrays)


class Module:
    """A module of PTX, translated for the emulator.

    Attributes:
      target: the .target of the text, such as "sm_75".
      kernels: the entries by name.
    """

    def __init__(self, ptx: str, level: str = "") -> None:
        try:
            self._module = _repro.EmulatorModule(ptx, level)
        except ValueError as error:
            raise PtxError(str(error)) from None
        self.target: str = self._module.target
        self.kernels = {
            name: Entry(name, tuple(parameters), shared_bytes)
            for name, parameters, shared_bytes in self._module.kernels
        }
        self._indices = {name: index for index, name in enumerate(self.kernels)}

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        parameters: bytes,
        memory: Memory,
        *,
        order: Order | Sequence[Order] = "lockstep",
        checked: bool = False,
        threads: int = 1,
        matrix_unit: str = "",
    ) -> None:
        """Runs a kernel to its end.

        Args:
          name: one of `kernels`.
          grid, block: three extents each.
          shared_bytes: the size of the dynamic shared memory.
          parameters: the parameter block; for a kernel of 8-byte pointers, the concatenated pointers.
          memory: the buffers that the kernel may access, in addition to variables of the module.
          order: "lockstep" runs the threads of a warp together while they take the same branches. "ascending",
            "descending" or a number (the seed of a shuffle) runs the threads one by one up to each barrier, and the
            blocks one by one. With a list, each order runs on the same contents of `memory`, and all must produce the
            same contents.
          checked: whether to detect data races and reads of uninitialized shared memory.
          threads: the number of host threads that share the blocks; not used with `checked`.
          matrix_unit: the class (M3) whose rule mma.sync of floats follows, such as "hopper", or an architecture of
            that class; by default the class of `target`.
        Raises:
          LaunchError: the launch cannot begin.
          KernelFault: the kernel did an illegal operation; memory keeps what the kernel wrote before the fault.
          OrderDependence: two orders produced different results.
        """
        index = self._index(name)

        def run(one: Order) -> None:
            status, message = self._module.launch(
                index,
                list(grid),
                list(block),
                shared_bytes,
                parameters,
                memory._memory,
                threads,
                checked,
                _ORDERS[one] if isinstance(one, str) else _SHUFFLED,
                0 if isinstance(one, str) else one,
                matrix_unit,
            )
            _check(status, message)

        if isinstance(order, str | int):
            run(order)
            return
        before = {key: array.copy() for key, array in memory.arrays.items()}
        first: dict[str, np.ndarray] = {}
        for position, one in enumerate(order):
            for key, array in memory.arrays.items():
                array[...] = before[key]
            run(one)
            if position == 0:
                first = {key: array.copy() for key, array in memory.arrays.items()}
                continue
            for key, array in memory.arrays.items():
                if different := np.flatnonzero(_bytes(array) != _bytes(first[key])).tolist():
                    raise OrderDependence(
                        f"kernel {name!r} depends on the order of threads: byte {different[0]} of buffer {key!r} "
                        f"differs between orders {one!r} and {order[0]!r} ({len(different)} bytes differ)"
                    )

    def count(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        parameters: bytes,
        memory: Memory,
        blocks: Sequence[int],
        most: int,
    ) -> Counts:
        """Runs some blocks of a kernel in lockstep, and returns the counts of their work.

        Args:
          name, grid, block, shared_bytes, parameters, memory: see `launch`.
          blocks: the linear block numbers, with x fastest; a repeated number runs the block again.
          most: the maximum number of warp instructions of a block.
        Raises:
          LaunchError: the launch cannot begin.
          KernelFault: the kernel did an illegal operation, or exceeded `most` ("unfinished").
        """
        status, message, instructions, buffers = self._module.count(
            self._index(name), list(grid), list(block), shared_bytes, parameters, memory._memory, list(blocks), most
        )
        _check(status, message)
        lines: dict[int, LineCount] = {}
        for line, *numbers in instructions:
            # The emulator may split an instruction into several operations, each with its own count of runs. The runs
            # of the instruction are the maximum of these counts, not their sum.
            before = lines.get(line, LineCount())
            runs, *others = numbers
            sums = (a + b for a, b in zip((before.sectors, before.new_sectors, before.wavefronts), others, strict=True))
            lines[line] = LineCount(max(runs, before.runs), *sums)
        found = {key: BufferCount(begin if end else 0, end, *rest) for key, begin, end, *rest in buffers}
        return Counts(lines, found)

    def _index(self, name: str) -> int:
        if name not in self._indices:
            raise LaunchError(f"no kernel {name!r} in this module, expected one of {', '.join(self._indices)}")
        return self._indices[name]


def _check(status: int, message: str) -> None:
    if status in _KINDS:
        raise KernelFault(_KINDS[status], message)
    if status:
        raise LaunchError(message)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def load(ptx: str, *, level: str = "") -> Module:
    """Translates PTX text to a module for the emulator.

    Args:
      ptx: the text, with .target and .address_size 64.
      level: one of `levels()`; by default the fastest.
    Raises:
      PtxError: malformed text, an unknown opcode or an unknown level.
    """
    return Module(ptx, level)
