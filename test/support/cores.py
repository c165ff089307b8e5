# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs programs in the simulator of machines of many cores, and compares the bits with the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repro_mlir.compilation import cores
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.cores import CoresBackend

from support import kit


def check(program: str, inputs: Sequence[np.ndarray], machine: str) -> CoresBackend:
    """Raises Mismatch unless a program without states has the bits of the reference interpreter on the machine. Returns
    the backend, with the report of the step."""
    known = kit.read(program)
    backend = CoresBackend(cores.compile(program, machine, native_level(), jobs=1))
    given = [kit.public(array, kind) for array, kind in zip(inputs, known.body.argument_types, strict=True)]
    outputs = [kind.empty() for kind in backend.outputs]
    backend.run([], given, outputs)
    got = [kit.bits(value, kind) for value, kind in zip(outputs, known.result_types, strict=True)]
    kit.compare(known, kit.reference(program, inputs), got, machine)
    return backend
