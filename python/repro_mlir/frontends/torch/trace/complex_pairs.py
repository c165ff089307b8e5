# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces the complex tensors of a graph by pairs of real ones (Z1), before the graph is decomposed.

A complex argument or result of the graph is a real tensor with a last dimension of 2, as from `torch.view_as_real`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base import torch_internals as internals
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
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.operators import complex_functions, fourier
from repro_mlir.frontends.torch.operators.complex_functions import Pair

aten = torch.ops.aten

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def has_complex(graph: torch.fx.Graph) -> bool:
    """Returns whether any value in a graph is complex."""
    return any(_is_complex(value) for node in graph.nodes for value in pytree.tree_leaves(node.meta.get("val")))


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def as_real(value: Any) -> Any:
    """Returns the real tensor that represents a complex tensor in a program; returns any other value unchanged."""
    if not _is_complex(value):
        return value
    if value.dtype not in _REAL:
        found = str(value.dtype).removeprefix("torch.")
        raise CaptureError(f"expected one of the complex types complex64 and complex128, got {found}")
    return torch.view_as_real(value.resolve_conj().resolve_neg())


def without_complex(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Returns the graph, rewritten to real tensors. Must be called within `tracing_environment`, so that the nodes keep
    their source lines.

    Args:
      graph: a graph of ATen operators.
      arguments: tensors with the shapes and element types of the graph's arguments.
    Returns:
      a graph whose complex arguments and results are converted by `as_real`; operators without complex tensors are
      unchanged.
    Raises:
      CaptureError: an operator is not defined on pairs.
    """
    for node in graph.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if _is_complex(value) and value.dtype not in _REAL:
                found = str(value.dtype).removeprefix("torch.")
                raise located(origin_of_node(node) or "the program", f"complex type {found} is not supported")
    return retraced(_OnPairs(functional(graph, arguments, _decompositions())), [*map(as_real, arguments)])


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns PyTorch's decompositions of the operators that have no rule in this module; they apply only to complex
    tensors."""

    def for_complex(function: Callable[..., Any]) -> Callable[..., Any]:
        def decompose(*args: Any, **kwargs: Any) -> Any:
            if any(map(_is_complex, pytree.tree_leaves((args, kwargs)))):
                return function(*args, **kwargs)
            return NotImplemented

        return decompose

    return {
        operator: for_complex(function)
        for operator, function in internals.torch_decompositions.items()
        if isinstance(operator, internals.OpOverload) and not _has_rule(operator)
    }


def _has_rule(operator: Any) -> bool:
    name = _name(operator)
    return operator.overloadpacket in _PARTWISE or name in complex_functions.RULES or name in _RULES


def _name(operator: Any) -> str:
    schema = getattr(operator, "_schema", None)
    return schema.name.removeprefix("aten::") if schema is not None else str(operator)


class _OnPairs(NodeInterpreter):
    """Runs a functional graph; complex values in it are `Pair`s."""

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = super().placeholder(target, args, kwargs)
        return _split(given) if _is_complex(self.current.meta.get("val")) else given

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = super().get_attr(target, args, kwargs)
        if not _is_complex(given):
            return given
        # The parts become constants of the new graph, so no operator computes them from the complex constant.
        with internals.disable_current_modes():
            parts = as_real(given).unbind(-1)
            made = [part.clone(memory_format=torch.contiguous_format) for part in parts]
        return Pair(*made)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return pytree.tree_map(_joined, super().output(target, args, kwargs))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        expected = self.current.meta.get("val")
        leaves = pytree.tree_leaves((args, kwargs))
        if not any(isinstance(leaf, Pair) for leaf in leaves) and not any(
            map(_is_complex, pytree.tree_leaves(expected))
        ):
            return super().call_function(target, args, kwargs)
        if not isinstance(target, internals.OpOverload):
            # The call reads an element of a list.
            return super().call_function(target, args, kwargs)
        found = self._call(target, args, kwargs, expected)
        if found is NotImplemented:
            name = str(target).removesuffix(".default")
            raise CaptureError(f"operator {name} is not supported on complex numbers")
        require_declared(target, found, expected, _form)
        return found

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> Any:
        name = _name(target)
        if name == "copy_":
            # The operator writes to an argument, which is a pair here.
            self._write(args[0], args[1])
            return args[0]
        if rule := _RULES.get(name):
            return rule(expected, *args, **kwargs)
        if rule := complex_functions.RULES.get(name):
            return rule(*args, **kwargs)
        if name.startswith("as_strided"):
            # Memory offsets of the complex tensor are valid for its parts only if it is contiguous.
            if not self.current.all_input_nodes[0].meta["val"].is_contiguous():
                return NotImplemented
            args = (args[0].map(_contiguous), *args[1:])
        if target.overloadpacket in _PARTWISE:
            return _by_parts(target, args, kwargs, expected)
        return NotImplemented

    def _write(self, argument: Any, value: Any) -> None:
        node = self.current.args[0]
        assert isinstance(node, torch.fx.Node) and node.op == "placeholder"
        position = [each for each in node.graph.nodes if each.op == "placeholder"].index(node)
        self._given[position].copy_(_joined(value) if isinstance(argument, Pair) else value)

    def run(self, *arguments: Any, **options: Any) -> Any:
        self._given = arguments
        return super().run(*arguments, **options)


def _form(value: Any) -> TypeAndShape | None:
    if not isinstance(value, Pair):
        return form_of(value)
    re, im = form_of(value.re), form_of(value.im)
    if re != im:
        raise CaptureError(f"the parts of a complex tensor differ: {re} and {im}")
    return next(kind for kind, part in _REAL.items() if part is value.re.dtype), tuple(value.re.shape)


def _contiguous(part: torch.Tensor) -> torch.Tensor:
    return part.clone(memory_format=torch.contiguous_format)


def _split(value: torch.Tensor) -> Pair:
    return Pair(value.select(-1, 0), value.select(-1, 1))


def _joined(value: Any) -> Any:
    return torch.stack([value.re, value.im], -1) if isinstance(value, Pair) else value


# --- Operators that move or add numbers: each part by itself ---

_PARTWISE = {
    getattr(aten, name)
    for name in """
    view _unsafe_view reshape permute t transpose expand squeeze unsqueeze select slice slice_backward select_backward
    slice_scatter select_scatter diagonal diagonal_copy diagonal_backward diagonal_scatter alias clone detach
    lift_fresh_copy lift_fresh index index_select gather flip roll tril triu repeat unbind split split_with_sizes unfold
    unfold_backward as_strided as_strided_scatter scatter scatter_add index_put index_add index_copy sum mean cumsum neg
    cat stack where zeros zeros_like new_zeros empty empty_like new_empty new_empty_strided empty_strided copy
    constant_pad_nd masked_fill fill full full_like new_full scalar_tensor index_fill masked_scatter take put trace
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    ones ones_like new_ones view_copy permute_copy expand_copy unsqueeze_copy squeeze_copy slice_copy select_copy
    transpose_copy t_copy unbind_copy split_copy split_with_sizes_copy alias_copy detach_copy unfold_copy
    as_strided_copy
    reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward pixel_shuffle pixel_unshuffle _reshape_alias
    _efficientzerotensor empty_permuted nansum repeat_interleave index_reduce channel_shuffle rot90 block_diag
    """.split()
    if hasattr(aten, name)
}

_NUMBERS = {
    "constant_pad_nd": (2, "value"),
    "masked_fill": (2, "value"),
    "fill": (1, "value"),
    "full": (1, "fill_value"),
    "full_like": (1, "fill_value"),
    "new_full": (2, "fill_value"),
    "scalar_tensor": (0, "s"),
    "index_fill": (3, "value"),
    "scatter": (3, "value"),
    "where": (1, "self"),
}
"""Operators that may accept a number as a value, each with the position and name of that argument."""

_SAME_TYPE = ("cat", "stack", "where", "copy", "fill")
"""Operators that may combine complex tensors with real ones, in any tensor argument except a condition."""


def _by_parts(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> Any:
    name = _name(target)
    dtypes = [value.dtype for value in pytree.tree_leaves(expected) if isinstance(value, torch.Tensor)]
    dtype = next((_REAL[each] for each in dtypes if each in _REAL), None)
    position, keyword = _NUMBERS.get(name, (-1, ""))

    def part(value: Any, imaginary: bool, is_value: bool) -> Any:
        if isinstance(value, Pair):
            return value.im if imaginary else value.re
        if isinstance(value, torch.dtype):
            return _REAL.get(value, value)
        if isinstance(value, complex):
            return value.imag if imaginary else value.real
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or is_value):
            value = value if dtype is None else value.to(dtype)
            return torch.zeros_like(value) if imaginary else value
        if is_value and imaginary and isinstance(value, bool | int | float):
            return type(value)(0)
        return value

    def call(imaginary: bool) -> Any:
        positional = [
            pytree.tree_map(lambda leaf, i=i: part(leaf, imaginary, i == position or _is_value(name, i, leaf)), value)
            for i, value in enumerate(args)
        ]
        named = {
            key: pytree.tree_map(lambda leaf, key=key: part(leaf, imaginary, key in (keyword, "other")), value)
            for key, value in kwargs.items()
        }
        if dtype is not None and "dtype" in named and named["dtype"] is None:
            named["dtype"] = dtype
        if imaginary and name in ("ones", "ones_like", "new_ones"):
            return torch.zeros_like(target(*positional, **named))
        return target(*positional, **named)

    re, im = call(False), call(True)
    return pytree.tree_map(Pair, re, im)


def _is_value(name: str, position: int, leaf: Any) -> bool:
    """Returns whether an argument that is not a pair is an operand, as opposed to a condition or a parameter."""
    if name == "where":
        return position > 0
    return name in _SAME_TYPE and isinstance(leaf, torch.Tensor)


# --- Operators that need the expected element type ---


def _copy_to(expected: Any, x: Any, **options: Any) -> Any:
    options.pop("dtype", None)
    if _is_complex(expected):
        kind = _REAL[expected.dtype]
        x = complex_functions.lifted(x)
        return Pair(x.re.to(kind), x.im.to(kind)).map(torch.clone)
    # PyTorch drops the imaginary part; a bool is true if either part is not zero.
    if expected.dtype is torch.bool:
        return (x.re != 0) | (x.im != 0)
    return x.re.to(expected.dtype).clone()


def _transform(expected: Any, x: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    x = complex_functions.lifted(x)
    return Pair(*fourier.complex_to_complex(x.re, x.im, dim, normalization, forward))


def _transform_real(expected: Any, x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    return Pair(*fourier.real_to_complex(x, dim, normalization, onesided))


def _transform_back(expected: Any, x: Pair, dim: Sequence[int], normalization: int, last_dim_size: int) -> torch.Tensor:
    return fourier.complex_to_real(x.re, x.im, dim, normalization, last_dim_size)


def _view_dtype(expected: Any, x: Any, dtype: torch.dtype) -> Any:
    if isinstance(x, Pair) and dtype is x.re.dtype:
        return torch.stack([x.re, x.im], -1).flatten(-2)
    if not isinstance(x, Pair) and _REAL.get(dtype) is x.dtype:
        halves = x.unflatten(-1, (x.shape[-1] // 2, 2))
        return Pair(halves.select(-1, 0), halves.select(-1, 1))
    return NotImplemented


def _linspace(expected: Any, start: Any, end: Any, steps: int, **_: Any) -> Any:
    kind = _REAL[expected.dtype]
    first, last = complex_functions.lifted_number(start), complex_functions.lifted_number(end)
    return Pair(*(torch.linspace(a, b, steps, dtype=kind) for a, b in zip(first, last, strict=True)))


def _view(expected: Any, x: Pair, size: Any, *rest: Any) -> Any:
    if isinstance(size, torch.dtype):
        return _view_dtype(expected, x, size)
    return _by_parts(aten.view.default, (x, size), {}, expected)


_RULES: dict[str, Callable[..., Any]] = {
    "_to_copy": _copy_to,
    "_fft_c2c": _transform,
    "_fft_r2c": _transform_real,
    "_fft_c2r": _transform_back,
    "linspace": _linspace,
    "view": _view,
}
