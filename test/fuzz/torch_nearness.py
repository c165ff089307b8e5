# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Decides whether results match eager PyTorch within the accuracy that the function allows.

If a result is not near eager PyTorch's, eager PyTorch runs the function again: in float64; with strides for which it
has no vector code, whose NaNs differ from those of its scalar code; and several times, where a rounding error changes
each value and gradient. An element between the results of these runs is correct. Other elements are correct if rows of
the table of differences (torch_differences.py) explain them or, for finite elements, if they are between the results of
runs that also change each intermediate value within PyTorch's decompositions of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache, partial
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._decomp.decompositions import _grid_sampler_2d
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_differences import DIFFERENCES, Difference, Instead
from torch_doors import Case, Results, eager

_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 2e-2}
_ROUNDING = {torch.float32: 2.0**-22, torch.float64: 2.0**-50, torch.bfloat16: 2.0**-8}
_RUNS = 12


Change = Callable[[torch.Tensor], torch.Tensor]


class _Changed(torch.autograd.Function):
    """Applies `change` to a value in the forward pass, and to its gradient in the backward pass."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, change: Change) -> torch.Tensor:
        ctx.change = change
        return change(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.change(gradient), None


def _strided(value: torch.Tensor) -> torch.Tensor:
    """Returns the same value with strides such that no two elements are adjacent."""
    return torch.stack([value, value], -1)[..., 0]


def _rounded(value: torch.Tensor) -> torch.Tensor:
    noise = torch.rand(value.shape, dtype=torch.float64) * 2 - 1
    return (value.double() * (1 + noise * _ROUNDING[value.dtype])).to(value.dtype)


class _WrittenOut(TorchDispatchMode):
    """Runs operators as their decompositions in PyTorch, and changes each intermediate value by a rounding error."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        definition = _definitions().get(operator)
        if definition is not None:
            with self:
                found = definition(*args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        found = operator(*args, **(kwargs or {}))
        makes_views = any(each.alias_info is not None for each in operator._schema.returns)
        if not isinstance(found, torch.Tensor) or makes_views or found.dtype not in _ROUNDING:
            return found
        # Does not change values that are whole numbers, because they may become indices.
        return found.where(found == found.round(), _rounded(found))


@cache
def _definitions() -> dict[Any, Callable[..., Any]]:
    aten = torch.ops.aten
    others = [
        *(aten.native_layer_norm, aten.native_group_norm, aten.native_batch_norm, aten._native_batch_norm_legit),
        *(aten._softmax, aten._log_softmax, aten.linalg_vector_norm, aten.var, aten.std),
    ]
    return {**core_aten_decompositions(), **get_decompositions(others)}


class _SampledByDefinition(TorchFunctionMode):
    """Computes `grid_sample` by its decomposition, because PyTorch has no decomposition of the operator that computes
    the gradient of `grid_sample`."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not torch.nn.functional.grid_sample:
            return function(*args, **(kwargs or {}))
        modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
        mode, padding, align = (kwargs[name] for name in ("mode", "padding_mode", "align_corners"))
        return _grid_sampler_2d(*args, modes.index(mode), paddings.index(padding), align)


class _Far:
    """The positions in results and gradients at which values are not near those of eager PyTorch."""

    def __init__(self, want: Results, got: Results) -> None:
        known = [*zip(got.gradients, want.gradients, strict=True)]
        # The numbers of the inputs for which this package or PyTorch has a gradient.
        self._slopes = [i for i, (mine, other) in enumerate(known) if mine is not None or other is not None]
        names = [*(f"result {i}" for i in range(len(want.values))), *(f"gradient of x{i}" for i in self._slopes)]
        self._want, self._names = want, names
        self._pairs = [*zip(self._flat(got, want), self._flat(want, got), strict=True)]
        self.error = ""
        for name, (mine, other) in zip(self._names, self._pairs, strict=True):
            if mine.dtype != other.dtype or mine.shape != other.shape:
                self.error = f"{name}: {mine.dtype} {list(mine.shape)}, expected {other.dtype} {list(other.shape)}"
                return
        self.places = [_far(mine, [other]) for mine, other in self._pairs]

    def _flat(self, results: Results, like: Results) -> list[torch.Tensor]:
        """Returns the results and gradients in one list, with zeros for a gradient that only `like` has."""
        found = [*results.values]
        for i in self._slopes:
            slope, other = results.gradients[i], like.gradients[i]
            found.append(torch.zeros_like(other) if slope is None else slope)  # type: ignore[arg-type]
        return found

    def __bool__(self) -> bool:
        return any(bool(places.any()) for places in self.places)

    def without(self, judge: Callable[[int, torch.Tensor, torch.Tensor], torch.Tensor]) -> _Far:
        """Returns a copy that keeps only the positions that `judge` also marks. `judge` receives the index of a tensor,
        our tensor and PyTorch's."""
        found = copy(self)
        found.places = [places & judge(i, *self._pairs[i]) for i, places in enumerate(self.places)]
        return found

    def of(self, runs: Iterable[Results]) -> list[list[torch.Tensor]]:
        """Returns the results and gradients of each run as one list of tensors."""
        return [self._flat(run, self._want) for run in runs]

    def text(self) -> str:
        for name, (mine, other), places in zip(self._names, self._pairs, self.places, strict=True):
            for at in places.nonzero().tolist():
                return f"{name} at {at}: {mine[tuple(at)].item()!r}, expected {other[tuple(at)].item()!r}"
        raise ValueError("no place is far")


def verdict(case: Case, want: Results, got: Results) -> str:
    """Returns "ok", "differs: " with the rows of the table that explain the differences, or the first wrong result or
    gradient."""
    far = _Far(want, got)
    if far.error:
        return far.error
    if far:
        runs = far.of(_runs(case))
        far = far.without(lambda i, mine, other: _far(mine, [other, *(run[i] for run in runs)]))
    if far and (rows := _by_the_table(case, far, len(want.values))):
        return f"differs: {', '.join(rows)}"
    if far:
        within = far.of(_runs_within(case))
        far = far.without(
            lambda i, mine, other: (
                _far(mine, [other, *(run[i] for run in within)], has_edges=False)
                | ~(mine.isfinite() & other.isfinite())
                | (not mine.is_floating_point())
            )
        )
    return far.text() if far else "ok"


def _by_the_table(case: Case, far: _Far, results: int) -> list[str]:
    """Returns the names of the rows that explain all positions in `far`: one row or, if that is not enough, all rows
    that apply to the function's calls. Returns an empty list if they do not explain `far`."""
    instead = Instead(DIFFERENCES)
    with instead:
        [*_attempts(case, [_same])]
    met = [row for row in DIFFERENCES if row.name in instead.met]
    for rows in [*([row] for row in met), met]:
        with Instead(rows):
            runs = far.of([*_attempts(case, [_same]), *_runs(case), *_runs_within(case)])
        if not far.without(partial(_is_wrong, rows, runs, results)):
            return [row.name for row in rows]
    return []


def _is_wrong(
    rows: Sequence[Difference],
    runs: Sequence[Sequence[torch.Tensor]],
    results: int,
    i: int,
    mine: torch.Tensor,
    other: torch.Tensor,
) -> torch.Tensor:
    """Returns a mask of the elements of tensor `i` that the rows do not explain. The tensor is a result, or a gradient
    if `i` is at least `results`."""
    rows = [row for row in rows if i >= results or not row.is_of_gradients]
    wrong = torch.ones_like(mine, dtype=torch.bool)
    if any(row.instead is not None for row in rows):
        wrong &= _far(mine, [run[i] for run in runs])
    if any(row.instead is None for row in rows) and not bool(other.isfinite().all()):
        wrong &= mine.isfinite() & other.isfinite()
    return wrong


def _far(mine: torch.Tensor, others: Sequence[torch.Tensor], *, has_edges: bool = True) -> torch.Tensor:
    """Returns a mask of the elements that are near none of the values that the other runs have at the same position,
    and not between these values.

    Args:
      has_edges: whether to accept any value for an element that is finite in one of the other runs but not in all.
    """
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
    edge = (known.isfinite().any(0) & ~known.isfinite().all(0)) | (known.isnan().any(0) & ~known.isnan().all(0))
    return ~(near | between | (edge & has_edges))


def _same(value: torch.Tensor) -> torch.Tensor:
    return value


def _attempts(case: Case, changes: Iterable[Change], *, in_double: bool = False) -> Iterator[Results]:
    """Yields a run of the function for each change. Skips runs that fail, for example because an operator does not
    accept float64."""
    for change in changes:
        try:
            yield _run(case, change, in_double=in_double)
        except RuntimeError:
            continue


def _runs(case: Case) -> list[Results]:
    """Returns a run in float64, a run with other strides, and runs in which a rounding error changes each value and
    gradient."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        exact = _attempts(case, [_same], in_double=True)
        return [*exact, *_attempts(case, [_strided, *[_rounded] * (_RUNS - 2)])]


def _runs_within(case: Case) -> list[Results]:
    """Returns runs in which operators are decomposed and each intermediate value is changed by a rounding error."""
    with torch.random.fork_rng(devices=[]), _SampledByDefinition(), _WrittenOut():
        torch.manual_seed(0)
        return [*_attempts(case, [_same] * _RUNS)]


def _run(case: Case, change: Change, *, in_double: bool) -> Results:
    def changed(value: torch.Tensor) -> Any:
        return _Changed.apply(value, change) if value.is_floating_point() else value

    inputs = case.tensors()
    if in_double:
        inputs = [
            value.detach().double().requires_grad_(value.requires_grad) if value.is_floating_point() else value
            for value in inputs
        ]
        return eager(case.program.function(), inputs)
    function = case.program.function("_changed({})", _changed=changed)
    return eager(lambda *given: function(*map(changed, given)), inputs)
