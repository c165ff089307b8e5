# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the parameters of this machine with small compiled programs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.compilation import cpu
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.roofline.cpu.prediction import StepPrediction, code_of, predict_cpu
from repro_mlir.roofline.cpu.throughput import model_width, tool
from repro_mlir.roofline.machines.cpu import CpuMachine
from repro_mlir.roofline.machines.files import read_file

_SECONDS = 0.4
_CLOCK_SECONDS = 0.25
# The number of cold launches (each follows a launch of several milliseconds), and the seconds for which they are
# measured.
_COLD_LAUNCHES, _COLD_SECONDS = 16, 1.5
# The pauses in seconds that `_half_life` tries; the result is that of the first pause after which the L3 cache still
# has part of its data.
_PAUSES = (0.008, 0.004, 0.002, 0.001)
_MOST_LOST = 0.9
# The alignment of buffers in bytes.
_LINE = 64
# The number of multiply-adds in a dependency chain.
_CHAIN = 100
_LAUNCHES = 32
_SYSTEM = Path("/sys/devices/system/cpu")

# The machine file with the true execution units of each processor whose LLVM model is inexact, by LLVM's processor
# name.
_UNITS_OF = {
    "znver4": "epyc-zen4",
    "znver5": "epyc-zen5",
    "sapphirerapids": "xeon-sapphire-rapids",
    "emeraldrapids": "xeon-sapphire-rapids",
    "graniterapids": "xeon-sapphire-rapids",
    "neoverse-v2": "neoverse-v2",
    "apple-m1": "apple-m2",
    "apple-m2": "apple-m2",
}


@dataclass(frozen=True)
class Calibration:
    """A measured machine and the source of each of its values."""

    machine: CpuMachine
    sources: dict[str, str]


def calibrate(name: str, level: str | None = None, tell: Callable[[str], None] = lambda line: None) -> Calibration:
    """Measures this machine; takes less than a minute if the machine is idle.

    Args:
      level: the CPU level of the code; the best one by default.
      tell: a function that is called with the name of each measurement before the measurement starts.
    Raises:
      ReproError: a level that this machine does not run, caches of unknown sizes, or no llvm-mca.
    """
    level = level or cpu.native_level()
    check_among("a level that this machine runs", level, cpu.runnable_levels())
    host = _host()
    caches = _cache_sizes()
    cores = count_cores()
    # The prediction of cycles requires all parameters, so those that are not measured yet have placeholders.
    machine = CpuMachine(
        name=name,
        level=level,
        l1_bytes=caches[0],
        l2_bytes=caches[1],
        l3_bytes=caches[2],
        scheduling_model=host,
        modelled_vector_bits=512,
        issue_width=1,
        clock_hz=1e9,
        cores=cores,
        l2_bandwidth=1e12,
        l3_bandwidth=1e12,
        memory_bandwidth=1e12,
        shared_l3_bandwidth=1e12,
        shared_memory_bandwidth=1e12,
        launch_seconds=0.0,
        wake_seconds=0.0,
    )
    machine, sources = with_units(machine)
    tell("clock")
    measured_clock = _clock(machine)
    machine = replace(machine, clock_hz=measured_clock())

    def known(**numbers: Any) -> CpuMachine:
        """Returns the machine with the given attributes changed and with the highest clock rate that was measured so
        far.

        Load on other cores of the processor can lower the clock rate temporarily.
        """
        return replace(machine, clock_hz=max(machine.clock_hz, measured_clock()), **numbers)

    tell("launches")
    machine = known(launch_seconds=_launch(machine))
    for key, shared, size in (
        ("l2_bandwidth", "", caches[1] / 2),
        ("l3_bandwidth", "shared_l3_bandwidth", _in_l3(machine)),
        ("memory_bandwidth", "shared_memory_bandwidth", _in_memory(machine)),
    ):
        tell(key)
        one = bandwidth(machine, int(size), 1)
        changes = {key: one}
        if shared:
            changes[shared] = max(one, bandwidth(machine, int(size), cores)) if cores > 1 else one
        machine = known(**changes)
    tell("scattered_memory_bandwidth")
    machine = known(scattered_memory_bandwidth=_scattered_memory(machine))
    tell("l3_half_life")
    machine = known(l3_half_life=_half_life(machine))
    tell("cold_launch_seconds")
    machine = known(cold_launch_seconds=_cold_launch(machine))
    if cores > 1:
        tell("threads")
        machine = known(wake_seconds=_wake(machine))
    measured = f"measured by repro roofline calibrate on {_processor()}"
    sources |= dict.fromkeys(
        (
            "clock_hz",
            "l2_bandwidth",
            "l3_bandwidth",
            "memory_bandwidth",
            "shared_l3_bandwidth",
            "shared_memory_bandwidth",
            "l3_half_life",
            "scattered_memory_bandwidth",
            "cold_launch_seconds",
            "launch_seconds",
            "wake_seconds",
        ),
        measured,
    )
    sources |= dict.fromkeys(("l1_bytes", "l2_bytes", "l3_bytes"), f"{_SYSTEM}/cpu0/cache")
    sources |= {
        "cores": "the cores that this process may use, by /sys/devices/system/cpu",
        "watts": "assumption: unknown, as calibrate does not measure power",
    }
    return Calibration(machine, sources)


