# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A model whose gradients are inputs, so that its training step consists only of the optimizer's update."""

from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError


class GivenGradient(torch.autograd.Function):
    """A function that returns a loss of zero and whose backward pass returns the given gradient."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Returns a loss of zero of shape [] and saves the gradient."""
        ctx.save_for_backward(gradient)
        return parameter.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Returns the saved gradient for the parameter, and None for the gradient argument."""
        (gradient,) = ctx.saved_tensors
        return gradient, None


class GivenGradients(torch.nn.Module):
    """The parameters of an optimizer as a module; its loss has the gradients that are passed to the module."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self._own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.values = torch.nn.ParameterList(self._own)

    def is_of(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer still has exactly these parameters, in the same order."""
        present = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return len(present) == len(self._own) and all(a is b for a, b in zip(present, self._own, strict=True))

    def gradients(self) -> dict[str, torch.Tensor]:
        """Returns the present gradients of the parameters as keyword arguments for `forward`.

        Raises:
          CaptureError: a gradient is sparse, or belongs to a parameter that requires no gradient, which no step would
            update.
        """
        found = {f"gradient{i}": each.grad for i, each in enumerate(self._own) if each.grad is not None}
        for parameter in self._own:
            if parameter.grad is not None and not parameter.requires_grad:
                raise CaptureError(
                    f"a parameter of shape {list(parameter.shape)} has a gradient but does not require one: set its "
                    "requires_grad to True or its grad to None"
                )
        for gradient in found.values():
            if gradient.layout is not torch.strided:
                raise CaptureError(f"expected dense gradients, got one of layout {gradient.layout}")
        return found

    def forward(self, **gradients: torch.Tensor) -> torch.Tensor:
        """Returns an f32 loss of shape [] whose gradients are the arguments `gradient<i>` for parameter i."""
        named = [(f"gradient{i}", parameter) for i, parameter in enumerate(self.values)]
        losses = [GivenGradient.apply(each, gradients[name]) for name, each in named if name in gradients]
        return torch.stack([loss.to(torch.float32) for loss in losses]).sum()
