# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hooks of the user's modules and parameters: part of the program, or refused.

A hook is called once, while the step is traced. What it returns is in the program; a hook that returns nothing works
by what it does otherwise, and a compiled step would leave that out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.user_objects import require_optimizer

MODULE_HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}
"""Where modules keep the hooks that take part in a step, and what they are called."""

GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    modules._global_forward_pre_hooks,
    modules._global_forward_hooks,
    modules._global_backward_pre_hooks,
    modules._global_backward_hooks,
)
"""The hooks of all modules."""

GLOBAL_STEP_HOOKS: tuple[dict[int, Any], ...] = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
"""The step hooks of all optimizers."""


def refuse_hooks(parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer | None) -> None:
    """CaptureError for hooks that no program can have: of all modules, of the optimizer's step, after accumulation.
    Of an evaluation those of all modules alone. Also for what is no optimizer."""
    if optimizer is not None:
        require_optimizer(optimizer)
    if any(GLOBAL_HOOKS):
        raise CaptureError("a hook of all modules is registered: a compiled step cannot call it; remove it")
    if optimizer is None:
        return
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise CaptureError("the optimizer has a step hook: a compiled step cannot call it; remove it")
    if any(GLOBAL_STEP_HOOKS):
        raise CaptureError("a step hook of all optimizers is registered: a compiled step cannot call it; remove it")
    patched = optimizer.__dict__.get("step")
    if patched is not None and not hasattr(patched, "_wrapped_by_lr_sched"):
        raise CaptureError("the optimizer's step has been replaced: a compiled step cannot call what stands there")
    for name, parameter in parameters.items():
        if parameter._post_accumulate_grad_hooks:
            raise CaptureError(
                f"parameter {name} has a hook that runs after its gradient is accumulated: "
                "a compiled step keeps no gradient; remove it"
            )


@contextlib.contextmanager
def checked_module_hooks(model: torch.nn.Module) -> Iterator[None]:
    """Lets the hooks of the modules be called in a trace; CaptureError where one returns nothing.

    Those of PyTorch's own (weight normalization, pruning) compute what the modules use.
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
    """Lets the gradient hooks of parameters act on the leaves that stand for them in a trace."""
    for name, parameter in parameters.items():
        for hook in (parameter._backward_hooks or {}).values():
            leaves[name].register_hook(_returning(hook, f"gradient hook of parameter {name}"))


def _returning(hook: Callable[..., Any], what: str) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        result = hook(*arguments, **keywords)
        if result is None:
            raise CaptureError(
                f"the {what} returns nothing: a compiled step cannot call it at each step; "
                "return what takes the value's place, or remove it"
            )
        return result

    return call


def computes_attributes(module: torch.nn.Module) -> bool:
    """Whether a hook of PyTorch's own sets tensors of the module, such as a normalized weight, before each call."""
    return any(map(_is_known, module._forward_pre_hooks.values()))


def _is_known(hook: Any) -> bool:
    home = getattr(hook, "__module__", None) or type(hook).__module__
    return home.split(".")[0] in ("torch", "repro_mlir")
