# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rewrites a graph with extents that depend on tensor values as a graph on all rows (selected_rows.py)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import sympy
import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.interpreters import (
    NodeInterpreter,
    TypeAndShape,
    form_of,
    functional,
    require_declared,
    retraced,
)
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, pytree, torch_decompositions
from repro_mlir.frontends.torch.trace.selected_rows import Dim, Rows, Selected, chosen, extent_of, static
from repro_mlir.frontends.torch.trace.selection_rules import RULES, Call, Number, name_of

aten = torch.ops.aten

_DEEPEST = 8
"""The maximum number of decomposition rounds: the results of a decomposition may be decomposed again."""

_SIZES_ALONE = {
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
}
"""Operators that only record bounds of extents for PyTorch."""

_COMPARISONS = (operator.eq, operator.ne, operator.ge, operator.gt, operator.le, operator.lt)

_OF_NUMBERS: dict[Any, Callable[..., torch.Tensor]] = {
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.neg: torch.neg,
    operator.floordiv: torch.floor_divide,
    operator.mod: torch.remainder,
    operator.pow: torch.pow,
    operator.truediv: lambda one, other: torch.true_divide(
        *(each.to(torch.float64) if isinstance(each, torch.Tensor) else each for each in (one, other))
    ),
    torch.sym_float: lambda number: number.to(torch.float64),
    torch.sym_max: lambda one, other: torch.maximum(*map(torch.as_tensor, (one, other))),
    **{each: getattr(torch, each.__name__) for each in _COMPARISONS},
    torch.sym_min: lambda one, other: torch.minimum(*map(torch.as_tensor, (one, other))),
}
"""Python arithmetic on numbers that depend on tensor values."""


def has_selections(graph: torch.fx.Graph) -> bool:
    """Returns whether an extent or an integer in a graph depends on tensor values, or a mask selects elements.

    A float that depends on tensor values is not an extent: the graph keeps it as a tensor.
    """
    values = ((node, node.meta.get("val")) for node in graph.nodes)
    return any((_depends(value) and not isinstance(value, torch.SymFloat)) or _has_mask(node) for node, value in values)


_INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)


def _has_mask(node: torch.fx.Node) -> bool:
    """Returns whether a node selects by a mask. The node's extents do not always show this: PyTorch treats the number
    of rows as a constant if only one value is possible."""
    if node.target in (aten.masked_select.default, aten.nonzero.default):
        return True
    indices: Any = node.args[1] if node.target in _INDEXED else ()
    return any(each is not None and each.meta["val"].dtype in (torch.bool, torch.uint8) for each in indices)


def _depends(values: Any) -> bool:
    return any(
        isinstance(each, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool) and free_unbacked_symbols(each)
        for each in pytree.tree_leaves(values)
    )


def without_selections(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Returns the graph, rewritten to static shapes. Must be called within `tracing_environment`, so that the nodes
    keep their source lines.

    Args:
      graph: a graph of ATen operators.
      arguments: tensors with the shapes and element types of the graph's arguments.
    Raises:
      CaptureError: a value computed from a selection cannot be computed over all rows, or depends on the row count.
    """
    extents = [extent for each in arguments if isinstance(each, torch.Tensor) for extent in each.shape]
    if any(isinstance(extent, torch.SymInt) for extent in extents):
        first = next(node for node in graph.graph.nodes if _depends(node.meta.get("val")) or _has_mask(node))
        reason = "a shape depends on tensor values: expected static sizes with a mask, got dynamic ones"
        raise located(origin_of_node(first), reason)
    found = functional(graph, arguments)
    for _ in range(_DEEPEST):
        expansion = _Expansion(found)
        if not any(map(expansion.replaces, found.graph.nodes)):
            break
        found = retraced(expansion, arguments)
    return retraced(_OverAllRows(found), arguments)


def _moments(
    x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns variance, standard deviation and mean of the elements along the dimensions."""
    dims = [*range(x.dim())] if not dim else [dim] if isinstance(dim, int) else [*dim]
    # (V1): low precision is rounded once.
    wide = x.float() if x.dtype.itemsize < 4 else x
    mean = wide.mean(dims, keepdim=True)
    count = functools.reduce(operator.mul, [x.shape[each] for each in dims], 1)
    degrees = torch.sym_max(count - (1 if correction is None else correction), 0)
    difference = wide - mean
    variance = (difference * difference).sum(dims, keepdim=keepdim) / degrees
    mean = mean if keepdim else mean.reshape(variance.shape)
    return variance.to(x.dtype), variance.sqrt().to(x.dtype), mean.to(x.dtype)


_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **torch_decompositions,
    aten.var.correction: lambda *args, **kwargs: _moments(*args, **kwargs)[0],
    aten.std.correction: lambda *args, **kwargs: _moments(*args, **kwargs)[1],
    aten.var_mean.correction: lambda *args, **kwargs: _moments(*args, **kwargs)[::2],
    aten.std_mean.correction: lambda *args, **kwargs: _moments(*args, **kwargs)[1:],
}


