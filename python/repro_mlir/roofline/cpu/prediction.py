# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of a step on a CPU from its compiled code and the parameters of a machine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.compilation.cache import cached_analysis
from repro_mlir.compilation.cpu import Analysis
from repro_mlir.program.program import Program
from repro_mlir.roofline.cpu.assembly import Block, calls_of, read_assembly
from repro_mlir.roofline.cpu.kernel_descriptions import KernelDescription, read_kernels, touches
from repro_mlir.roofline.cpu.operations import operations_of
from repro_mlir.roofline.cpu.peak import bandwidths, ceilings_of, peak_block, scattered_bandwidths
from repro_mlir.roofline.cpu.sequences import Sequence, sequences_of
from repro_mlir.roofline.cpu.throughput import Cycles, cycles_of
from repro_mlir.roofline.machines.cpu import UNITS, CpuMachine
from repro_mlir.roofline.memory import memory_of
from repro_mlir.roofline.predicted import PredictedStep, PredictedTime
from repro_mlir.roofline.traffic import Reuse, reuse
from repro_mlir.runner.plan import Kernel, Plan, read_plan

CAUSES = ("issue", "ports", "latency", "l2", "l3", "memory", "imbalance", "launch")
"""The causes of the time of a launch."""

LEVELS = ("l1", "l2", "l3", "memory")
"""The memory levels that supply the bytes of a launch."""

# Sequences that execute less than this fraction of a kernel's instructions are not simulated.
_COUNTED = 0.005
# The assumed instructions per cycle of a sequence that is not simulated.
_WIDTH = 4


@dataclass(frozen=True)
class LaunchPrediction(PredictedTime):
    """The prediction of a launch.

    Attributes:
      kernel: the name of the kernel that runs.
      operation: what the kernel computes (`KernelDescription`).
      source: where the kernel's operations come from, likewise.
      threads: the number of threads that share the launch.
      causes: the seconds for each of `CAUSES`; their sum is `seconds`.
      traffic: the bytes that each of `LEVELS` supplies.
      operations: the number of operations for each of `operations.OPERATIONS`.
    """

    kernel: str
    operation: str
    source: str
    threads: int
    causes: dict[str, float]
    traffic: dict[str, int]
    operations: dict[str, int]

    @property
    def facts(self) -> dict[str, Any]:
        """Further properties of the launch, by name."""
        return {"operation": self.operation, "source": self.source, "threads": self.threads}


