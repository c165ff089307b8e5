# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps whose gradients are inputs, so that the steps compute only the compression and the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.gradient_compression import compress_gradients
from repro_mlir.program.imported import ImportedProgram, Microbatches
from repro_mlir.program.microbatches import MicrobatchProgram, microbatch_program_of

SEED = 7


def imported(shapes: dict[str, tuple[int, ...]], element: str = "f32", random: bool = True) -> ImportedProgram[None]:
    """Returns a step that sets each state tensor to the mean of its gradients, which are inputs, one per microbatch."""
    state, gradients = [], []
    for name, shape in shapes.items():
        state.append(TensorType(name, element, shape))
        gradients.append(TensorType(f"gradient of {name}", element, (1, *shape)))
    numbers = [TensorType("seed", "i64", ()), TensorType("step", "i64", ())] if random else []

    def text(kind: TensorType) -> str:
        return f"tensor<{'x'.join([*map(str, kind.shape), kind.element])}>"

    arguments = [f"%s{i}: {text(kind)}" for i, kind in enumerate(state)]
    arguments += [f"%n{i}: tensor<i64>" for i in range(len(numbers))]
    arguments += [f"%g{i}: {text(kind)}" for i, kind in enumerate(gradients)]
    lines = []
    for i, kind in enumerate(state):
        dims = [[0, 1], *([d] for d in range(2, len(kind.shape) + 1))] if kind.shape else []
        lines.append(f"%c{i} = tensor.collapse_shape %g{i} {dims} : {text(gradients[i])} into {text(kind)}")
        lines.append(f'%m{i} = repro.reduce_microbatches %c{i} gradient = "{kind.name}" : {text(kind)}')
    kinds = ", ".join([*map(text, state), *(["tensor<i64>"] * len(numbers))])
    returned = ", ".join([*(f"%m{i}" for i in range(len(state))), *(f"%n{i}" for i in range(len(numbers)))])
    lines.append(f"return {returned} : {kinds}")
    count = len(state) + len(numbers)
    main = (
        f"func.func @main({', '.join(arguments)}) -> ({kinds}) attributes {{repro.num_state = {count} : i64}} {{\n"
        + "".join(f'{line} loc("model")\n' for line in lines)
        + "}\n"
    )
    initial = [np.zeros(kind.shape, kind.dtype) for kind in state]
    initial += [np.array(number, np.int64) for number in (SEED, 0)][: len(numbers)]
    places = (len(state), len(state) + 1) if random else None
    return ImportedProgram(main, (*state, *numbers), tuple(initial), tuple(gradients), (), 0, places, None)


def compressed(
    method: Any, shapes: dict[str, tuple[int, ...]], count: int, accumulate: int = 1, random: bool = True
) -> MicrobatchProgram:
    """Returns the step of `imported`, divided into `count` microbatches, with gradients compressed by `method`."""
    given: ImportedProgram[Any] = imported(shapes, random=random)
    found = given if method is None else compress_gradients(given, method)
    return microbatch_program_of(found, Microbatches(count, accumulate), range(len(shapes)))
