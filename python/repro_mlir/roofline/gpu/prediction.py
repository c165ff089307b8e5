# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of a step on a GPU from its PTX and the parameters of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.execute import emulator
from repro_mlir.program.program import Program
from repro_mlir.roofline.ceilings import Ceilings
from repro_mlir.roofline.gpu.architecture import ARCHITECTURES, WARP, WAVEFRONT, Architecture
from repro_mlir.roofline.gpu.counts import ALIGNMENT, Work, count
from repro_mlir.roofline.gpu.occupancy import blocks_per_multiprocessor, registers_of
from repro_mlir.roofline.gpu.ptx import most_live_registers, read_kernels
from repro_mlir.roofline.machines.accelerator import Accelerator
from repro_mlir.roofline.memory import memory_of
from repro_mlir.roofline.predicted import PredictedStep, PredictedTime
from repro_mlir.roofline.traffic import Reuse, reuse
from repro_mlir.runner.bundle import Bundle
from repro_mlir.runner.certificates import without_tensor_cores
from repro_mlir.runner.execution import TargetCode, choose_architecture
from repro_mlir.runner.plan import Plan

GPU_CAUSES = ("issue", "units", "latency", "l2", "memory", "tail", "launch")
"""The causes of the time of a launch."""

_MATRIX_RATES = {
    "matrix tf32": "tf32_matrix_flops",
    "matrix f16": "f16_matrix_flops",
    "matrix f8": "f8_matrix_flops",
    "matrix int8": "int8_matrix_ops",
}
_OPERATIONS = {"f32": "floating_point", **{unit: unit.replace(" ", "_") for unit in _MATRIX_RATES}}


@dataclass(frozen=True)
class GpuLaunchPrediction(PredictedTime):
    """The prediction of a launch.

    Attributes:
      kernel: the name of the kernel that runs.
      causes: the seconds for each of `GPU_CAUSES`; their sum is `seconds`.
      traffic: the bytes between L2 and multiprocessors (`l2`), and between memory and L2 (`memory`).
      operations: the number of operations: `floating_point`, with two operations per instruction, and those of matrix
        units by format.
      unit: the busiest unit, such as "f32".
      blocks: the number of blocks of the grid.
      resident: the number of blocks that are resident on a multiprocessor.
      waves: the number of times that the grid fills all multiprocessors; a partial last wave counts as a fraction.
    """

    kernel: str
    causes: dict[str, float]
    traffic: dict[str, int]
    operations: dict[str, int]
    unit: str
    blocks: int
    resident: int
    waves: float

    @property
    def facts(self) -> dict[str, Any]:
        """Further properties of the launch, by name."""
        return {"unit": self.unit, "blocks": self.blocks, "resident": self.resident, "waves": self.waves}


@dataclass(frozen=True)
class GpuCode:
    """The properties of compiled code that do not depend on the machine's parameters.

    Attributes:
      architecture: the architecture of the code.
      plan: the plan with its launches.
      work: the work of each launch; equal launches share one object.
      registers: registers per thread of each kernel.
      is_assembled: whether ptxas has assigned `registers`; otherwise they are the maximum number of live values in the
        PTX.
      digest: the digest of the code (`TargetCode.digest`).
    """

    architecture: str
    plan: Plan
    work: tuple[Work, ...]
    registers: dict[str, int]
    is_assembled: bool
    digest: str

    @cached_property
    def reuse(self) -> Reuse:
        """The reuse distances of the data of the launches, which determine the hits in the L2 cache."""
        return reuse([work.touches(launch) for launch, work in zip(self.plan.launches, self.work, strict=True)])


@dataclass(frozen=True)
class GpuStepPrediction(PredictedStep[Accelerator, GpuLaunchPrediction]):
    """The prediction of a step; see `PredictedStep`.

    Attributes:
      is_assembled: whether the registers are those of ptxas (`GpuCode`).
      digest: the digest of the code (`GpuCode`).
    """

    is_assembled: bool
    digest: str

    @property
    def facts(self) -> dict[str, Any]:
        """The conditions of the prediction, by name."""
        registers = "ptxas" if self.is_assembled else "estimated"
        return {"architecture": self.machine.architecture, "registers": registers}

    @property
    def setting(self) -> str:
        """The conditions of the prediction in words."""
        return f"{self.machine.architecture}, registers {'of ptxas' if self.is_assembled else 'estimated'}"


