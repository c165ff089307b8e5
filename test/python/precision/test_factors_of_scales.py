# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q8), (Q9) Tests the factors by which sums of products of `nvfp4` operands are multiplied. The factors are computed
from the scales of the two tensors."""

import numpy as np
import pytest
import torch
from repro_mlir.execute.executable import compile
from repro_mlir.frontends.torch.capture.programs import capture
from repro_mlir.precision import apply_precision
from repro_mlir.program import Program

F = np.float32
TWO_LEVELS = {"element": "f4E2M1FN", "tile": [1, 16], "scale": "nvfp4"}


def linear(accumulator: object) -> Program:
    recipe = {"name": "one", "fprop": {"activation": TWO_LEVELS, "weight": TWO_LEVELS, "accumulator": accumulator}}
    return apply_precision(capture(torch.nn.Linear(1, 1, bias=False).eval(), (torch.ones(1, 1),)), recipe)


def scale(amax: np.float32) -> np.float32:
    """Returns the scale, before it is rounded to f8E4M3FN, of the block that contains the tensor's largest magnitude
    `amax`."""
    return F(amax * (F(F(2688) / amax) * F(F(1) / F(6))))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("accumulator", ["blocks", "blocks_split", "blackwell_nvfp4"])
@pytest.mark.diagonal
def test_Q8_Q9_factors_of_two_levels(accumulator: str, target: str) -> None:
    executable = compile(linear(accumulator), target, 1)
    for x, w in ((1, 1), (3, 5), (7, 1), (11, 13), (0.75, 96)):
        a, b = F(x), F(w)
        (name,) = [kind.name for kind in executable.program.state]
        _, outputs = executable({name: np.array([[b]])}, np.array([[a]]))
        (got,) = outputs.values()
        # Each operand has one element. Its code is that of 6, and the scale of its block is rounded to 448.
        assert scale(a) == pytest.approx(448, rel=1e-6) and scale(b) == pytest.approx(448, rel=1e-6)
        if accumulator == "blackwell_nvfp4":
            expected = F(F(36) * F(448) * F(448)) * F(F(a * b) / F(36 * 448 * 448))
        else:
            inverse = F(F(1) / F(2688))
            expected = F(36) * F(F(F(F(448) * a) * inverse) * F(F(F(448) * b) * inverse))
        assert got.item() == F(expected), (x, w)
    assert accumulator == "blackwell_nvfp4" or F(36) * F(F(F(448) * F(F(1) / F(2688))) ** 2) != 1
