# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces into the functions that PyTorch's control-flow operators call: a program has no branches and no loops.

For a branch on a tensor value, both sides are computed, and the results of the side that is taken are selected. Loops
are unrolled.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import generic_associative_scan, pytree, replace_compile_and_call
from repro_mlir.frontends.torch.trace.branches import run_branch
from repro_mlir.frontends.torch.trace.known_values import KnownValues

MOST_STEPS = 4096
"""The maximum number of iterations of a loop, including those of inner loops. Each iteration is traced, which takes
about a millisecond per operator.
"""


def calls_of_operators() -> contextlib.AbstractContextManager[None]:
    """Within the block, lets operators such as `torch.cond` call their functions directly; PyTorch would pass them to
    torch.compile."""
    return replace_compile_and_call(lambda _: lambda function, args, kwargs=None: function(*args, **(kwargs or {})))


_FILLED: tuple[Any, ...] = (torch.zeros, torch.ones, torch.full)


def make_counters_known(module: torch.fx.GraphModule) -> None:
    """Makes the initial values of loops in a torch.compile graph constants if they are one-element tensors.

    AOTAutograd traces a graph in several modes, and only constants have known values in all of them.
    """
    loops = [node for node in module.graph.nodes if node.target is torch.ops.higher_order.while_loop]
    for node in (each for loop in loops for each in loop.args[2] if isinstance(each, torch.fx.Node)):
        if node.target in _FILLED and not node.all_input_nodes:
            filled: Any = node.target
            value = filled(*node.args, **node.kwargs)
            if value.numel() == 1:
                node.target, node.args, node.kwargs = torch.tensor, (value.tolist(),), {"dtype": value.dtype}
    if loops:
        module.recompile()


class ControlFlow:
    """The control-flow operators of one trace.

    Attributes:
      operators: the replacement of each PyTorch operator, with the same arguments.
    """

    def __init__(self) -> None:
        hop: Any = torch.ops.higher_order
        self.operators: dict[Any, Callable[..., Any]] = {
            hop.cond: self._cond,
            hop.while_loop: self._while_loop,
            hop.scan: self._scan,
            hop.map_impl: self._map,
            hop.associative_scan: self._associative_scan,
        }
        self._known = KnownValues()
        self._taken: list[torch.Tensor] = []
        self._depth = self._steps = 0

    def _truth(self, condition: Any) -> bool | None:
        """Returns whether a condition holds; None if this depends on the values of a step."""
        if not isinstance(condition, torch.Tensor):
            # A condition on sizes has one value for the whole program.
            return bool(condition)
        return self._known.truth(condition)

    def _cond(self, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
        known = self._truth(pred)
        if known is not None:
            return (true_fn if known else false_fn)(*operands)
        taken = pred.reshape(()) != 0
        sides = [self._branch(true_fn, operands, taken), self._branch(false_fn, operands, ~taken)]
        (first, spec), (second, other) = map(pytree.tree_flatten, sides)
        if spec != other:
            raise CaptureError("the branches of cond return results of different structures: expected the same one")
        return pytree.tree_unflatten([_selected(taken, *pair) for pair in zip(first, second, strict=True)], spec)

    def _branch(self, function: Callable[..., Any], operands: Any, taken: torch.Tensor) -> Any:
        # A nested branch is taken only if the enclosing branch is taken too.
        self._taken.append(self._taken[-1] & taken if self._taken else taken)
        try:
            return run_branch(function, operands, self._taken[-1], self.operators)
        finally:
            self._taken.pop()

    def _while_loop(
        self,
        cond_fn: Callable[..., Any],
        body_fn: Callable[..., Any],
        carried: Sequence[Any],
        additional: Sequence[Any] = (),
        **_: Any,
    ) -> tuple[Any, ...]:
        carried = pytree.tree_map_only(torch.Tensor, torch.clone, tuple(carried))
        with self._loop():
            while True:
                known = self._truth(cond_fn(*carried, *additional))
                if known is None:
                    raise CaptureError(
                        "the number of steps of while_loop depends on tensor values: expected a condition that "
                        "follows from constants, such as a comparison of a counter that starts at 0"
                    )
                if not known:
                    return tuple(carried)
                self._step("while_loop")
                carried = body_fn(*carried, *additional)

    def _scan(
        self,
        combine_fn: Callable[..., Any],
        init: Sequence[Any],
        xs: Sequence[torch.Tensor],
        additional_inputs: Sequence[Any] = (),
    ) -> tuple[Any, ...]:
        carried, rows = [*init], []
        with self._loop():
            for each in zip(*(x.unbind(0) for x in xs), strict=True):
                self._step("scan")
                results = pytree.tree_leaves(combine_fn(*carried, *each, *additional_inputs))
                carried, row = results[: len(init)], results[len(init) :]
                rows.append(row)
        return *carried, *(torch.stack(column) for column in zip(*rows, strict=True))

    def _map(self, f: Callable[..., Any], xs: Sequence[torch.Tensor], pos_args: Sequence[Any] = ()) -> Any:
        rows = []
        with self._loop():
            for each in zip(*(x.unbind(0) for x in xs), strict=True):
                self._step("map")
                rows.append(f(*each, *pos_args))
        return pytree.tree_map(lambda *column: torch.stack(column), *rows)

    def _associative_scan(
        self, combine_fn: Callable[..., Any], xs: Sequence[torch.Tensor], additional_inputs: Sequence[Any] = ()
    ) -> Any:
        return generic_associative_scan(combine_fn, xs, additional_inputs=additional_inputs)

    @contextlib.contextmanager
    def _loop(self) -> Iterator[None]:
        if not self._depth:
            self._steps = 0
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _step(self, name: str) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise CaptureError(f"{name} is unrolled: expected at most {MOST_STEPS:,} steps with those of inner loops")


def _selected(taken: torch.Tensor, first: Any, second: Any) -> Any:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        kinds = [f"{str(each.dtype).removeprefix('torch.')}{[*each.shape]}" for each in (first, second)]
        if kinds[0] != kinds[1]:
            raise CaptureError(f"the branches of cond return {kinds[0]} and {kinds[1]}: expected the same type")
        return torch.where(taken, first, second)
    if type(first) is not type(second) or first != second:
        raise CaptureError("the branches of cond return different numbers: expected tensors")
    return first
