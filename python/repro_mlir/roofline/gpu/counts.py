# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Counts the work of the blocks of a launch with the PTX emulator; all data is zero."""

from __future__ import annotations

import math
import mmap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.execute import emulator
from repro_mlir.roofline.gpu.architecture import LATENCIES, SECTOR, WARP
from repro_mlir.roofline.gpu.instructions import Cost, cost_of
from repro_mlir.roofline.gpu.ptx import Block
from repro_mlir.roofline.traffic import Touch, touches_of
from repro_mlir.runner.plan import Kernel, Launch, Plan

# The approximate number of warp instructions to emulate per launch; smaller launches are emulated completely.
_BUDGET = 200_000
_FEWEST = 4
# Limits on the instructions of one block. Above `_DOUBTFUL`, the block may contain a loop that never ends on this data;
# above `_MOST`, the loop counts as infinite.
_DOUBTFUL, _MOST = 1 << 22, 1 << 28
_PAGE = 4096
ALIGNMENT = 256
"""CUDA's allocation alignment in bytes: launches whose argument offsets are equal modulo this number do equal work."""

# The maximum number of bytes of a buffer that are filled with a value other than zero.
_FILLED = 1 << 26
# MAP_NORESERVE of Linux, which the mmap module of Python 3.11 does not define.
_NO_RESERVE = 0x4000


@dataclass(frozen=True)
class Work:
    """The work of a launch, independent of the machine's parameters.

    Attributes:
      blocks: the number of blocks of the grid.
      counted: the number of emulated blocks; the others are assumed to be like their neighbours.
      kinds: the number of warp instructions of the whole launch, by type.
      issued: the number of machine instructions that a block issues.
      units: the load of a block on each unit: the number of warp instructions; for `load_store`, cycles at 128 bytes
        per cycle; for matrix units, operations by format.
      l2_bytes: the number of bytes that a block transfers between L2 and its multiprocessor; repeated accesses hit L1.
      path: the cycles that a warp takes if every load hits L2, and the cycles if every load goes to memory.
      touched: for each argument, the offset of the first accessed byte, the number of accessed bytes, whether they are
        read and whether they are written.
      shared_bytes: the size in bytes of the shared memory of a block.
      threads: the number of threads of a block.
    """

    blocks: int
    counted: int
    kinds: dict[str, float]
    issued: float
    units: dict[str, float]
    l2_bytes: float
    path: tuple[float, float]
    touched: tuple[tuple[int, int, bool, bool], ...]
    shared_bytes: int
    threads: int

    def touches(self, launch: Launch) -> list[Touch]:
        """Returns the touches of `launch`, which is the counted launch or an equal one; several arguments with the same
        bytes are one touch."""
        places = zip(launch.arguments, self.touched, strict=True)
        accesses = (
            (space, number, offset + begin, size, reads, writes)
            for (space, number, offset), (begin, size, reads, writes) in places
        )
        return touches_of(accesses, fetches_written=False)


@dataclass
class _Line:
    runs: float = 0.0
    sectors: float = 0.0
    new_sectors: float = 0.0
    wavefronts: float = 0.0


def count(module: emulator.Module, blocks: Sequence[Block], plan: Plan, launch: Launch, constants: bytes) -> Work:
    """Emulates some blocks of a launch, and returns the work of the whole launch.

    Some kernels do not terminate on zeros, for example because they follow a chain of indices. Such a kernel is
    emulated on bytes of 255 instead: an index of -1 ends a chain.

    Args:
      module: the module of the kernel.
      blocks: the instructions of the kernel.
      plan: the plan of the launch.
      constants: the bytes of the memory space "constant".
    Raises:
      ReproError: the kernel violates a rule of the emulator or does not terminate, or a buffer is too large.
    """
    for fill, most in ((0, _DOUBTFUL), (255, _DOUBTFUL), (0, _MOST)):
        try:
            return _count(module, blocks, plan, launch, constants, fill, most)
        except emulator.KernelFault as error:
            fault = error
            if error.kind != "unfinished":
                break
        except emulator.LaunchError as error:
            raise ReproError(f"cannot count: {error}") from None
    raise ReproError(f"cannot count: {fault}") from None


def _count(
    module: emulator.Module,
    blocks: Sequence[Block],
    plan: Plan,
    launch: Launch,
    constants: bytes,
    fill: int,
    most: int,
) -> Work:
    kernel = plan.kernels[launch.kernel]
    memory, parameters = _memory(plan, launch, constants, fill)
    total = math.prod(launch.grid)
    lines: defaultdict[int, _Line] = defaultdict(_Line)
    sizes: defaultdict[str, float] = defaultdict(float)
    ranges: dict[str, tuple[int, int, bool, bool]] = {}
    counted = 0

    def run(numbers: Sequence[int], weight: float) -> float:
        nonlocal counted
        found = module.count(kernel.name, launch.grid, kernel.block, kernel.shared, parameters, memory, numbers, most)
        counted += len(numbers)
        for line, each in found.lines.items():
            mine = lines[line]
            mine.runs += weight * each.runs
            mine.sectors += weight * each.sectors
            mine.new_sectors += weight * each.new_sectors
            mine.wavefronts += weight * each.wavefronts
        for name, buffer in found.buffers.items():
            if buffer.end:
                begin, end, reads, writes = ranges.get(name, (buffer.begin, buffer.end, False, False))
                begin, end = min(begin, buffer.begin), max(end, buffer.end)
                ranges[name] = begin, end, reads or buffer.reads, writes or buffer.writes
                sizes[name] += weight * buffer.new_sectors * SECTOR
        return sum(each.runs for each in found.lines.values())

    first = run([0], 1.0)
    middle = total - 2
    if total > 1:
        run([total - 1], 1.0)
    if middle > 0:
        number = middle if middle * first <= _BUDGET else max(_FEWEST, int(_BUDGET / first))
        # Multiples of the golden ratio sample the blocks aperiodically, so that the samples do not align with a period
        # of tiles.
        chosen = (
            range(middle) if number >= middle else sorted({int(i * 0.6180339887 % 1 * middle) for i in range(number)})
        )
        run([1 + each for each in chosen], middle / len(chosen))
    touched = []
    for index in map(str, range(len(launch.arguments))):
        begin, end, reads, writes = ranges.get(index, (0, 0, False, False))
        # Both numbers are upper bounds of the accessed bytes: the range includes gaps, and the sum over blocks counts
        # overlapping accesses several times.
        touched.append((begin, min(end - begin, int(sizes[index])), reads, writes))
    shared = kernel.shared + module.kernels[kernel.name].shared_bytes
    return _work(blocks, lines, kernel, total, counted, tuple(touched), shared)


