# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How much memory a compiled step takes."""

from __future__ import annotations

from collections import Counter

from repro_mlir.bundle.runner.plan import Plan

_LINE = 64


def memory_of(plan: Plan, threads: int) -> dict[str, int]:
    """Bytes that a step takes, by the spaces of buffers (docs/plan.md); on a CPU also `scratch`, of the
    threads together, as lib/Runtime/Executor.cpp allocates it."""
    found: Counter[str] = Counter()
    for (space, _), size in plan.sizes().items():
        found[space] += size
    if plan.processor == "cpu":
        most = max((kernel.scratch for kernel in plan.kernels), default=0)
        found["scratch"] = (most // _LINE + 2) * _LINE * threads
    return {space: size for space, size in found.items() if size}
