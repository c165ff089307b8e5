# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Initial parameters by defined arithmetic.

torch.nn.init draws from generators and functions (log, cos) whose bits depend on the version and the platform: a run
that starts there can be repeated only from its stored initial state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from repro_mlir.numerics.environment import float_environment
from repro_mlir.numerics.philox import random_uniform

if TYPE_CHECKING:
    import torch

    Model = TypeVar("Model", bound=torch.nn.Module)


@float_environment()
def initialize(model: Model, seed: int = 0) -> Model:
    """(G3) Sets the parameters of a model: a function of their names, shapes and order and of the seed alone.

    A parameter with two or more dimensions becomes (u - 0.5) * (2 * bound) in f32, where u is uniform by (R1), (R2)
    with the parameter's position in `named_parameters()` as site and step 0, and bound = sqrt(1 / fan_in) with fan_in
    the product of all dimensions but the first; both in f64, rounded once to f32. Of the others, those whose last name
    is `bias` become zero; the rest (scales of normalisations) and all buffers stay as they are.

    Args:
      model: with parameters on the CPU.
      seed: any 64-bit integer.
    Returns:
      the model.
    """
    import torch

    with torch.no_grad():
        for site, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() >= 2:
                fan_in = parameter.numel() // max(parameter.shape[0], 1)
                bound = np.float32(np.sqrt(np.float64(1.0) / np.float64(max(fan_in, 1))))
                uniform = random_uniform(tuple(parameter.shape), seed, site, 0)
                values = (uniform - np.float32(0.5)) * (np.float32(2.0) * bound)
                parameter.copy_(torch.from_numpy(values))
            elif name.rpartition(".")[2] == "bias":
                parameter.zero_()
    return model
