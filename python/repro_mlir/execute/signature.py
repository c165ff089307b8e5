# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks the signature of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, require_same
from repro_mlir.program import Program


def check_signature(target: str, found: Callable[[str], Sequence[TensorType]], program: Program) -> None:
    """Raises ReproError unless compiled code has the states, inputs and outputs of its program. `found` returns the
    tensors of the code for one of these three roles."""
    for role, expected in (("state", program.state), ("input", program.inputs), ("output", program.outputs)):
        own = [*found(role)]
        # Compiled code may declare floats of 8 bits or less as i8.
        wanted = [
            TensorType(kind.name, "i8", kind.shape) if each.element == "i8" and _is_code(kind) else kind
            for kind, each in zip(expected, own, strict=False)
        ]
        require_same(f"the code for {target}: {role}", own, [*wanted, *expected[len(own) :]])


def _is_code(kind: TensorType) -> bool:
    return ELEMENTS[kind.element].is_bits and kind.dtype.itemsize == 1
