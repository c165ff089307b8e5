# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Functions with their gradients, and gradients that are given."""

from collections.abc import Callable

import torch

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


def with_gradient(function: Function) -> Function:
    """(gradient of the result, *arguments) to the result and the gradients of all float arguments."""

    def both(gradient: torch.Tensor, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [value.detach().requires_grad_(value.is_floating_point()) for value in arguments]
            result = function(*leaves)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return (result.detach(), *torch.autograd.grad(result, wanted, gradient))

    return both


class GivenGradient(torch.autograd.Function):
    """A loss of zero whose gradient is what is given: a training step is the update alone.

    The package has its own, but is not on the machines of benchmarks/gpu.
    """

    @staticmethod
    def forward(ctx, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        return parameter.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        return ctx.saved_tensors[0], None
