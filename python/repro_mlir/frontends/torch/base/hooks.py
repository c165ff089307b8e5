# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hooks of the user's modules and parameters: they become part of the program or are refused.

A hook is called once, while the step is traced, and its result becomes part of the program. A hook that returns None
works only by side effects, which a compiled step would not repeat, so it is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import GLOBAL_HOOKS, GLOBAL_STEP_HOOKS
from repro_mlir.frontends.torch.base.user_objects import require_optimizer

MODULE_HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}
"""The attributes of torch.nn.Module that contain the hooks of a step, each with the hook's name in messages."""


class TrainerStepHook:
    """The base class of the hook that a trainer itself registers at the optimizer's step."""


def refuse_hooks(parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer | None) -> None:
    """Refuses the hooks that no program can contain.

    These are global module hooks, hooks of the optimizer's step, and hooks that run after a gradient is accumulated. If
    `optimizer` is None (an evaluation), only global module hooks are refused.

    Raises:
      CaptureError: such a hook is registered, the optimizer's `step` was replaced, or `optimizer` is not an optimizer.
    """
    if optimizer is not None:
        require_optimizer(optimizer)
    if any(GLOBAL_HOOKS):
        raise CaptureError("a global module hook is registered, which a compiled step cannot call: remove it")
    if optimizer is None:
        return
    before = [hook for hook in optimizer._optimizer_step_pre_hooks.values() if not isinstance(hook, TrainerStepHook)]
    if before or optimizer._optimizer_step_post_hooks:
        raise CaptureError("the optimizer has a step hook, which a compiled step cannot call: remove it")
    if any(GLOBAL_STEP_HOOKS):
        raise CaptureError("a global optimizer step hook is registered, which a compiled step cannot call: remove it")
    patched = optimizer.__dict__.get("step")
    if patched is not None and not hasattr(patched, "_wrapped_by_lr_sched"):
        raise CaptureError("the optimizer's step has been replaced: a compiled step cannot call the replacement")
    for name, parameter in parameters.items():
        if parameter._post_accumulate_grad_hooks:
            raise CaptureError(
                f"parameter {name} has a hook that runs after its gradient is accumulated, which a compiled step "
                "cannot call: remove it"
            )


@contextlib.contextmanager
def checked_module_hooks(model: torch.nn.Module) -> Iterator[None]:
    """Wraps the hooks of the modules during a trace, so that a hook that returns None raises CaptureError.

    PyTorch's own hooks (weight normalization, pruning) are exempt: they set tensors that the modules use.
    """
    replaced = []
    try:
        for name, module in model.named_modules():
            for kind, called in MODULE_HOOKS.items():
                hooks = getattr(module, kind)
                for number, hook in list(hooks.items()):
                    if not _is_known(hook):
                        replaced.append((hooks, number, hook))
                        hooks[number] = _returning(hook, f"{called} of module {name or 'model'}")
        yield
    finally:
        for hooks, number, hook in replaced:
            hooks[number] = hook


def attach_gradient_hooks(parameters: Mapping[str, torch.Tensor], leaves: Mapping[str, torch.Tensor]) -> None:
    """Registers the gradient hooks of parameters on the leaves that replace the parameters in a trace."""
    for name, parameter in parameters.items():
        for hook in (parameter._backward_hooks or {}).values():
            leaves[name].register_hook(_returning(hook, f"gradient hook of parameter {name}"))


def _returning(hook: Callable[..., Any], what: str) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        result = hook(*arguments, **keywords)
        if result is None:
            raise CaptureError(
                f"the {what} returns None, expected the value to continue with: a compiled step runs no Python code "
                "at each step; return the value, or remove the hook and read values by returns= and metrics= of Trainer"
            )
        return result

    return call


def computes_attributes(module: torch.nn.Module) -> bool:
    """Whether one of PyTorch's own hooks sets tensors of the module, such as a normalized weight, before each call."""
    return any(map(_is_known, module._forward_pre_hooks.values()))


def _is_known(hook: Any) -> bool:
    home = getattr(hook, "__module__", None) or type(hook).__module__
    return home.split(".")[0] in ("torch", "repro_mlir")