def with_units(machine: CpuMachine) -> tuple[CpuMachine, dict[str, str]]:
    """Returns the machine with the execution units of its `scheduling_model`, and the sources of their values."""
    host = machine.scheduling_model
    known = f"LLVM knows this processor as {host}"
    if host in _UNITS_OF:
        file = read_file(_UNITS_OF[host])
        names = ("scheduling_model", "modelled_vector_bits", "issue_width")
        sources = {name: f"{known}; as {file.name}: {file.sources[name]}" for name in names}
        return replace(machine, **{name: file.performance[name] for name in names}), sources
    return replace(machine, issue_width=model_width(machine)), {
        "scheduling_model": known,
        "modelled_vector_bits": f"assumption: the units are those of LLVM's model of {host}",
        "issue_width": f"LLVM's model of {host}",
    }


def count_cores(system: Path = _SYSTEM) -> int:
    """Counts the physical cores of the logical processors that this process may use.

    Args:
      system: the processor directory of Linux.
    """
    cores = set()
    for number in os.sched_getaffinity(0):
        try:
            cores.add((system / f"cpu{number}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(number))
    return len(cores)


def _host() -> str:
    """Returns LLVM's name of this processor."""
    try:
        done = subprocess.run([tool(), "--version"], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        raise ReproError("llvm-mca --version took more than 60 s") from None
    found = re.search(r"Host CPU: (\S+)", done.stdout)
    if not found:
        raise ReproError("llvm-mca --version does not print the name of this processor (Host CPU)")
    return found.group(1)


def _processor() -> str:
    """Returns the operating system's name of this processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "this machine"
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1).strip() if found else "this machine"


def _cache_sizes() -> tuple[int, int, int]:
    """Returns the sizes in bytes of the L1 data, L2 and L3 caches, according to Linux."""
    sizes = {}
    for folder in (_SYSTEM / "cpu0/cache").glob("index*"):
        try:
            kind, level, size = ((folder / each).read_text().strip() for each in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K") and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) * 1024
    if 1 not in sizes or 2 not in sizes:
        raise ReproError("unknown cache sizes: write this machine's file by hand (docs/contributors/machines.md)")
    return sizes[1], sizes[2], sizes.get(3, 0)


def _elementwise(shape: Sequence[int], body: str, result: str, order: Sequence[int] = (0, 1, 2)) -> str:
    """Generates a program that maps each element %x of its input to the value `result`, which the operations `body`
    compute.

    Args:
      shape: the shape of the output, of rank 3 or less.
      order: the order of the output's dimensions in the input.
    """
    order = order[: len(shape)]
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    read, written = (f"tensor<{'x'.join(map(str, each))}xf32>" for each in ([shape[i] for i in order], shape))
    maps = [f"affine_map<({dims}) -> ({each})>" for each in (", ".join(f"d{i}" for i in order), dims)]
    return f"""
func.func @main(%in: {read}) -> {written} attributes {{repro.num_state = 0 : i64}} {{
  %a = arith.constant 5.000000e-01 : f32
  %empty = tensor.empty() : {written}
  %out = linalg.generic {{indexing_maps = [{", ".join(maps)}],
                         iterator_types = [{", ".join(['"parallel"'] * len(shape))}]}}
      ins(%in : {read}) outs(%empty : {written}) {{
  ^bb0(%x: f32, %unused: f32):
    {body}
    linalg.yield {result} : f32
  }} -> {written}
  return %out : {written}
}}
"""


def _runner(machine: CpuMachine, text: str, threads: int) -> Callable[[], list[float]]:
    """Compiles a stateless program; returns a function that runs it and returns the seconds of each launch."""
    executable = CpuBackend(cpu.compile(text, machine.level), threads)
    inputs, outputs = ([_ones(kind) for kind in kinds] for kinds in (executable.inputs, executable.outputs))
    return lambda: [seconds for _, seconds, _ in executable.profile([], inputs, outputs)]


def _ones(kind: TensorType) -> np.ndarray:
    """Allocates an array of ones that starts at a cache line, because a vector that straddles two lines costs two
    accesses.

    All pages are written, because reads of untouched pages hit the shared zero page, and the first write to a page
    causes a page fault.
    """
    size = kind.nbytes
    memory = np.empty(size + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    array = memory[begin : begin + size].view(kind.dtype).reshape(kind.shape)
    array[...] = 1
    return array


def _seconds(machine: CpuMachine, text: str, threads: int, seconds: float = _SECONDS) -> list[float]:
    """Runs a stateless program repeatedly for `seconds`; returns the minimum time of each launch."""
    return _least(_runner(machine, text, threads), seconds)


def _least(run: Callable[[], list[float]], seconds: float) -> list[float]:
    """Calls `run` repeatedly for `seconds`; returns the minimum time of each launch."""
    end, best = time.perf_counter() + seconds, np.full(1, np.inf)
    while True:
        best = np.minimum(best, run())
        if time.perf_counter() > end:
            return best.tolist()


def _clock(machine: CpuMachine) -> Callable[[], float]:
    """Returns a function that measures the clock rate, from the cycles and the time of multiply-adds on L1 data."""
    # Each multiply-add of a vector depends on the previous one of that vector; out-of-order execution overlaps these
    # dependency chains of different vectors.
    lines = ["%x0 = arith.addf %x, %a : f32"]
    lines += [f"%x{step + 1} = math.fma %x{step}, %a, %x : f32" for step in range(_CHAIN)]
    text = _elementwise((4096,), "\n    ".join(lines), f"%x{_CHAIN}")
    cycles = _predicted(replace(machine, launch_seconds=0.0), text).seconds * machine.clock_hz
    run = _runner(machine, text, 1)
    return lambda: cycles / sum(_least(run, _CLOCK_SECONDS))


def _launch(machine: CpuMachine) -> float:
    """Measures the overhead of a launch in seconds, on a chain of small matrix multiplications."""
    shape = "tensor<4x4xf32>"
    maps = ", ".join(f"affine_map<(d0, d1, d2) -> ({each})>" for each in ("d0, d2", "d2, d1", "d0, d1"))
    order = "#repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>"
    lines, last = [], "%in"
    for number in range(_LAUNCHES):
        lines.append(
            f"%{number} = repro.fold {order} maps [{maps}] iterators [parallel, parallel, reduction]\n"
            f"      ins({last}, %in : {shape}, {shape}) outs(%zeros : {shape}) {{\n"
            "  ^bb0(%a: f32, %b: f32, %c: f32):\n    %d = math.fma %a, %b, %c : f32\n    repro.yield %d : f32\n"
            f"  }} -> {shape}"
        )
        last = f"%{number}"
    body = "\n  ".join(lines)
    text = f"""
func.func @main(%in: {shape}) -> {shape} attributes {{repro.num_state = 0 : i64}} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {shape}
  %zeros = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>],
                           iterator_types = ["parallel", "parallel"]}} outs(%empty : {shape}) {{
  ^bb0(%unused: f32):
    linalg.yield %zero : f32
  }} -> {shape}
  {body}
  return {last} : {shape}
}}
"""
    measured, predicted = _seconds(machine, text, 1), _predicted(machine, text)
    beyond = [time - each.seconds for time, each in zip(measured, predicted.launches, strict=True)]
    return max(0.0, float(np.median(beyond)))


def _predicted(machine: CpuMachine, text: str) -> StepPrediction:
    return predict_cpu(code_of(cpu.analyze(text, machine.level), machine), machine)


def _sums(sizes: Sequence[int]) -> str:
    """Generates a program with one element-wise sum for each size; each sum has an input of its own, with that many
    elements."""
    kinds = [f"tensor<{size}xf32>" for size in sizes]
    body = "\n".join(
        f"""  %empty{i} = tensor.empty() : {kind}
  %out{i} = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                             iterator_types = ["parallel"]}} ins(%in{i} : {kind}) outs(%empty{i} : {kind}) {{
  ^bb0(%x: f32, %unused: f32):
    %y = arith.addf %x, %a : f32
    linalg.yield %y : f32
  }} -> {kind}"""
        for i, kind in enumerate(kinds)
    )
    inputs = ", ".join(f"%in{i}: {kind}" for i, kind in enumerate(kinds))
    outputs = ", ".join(f"%out{i}" for i in range(len(kinds)))
    return f"""
