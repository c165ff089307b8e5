# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Initializes parameters with arithmetic that gives the same bits on every machine.

torch.nn.init uses generators and functions (log, cos) whose bits depend on the version and the platform. A run whose
parameters were initialized by torch.nn.init can be repeated only from its stored initial state.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.philox import Place
from repro_mlir.random import distributions
from repro_mlir.random.boxes import box_of

if TYPE_CHECKING:
    import torch

    Model = TypeVar("Model", bound=torch.nn.Module)


def initialize(model: Model | Callable[[], Model], seed: int = 0) -> Model:
    """(G3) Sets a model's parameters to values that depend only on the seed and the parameters' names, shapes and
    order.

    A parameter with two or more dimensions becomes (u - 0.5) * (2 * bound) in f32. Here u is a uniform random number
    (R1), (R2), drawn in step 0 at the site whose number is the parameter's position in `named_parameters()`. The bound
    is sqrt(1 / fan_in), where fan_in is the product of all extents but the first; division and square root are in f64,
    and the result is rounded once to f32. Other parameters whose last name is `bias` become zero. All other parameters
    (scales of normalizations) and all buffers are unchanged.

    An unchanged tensor that PyTorch computed, such as a table of positions, may have different bits on another machine.
    If `model` is a function, the elementary functions that it calls follow (G5). A warning names the tensors whose bits
    are still not defined.

    Args:
      model: a model with parameters on the CPU, or a function without arguments that creates the model.
      seed: any 64-bit integer.
    Returns:
      the model.
    Warns:
      UserWarning: names the unchanged floating-point tensors whose bits no rule defines.
    """
    import torch

    from repro_mlir.frontends.torch.objects.defined_construction import DefinedConstruction, is_plain, is_whole

    made: Any
    if isinstance(model, torch.nn.Module):
        made, advice = model, "; pass initialize a function that creates the model"
        kept = [(name, is_plain(tensor)) for name, tensor in _kept(made)]
    else:
        with DefinedConstruction() as construction:
            made, advice = model(), ""
        kept = [(name, is_whole(tensor) or construction.knows(tensor)) for name, tensor in _kept(made)]
    if undefined := [name for name, is_defined in kept if not is_defined]:
        warnings.warn(
            f"initialize leaves {', '.join(undefined)} as PyTorch computed them: their bits may differ on another "
            f"machine{advice}",
            stacklevel=2,
        )
    _set_parameters(made, seed)
    return cast("Model", made)


def _kept(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors that `initialize` leaves unchanged, each with its name."""
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2 and name.rpartition(".")[2] != "bias":
            yield name, parameter
    yield from model.named_buffers()


@float_environment()
def _set_parameters(model: torch.nn.Module, seed: int) -> None:
    import torch

    with torch.no_grad():
        for site, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() >= 2:
                fan_in = parameter.numel() // max(parameter.shape[0], 1)
                bound = np.float32(np.sqrt(np.float64(1.0) / np.float64(max(fan_in, 1))))
                box = box_of(tuple(parameter.shape))
                uniform = distributions.draw(distributions.UNIFORM, box, Place(seed, site, 0))
                values = (uniform - np.float32(0.5)) * (np.float32(2.0) * bound)
                parameter.copy_(torch.from_numpy(values))
            elif name.rpartition(".")[2] == "bias":
                parameter.zero_()
