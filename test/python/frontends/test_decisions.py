# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Each rewrite in docs/guides/decisions.md has the result of the data-dependent PyTorch code that it replaces."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from repro_mlir import ReproError
from repro_mlir.frontends.torch.trace.tracing import first_stage, second_stage

_generator = torch.Generator().manual_seed(3)
X = torch.randn(6, 4, generator=_generator)
W = torch.randn(4, 4, generator=_generator) / 8
EDGES = torch.tensor([[0, 1, 2, 3, 4], [0, 2, 2, 1, 5]])
BATCH = torch.tensor([0, 0, 1, 1, 1, 2])


def _exit_before(x: torch.Tensor) -> Any:
    if x.norm() > 1:
        x = x / x.norm()
    return x


def _exit_after(x: torch.Tensor) -> Any:
    return torch.where(x.norm() > 1, x / x.norm(), x)


def _clip_before(x: torch.Tensor) -> Any:
    if x.abs().max() > 0.5:
        x = x.clamp(-0.5, 0.5)
    return x


def _clip_after(x: torch.Tensor) -> Any:
    return x.clamp(-0.5, 0.5)


def _number_before(x: torch.Tensor) -> Any:
    return x.square() / float(x.abs().sum())


def _number_after(x: torch.Tensor) -> Any:
    return x.square() / x.abs().sum().detach()


def _loops_before(x: torch.Tensor) -> Any:
    edges = EDGES[:, EDGES[0] != EDGES[1]]
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


def _loops_after(x: torch.Tensor) -> Any:
    keep = EDGES[0] != EDGES[1]
    return torch.zeros_like(x).index_add(0, EDGES[1], x[EDGES[0]] * keep[:, None])


def _pool_before(x: torch.Tensor, batch: torch.Tensor) -> Any:
    return torch.stack([x[batch == i].mean(0) for i in range(int(batch.max()) + 1)])


def _pool_after(x: torch.Tensor, batch: torch.Tensor) -> Any:
    total = x.new_zeros(3, x.shape[1]).index_add(0, batch, x)
    return total / F.one_hot(batch, 3).sum(0)[:, None]


def _queue_before(x: torch.Tensor, pointer: torch.Tensor) -> Any:
    queue, keys, start = x.clone(), x[:2] * 3, int(pointer)
    queue[start : start + 2] = keys
    return queue


def _queue_after(x: torch.Tensor, pointer: torch.Tensor) -> Any:
    places = (pointer + torch.arange(2)) % len(x)
    return x.index_copy(0, places, x[:2] * 3)


def _experts_before(x: torch.Tensor, choice: torch.Tensor, w: torch.Tensor) -> Any:
    out = torch.zeros_like(x)
    for e in range(3):
        if (choice == e).any():
            out[choice == e] = x[choice == e] @ w * (e + 1)
    return out


def _experts_after(x: torch.Tensor, choice: torch.Tensor, w: torch.Tensor) -> Any:
    out = torch.zeros_like(x)
    for e in range(3):
        out = torch.where((choice == e)[:, None], x @ w * (e + 1), out)
    return out


def _largest_before(x: torch.Tensor, k: torch.Tensor) -> Any:
    return x.sort(0, descending=True)[0][: int(k)].sum(0)


def _largest_after(x: torch.Tensor, k: torch.Tensor) -> Any:
    return torch.where(torch.arange(len(x))[:, None] < k, x.sort(0, descending=True)[0], 0).sum(0)


def _converge_before(x: torch.Tensor, w: torch.Tensor) -> Any:
    while (torch.tanh(x @ w) - x).abs().max() > 0.1:
        x = torch.tanh(x @ w)
    return x


def _converge_after(x: torch.Tensor, w: torch.Tensor) -> Any:
    for _ in range(8):
        new = torch.tanh(x @ w)
        x = torch.where((new - x).abs().max() > 0.1, new, x)
    return x


def _prefix_before(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x[: int(n)].mean(0)


def _prefix_after(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x[torch.arange(len(x)) < n].mean(0)


def _distinct_before(x: torch.Tensor, labels: torch.Tensor) -> Any:
    return x.sum() * len(labels.unique())


def _distinct_after(x: torch.Tensor, labels: torch.Tensor) -> Any:
    return x.sum() * (F.one_hot(labels, 5).sum(0) > 0).sum()


PAIRS: list[tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    (_exit_before, _exit_after, (X,)),
    (_clip_before, _clip_after, (X,)),
    (_number_before, _number_after, (X,)),
    (_loops_before, _loops_after, (X,)),
    (_pool_before, _pool_after, (X, BATCH)),
    (_queue_before, _queue_after, (X, torch.tensor(3))),
    (_experts_before, _experts_after, (X, torch.tensor([0, 2, 2, 0, 0, 2]), W)),
    (_largest_before, _largest_after, (X, torch.tensor(3))),
    (_converge_before, _converge_after, (X, W)),
    (_prefix_before, _prefix_after, (X, torch.tensor(4))),
    (_distinct_before, _distinct_after, (X, BATCH)),
]


def _step(function: Callable[..., Any]) -> Callable[..., Any]:
    def step(x: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
        leaf = x.detach().requires_grad_()
        result = function(leaf, *given)
        return [result.detach(), *torch.autograd.grad(result.square().sum(), [leaf])]

    return step


@pytest.mark.parametrize("number", [lambda x: x.sum(), lambda x: x.sum().item()], ids=["tensor", "item"])
def test_a_number_cannot_be_formatted(number: Callable[[torch.Tensor], Any]) -> None:
    def step(x: torch.Tensor) -> Any:
        print(f"{number(x):.3f}")
        return x

    with pytest.raises(ReproError, match=r"test_decisions.py:\d+: .* print the loss that Trainer.step returns"):
        second_stage(first_stage(_step(step), (X,)))


@pytest.mark.parametrize("case", range(len(PAIRS)))
def test_pairs(case: int) -> None:
    before, after, arguments = PAIRS[case]
    expected = _step(before)(*arguments)
    graph = second_stage(first_stage(_step(after), arguments))
    torch.testing.assert_close([*graph(*arguments)], expected)
    if before is _loops_before:
        # The original step can be captured as well, because it selects rows by a mask.
        graph = second_stage(first_stage(_step(before), arguments))
        torch.testing.assert_close([*graph(*arguments)], expected)
        return
    with pytest.raises(ReproError, match=r"test_decisions.py:\d+: .*(docs/guides/decisions.md|tensor values)"):
        second_stage(first_stage(_step(before), arguments))
