# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts with optimizers of their own, wrappers of optimizers, and unusual loops."""

import math
from typing import Any

import torch
from repro_mlir import Trainer
from torch import nn
from torch.optim import Optimizer
from torch.optim.swa_utils import SWALR, AveragedModel
from user_scripts.tiny import Make, Run, adam, batches, mlp, sgd, train

F = nn.functional


class Lookahead(Optimizer):
    """The optimizer Lookahead: after k steps of the optimizer `inner`, moves the slow weights towards the result."""

    def __init__(self, inner: Optimizer, k: int = 2, alpha: float = 0.5) -> None:
        self.optimizer = inner
        self.k, self.alpha = k, alpha
        self.param_groups = inner.param_groups
        self.defaults = inner.defaults
        self.state = inner.state
        self.counter = 0
        self.slow = [p.detach().clone() for group in self.param_groups for p in group["params"]]

    def step(self, closure: Any = None) -> Any:
        loss = self.optimizer.step(closure)
        self.counter += 1
        if self.counter % self.k == 0:
            fast = [p for group in self.param_groups for p in group["params"]]
            for slow, p in zip(self.slow, fast, strict=True):
                slow.add_(p.data - slow, alpha=self.alpha)
                p.data.copy_(slow)
        return loss


def lookahead(make: Make) -> Run:
    model = mlp(5, 3)
    return train(make, model, F.cross_entropy, Lookahead(adam(model)))


class PreparedOptimizer(Optimizer):
    """A wrapper that calls another optimizer, like AcceleratedOptimizer of the package `accelerate`."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.scaler = None
        self._is_overflow = False

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @property
    def defaults(self) -> Any:
        return self.optimizer.defaults

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> Any:
        return self.optimizer.state_dict()

    def step(self, closure: Any = None) -> None:
        self.optimizer.step(closure)


PreparedOptimizer.__name__ = "AcceleratedOptimizer"
PreparedOptimizer.__module__ = "accelerate.optimizer"


def prepared_by_accelerate(make: Make) -> Run:
    model = mlp(5, 3)
    return train(make, model, F.cross_entropy, PreparedOptimizer(adam(model)))


class SAM(Optimizer):
    def __init__(self, params: Any, base: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, {"rho": rho, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * (group["rho"] / (norm + 1e-12)))

    @torch.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base_optimizer.step()

    def step(self, closure: Any = None) -> None:
        closure = torch.enable_grad()(closure)
        self.first_step()
        closure()
        self.second_step()


def sharpness_aware_minimization(make: Make) -> Run:
    model = mlp(5, 3)
    return train(make, model, F.cross_entropy, SAM(model.parameters(), torch.optim.SGD, lr=0.1))


def quasi_newton(make: Make) -> Run:
    model = mlp(5, 3)
    return train(make, model, F.cross_entropy, torch.optim.LBFGS(model.parameters()))


class Both(Optimizer):
    """An optimizer that makes the steps of several optimizers."""

    def __init__(self, *optimizers: Optimizer) -> None:
        self.optimizers = optimizers
        super().__init__([g for each in optimizers for g in each.param_groups], {})

    def step(self, closure: Any = None) -> None:
        for each in self.optimizers:
            each.step()


def two_optimizers_in_one(make: Make) -> Run:
    model = mlp(5, 4, 3)
    return train(make, model, F.cross_entropy, Both(sgd(model[0]), adam(model[2])))


class Masters(Optimizer):
    """An optimizer that updates f32 copies of a model's bf16 weights and copies the results back."""

    def __init__(self, model: nn.Module) -> None:
        self.model = [*model.parameters()]
        masters = [nn.Parameter(p.detach().float()) for p in self.model]
        super().__init__(masters, {"lr": 0.1})

    def step(self, closure: Any = None) -> None:
        for p, master in zip(self.model, self.param_groups[0]["params"], strict=True):
            master.data.add_(p.grad.float(), alpha=-0.1)
            p.data.copy_(master)


def masters_outside_of_the_model(make: Make) -> Run:
    model = mlp(5, 3).bfloat16()
    return train(make, model, F.cross_entropy, Masters(model), [(x.bfloat16(), y) for x, y in batches(3)])


def step_within_no_grad(make: Make) -> Run:
    model = mlp(5, 3)
    trainer = make(model, F.cross_entropy, sgd(model))
    losses = []
    for x, y in batches(3):
        # A `Trainer` computes gradients in any mode. In eager mode, they must be enabled here.
        with torch.set_grad_enabled(not isinstance(trainer, Trainer)):
            losses.append(trainer.step(x, y))
    return losses, [model]


def averaged_weights(make: Make) -> Run:
    model = mlp(5, 3)
    optimizer, average = sgd(model), AveragedModel(model)
    scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)

    def update() -> None:
        average.update_parameters(model)
        scheduler.step()

    losses, _ = train(make, model, F.cross_entropy, optimizer, batches(4), after=update)
    return losses, [model, average]


def cosine_schedule(make: Make) -> Run:
    model = mlp(5, 3)
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    return train(make, model, F.cross_entropy, optimizer, batches(4), after=scheduler.step)


def one_cycle(make: Make) -> Run:
    model = mlp(5, 3)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=5)
    return train(make, model, F.cross_entropy, optimizer, batches(4), after=scheduler.step)


class Relative(Optimizer):
    """An optimizer whose steps are proportional to the norm of the weights, like Adafactor in the package
    `transformers`."""

    def __init__(self, parameters: Any, lr: float = 0.1, eps: float = 0.2) -> None:
        super().__init__(parameters, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["RMS"] = 0, 0
                state["step"] += 1
                state["RMS"] = p.norm(2) / p.numel() ** 0.5
                rate = max(group["eps"], state["RMS"]) * min(group["lr"], 1.0 / math.sqrt(state["step"]))
                p.add_(p.grad * -rate)


def steps_relative_to_the_weights(make: Make) -> Run:
    model = mlp(5, 3)
    return train(make, model, F.cross_entropy, Relative(model.parameters()))


def gradients_of_the_step(make: Make) -> Run:
    """After each step, logs the loss and the sum of the norms of the parameters' gradients, `p.grad`."""
    model = mlp(5, 3)
    trainer = make(model, F.cross_entropy, sgd(model), returns=("gradients",))
    values = []
    for x, y in batches(3):
        values.append(trainer.step(x, y))
        values.append(math.fsum(float(p.grad.norm()) for p in model.parameters()))
    return values, [model]


def data_parallel(make: Make) -> Run:
    model = nn.DataParallel(mlp(5, 3))
    trainer = make(model, F.cross_entropy, sgd(model))
    return [trainer.step(x, y) for x, y in batches(3)], [model.module]
