# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Statistics of a canonical program."""

from __future__ import annotations

from collections import Counter

from repro_mlir.reference.stored import read_program


def count_operations(data: bytes) -> dict[str, int]:
    """Returns, by name, the number of operations directly in `main` of a canonical program, without nested
    operations."""
    names = (operation.name for operation in read_program(data).body.operations)
    return dict(Counter([*names, "func.return"]))
