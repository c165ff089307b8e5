# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records the operators that PyTorch executes while a function runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx.traceback
from torch.utils.flop_counter import flop_registry

from repro_mlir.frontends.torch.base.source_lines import SourceLines, origin_of_trace
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, TorchDispatchMode, pytree
from repro_mlir.frontends.torch.eager_operators.causes import UNSET, Cause
from repro_mlir.frontends.torch.eager_operators.classes import allocates, cause_of, is_only_view, moves, name_of
from repro_mlir.frontends.torch.trace.tracing import errors_with_lines

_OVERWRITING = frozenset("""copy fill full zero""".split())
"""Operators that write all elements of their first operand without reading them, in addition to random draws."""

_SAME_PRODUCTS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: torch.ops.aten._scaled_dot_product_flash_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        torch.ops.aten._scaled_dot_product_flash_attention_backward
    ),
}
"""Operators that PyTorch's counter of products lacks, with operators that compute the same."""


@dataclass
class Executed:
    """The calls of one operator whose results may differ for the same cause.

    Attributes:
      name: the name of the operator, such as "aten.add".
      cause: why the results may differ.
      count: the number of calls.
      arithmetic: the number of arithmetic operations of all calls.
      places: the number of calls by the user's line, module or phase.
    """

    name: str
    cause: Cause
    count: int = 0
    arithmetic: int = 0
    places: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Call:
    """A call of an operator: the operator, its arguments, its result and its place in the user's code."""

    operator: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    place: str


class Recorder(TorchDispatchMode):
    """Calls a function for each call of an operator that computes; views and allocations are omitted.

    Args:
      note: receives the call, and whether it reads memory that nothing has written.
    """

    def __init__(self, note: Callable[[Call, bool], None]) -> None:
        super().__init__()
        self._note = note
        # The storages that nothing has written yet. They are kept so that no other storage gets their address.
        self._unset: dict[int, torch.UntypedStorage] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(function, OpOverload) or function.namespace == "profiler" or is_only_view(function):
            return function(*args, **kwargs)
        reads_unset = self._unset and self._reads_unset(function, args, kwargs)
        result = function(*args, **kwargs)
        if allocates(function):
            self._unset |= {each._cdata: each for each in _storages(result) if each.nbytes()}
            return result
        self._note(Call(function, args, kwargs, result, _place()), bool(reads_unset))
        return result

    def _reads_unset(self, function: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call reads memory that nothing has written; what the call writes counts as written afterwards."""
        written, read = [], []
        overwrites = name_of(function) in _OVERWRITING or torch.Tag.nondeterministic_seeded in function.tags
        for i, argument in enumerate(function._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            if is_written:
                written += _storages(value)
            if not is_written or not (overwrites or argument.is_out):
                read += _storages(value)
        found = any(each._cdata in self._unset for each in read)
        for each in written:
            self._unset.pop(each._cdata, None)
        return found


def record_calls(function: Callable[[], Any], modules: Mapping[int, str], note: Callable[[Call, bool], None]) -> None:
    """Runs a function and calls `note` for each operator (see `Recorder`).

    Args:
      modules: the result of `source_lines.module_names`.
    Raises:
      CaptureError: the function fails; the message has the user's line.
    """

    def run() -> None:
        with torch.fx.traceback.preserve_node_meta(), Recorder(note), SourceLines(run.__code__, modules):
            function()

    with errors_with_lines(modules):
        run()


def executed_operators(function: Callable[[], Any], modules: Mapping[int, str]) -> list[Executed]:
    """Runs a function and returns the operators that PyTorch executed, those with most arithmetic first."""
    found: dict[tuple[str, Cause], Executed] = {}

    def note(call: Call, reads_unset: bool) -> None:
        cause = UNSET if reads_unset else cause_of(call.operator, call.args, call.kwargs, call.result)
        name = full_name(call.operator)
        entry = found.setdefault((name, cause), Executed(name, cause))
        entry.count += 1
        entry.arithmetic += arithmetic_of(call)
        entry.places[call.place] += 1

    record_calls(function, modules, note)
    return sorted(found.values(), key=lambda each: (-each.arithmetic, -each.count, each.name, each.cause.name))


def full_name(operator: OpOverload) -> str:
    """Returns the name of an operator in reports: namespace and name, without the overload."""
    return operator._schema.name.replace("::", ".")


def arithmetic_of(call: Call) -> int:
    """Returns the number of arithmetic operations of a call: products as PyTorch's counter counts them, otherwise one
    for each element of the largest operand or result."""
    if moves(call.operator):
        return 0
    packet = call.operator.overloadpacket
    formula = flop_registry.get(_SAME_PRODUCTS.get(packet, packet))
    if formula is not None:
        return int(formula(*call.args, **call.kwargs, out_val=call.result))
    leaves = pytree.tree_leaves((call.args, dict(call.kwargs), call.result))
    return max((leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor)), default=0)


def _storages(values: Any) -> list[torch.UntypedStorage]:
    return [*_storages_of(pytree.tree_leaves(values))]


def _storages_of(leaves: Sequence[Any]) -> Iterator[torch.UntypedStorage]:
    for leaf in leaves:
        # Sparse tensors and those of other layouts have no storage of their own.
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield leaf.untyped_storage()


def _place() -> str:
    """Returns the origin that `SourceLines` has noted for the operator that runs now."""
    return origin_of_trace(torch.fx.traceback.get_current_meta().get("stack_trace")) or "step"
