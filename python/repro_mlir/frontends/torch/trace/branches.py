# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces one side of a branch on tensor values: this side is computed whether or not it is taken.

A side that is not taken costs time and has no other effect: the caller drops its results, its gradients are replaced by
zeros, its indices are 0, and its assertions hold. The random numbers of a side have their own sites, whether or not the
side is taken.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.recomputation import is_checkpointed
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.base.value_checks import is_assert
from repro_mlir.frontends.torch.trace.written_tensors import written_by

aten = torch.ops.aten

_CHOOSE_ELEMENTS = ("index", "indices", "target", "sorter", "pivots", "LU_pivots")
"""PyTorch's names of operator arguments that contain indices; programs check their bounds (E1)."""

Operators = Mapping[Any, Callable[..., Any]]
"""Maps operators that call functions, such as `torch.cond`, to their replacements."""


def run_branch(function: Callable[..., Any], operands: Sequence[Any], taken: torch.Tensor, operators: Operators) -> Any:
    """Returns the results of a branch.

    Args:
      taken: bool, shape []: whether the branch is taken.
    Raises:
      CaptureError: the branch writes to a tensor that it has not made, or a gradient bypasses the selected operands.
    """
    if torch.is_grad_enabled() and not internals.saved_tensors_hooks_are_enabled():
        raise CaptureError("a branch that depends on tensor values is not supported inside of torch.func.grad")
    own = _OwnMemory()
    gradients = _SelectedGradients(taken, own, operators)
    with _saved_in_bounds(taken), _Checks(taken, own), gradients:
        results = function(*pytree.tree_map_only(torch.Tensor, gradients.select, operands))
    gradients.require_all(each for each in pytree.tree_leaves(results) if isinstance(each, torch.Tensor))
    return results


def _in_bounds(tensor: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
    """Returns the tensor. If the branch is not taken, integers are replaced by zeros, because they may be indices out
    of bounds."""
    if tensor.dtype not in (torch.int64, torch.int32):
        return tensor
    return torch.where(taken, tensor, torch.zeros([], dtype=tensor.dtype))


@contextlib.contextmanager
def _saved_in_bounds(taken: torch.Tensor) -> Iterator[None]:
    """Within the block, autograd saves the result of `_in_bounds` instead of a tensor, because gradients may use saved
    tensors as indices."""
    # Tracing of the hooks is off, because AOTAutograd would defer them until its graph runs.
    former = internals.set_saved_tensors_hooks_tracing(False)
    try:
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: _in_bounds(saved, taken), lambda kept: kept):
            yield
    finally:
        internals.set_saved_tensors_hooks_tracing(former)


class _OwnMemory:
    """The memory of the tensors that a branch makes. This object keeps the memory alive."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def add(self, results: Any, arguments: Any) -> None:
        """Adds the memory of results that are not views of arguments."""
        given = {each.untyped_storage()._cdata for each in _tensors(arguments)}
        for each in _tensors(results):
            storage = each.untyped_storage()
            if storage._cdata not in given:
                self._storages[storage._cdata] = storage

    def remove(self, tensor: torch.Tensor) -> None:
        self._storages.pop(tensor.untyped_storage()._cdata, None)

    def has(self, tensor: torch.Tensor) -> bool:
        """Returns whether the branch made the memory of a tensor."""
        return tensor.untyped_storage()._cdata in self._storages


class _SelectedGradients(TorchFunctionMode):
    """Passes tensors from outside to a branch such that their gradients are zero if the branch is not taken.

    A zero gradient that went through the branch could become NaN, as in 0 * infinity.
    """

    def __init__(self, taken: torch.Tensor, own: _OwnMemory, operators: Operators) -> None:
        super().__init__()
        self._taken = taken
        self._own = own
        self._operators = operators
        self._first = internals.get_sequence_number()
        # The keys are object ids; the values keep the tensors alive, so that ids stay unique.
        self._inside: dict[int, torch.Tensor] = {}
        self._selected: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, self.select, (args, kwargs or {}))
        if function in self._operators:
            # Functions that the operator calls belong to this branch too.
            with self:
                results = self._operators[function](*args, **kwargs)
        else:
            results = function(*args, **kwargs)
        for each in _tensors(results):
            self._inside[id(each)] = each
        return results

    def select(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor that the branch reads instead of a tensor from outside."""
        if id(tensor) in self._inside or not tensor.requires_grad or not torch.is_grad_enabled():
            return tensor
        if id(tensor) not in self._selected:
            selected = torch.where(self._taken, tensor, tensor.detach())
            self._own.remove(selected)
            self._selected[id(tensor)] = tensor, selected
            self._inside[id(selected)] = selected
        return self._selected[id(tensor)][1]

    def require_all(self, results: Iterable[torch.Tensor]) -> None:
        """Raises a CaptureError if a gradient of `results` flows to a tensor from outside the branch other than through
        a result of `select`.
        """
        seen = {selected.grad_fn for _, selected in self._selected.values()}
        rest = [each.grad_fn for each in results if each.grad_fn is not None]
        rest = [node for node in rest if node._sequence_nr() >= self._first]
        while rest:
            node: Any = rest.pop()
            if node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if node._sequence_nr() < self._first or (leaf is not None and id(leaf) not in self._inside):
                raise CaptureError(
                    "a branch that depends on tensor values passes a tensor from outside of the branch to an autograd "
                    "function: make the tensor an operand of the branch"
                )
            rest += [each for each, _ in node.next_functions if each is not None]


class _Checks(internals.TorchDispatchMode):
    """Prevents failures of checks in a branch that is not taken, and refuses writes to tensors from outside."""

    def __init__(self, taken: torch.Tensor, own: _OwnMemory) -> None:
        super().__init__()
        self._taken = taken
        self._own = own

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Disables function modes: they would also intercept these operators, which are already below autograd.
        with internals.DisableTorchFunction():
            return self._call(function, args, kwargs or {})

    def _call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_checkpointed(run_branch.__code__):
            # The recomputation would run as if the branch were taken.
            raise CaptureError(
                "torch.utils.checkpoint within a branch that depends on tensor values is not supported: call it "
                "outside of the branch"
            )
        if is_assert(function):
            return function((args[0] != 0) | ~self._taken, *args[1:], **kwargs)
        for each in written_by(function, args, kwargs):
            if not self._own.has(each):
                raise CaptureError(
                    f"a branch that depends on tensor values writes to a tensor from outside of the branch by "
                    f"{function}: return the new value from the branch"
                )
        given = zip((argument.name for argument in function._schema.arguments), args, strict=False)
        guarded = tuple(self._guarded(name, function, value) for name, value in given)
        kwargs = {name: self._guarded(name, function, value) for name, value in kwargs.items()}
        results = function(*guarded, **kwargs)
        self._own.add(results, (args, kwargs))
        return results

    def _guarded(self, name: str, function: Any, value: Any) -> Any:
        if name in _CHOOSE_ELEMENTS:
            return pytree.tree_map_only(torch.Tensor, lambda index: _in_bounds(index, self._taken), value)
        if name == "mask" and function.overloadpacket in (aten.masked_scatter, aten.masked_scatter_):
            # The operator reads one element of its source per true element of the mask: none if the branch is not
            # taken.
            return value & self._taken
        return value


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
