# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What architectures of GPUs do in a cycle, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass

SECTOR = 32
"""Bytes of global memory that are read or written together (CUDA C++ Best Practices Guide, Coalesced Access)."""

WAVEFRONT = 128
"""Bytes that shared memory has in a cycle: 32 banks of 4 (CUDA C++ Programming Guide, Shared Memory)."""

WARP = 32
"""Threads of a warp."""


@dataclass(frozen=True)
class Architecture:
    """Of one multiprocessor.

    Attributes:
      f64: fused multiply-adds, or other instructions on f64, of threads in a cycle.
      integer: likewise, on integers of 32 bits, and comparisons and selections of all types.
      conversion, wide_conversion: likewise, between types of up to 32 bits, and from and to types of 64.
      shared_reserved: bytes of shared memory that the driver takes of each block.
      mma_share: the part of the peak of matrix units that mma.sync reaches.
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
"""Throughputs: CUDA C++ Best Practices Guide, Throughput of Native Arithmetic Instructions; a row of several kinds is
the least of them. Shared memory: CUDA C++ Programming Guide, Compute Capabilities. Peak: Luo et al., Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking, arXiv:2402.13499."""

REGISTER_UNIT = 256
"""Registers of a warp are a multiple of it, and warps are spread over four parts (CUDA Occupancy Calculator)."""

PARTS = 4
"""Of a multiprocessor, with a scheduler and registers each."""

SHARED_UNIT = 128
"""Shared memory of a block is a multiple of so many bytes (CUDA Occupancy Calculator)."""

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
"""Cycles until a result can be used: arithmetic after Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking, arXiv:1804.06826; memory and matrices after Luo et al., arXiv:2402.13499 (A100 and H100), rounded."""
