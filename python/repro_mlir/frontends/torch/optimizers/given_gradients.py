# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parameters whose gradients are given: a training step is the update alone."""

from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError


class GivenGradient(torch.autograd.Function):
    """A loss of zero whose gradient is what is given."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        return parameter.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient, None


class GivenGradients(torch.nn.Module):
    """The parameters of an optimizer, with a loss that gives them the gradients with which it is called, by name."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self._own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.values = torch.nn.ParameterList(self._own)

    def is_of(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether these are still the parameters of the optimizer."""
        present = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return len(present) == len(self._own) and all(a is b for a, b in zip(present, self._own, strict=True))

    def gradients(self) -> dict[str, torch.Tensor]:
        """Those that the parameters have now, for a call. CaptureError for a sparse one, and for one of a parameter
        that requires none, which no step updates."""
        found = {f"gradient{i}": each.grad for i, each in enumerate(self._own) if each.grad is not None}
        for parameter in self._own:
            if parameter.grad is not None and not parameter.requires_grad:
                raise CaptureError(
                    f"a parameter of shape {list(parameter.shape)} has a gradient and does not require one: expected "
                    "requires_grad, or None as its gradient"
                )
        for gradient in found.values():
            if gradient.layout is not torch.strided:
                raise CaptureError(f"expected dense gradients, got one of layout {gradient.layout}")
        return found

    def forward(self, **gradients: torch.Tensor) -> torch.Tensor:
        named = [(f"gradient{i}", parameter) for i, parameter in enumerate(self.values)]
        losses = [GivenGradient.apply(each, gradients[name]) for name, each in named if name in gradients]
        return torch.stack([loss.to(torch.float32) for loss in losses]).sum()
