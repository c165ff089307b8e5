# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes functions that also return their gradients, and training steps whose gradients are given."""

from collections.abc import Callable

import torch

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


def with_gradient(function: Function) -> Function:
    """Returns a function whose arguments are the gradient of the result of `function` and then the arguments of
    `function`. It returns the result and then the gradients of all float arguments."""

    def both(gradient: torch.Tensor, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [value.detach().requires_grad_(value.is_floating_point()) for value in arguments]
            result = function(*leaves)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return (result.detach(), *torch.autograd.grad(result, wanted, gradient))

    return both


class GivenGradient(torch.autograd.Function):
    """A loss that is always zero but has a given gradient, so that a training step consists only of the update.

    The package has such a function, but machines that run benchmarks/gpu do not have the package.
    """

    @staticmethod
    def forward(ctx, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        return parameter.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        return ctx.saved_tensors[0], None
