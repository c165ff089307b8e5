# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Throughputs and latencies of GPU architectures."""

from __future__ import annotations

from dataclasses import dataclass

SECTOR = 32
"""The number of bytes of a global-memory transaction (CUDA C++ Best Practices Guide, Coalesced Access)."""

WAVEFRONT = 128
"""The number of bytes that shared memory transfers per cycle: 32 banks of 4 (CUDA C++ Programming Guide, Shared
Memory)."""

WARP = 32
"""The number of threads in a warp."""


@dataclass(frozen=True)
class Architecture:
    """The properties of one multiprocessor.

    Attributes:
      f64: the number of threads that execute a fused multiply-add or another f64 instruction in a cycle.
      integer: the number of threads that execute a 32-bit integer instruction, or a comparison or selection of any
        type, in a cycle.
      conversion, wide_conversion: the number of threads that execute a conversion between types of up to 32 bits, or
        from or to a 64-bit type, in a cycle.
      shared_reserved: the number of bytes of shared memory that the driver reserves in each block.
      mma_share: the fraction of the matrix units' peak that mma.sync reaches.
    """

    f64: float
    integer: float = 64
    conversion: float = 16
    wide_conversion: float = 16
    shared_reserved: int = 1024
    mma_share: float = 1.0


ARCHITECTURES = {
    "sm_75": Architecture(f64=2, wide_conversion=2, shared_reserved=0),
    "sm_80": Architecture(f64=32),
    "sm_86": Architecture(f64=2, wide_conversion=2),
    "sm_89": Architecture(f64=2, wide_conversion=2),
    "sm_90": Architecture(f64=64, mma_share=0.63),
    "sm_100": Architecture(f64=64),
    "sm_120": Architecture(f64=2, wide_conversion=2),
}
"""The architectures, by name. Sources of throughputs: CUDA C++ Best Practices Guide, Throughput of Native Arithmetic
Instructions; the minimum if several rows apply. Shared memory: CUDA C++ Programming Guide, Compute Capabilities. Peak:
Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking, arXiv:2402.13499."""

REGISTER_UNIT = 256
"""The allocation unit of a warp's registers, in registers (CUDA Occupancy Calculator)."""

PARTS = 4
"""The number of partitions of a multiprocessor, each with its own scheduler and registers."""

SHARED_UNIT = 128
"""The allocation unit of a block's shared memory, in bytes (CUDA Occupancy Calculator)."""

LATENCIES = {
    "f32": 4,
    "integer": 4,
    "f64": 8,
    "special": 20,
    "conversion": 14,
    "wide_conversion": 14,
    "shuffle": 23,
    "matrix": 33,
    "barrier": 20,
    "shared": 30,
    "l1": 40,
    "l2": 262,
    "memory": 480,
}
"""The number of cycles until a result is available, by type of instruction or by memory level. Arithmetic: Jia et al.,
Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, arXiv:1804.06826. Memory and matrix units: Luo et
al., arXiv:2402.13499 (A100 and H100), rounded."""