def _memory(plan: Plan, launch: Launch, constants: bytes, fill: int) -> tuple[emulator.Memory, bytes]:
    """Allocates a buffer for each argument, and encodes the kernel's parameters. A buffer has the bytes from the
    argument's offset to the end of the argument's memory in the plan."""
    memory = emulator.Memory()
    sizes = plan.sizes()
    addresses = []
    for index, (space, number, offset) in enumerate(launch.arguments):
        size = sizes[space, number] - offset
        try:
            # Pages that are never written occupy no memory.
            pages = mmap.mmap(-1, size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except (OSError, OverflowError, ValueError):
            raise ReproError(f"cannot count on this machine: a buffer of {size} bytes is too large") from None
        array = np.frombuffer(pages, np.uint8)
        # Gives the buffer the same offset from a multiple of ALIGNMENT as on a device.
        array = array[offset % ALIGNMENT : offset % ALIGNMENT + size]
        if fill:
            array[:_FILLED] = fill
        if space == "constant":
            array[:] = np.frombuffer(constants, np.uint8)[offset:]
        addresses.append(memory.add(array, str(index)))
    addresses.append(int(memory.allocate(8, "error").ctypes.data))
    memory.arrays["error"][:] = 0
    return memory, np.array(addresses, np.uint64).tobytes()


def _work(
    blocks: Sequence[Block],
    lines: dict[int, _Line],
    kernel: Kernel,
    total: int,
    counted: int,
    touched: tuple[tuple[int, int, bool, bool], ...],
    shared: int,
) -> Work:
    kinds: defaultdict[str, float] = defaultdict(float)
    units: defaultdict[str, float] = defaultdict(float)
    issued = l2_bytes = 0.0
    threads = math.prod(kernel.block)
    warps = -(-threads // WARP)
    path = [0.0, 0.0]
    ready: list[dict[str, float]] = [{}, {}]
    for block in blocks:
        runs = max((lines[each.line].runs for each in block.instructions if each.line in lines), default=0.0)
        if not runs:
            continue
        costs = [cost_of(each) for each in block.instructions]
        for instruction, cost in zip(block.instructions, costs, strict=True):
            kinds[cost.kind] += runs
            issued += runs * cost.issued
            for unit, number in cost.units.items():
                units[unit] += runs * number
            line = lines.get(instruction.line, _Line())
            l2_bytes += line.new_sectors * SECTOR
            units["load_store"] += line.wavefronts + line.sectors * SECTOR / 128
        for number, behind in enumerate((LATENCIES["l2"], LATENCIES["memory"])):
            latencies = [
                cost.latency or _load_latency(each.opcode, lines.get(each.line), behind)
                for each, cost in zip(block.instructions, costs, strict=True)
            ]
            cycles = _cycles(block, costs, latencies, ready[number])
            if block.is_loop:
                cycles = _cycles(block, costs, latencies, ready[number])
            path[number] += runs / (total * warps) * cycles
    per_block = {unit: number / total for unit, number in units.items() if number}
    return Work(
        total, counted, dict(kinds), issued / total, per_block, l2_bytes / total, (path[0], path[1]), touched, shared,
        threads,
    )  # fmt: skip


def _load_latency(opcode: str, line: _Line | None, behind: float) -> float:
    """Returns the latency of a global-memory access. Sectors that are new to the block come from beyond L1, with the
    latency `behind`."""
    if not opcode.startswith(("ld.", "ldu.", "atom.")) or line is None or not line.sectors:
        return 0.0
    share = 1.0 if opcode.startswith("atom.") else line.new_sectors / line.sectors
    return LATENCIES["l1"] + share * (behind - LATENCIES["l1"])


def _cycles(block: Block, costs: Sequence[Cost], latencies: Sequence[float], ready: dict[str, float]) -> float:
    """Returns the cycles in which one warp issues the instructions of a block.

    The warp issues one instruction per cycle, each as soon as its operands are ready; the assembler has scheduled the
    machine code accordingly.

    Args:
      ready: the cycle in which each register that earlier blocks wrote is ready, relative to the start of the block;
        the function changes these cycles to be relative to the end of the block.
    """
    last = barrier = issued = 0.0
    for instruction, cost, latency in zip(block.instructions, costs, latencies, strict=True):
        begin = max((ready.get(register, 0.0) for register in instruction.sources), default=0.0)
        begin = max(begin, barrier)
        issued += cost.issued
        if cost.kind == "barrier":
            begin = max(begin, last, issued)
            barrier = begin + latency
        last = max(last, begin)
        for register in instruction.results:
            ready[register] = begin + max(latency, cost.issued)
    cycles = max(last, issued, barrier)
    for register in [*ready]:
        left = ready[register] - cycles
        if left > 0:
            ready[register] = left
        else:
            del ready[register]
    return cycles
