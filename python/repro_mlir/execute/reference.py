# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The reference interpreter as a backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import element_type, to_bits
from repro_mlir.program import Program
from repro_mlir.program.canonical import examine
from repro_mlir.reference.interpreter import Interpreter


class ReferenceBackend:
    """A backend that runs the reference interpreter, which is slow and defines the results."""

    def __init__(self, program: Program) -> None:
        self._interpreter = Interpreter(program.data)
        self._kept = examine(program.data).kept
        self._elements = [element_type(kind.element) for kind in (*program.state, *program.outputs)]
        self._to_bits = float_environment()(to_bits)

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `Backend.run`."""
        results = self._interpreter.run(*states, *inputs)
        targets = (*states, *outputs)
        for i, (target, value) in enumerate(zip(targets, results, strict=True)):
            # Without this check the assignment below would broadcast a value of lower rank.
            if value.shape != target.shape:
                raise ReproError(f"result {i}: expected shape {list(target.shape)}, got {list(value.shape)}")
        for i, (target, value, element) in enumerate(zip(targets, results, self._elements, strict=True)):
            if i in self._kept:
                continue
            if element.is_storage:
                value = self._to_bits(value, element).view(target.dtype)
            target[...] = value
