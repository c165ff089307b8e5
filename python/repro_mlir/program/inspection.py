# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Statistics of a canonical program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from repro_mlir.reference.stored import read_program


def count_operations(data: bytes) -> dict[str, int]:
    """Returns, by name, the number of operations directly in `main` of a canonical program, without nested
    operations."""
    names = (operation.name for operation in read_program(data).body.operations)
    return dict(Counter([*names, "func.return"]))


def count_all_operations(data: bytes) -> dict[str, int]:
    """Returns, by name, the number of operations in a canonical program, including those in the bodies of others."""
    found: Counter[str] = Counter()

    def count(body: Any) -> None:
        for operation in body.operations:
            found[operation.name] += 1
            for inner in operation.regions:
                count(inner)

    count(read_program(data).body)
    return dict(found)
