# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The instruction sequence with which each CPU level reaches its peak, and the ceilings of a machine with several
threads."""

from __future__ import annotations

from dataclasses import replace

from repro_mlir.roofline.ceilings import Ceilings
from repro_mlir.roofline.cpu.assembly import Block
from repro_mlir.roofline.machines.cpu import CpuMachine

# Multiply-adds on the widest vectors, and the number of accumulator registers. A key is the beginning of a CPU level's
# name.
_MULTIPLY_ADDS = {
    "aarch64": (("fmla v{}.4s, v30.4s, v31.4s",), 24),
    "x86-64-v4": (("vfmadd231ps %zmm30, %zmm31, %zmm{}",), 24),
    "x86-64-v3": (("vfmadd231ps %ymm14, %ymm15, %ymm{}",), 14),
    # This level has no fused multiply-add: a product and a sum replace it.
    "x86-64-v2": (("mulps %xmm15, %xmm{}", "addps %xmm15, %xmm{}"), 14),
}


def peak_block(machine: CpuMachine) -> Block:
    """Returns independent f32 multiply-adds on the widest vectors of the machine's level."""
    (found,) = (each for name, each in _MULTIPLY_ADDS.items() if machine.level.startswith(name))
    patterns, registers = found
    return Block(1, 1, [patterns[i % len(patterns)].format(i) for i in range(registers)])


def bandwidths(machine: CpuMachine, threads: int) -> dict[str, float]:
    """Returns the bytes per second of all threads, by memory level. L2 caches are private, and the bandwidths of the L3
    cache and of memory are shared."""
    return {
        "l2": machine.l2_bandwidth * threads,
        "l3": min(machine.l3_bandwidth * threads, machine.shared_l3_bandwidth),
        "memory": min(machine.memory_bandwidth * threads, machine.shared_memory_bandwidth),
    }


def scattered_bandwidths(machine: CpuMachine, threads: int) -> dict[str, float]:
    """Returns `bandwidths` for lines that no prefetcher fetches; scattered memory bandwidth is at most the regular
    one."""
    memory = min(machine.scattered_memory_bandwidth or machine.memory_bandwidth, machine.memory_bandwidth)
    return bandwidths(replace(machine, memory_bandwidth=memory), threads)


def ceilings_of(machine: CpuMachine, threads: int, flops_per_cycle: float) -> Ceilings:
    """Returns the ceilings of a machine on which `threads` threads run.

    Args:
      flops_per_cycle: the maximum number of floating-point operations per cycle of one core.
    """
    return Ceilings({"floating_point": flops_per_cycle * machine.clock_hz * threads}, bandwidths(machine, threads))