class _Expansion(NodeInterpreter):
    """Runs a graph. If an operator on selections has no rule, PyTorch's decomposition of the operator runs instead."""

    def replaces(self, node: torch.fx.Node) -> bool:
        if node.target not in _DECOMPOSITIONS or not isinstance(node.target, OpOverload):
            return False
        if not any(_depends(each.meta.get("val")) for each in (node, *node.all_input_nodes)):
            return False
        rule = RULES.get(name_of(node.target))
        return rule is None or (rule.along is not None and _depends(rule.along(node)))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.replaces(self.current):
            return _DECOMPOSITIONS[target](*args, **kwargs)
        return super().call_function(target, args, kwargs)


class _Numbers:
    """Assigns numbers to the nodes of a functional graph.

    Tensors with equal numbers have the same elements in the same order; their shapes may differ.
    """

    _MOVES_NOTHING = {
        getattr(aten, name).default for name in ("view", "_unsafe_view", "reshape", "alias", "detach", "clone")
    } | {aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims}

    def __init__(self, graph: torch.fx.Graph) -> None:
        self._known: dict[Hashable, int] = {}
        self._nodes: dict[torch.fx.Node, int] = {}
        # Iterates rather than recurses, because the graph may be deeper than Python's stack.
        for node in graph.nodes:
            source = node.args[0] if node.target in self._MOVES_NOTHING else None
            self._nodes[node] = self.of(source) if isinstance(source, torch.fx.Node) else self._new(node)

    def of(self, node: torch.fx.Node) -> int:
        return self._nodes[node]

    def _new(self, node: torch.fx.Node) -> int:
        key: Hashable = node
        tags = getattr(node.target, "tags", ())
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded not in tags:
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), self._argument)
            key = node.target, repr(arguments)
        elif node.op == "get_attr":
            key = node.target
        return self._known.setdefault(key, len(self._known))

    def _argument(self, node: torch.fx.Node) -> Any:
        value = node.meta.get("val")
        shape = tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else ()
        return _Argument((self.of(node), shape))


class _Argument(tuple[Any, ...]):
    """A tensor argument in a key. The argument is printed in angle brackets, so that it differs from any number or
    string."""

    def __repr__(self) -> str:
        return f"<{super().__repr__()}>"


