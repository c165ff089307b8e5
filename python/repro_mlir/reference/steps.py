# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs steps of programs in the reference interpreter, on arrays in the representation of base/numerics/tensors.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import to_bits
from repro_mlir.reference.interpreter import Interpreter


class StepInterpreter:
    """Runs steps of a stored program in the reference interpreter, which is slow and defines the results."""

    def __init__(self, data: bytes) -> None:
        self._interpreter = Interpreter(data)
        read = self._interpreter.program
        pairs = zip(read.body.arguments[: read.num_state], read.body.yields, strict=False)
        self._kept = {i for i, (argument, value) in enumerate(pairs) if argument == value}
        self._elements = [kind.element for kind in read.result_types]
        self._to_bits = float_environment()(to_bits)

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs one step: replaces the contents of `states` and `outputs`.

        A state that the program returns unchanged is not written. If StepFailed is raised, the states are unchanged.
        """
        results = self._interpreter.run(*states, *inputs)
        targets = (*states, *outputs)
        for i, (target, value) in enumerate(zip(targets, results, strict=True)):
            # Without this check, the assignment below would broadcast a value of another shape.
            if value.shape != target.shape:
                raise ProgramError(f"result {i}: expected shape {list(target.shape)}, got {list(value.shape)}")
        for i, (target, value, element) in enumerate(zip(targets, results, self._elements, strict=True)):
            if i in self._kept:
                continue
            if element.is_storage:
                value = self._to_bits(value, element).view(target.dtype)
            target[...] = value
