# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Optimizers as users write them, in different styles. Tests trace their steps."""

import math
from collections.abc import Mapping
from math import sqrt
from types import MappingProxyType
from typing import Any

import torch


class Written(torch.optim.Optimizer):
    """Base class: `step` calls `change` with each parameter that has a gradient, and its group, gradient and state."""

    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, params: Any, lr: Any = 0.01, **options: Any) -> None:
        super().__init__(params, {"lr": lr, **self.options, **options})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.change(p, p.grad, group, self.state[p])

    def change(self, p, grad, group, state):
        raise NotImplementedError


class Lion(Written):
    options = MappingProxyType({"betas": (0.9, 0.99), "weight_decay": 0.0})

    def change(self, p, grad, group, state):
        p.data.mul_(1 - group["lr"] * group["weight_decay"])
        if len(state) == 0:
            state["exp_avg"] = torch.zeros_like(p)
        exp_avg = state["exp_avg"]
        beta1, beta2 = group["betas"]
        update = exp_avg.clone().mul_(beta1).add(grad, alpha=1 - beta1).sign_()
        p.add_(update, alpha=-group["lr"])
        exp_avg.mul_(beta2).add_(grad, alpha=1 - beta2)


class OldAdam(torch.optim.Optimizer):
    """Adam in the style of old PyTorch code: an int counts steps, `.data` is updated, and `math.sqrt` has two names."""

    def __init__(self, params, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                if grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p.data)
                    state["exp_avg_sq"] = torch.zeros_like(p.data)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                beta1, beta2 = group["betas"]
                state["step"] += 1
                if group["weight_decay"] != 0:
                    grad = grad.add(p.data, alpha=group["weight_decay"])
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                denom = exp_avg_sq.sqrt().div_(sqrt(1 - beta2 ** state["step"])).add_(group["eps"])
                step_size = group["lr"] * math.sqrt(1.0) / (1 - beta1 ** state["step"])
                p.data.addcdiv_(exp_avg, denom, value=-step_size)
        return loss


class FirstGradient(Written):
    """Momentum that starts with the first gradient, as in torch.optim.SGD."""

    options = MappingProxyType({"momentum": 0.9, "dampening": 0.5})

    def change(self, p, grad, group, state):
        if "buffer" not in state:
            buffer = state["buffer"] = torch.clone(grad).detach()
        else:
            buffer = state["buffer"]
            buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
        p.add_(buffer, alpha=-group["lr"])


class WarmedUp(Written):
    """Branches on its step count; its state also contains a float, None and a flag."""

    options = MappingProxyType({"warmup": 3})

    def change(self, p, grad, group, state):
        if not state:
            state.update(step=0, scale=1.0, buffer=None, flag=True)
        state["step"] += 1
        state["scale"] = state["scale"] * 0.9
        if state["step"] <= group["warmup"]:
            lr = group["lr"] * state["step"] / group["warmup"]
        else:
            lr = max(group["lr"] * state["scale"], 0.002)
        p -= lr * grad


class GroupCounter(Written):
    """Counts steps in an option of the parameter group instead of the state."""

    options = MappingProxyType({"k": 0, "decay": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            group["k"] = group["k"] + 1

    def change(self, p, grad, group, state):
        p.sub_(grad * (group["lr"] / (1 + group["decay"] * group["k"])))


class Foreach(Written):
    """Updates all parameters of a group at once, with torch._foreach functions on lists of tensors."""

    options = MappingProxyType({"momentum": 0.9})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            buffers = [self.state[p].setdefault("buffer", torch.zeros_like(p)) for p in params]
            torch._foreach_mul_(buffers, group["momentum"])
            torch._foreach_add_(buffers, grads, alpha=1 - group["momentum"])
            torch._foreach_add_(params, buffers, alpha=-group["lr"])


class TensorCounter(Written):
    """Counts steps in a tensor, and scales updates by the ratio of two norms."""

    options = MappingProxyType({"beta": 0.95})

    def change(self, p, grad, group, state):
        if len(state) == 0:
            state["step"] = torch.zeros([])
            state["square"] = torch.zeros_like(p)
        state["step"].add_(1)
        state["square"].lerp_(grad.square(), 1 - group["beta"])
        corrected = state["square"] / (1 - group["beta"] ** state["step"])
        update = grad / (corrected.sqrt() + 1e-6)
        ratio = torch.clamp(p.norm() / update.norm(), max=10.0)
        p.add_(update * ratio, alpha=-group["lr"])


class Clipped(Written):
    """Converts a norm to a Python number with `item()`, and limits the update with Python's `min`."""

    def change(self, p, grad, group, state):
        norm = grad.norm().item()
        p.add_(grad, alpha=-group["lr"] * min(1.0, 0.1 / (norm + 1e-6)))


class Noisy(Written):
    """Draws random numbers from torch."""

    def change(self, p, grad, group, state):
        p.add_(grad, alpha=-group["lr"]).add_(torch.randn_like(p), alpha=0.1 * group["lr"] ** 0.5)


class Shampoo(Written):
    """Preconditions gradients with inverse fourth roots of matrices, computed by Newton's iteration."""

    options = MappingProxyType({"epsilon": 1e-2})

    def change(self, p, grad, group, state):
        if len(state) == 0:
            state["step"] = 0
            for number, size in enumerate(grad.shape):
                state[f"statistics_{number}"] = group["epsilon"] * torch.eye(size)
        state["step"] += 1
        update = grad
        for number, size in enumerate(grad.shape):
            flat = grad.transpose(0, number).reshape(size, -1)
            state[f"statistics_{number}"].add_(flat @ flat.t())
            root = self.inverse_root(state[f"statistics_{number}"], 2 * grad.dim())
            moved = update.transpose(0, number)
            update = (root @ moved.reshape(size, -1)).reshape(moved.shape).transpose(0, number)
        p.add_(update, alpha=-group["lr"])

    @staticmethod
    def inverse_root(matrix, power):
        size = matrix.shape[0]
        eye = torch.eye(size)
        scale = (1 + power) / (2 * torch.linalg.matrix_norm(matrix))
        root, rest = eye * scale ** (1 / power), matrix * scale
        for _ in range(12):
            factor = ((power + 1) * eye - rest) / power
            root = root @ factor
            rest = torch.linalg.matrix_power(factor, power) @ rest
        return root