class _OverAllRows(NodeInterpreter):
    """Runs a functional graph on `Selected` for selections and `Number` for numbers that depend on tensor values."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        # Keeps all values, because a rule may need the mask of an operator that ran much earlier.
        self.garbage_collect_values = False
        self._numbers = _Numbers(module.graph)
        self._rows: dict[Any, Dim] = {}

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        expected = self.current.meta.get("val")
        given = pytree.tree_leaves((args, kwargs))
        concerns = any(isinstance(each, Selected | Number) for each in given)
        if not concerns and not _depends(expected) and not _has_mask(self.current):
            return super().call_function(target, args, kwargs)
        if target in _SIZES_ALONE:
            return None
        if target is aten._assert_scalar.default:
            source: Any = self.current.args[0]
            is_of_extent = source.args[0].target is aten.sym_size.int
            if not (is_of_extent and source.target is operator.ge and source.args[1] == 0):
                aten._assert_async.msg(args[0].tensor, args[1])
            return None
        result = self._call(target, args, kwargs, expected)
        require_declared(name_of(target), result, expected, _form)
        for each, value in zip(pytree.tree_leaves(expected), pytree.tree_leaves(result), strict=True):
            self._note(each, value)
        return result

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> Any:
        if target is operator.getitem and not isinstance(args[0], Number):
            return args[0][args[1]]
        if target in _OF_NUMBERS:
            plain = [each.tensor if isinstance(each, Number) else each for each in args]
            return Number(_OF_NUMBERS[target](*plain))
        name = name_of(target)
        rule = RULES.get(name) if isinstance(target, OpOverload) else None
        if rule is None:
            raise CaptureError(self._unsupported(name, args, kwargs))
        if not rule.takes_numbers and any(isinstance(each, Number) for each in pytree.tree_leaves((args, kwargs))):
            raise CaptureError(f"an argument of {name} is a number that depends on tensor values: expected a constant")
        call = Call(target, expected, self._dims, self._new_rows, self._rows_of, self.current)
        return rule(call, *args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nodes = pytree.tree_leaves(self.current.args[0])
        for node, value in zip(nodes, pytree.tree_leaves(args[0]), strict=True):
            if isinstance(value, Number):
                raise located(
                    origin_of_node(node),
                    "a result is a number that depends on tensor values: expected the tensor itself, without .item() "
                    "or len()",
                )
            if isinstance(value, Selected):
                # The error names the line of the selection, because the operator that returns the result may be part of
                # the compiled step.
                raise located(
                    next(rows.origin for dim in value.dims for rows in chosen(dim)),
                    "a result is rows that a mask selects, whose number depends on tensor values: expected all rows, "
                    "as by torch.where(mask, x, 0), or a reduction",
                )
        return super().output(target, args, kwargs)

    def _unsupported(self, name: str, args: Any, kwargs: Any) -> str:
        selected = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Selected)]
        choices = [rows for each in selected for dim in each.dims for rows in chosen(dim)]
        if not choices and any(isinstance(each, Number) for each in pytree.tree_leaves((args, kwargs))):
            return f"an argument of {name} is a number that depends on tensor values: use the tensor itself"
        if not choices:
            return f"{name} returns a tensor whose shape depends on tensor values: expected {_REPLACEMENT}"
        place = f" (selected at {choices[0].origin})" if choices[0].origin else ""
        return (
            f"{name} of rows that a mask selects{place}, whose number depends on tensor values: expected operations "
            f"on each row and a reduction, or {_REPLACEMENT}"
        )

    def _note(self, expected: Any, result: Any) -> None:
        """Records which rows the symbols of an extent represent."""
        if isinstance(result, Number) and result.counted is not None and isinstance(expected, torch.SymInt):
            self._rows.setdefault(expected.node.expr, (result.counted,))
        if isinstance(result, Selected) and isinstance(expected, torch.Tensor):
            for extent, dim in zip(expected.shape, result.dims, strict=True):
                if isinstance(extent, torch.SymInt) and chosen(dim):
                    self._rows.setdefault(extent.node.expr, dim)

    def _dims(self, shape: Sequence[Any]) -> tuple[Dim, ...]:
        """Returns the dimensions for a shape of the graph; the factors of an extent are in no particular order."""
        return tuple(map(self._dim, shape))

    def _dim(self, extent: Any) -> Dim:
        if not isinstance(extent, torch.SymInt):
            return static(int(extent))
        expression = extent.node.expr
        if expression in self._rows:
            return self._rows[expression]
        factors: list[int | Rows] = []
        # Selections come first, so that a new tensor has the order of a flattened selection.
        for factor in sorted(sympy.Mul.make_args(expression), key=lambda each: bool(each.is_Integer)):
            if factor in self._rows:
                factors += self._rows[factor]
            elif factor.is_Integer:
                factors.append(int(factor))
            else:
                raise CaptureError(f"a shape depends on tensor values: expected {_REPLACEMENT}")
        return tuple(factors)

    def _rows_of(self, mask: torch.fx.Node) -> Rows:
        return self._new_rows(self.env[mask], "mask", mask)

    def _new_rows(self, which: torch.Tensor, *of: Any) -> Rows:
        """Returns the selection of a mask over all rows.

        Args:
          of: the values from which the selection follows: nodes, and other values that can be compared.
        """
        key = tuple(self._numbers.of(each) if isinstance(each, torch.fx.Node) else each for each in of)
        return Rows(which.reshape([-1]), key, origin_of_node(self.current))


def _form(value: Any) -> TypeAndShape | None:
    """Returns `form_of` a value, with -1 for an extent that depends on tensor values."""
    if isinstance(value, Selected):
        return value.tensor.dtype, tuple(-1 if chosen(dim) else extent_of(dim) for dim in value.dims)
    form = form_of(value)
    return form and (form[0], tuple(-1 if isinstance(extent, torch.SymInt) else extent for extent in form[1]))


_REPLACEMENT = "torch.where(mask, x, 0) on all rows"
