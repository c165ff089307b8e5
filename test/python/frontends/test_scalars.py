# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators along dimension 0 of tensors of shape [], compared with those of PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from operator_checks import check, gradients

_DIFFERENTIABLE = {
    "max": lambda x: x.max(0)[0],
    "min": lambda x: x.min(-1, keepdim=True)[0],
    "amax": lambda x: x.amax(0),
    "aminmax": lambda x: torch.aminmax(x, dim=0),
    "prod": lambda x: x.prod(0),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "median": lambda x: x.median(0)[0],
    "mode": lambda x: x.mode(0)[0],
    "var": lambda x: x.var(0, correction=0),
    "std and mean": lambda x: torch.std_mean(x, 0),
    "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softmin": lambda x: F.softmin(x, 0),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(0)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "sort": lambda x: x.sort()[0],
    "topk": lambda x: x.topk(1)[0],
    "kthvalue": lambda x: x.kthvalue(1)[0],
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1),
    "greatest magnitude": lambda x: torch.linalg.vector_norm(x, float("inf"), 0),
    "gather": lambda x: x.gather(0, torch.tensor(0)),
    "gather of one": lambda x: x.gather(0, torch.tensor([0])),
    "index_select": lambda x: x.index_select(0, torch.tensor(0)),
    "take": lambda x: x.take(torch.tensor(0)),
    "scatter": lambda x: x.scatter(0, torch.tensor(0), torch.tensor(2.0)),
    "index_add": lambda x: x.index_add(0, torch.tensor(0), torch.tensor(2.0)),
}
_OTHERS = {
    "argmax": lambda x: (x.argmax(), x.argmax(0), x.argmin(0, keepdim=True)),
    "indices": lambda x: (x.max(0)[1], x.sort()[1], x.topk(1)[1], x.cummin(0)[1], x.median(0)[1]),
    "any": lambda x: (x.any(0), x.all(0), x.any(dim=(0,)), x.all(0, keepdim=True)),
    "searchsorted": lambda x: torch.searchsorted(torch.tensor([1, 2], dtype=x.dtype), x),
}


def test_dimension_of_scalars() -> None:
    check({name: gradients(function) for name, function in _DIFFERENTIABLE.items()}, torch.tensor(1.5))
    check(_OTHERS, torch.tensor(1.5))
    check(_OTHERS, torch.tensor(3))
