# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The averaging of `torch.optim.swa_utils.AveragedModel` as part of a training step, with the average as state."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_swa_multi_avg_fn
from torch.overrides import TorchFunctionMode

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import phase
from repro_mlir.frontends.torch.base.torch_internals import foreach_lerp_

_PREFIX = "average."
_COUNT = f"{_PREFIX}n_averaged"


def average_tensors(average: AveragedModel) -> dict[str, torch.Tensor]:
    """Returns the parameters and buffers of an average, keyed by the names of their state tensors."""
    named = itertools.chain(average.named_parameters(), average.named_buffers())
    return {f"{_PREFIX}{name}": tensor for name, tensor in named}


def average_functions(average: AveragedModel) -> dict[str, Any]:
    """Returns the user-defined averaging functions of an average, keyed by name."""
    named = {"average.avg_fn": average.avg_fn, "average.multi_avg_fn": average.multi_avg_fn}
    return {name: function for name, function in named.items() if function is not None}


def check_average(average: Any, model: torch.nn.Module) -> None:
    """Raises CaptureError unless `average` is an AveragedModel of `model` that uses PyTorch's `update_parameters`."""
    if not isinstance(average, AveragedModel):
        raise CaptureError(f"average is a {type(average).__name__}, expected a torch.optim.swa_utils.AveragedModel")
    if type(average).update_parameters is not AveragedModel.update_parameters:
        raise CaptureError(
            f"average is a {type(average).__name__} with its own update_parameters, expected an AveragedModel with an "
            "avg_fn or multi_avg_fn"
        )
    for kind in ("parameters", "buffers"):
        own, others = ([*getattr(each, f"named_{kind}")()] for each in (average.module, model))
        if [(name, value.shape) for name, value in own] != [(name, value.shape) for name, value in others]:
            raise CaptureError(f"average and the model have different {kind}, expected AveragedModel(model)")
        if any(one is other for (_, one), (_, other) in zip(own, others, strict=True)):
            raise CaptureError(f"average shares {kind} with the model, expected AveragedModel(model), which copies it")


def update_average(
    average: AveragedModel,
    parameters: Mapping[str, torch.Tensor],
    buffers: Mapping[str, torch.Tensor],
    state: dict[str, torch.Tensor],
) -> None:
    """Updates the average as `average.update_parameters(model)` does: replaces its entries in `state`.

    Args:
      parameters, buffers: those of the model after the step, keyed by name.
      state: state tensors, keyed by the names that `average_tensors` returns.
    """
    values = {**parameters, **buffers}
    averaged = [*parameters, *buffers] if average.use_buffers else [*parameters]
    count = state[_COUNT]
    with phase("average of the parameters"), torch.no_grad():
        names = {name: f"{_PREFIX}module.{name}" for name in values}
        later = [state[names[name]].clone() for name in averaged]
        current = [values[name].detach() for name in averaged]
        for own, others in _by_type(later, current):
            _average(average, own, others, count)
        for name, value in zip(averaged, later, strict=True):
            # The first update copies the model's parameters, as PyTorch does.
            state[names[name]] = torch.where(count == 0, values[name].detach().to(value.dtype), value)
        if not average.use_buffers:
            for name, value in buffers.items():
                state[names[name]] = value.detach().to(state[names[name]].dtype).clone()
        state[_COUNT] = count + 1


def _average(
    average: AveragedModel, own: Sequence[torch.Tensor], others: Sequence[torch.Tensor], count: torch.Tensor
) -> None:
    """Updates the average `own` in place with the values `others`; in each of the two lists, all tensors have the same
    element type."""
    function: Any = average.multi_avg_fn
    with _TensorWeights():
        if function is not None or average.avg_fn is None:
            (function or get_swa_multi_avg_fn())(own, others, count)
            return
        for one, other in zip(own, others, strict=True):
            one.copy_(average.avg_fn(one.clone(), other, count))


def _by_type(own: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[tuple[list[Any], list[Any]]]:
    groups: dict[Any, tuple[list[Any], list[Any]]] = {}
    for one, other in zip(own, others, strict=True):
        group = groups.setdefault((one.dtype, other.dtype), ([], []))
        group[0].append(one)
        group[1].append(other)
    return [*groups.values()]


class _TensorWeights(TorchFunctionMode):
    """Makes `_foreach_lerp_` accept a traced weight: PyTorch would read the weight as a Python number."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is foreach_lerp_ and len(args) == 3 and isinstance(args[2], torch.Tensor):
            for one, other in zip(args[0], args[1], strict=True):
                one.copy_(torch.lerp(one, other, args[2].to(one.dtype)))
            return None
        return function(*args, **(kwargs or {}))