@dataclass(frozen=True)
class Code:
    """The properties of a compiled program that do not depend on caches, bandwidths, clock rate or overheads.

    Attributes:
      machine: the machine whose level and execution units the code is for.
      descriptions: the operands and operations of each kernel, by name of the kernel.
      kernels: the sequences of each kernel with their cycles; None instead of cycles for sequences that are too rare to
        be simulated.
      operations: the operations of each kernel, by name of the kernel, then by `operations.OPERATIONS`.
      scattered: for each kernel, the fraction of the lines from beyond the L2 cache that no prefetcher fetches in time.
      flops_per_cycle: the maximum number of floating-point operations per cycle of a core.
      calls: the routines that the kernels call; their time counts as 0.
    """

    machine: CpuMachine
    plan: Plan
    descriptions: dict[str, KernelDescription]
    kernels: dict[str, tuple[tuple[Sequence, Cycles | None], ...]]
    operations: dict[str, dict[str, int]]
    scattered: dict[str, float]
    flops_per_cycle: float
    calls: tuple[str, ...] = ()
    _reuse: dict[int, Reuse] = field(default_factory=dict, init=False, repr=False, compare=False)

    def traffic(self, machine: CpuMachine, threads: int, lost: np.ndarray | float = 0.0) -> list[dict[str, int]]:
        """Returns, for each launch, the bytes that each of `LEVELS` supplies.

        Each thread has its own L1 and L2 caches and processes an equal part of each buffer, so one part represents all
        of them. All threads share the L3 cache, which has lost the fraction `lost` of each piece of data
        (`traffic.Reuse`).
        """
        own = self._reuse_of(threads)
        moved = own.beyond(0)
        behind_l1 = own.beyond(machine.l1_bytes)
        behind_l2 = own.beyond(max(machine.l1_bytes, machine.l2_bytes))
        memory = np.minimum(behind_l2, self._reuse_of(1).beyond(machine.l3_bytes, lost))
        found = moved - behind_l1, behind_l1 - behind_l2, behind_l2 - memory, memory
        return [dict(zip(LEVELS, each, strict=True)) for each in np.stack(found, 1).tolist()]

    def cold(self, machine: CpuMachine, threads: int, lost: np.ndarray | float = 0.0) -> list[float]:
        """Returns, for each launch, the largest fraction of any piece of its data (`traffic.Reuse`) that comes from
        memory.

        The fraction is 0 if the caches of the threads contain all pieces. For `lost` see `traffic`.
        """
        near = max(machine.l1_bytes, machine.l2_bytes)
        own = self._reuse_of(threads).farthest(near, near)
        return np.minimum(own, self._reuse_of(1).farthest(near, machine.l3_bytes, lost)).tolist()

    def lost(self, machine: CpuMachine, seconds: np.ndarray) -> np.ndarray | float:
        """Returns the fraction of each piece of data (`traffic.Reuse`) that the L3 cache has lost before its next use,
        from `l3_half_life` and the `seconds` of the launches."""
        return 1 - self._reuse_of(1).kept(seconds, machine.l3_half_life) if machine.l3_half_life else 0.0

    def _reuse_of(self, threads: int) -> Reuse:
        """Returns the reuse distances in the caches of one of `threads` threads, with the bytes that all threads
        transfer."""
        if threads not in self._reuse:
            parts = []
            for launch, touched in zip(self.plan.launches, touches(self.plan, self.descriptions), strict=True):
                used = used_threads(self.plan.kernels[launch.kernel], threads)
                sizes = [-(-each.size // used) for each in touched]
                parts.append([
                    replace(each, size=size, times=each.times * each.size / size)
                    for each, size in zip(touched, sizes, strict=True)
                ])  # fmt: skip
            self._reuse[threads] = reuse(parts)
        return self._reuse[threads]


@dataclass(frozen=True)
class StepPrediction(PredictedStep[CpuMachine, LaunchPrediction]):
    """The prediction of a step; see `PredictedStep`.

    Attributes:
      threads: the requested number of threads.
      calls: routines that the kernels call and whose time `launches` does not include.
    """

    threads: int
    calls: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The conditions of the prediction, by name."""
        return {"level": self.machine.level, "threads": self.threads, "calls": self.calls}

    @property
    def setting(self) -> str:
        """The conditions of the prediction in words."""
        without = f", without the time of {' and '.join(self.calls)}" if self.calls else ""
        return f"{self.machine.level}, {self.threads} threads{without}"


def read_cpu_code(program: Program, machine: CpuMachine) -> Code:
    """Compiles a program for the machine's level and analyzes the code.

    Raises:
      ReproError: an error of the compiler or of llvm-mca.
    """
    return code_of(cached_analysis(program.data, machine.level, untrusted=program.untrusted), machine)


def code_of(analysis: Analysis, machine: CpuMachine) -> Code:
    """Returns the properties of a program from the analysis of its code, which must be for the machine's level.

    Raises:
      ReproError: an error of llvm-mca.
    """
    kernels = read_assembly(analysis.assembly)
    sequences = {name: sequences_of(blocks) for name, blocks in kernels.items()}
    chosen = list(dict.fromkeys(code for each in sequences.values() for code in _counted(each)))
    peak = peak_block(machine)
    *cycles, peak_cycles = cycles_of([*chosen, tuple(peak.instructions)], machine)
    known = dict(zip(chosen, cycles, strict=True))
    return Code(
        machine,
        read_plan(analysis.plan, "cpu", "the program"),
        read_kernels(analysis.kernels),
        {name: tuple((one, known.get(one.instructions)) for one in each) for name, each in sequences.items()},
        {name: operations_of(blocks) for name, blocks in kernels.items()},
        {name: _scattered(blocks) for name, blocks in kernels.items()},
        operations_of([peak])["floating_point"] / peak_cycles.ports,
        calls_of(analysis.assembly),
    )


def _scattered(blocks: list[Block]) -> float:
    missed = sum(block.missed for block in blocks)
    return sum(block.scattered for block in blocks) / missed if missed else 0.0


def _counted(sequences: list[Sequence]) -> list[tuple[str, ...]]:
    sizes = [one.runs * len(one.instructions) for one in sequences]
    return [one.instructions for one, size in zip(sequences, sizes, strict=True) if size >= _COUNTED * sum(sizes)]


def predict_cpu(code: Code, machine: CpuMachine, threads: int = 1) -> StepPrediction:
    """Predicts the time of a step in steady state, with the caches as the previous step left them.

    Args:
      threads: the number of threads, from 1 to the machine's cores.
    Raises:
      ReproError: `threads` is out of range, or the machine's level or execution units differ from those of the code.
    """
    for name in UNITS:
        if getattr(machine, name) != getattr(code.machine, name):
            raise ReproError(
                f"the code was read for {name} {getattr(code.machine, name)}, and {machine.name} has "
                f"{getattr(machine, name)}: expected read_code with this machine"
            )
    check_threads(machine, threads)
    cycles = {name: _core_cycles(each) for name, each in code.kernels.items()}

    def launches(lost: np.ndarray | float = 0.0) -> tuple[LaunchPrediction, ...]:
        kernels = [code.plan.kernels[launch.kernel] for launch in code.plan.launches]
        known = zip(kernels, code.traffic(machine, threads, lost), code.cold(machine, threads, lost), strict=True)
        return tuple(
            _launch(kernel, cycles[kernel.name], bytes_of, cold, code, machine, threads)
            for kernel, bytes_of, cold in known
        )

    found = launches()
    if machine.l3_half_life:
        found = launches(code.lost(machine, np.array([each.seconds for each in found])))
    ceilings = ceilings_of(machine, threads, code.flops_per_cycle)
    return StepPrediction(machine, found, memory_of(code.plan, threads), ceilings, threads, code.calls)


def check_threads(machine: CpuMachine, threads: int) -> None:
    """Raises ReproError unless `threads` is from 1 to the machine's cores."""
    if not 1 <= threads <= machine.cores:
        raise ReproError(f"expected threads from 1 to the {machine.cores} cores of {machine.name}, got {threads}")


def used_threads(kernel: Kernel, threads: int) -> int:
    """Returns the number of threads that work on a launch."""
    return max(1, min(threads, _grains(kernel)))


def _grains(kernel: Kernel) -> int:
    return -(-kernel.items // kernel.grain)


def _core_cycles(sequences: tuple[tuple[Sequence, Cycles | None], ...]) -> tuple[float, float, float]:
    """Returns the cycles in which instructions are issued, the cycles that busy execution units add, and the cycles
    that latencies add."""
    issue = ports = latency = 0.0
    for one, cycles in sequences:
        if cycles is None:
            issue += one.runs * len(one.instructions) / _WIDTH
            continue
        issue += one.runs * cycles.issue
        ports += one.runs * (cycles.ports - cycles.issue)
        latency += one.runs * (cycles.latency - cycles.ports if one.repeats else 0.0)
    return issue, ports, latency


def _launch(
    kernel: Kernel,
    cycles: tuple[float, float, float],
    bytes_of: dict[str, int],
    cold: float,
    code: Code,
    machine: CpuMachine,
    threads: int,
) -> LaunchPrediction:
    grains, used = _grains(kernel), used_threads(kernel, threads)
    shares = {cause: each / machine.clock_hz / used for cause, each in zip(CAUSES, cycles, strict=False)}
    core = sum(shares.values())
    beyond = seconds_beyond(core, bytes_of, code.scattered[kernel.name], machine, used)
    work = core + sum(beyond.values())
    imbalance = work * (-(-grains // used) * used / grains - 1) if grains else 0.0
    launch = machine.launch_seconds + cold * machine.cold_launch_seconds
    launch += machine.wake_seconds if used > 1 else 0.0
    causes = {**shares, **beyond, "imbalance": imbalance, "launch": launch}
    about = code.descriptions[kernel.name]
    operations = code.operations[kernel.name]
    return LaunchPrediction(kernel.name, about.operation, about.source, used, causes, bytes_of, operations)


def seconds_beyond(
    core: float, bytes_of: dict[str, int], scattered: float, machine: CpuMachine, threads: int
) -> dict[str, float]:
    """Returns the seconds that transfers from each memory level add to the time of the cores.

    Prefetched transfers overlap with computation, so only the longer of these two times counts. Other transfers do not
    overlap, and memory supplies them at no more than `scattered_memory_bandwidth`, even if there is little to compute.
    """
    rates, slow = bandwidths(machine, threads), scattered_bandwidths(machine, threads)
    apart = {"l2": 0.0, "l3": scattered, "memory": scattered}
    ahead = sum((1 - part) * bytes_of[level] / rates[level] for level, part in apart.items())
    on_top = sum(part * bytes_of[level] / rates[level] for level, part in apart.items())
    transfers = {
        level: bytes_of[level] * ((1 - part) / rates[level] + part / slow[level]) for level, part in apart.items()
    }
    moved = sum(transfers.values())
    beyond = max(max(core, ahead) + on_top, moved) - core
    return {level: beyond * seconds / moved if moved else 0.0 for level, seconds in transfers.items()}