func.func @main({inputs}) -> ({", ".join(kinds)}) attributes {{repro.num_state = 0 : i64}} {{
  %a = arith.constant 5.000000e-01 : f32
{body}
  return {outputs} : {", ".join(kinds)}
}}
"""


def _cold_launch(machine: CpuMachine) -> float:
    """Measures how many seconds longer a launch takes if its code and data are in no cache. Each measured launch is a
    small sum that follows a large one."""
    large = int(_in_memory(machine)) // (8 * _COLD_LAUNCHES)
    # Sums with equal numbers of elements would share one kernel.
    text = _sums([size for i in range(_COLD_LAUNCHES) for size in (large + i, 1 + i)])
    measured = np.array(_seconds(machine, text, 1, _COLD_SECONDS))
    predicted = np.array([each.seconds for each in _predicted(machine, text).launches])
    return max(0.0, float(np.median((measured - predicted)[predicted < predicted.max() / 2])))


def bandwidth(machine: CpuMachine, size: int, threads: int) -> float:
    """Measures the bytes per second of an element-wise program with `size` bytes of input and output together.

    The output counts twice, because its lines are fetched before they are written back.
    """
    elements = size // 8
    text = _elementwise((elements,), "%y = arith.addf %x, %a : f32", "%y")
    (seconds,) = _seconds(machine, text, threads)
    return 12 * elements / (seconds - machine.launch_seconds)


def _in_l3(machine: CpuMachine) -> float:
    """Returns a size in bytes that fits the L3 cache but not the L2 cache."""
    return max(min(machine.l3_bytes / 4, 8 * machine.l2_bytes), 2 * machine.l2_bytes)


def _in_memory(machine: CpuMachine) -> float:
    """Returns a size in bytes that exceeds every cache."""
    return min(max(4 * machine.l3_bytes, 64e6), 512e6)


def _scattered_memory(machine: CpuMachine) -> float:
    """Measures the bytes per second at which a core reads 4 KB planes that are not adjacent; the output is written in
    order."""
    planes, elements = 64, 1024
    groups = int(_in_memory(machine) / (8 * planes * elements))
    text = _elementwise((groups, planes, elements), "%y = arith.addf %x, %a : f32", "%y", order=(1, 0, 2))
    read = 4 * planes * groups * elements
    seconds = sum(_seconds(machine, text, 1)) - machine.launch_seconds - 2 * read / machine.memory_bandwidth
    # Noise can make the difference of times negative, or the result greater than the bandwidth of contiguous data.
    return min(read / seconds, machine.memory_bandwidth) if seconds > 0 else machine.memory_bandwidth


def _half_life(machine: CpuMachine) -> float:
    """Measures the seconds after which the L3 cache has lost half of its untouched data to other programs.

    Compares the times of a program whose buffers are in the cache, with and without an idle pause before it.
    """
    if not machine.l3_bytes:
        return 0.0
    elements = int(_in_l3(machine)) // 8
    run = _runner(machine, _elementwise((elements,), "%y = arith.addf %x, %a : f32", "%y"), 1)

    def least(pause: float) -> float:
        found, end = np.inf, time.perf_counter() + _SECONDS + 20 * pause
        while time.perf_counter() < end:
            begin = time.perf_counter() + pause
            while time.perf_counter() < begin:
                pass
            found = min(found, sum(run()))
        return float(found)

    held, memory = least(0.0), 12 * elements / machine.memory_bandwidth
    if memory <= held:
        return 0.0
    for pause in _PAUSES:
        lost = (least(pause) - held) / (memory - held)
        if lost <= _MOST_LOST:
            break
    # Losses of up to 1 % count as no loss, and losses of 99 % or more as 99 %, because noise hides the exact values of
    # such losses.
    return pause / float(np.sqrt(-np.log2(1 - min(lost, 0.99)))) if lost > 0.01 else 0.0


def _wake(machine: CpuMachine) -> float:
    """Measures the seconds that threads take to begin and end a launch, not counting their share of the launch's
    work."""
    text = _elementwise((1 << 15,), "%y = arith.divf %a, %x : f32", "%y")
    (alone,), (shared,) = (_seconds(machine, text, threads) for threads in (1, machine.cores))
    return max(0.0, shared - machine.launch_seconds - (alone - machine.launch_seconds) / machine.cores)