def read_gpu_code(source: Program | Bundle, machine: Accelerator) -> GpuCode:
    """Compiles a program for the machine's architecture, or selects the best code in a bundle. Returns the code with
    its counted work.

    Raises:
      ReproError: a machine without an architecture, an error of the compiler, a bundle without code for the machine, or
        a kernel that cannot be counted.
    """
    if machine.architecture is None:
        raise ReproError(f"{machine.name}: expected a machine of an architecture that the compiler supports")
    if isinstance(source, Program):
        (code,) = compile_for(source, [machine.architecture])
    else:
        number = int(machine.architecture.removeprefix("sm_"))
        names = source.architectures
        code = source.code(choose_architecture(names, (number // 10, number % 10), source.path.name))
    return gpu_code_of(code, machine.architecture)


def gpu_code_of(code: TargetCode, architecture: str) -> GpuCode:
    """Returns compiled code together with the counted work of its launches on an architecture.

    If the code was compiled for an older architecture, its PTX is used and its cubin is ignored.

    Raises:
      ReproError: a kernel that cannot be counted.
    """
    text = code.ptx.decode(errors="replace")
    module = emulator.load(text)
    kernels = read_kernels(text)
    for kernel in code.plan.kernels:
        if kernel.name not in module.kernels or kernel.name not in kernels:
            raise ReproError(f"expected a kernel {shown(kernel.name)} in the PTX")
    is_own = without_tensor_cores(code.architecture) == architecture
    registers = registers_of(code.cubin) if code.cubin and is_own else {}
    is_assembled = registers.keys() >= kernels.keys()
    if not is_assembled:
        registers = {name: most_live_registers(blocks) for name, blocks in kernels.items()}
    known: dict[tuple[object, ...], Work] = {}
    work = []
    plan = code.plan
    for launch in plan.launches:
        # Launches that read different constants are counted separately, because constants can be indices that affect
        # the count. All other data is zero.
        places = tuple(
            (space, offset if space == "constant" else offset % ALIGNMENT) for space, _, offset in launch.arguments
        )
        key = (launch.kernel, launch.grid, places)
        if key not in known:
            known[key] = count(module, kernels[plan.kernels[launch.kernel].name], plan, launch, code.constants)
        work.append(known[key])
    return GpuCode(architecture, plan, tuple(work), registers, is_assembled, code.digest)


def predict_gpu(code: GpuCode, machine: Accelerator) -> GpuStepPrediction:
    """Predicts the time of a step in steady state, with the L2 cache as the previous step left it.

    Raises:
      ReproError: the machine's architecture is not that of the code, or a block does not fit the machine.
    """
    if machine.architecture != code.architecture:
        raise ReproError(
            f"the code was read for architecture {code.architecture}, and {machine.name} has {machine.architecture}: "
            "expected read_code with this machine"
        )
    plan = code.plan
    memory_bytes = code.reuse.beyond(machine.l2_bytes).tolist()
    launches = []
    for launch, work, moved in zip(plan.launches, code.work, memory_bytes, strict=True):
        name = plan.kernels[launch.kernel].name
        resident = blocks_per_multiprocessor(name, work.threads, code.registers[name], work.shared_bytes, machine)
        launches.append(_launch(name, work, resident, moved, machine))
    memory = memory_of(plan, 1)
    return GpuStepPrediction(machine, tuple(launches), memory, _ceilings(machine), code.is_assembled, code.digest)


def _launch(name: str, work: Work, resident: int, memory_bytes: int, machine: Accelerator) -> GpuLaunchPrediction:
    """Predicts a launch. The causes overlap, so each one has only the time by which it exceeds the longest of the
    causes before it."""
    l2_bytes = work.blocks * work.l2_bytes
    missing = min(1.0, memory_bytes / l2_bytes) if l2_bytes else 0.0
    path = (work.path[0] + missing * (work.path[1] - work.path[0])) / machine.clock_hz
    issue = work.issued / (machine.issue_width * machine.clock_hz * machine.issue_efficiency)
    unit, busy = _busiest(name, work.units, machine)
    share = work.blocks / machine.multiprocessors
    waves = share / resident
    if l2_bytes and not machine.l2_bandwidth:
        raise ReproError(f"{name} needs l2_bandwidth, which {machine.name} does not have")
    transfers = {
        "l2": l2_bytes / machine.l2_bandwidth if l2_bytes else 0.0,
        "memory": memory_bytes / (machine.memory_bandwidth * machine.memory_efficiency),
    }
    steps = {"issue": share * issue, "units": share * busy, "latency": max(1.0, waves) * path, **transfers}
    causes, longest = {}, 0.0
    for cause, seconds in steps.items():
        causes[cause] = max(0.0, seconds - longest)
        longest = max(longest, seconds)
    # The busiest multiprocessor executes a whole number of blocks and waves.
    most, whole = -(-work.blocks // machine.multiprocessors), -(-work.blocks // (machine.multiprocessors * resident))
    causes["tail"] = max(0.0, most * issue - longest, most * busy - longest, whole * path - longest)
    causes["launch"] = machine.launch_seconds
    moved = {"l2": int(l2_bytes), "memory": memory_bytes}
    asked = {_OPERATIONS[each]: work.blocks * number for each, number in work.units.items() if each in _OPERATIONS}
    # The unit f32 counts warp instructions; each thread of a warp does a multiply-add, which counts as two operations.
    asked["floating_point"] = asked.get("floating_point", 0.0) * 2 * WARP
    operations = {each: round(number) for each, number in asked.items()}
    return GpuLaunchPrediction(name, causes, moved, operations, unit, work.blocks, resident, waves)


def _ceilings(machine: Accelerator) -> Ceilings:
    architecture = ARCHITECTURES[str(machine.architecture)]
    arithmetic = {"floating_point": machine.f32_flops}
    for unit, flops in _MATRIX_RATES.items():
        if getattr(machine, flops):
            arithmetic[_OPERATIONS[unit]] = getattr(machine, flops) * architecture.mma_share
    bandwidth = {"l2": machine.l2_bandwidth, "memory": machine.memory_bandwidth * machine.memory_efficiency}
    return Ceilings(arithmetic, {level: rate for level, rate in bandwidth.items() if rate})


def _busiest(name: str, units: dict[str, float], machine: Accelerator) -> tuple[str, float]:
    """Returns the unit that takes longest for the work of one block, and its seconds if it works on this block
    alone."""
    assert machine.architecture is not None
    rates = _rates(ARCHITECTURES[machine.architecture], machine)
    found = {}
    for unit, number in units.items():
        if not rates.get(unit):
            raise ReproError(f"{name} needs {unit}, which {machine.name} does not have")
        found[unit] = number / rates[unit]
    unit = max(found, key=lambda each: found[each], default="none")
    return unit, found.get(unit, 0.0)


def _rates(architecture: Architecture, machine: Accelerator) -> dict[str, float]:
    """Returns the operations per second of each unit of a multiprocessor: warp instructions, wavefronts, or operations
    of matrix units."""
    warps = machine.clock_hz / WARP
    rates = {
        # A multiply-add counts as two operations.
        "f32": machine.f32_flops / machine.multiprocessors / (2 * WARP),
        "integer": architecture.integer * warps,
        "f64": architecture.f64 * warps,
        "special": machine.special_rate * warps,
        "conversion": architecture.conversion * warps,
        "wide_conversion": architecture.wide_conversion * warps,
        "load_store": machine.shared_bandwidth * machine.clock_hz / WAVEFRONT,
    }
    for unit, flops in _MATRIX_RATES.items():
        rates[unit] = getattr(machine, flops) * architecture.mma_share / machine.multiprocessors
    return rates
