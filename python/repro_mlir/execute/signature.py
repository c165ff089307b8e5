# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks the signature of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, require_same
from repro_mlir.program import Program


def check_signature(target: str, found: Callable[[str], Sequence[TensorType]], program: Program) -> None:
    """Raises ReproError unless code for a target has the tensors of its program; `found` maps a role to tensors."""
    for role, expected in (("state", program.state), ("input", program.inputs), ("output", program.outputs)):
        own = [*found(role)]
        # Compiled code may declare narrow floats as i8.
        wanted = [
            TensorType(kind.name, "i8", kind.shape) if each.element == "i8" and _is_code(kind) else kind
            for kind, each in zip(expected, own, strict=False)
        ]
        require_same(f"the code for {target}: {role}", own, [*wanted, *expected[len(own) :]])


def _is_code(kind: TensorType) -> bool:
    return ELEMENTS[kind.element].is_bits and kind.dtype.itemsize == 1
