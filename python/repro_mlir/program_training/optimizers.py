# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Update rules of optimizers for one parameter, written as MLIR text. The learning rate is the step's hyper-parameter
`lr`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.program.writer import Number, Tensor, Writer

Slots = Mapping[str, Tensor]


@dataclass(frozen=True)
class Optimizer:
    """An optimizer, as a function that writes the MLIR text of its update.

    Attributes:
      slots: the names of the state tensors that the optimizer has for each parameter. They have the parameter's type
        and are initially zero.
      write: writes the computation of the new parameter and the new slots. After the writer, the arguments are the
        parameter, its gradient, the slots, the learning rate and the number of the step, counted from 1. The learning
        rate and the number are f32 of shape [].
    """

    slots: Sequence[str]
    write: Callable[[Writer, Tensor, Tensor, Slots, Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]


def sgd(*, momentum: float = 0.0, weight_decay: float = 0.0) -> Optimizer:
    """Returns stochastic gradient descent like torch.optim.SGD: gradient += weight_decay * parameter; buffer = momentum
    * buffer + gradient; parameter -= lr * buffer."""
    _check(momentum=momentum, weight_decay=weight_decay)

    def write(
        writer: Writer, parameter: Tensor, gradient: Tensor, slots: Slots, lr: Tensor, step: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if weight_decay:
            gradient = writer.map([gradient, parameter], lambda g, p: g + p * weight_decay)
        kept: dict[str, Tensor] = {}
        if momentum:
            gradient = writer.map([gradient, slots["momentum"]], lambda g, m: m * momentum + g)
            kept["momentum"] = gradient
        return writer.map([parameter, gradient, lr], lambda p, g, rate: p - rate * g), kept

    return Optimizer(["momentum"] if momentum else [], write)


def adamw(*, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01) -> Optimizer:
    """Returns Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101), like torch.optim.AdamW.

    Let t be the number of the step: m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g^2; the bias corrections
    c = 1 - beta^t are -expm1(t * log(beta)); p = p * (1 - lr * weight_decay) - (lr / c1) * m / (sqrt(v) / sqrt(c2) +
    eps). Constants computed from betas are rounded once to f32.
    """
    beta1, beta2 = betas
    _check(beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay)
    if not (0 < beta1 < 1 and 0 < beta2 < 1):
        raise ReproError(f"expected betas between 0 and 1, got {betas}")

    def write(
        writer: Writer, parameter: Tensor, gradient: Tensor, slots: Slots, lr: Tensor, step: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        first = writer.map([slots["first"], gradient], lambda m, g: m + (g - m) * (1 - beta1))
        second = writer.map([slots["second"], gradient], lambda v, g: v * beta2 + g * g * (1 - beta2))

        def correction(beta: float) -> Tensor:
            return writer.map([step], lambda t: -((t * math.log(beta)).apply("repro.expm1")))

        rate = writer.map([lr, correction(beta1)], lambda rate, c: rate / c)
        root = writer.map([correction(beta2)], lambda c: c.apply("math.sqrt"))

        def update(p: Number, m: Number, v: Number, lr: Number, rate: Number, root: Number) -> Number:
            return p * (1.0 - lr * weight_decay) - rate * (m / (v.apply("math.sqrt") / root + eps))

        return writer.map([parameter, first, second, lr, rate, root], update), {"first": first, "second": second}

    return Optimizer(["first", "second"], write)


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number) or number < 0:
            raise ReproError(f"expected a finite {name} of at least 0, got {number}")
