# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Whether results are those of eager PyTorch, as far as the function says what they are.

Where a result is not near to eager PyTorch's, the function runs once more in float64, once with strides for which
PyTorch has no vector code, which differs from its scalar code in NaNs, and a few times with each value and gradient
changed by a rounding error. Between what these runs give, every result is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch_doors import Case, Results, eager

_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 2e-2}
_ROUNDING = {torch.float32: 2.0**-22, torch.float64: 2.0**-50, torch.bfloat16: 2.0**-8}
_RUNS = 12


Change = Callable[[torch.Tensor], torch.Tensor]


class _Changed(torch.autograd.Function):
    """A changed value; its gradient is changed, too."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, change: Change) -> torch.Tensor:
        ctx.change = change
        return change(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.change(gradient), None


def _strided(value: torch.Tensor) -> torch.Tensor:
    """The same value, of which no two elements stand side by side."""
    return torch.stack([value, value], -1)[..., 0]


def _rounded(value: torch.Tensor) -> torch.Tensor:
    noise = torch.rand(value.shape, dtype=torch.float64) * 2 - 1
    return (value.double() * (1 + noise * _ROUNDING[value.dtype])).to(value.dtype)


def difference(case: Case, want: Results, got: Results) -> str | None:
    """The result or gradient that is not near, or None."""
    pairs = [*zip(got.values, want.values, strict=True)]
    names = [f"result {i}" for i in range(len(pairs))]
    for i, (mine, other) in enumerate(zip(got.gradients, want.gradients, strict=True)):
        if mine is not None or other is not None:
            some = other if mine is None else mine
            assert some is not None
            zero = torch.zeros_like(some)
            pairs.append((zero if mine is None else mine, zero if other is None else other))
            names.append(f"gradient of x{i}")
    found: list[tuple[str, int, torch.Tensor]] = []
    for i, (name, (mine, other)) in enumerate(zip(names, pairs, strict=True)):
        if mine.dtype != other.dtype or mine.shape != other.shape:
            return f"{name}: {mine.dtype} {list(mine.shape)}, expected {other.dtype} {list(other.shape)}"
        far = _far(mine, [other])
        if bool(far.any()):
            found.append((name, i, far))
    if not found:
        return None
    runs = [flat for flat in _runs(case) if len(flat) == len(pairs)]
    for name, i, _ in found:
        mine, other = pairs[i]
        far = _far(mine, [other, *(run[i] for run in runs)])
        if bool(far.any()):
            at = [int(k) for k in far.nonzero()[0]]
            place = tuple(at)
            return f"{name} at {at}: {mine[place].item()!r}, expected {other[place].item()!r}"
    return None


def _far(mine: torch.Tensor, others: Sequence[torch.Tensor]) -> torch.Tensor:
    """Where an element lies outside of those of other runs, and is not near to one of them."""
    if not mine.is_floating_point():
        return torch.stack([mine != other.to(mine.dtype) for other in others]).all(0)
    limit = _TOLERANCE[mine.dtype]
    value = mine.double()
    known = torch.stack([other.double() for other in others])
    finite = known[0][known[0].isfinite()].abs()
    usual = float(finite.median()) if finite.numel() else 0.0
    least = torch.finfo(mine.dtype).smallest_normal
    same = (known.isnan() & value.isnan()) | (known == value)
    near = same.any(0) | ((known - value).abs() <= limit * (known.abs() + usual) + least).any(0)
    numbers = known.where(known.isfinite(), torch.nan)
    low = numbers.nan_to_num(nan=torch.inf).amin(0)
    high = numbers.nan_to_num(nan=-torch.inf).amax(0)
    room = 4 * (high - low) + limit * torch.maximum(low.abs(), high.abs())
    between = value.isfinite() & (value >= low - room) & (value <= high + room)
    # A run that is infinite or NaN where another is not says that this element is at the edge.
    edge = (known.isfinite().any(0) & ~known.isfinite().all(0)) | (known.isnan().any(0) & ~known.isnan().all(0))
    return ~(near | between | edge)


def _runs(case: Case) -> list[list[torch.Tensor]]:
    """The results of other runs of the function, and the gradients of its inputs."""
    found = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for run in range(_RUNS):
            change = _strided if run == 1 else _rounded
            try:
                found.append(_run(case, change, in_double=run == 0))
            except RuntimeError:
                # Types that do not go together in float64.
                continue
    return found


def _run(case: Case, change: Change, *, in_double: bool) -> list[torch.Tensor]:
    def changed(value: torch.Tensor) -> Any:
        return _Changed.apply(value, change) if value.is_floating_point() else value

    inputs = case.tensors()
    if in_double:
        inputs = [
            value.detach().double().requires_grad_(value.requires_grad) if value.is_floating_point() else value
            for value in inputs
        ]
        results = eager(case.program.function(), inputs)
    else:
        function = case.program.function("_changed({})", _changed=changed)
        results = eager(lambda *given: function(*map(changed, given)), inputs)
    slopes = zip(inputs, results.gradients, strict=True)
    return [*results.values, *(torch.zeros_like(x) if g is None else g for x, g in slopes if x.requires_grad)]
