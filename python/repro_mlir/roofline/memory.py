# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The memory requirement of a compiled step."""

from __future__ import annotations

from collections import Counter

from repro_mlir.runner.plan import Plan

_LINE = 64


def memory_of(plan: Plan, threads: int) -> dict[str, int]:
    """Returns the bytes that a step allocates, by buffer space (docs/reference/plan.md).

    On a CPU the result also has `scratch`, the total of all threads, as lib/Runtime/Executor.cpp allocates it.
    """
    found: Counter[str] = Counter()
    for (space, _), size in plan.sizes().items():
        found[space] += size
    if plan.processor == "cpu":
        most = max((kernel.scratch for kernel in plan.kernels), default=0)
        found["scratch"] = (most // _LINE + 2) * _LINE * threads
    return {space: size for space, size in found.items() if size}
