# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces the unsigned integers of a graph by signed ones (V1), before the graph is decomposed.

A program keeps the bits of an unsigned tensor in the signed type of the same width. Operators that move elements work
on the bits. Other operators compute in a wider signed type, and their unsigned results are truncated to the original
width.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.interpreters import NodeInterpreter, functional, retraced
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, disable_current_modes, pytree
from repro_mlir.frontends.torch.operators import wide_integers

aten = torch.ops.aten

HELD = {
    torch.uint8: torch.int8,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}
"""Maps each unsigned type to the signed type that keeps its bits."""

_WIDE = {torch.uint8: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}
"""Maps an unsigned type to a signed type that represents all its numbers; there is none for uint64."""


def is_unsigned(value: Any) -> bool:
    """Returns whether a value is a tensor of unsigned integers."""
    return isinstance(value, torch.Tensor) and value.dtype in HELD


def has_unsigned(graph: torch.fx.Graph) -> bool:
    """Returns whether any value in a graph is unsigned."""
    return any(is_unsigned(value) for node in graph.nodes for value in pytree.tree_leaves(node.meta.get("val")))


def as_signed(value: Any) -> Any:
    """Returns an unsigned tensor as the signed one with its bits and memory; returns other values unchanged."""
    return value.view(HELD[value.dtype]) if is_unsigned(value) else value


def without_unsigned(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Returns the graph, rewritten to signed integers. Must be called within `tracing_environment`, so that the nodes
    keep their source lines.

    Args:
      graph: a graph of ATen operators.
      arguments: tensors with the shapes and element types of the graph's arguments.
    Returns:
      a graph whose unsigned arguments and results are converted by `as_signed`.
    Raises:
      CaptureError: an operator is not defined on unsigned integers.
    """
    return retraced(_OnSigned(functional(graph, arguments)), [*map(as_signed, arguments)])


@dataclass(frozen=True)
class _Unsigned:
    """An unsigned tensor of the original graph, represented by its bits."""

    bits: torch.Tensor
    dtype: torch.dtype

    def numbers(self) -> torch.Tensor:
        """Returns the numbers in a wider signed type."""
        if self.dtype not in _WIDE:
            raise CaptureError("the operator is not supported on uint64")
        return self.bits.to(_WIDE[self.dtype]) & _greatest(self.dtype)


def _greatest(dtype: torch.dtype) -> int:
    return (1 << 8 * dtype.itemsize) - 1


def _cut(value: torch.Tensor, dtype: torch.dtype) -> _Unsigned:
    """Converts numbers to an unsigned type: integers wrap, floats saturate (S3)."""
    if not value.is_floating_point():
        return _Unsigned(value.to(HELD[dtype]), dtype)
    if dtype is torch.uint64:
        return _Unsigned(wide_integers.of_float(value), dtype)
    return _Unsigned(torch.clamp(value.to(_WIDE[dtype]), 0, _greatest(dtype)).to(HELD[dtype]), dtype)


def _is_unsigned(value: Any) -> bool:
    return isinstance(value, _Unsigned)


class _OnSigned(NodeInterpreter):
    """Runs a functional graph; unsigned tensors in it are `_Unsigned`."""

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = super().placeholder(target, args, kwargs)
        former = self.current.meta.get("val")
        if isinstance(former, torch.Tensor) and former.dtype in HELD:
            return _Unsigned(given, former.dtype)
        return given

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = super().get_attr(target, args, kwargs)
        if not is_unsigned(given):
            return given
        # The bits become a constant of the new graph, so no operator computes them from the unsigned constant.
        with disable_current_modes():
            bits = as_signed(given).clone()
        return _Unsigned(bits, given.dtype)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        results = super().output(target, args, kwargs)
        return pytree.tree_map(lambda value: value.bits if _is_unsigned(value) else value, results)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        expected = self.current.meta.get("val")
        leaves = pytree.tree_leaves((args, kwargs))
        concerns = any(_is_unsigned(leaf) or leaf in HELD for leaf in leaves if isinstance(leaf, _CONCERNED))
        if target is operator.getitem or not (concerns or any(map(is_unsigned, pytree.tree_leaves(expected)))):
            return super().call_function(target, args, kwargs)
        try:
            return self._call(target, args, kwargs, expected)
        except CaptureError as error:
            raise CaptureError(f"{str(target).removesuffix('.default')}: {error}") from None

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> Any:
        name = target._schema.name.removeprefix("aten::") if isinstance(target, OpOverload) else str(target)
        if rule := _RULES.get(name):
            found = rule(expected, *args, **kwargs)
            if found is not NotImplemented:
                return found
        leaves = pytree.tree_leaves((args, kwargs))
        results = {value.dtype for value in pytree.tree_leaves(expected) if isinstance(value, torch.Tensor)}
        given = {leaf.dtype for leaf in leaves if _is_unsigned(leaf)}
        if name in _MOVED and given and given == results:
            moved = target(*pytree.tree_map(_bits, args), **pytree.tree_map(_bits, kwargs))
            return pytree.tree_map(lambda value, former: _Unsigned(value, former.dtype), moved, expected)
        if name in _OF_ONE_KIND:
            args = self._of_one_kind(args, expected.dtype)
            given = {leaf.dtype for leaf in args if _is_unsigned(leaf)}
        if torch.uint64 in given | results and (wide := wide_integers.RULES.get(name)):
            found = wide(*pytree.tree_map(_bits, args), **pytree.tree_map(_bits, kwargs))
        elif name in _BY_FLOATS and torch.uint32 not in given:
            found = target(*pytree.tree_map(_float, args), **pytree.tree_map(_float, kwargs))
        else:
            found = target(*pytree.tree_map(_number, args), **pytree.tree_map(_number, kwargs))
        return pytree.tree_map(_as_expected, found, expected)

    def _of_one_kind(self, args: tuple[Any, ...], result: torch.dtype) -> tuple[Any, ...]:
        """Returns the operands. If PyTorch computes in a float or unsigned type, the operands are converted to this
        type; in an unsigned type, numbers wrap."""
        formers: list[Any] = [
            each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in self.current.args
        ]
        with disable_current_modes():
            like: list[Any] = [
                torch.empty([1] * former.dim(), dtype=former.dtype, device="meta")
                if isinstance(former, torch.Tensor)
                else former
                for former in formers
                if former is not None
            ]
            kind = functools.reduce(torch.promote_types, (torch.result_type(like[0], other) for other in like[1:]))
        if result.is_floating_point or kind.is_floating_point:
            # True division of integers computes in floats.
            kind = kind if kind.is_floating_point else result
            return (*(_converted(value, kind) if _is_unsigned(value) else value for value in args),)
        if kind not in HELD:
            return args

        def wrapped(value: Any) -> Any:
            if isinstance(value, int):
                number = int(value) & _greatest(kind)
                return number - (1 << 64) if kind is torch.uint64 and number >> 63 else number
            if isinstance(value, _Unsigned):
                return _converted(value, kind)
            return _cut(value, kind) if isinstance(value, torch.Tensor) else value

        return (*map(wrapped, args),)


_CONCERNED = (_Unsigned, torch.dtype)


def _bits(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return HELD.get(value, value)
    return value.bits if _is_unsigned(value) else value


def _number(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        if value is torch.uint64:
            raise CaptureError("the operator is not supported on uint64")
        return _WIDE.get(value, value)
    return value.numbers() if _is_unsigned(value) else value


def _float(value: Any) -> Any:
    # f32 represents all integers of up to 16 bits.
    return value.numbers().to(torch.float32) if _is_unsigned(value) else value


def _as_expected(found: Any, former: Any) -> Any:
    """Converts a result to the type that it has in the original graph."""
    if is_unsigned(former):
        return _cut(found, former.dtype)
    if isinstance(former, torch.Tensor) and found.dtype is not former.dtype:
        return found.to(former.dtype)
    return found


# --- Operators that have a rule of their own ---


def _converted(x: Any, dtype: torch.dtype) -> Any:
    """Converts a tensor or an `_Unsigned` to another type."""
    if not _is_unsigned(x):
        return _cut(x, dtype) if dtype in HELD else x.to(dtype)
    if dtype is torch.bool or (not dtype.is_floating_point and dtype.itemsize <= x.dtype.itemsize):
        bits = x.bits.to(HELD.get(dtype, dtype))
        return _Unsigned(bits, dtype) if dtype in HELD else bits
    if x.dtype is torch.uint64:
        return wide_integers.to_float(x.bits, dtype)
    return _cut(x.numbers(), dtype) if dtype in HELD else x.numbers().to(dtype)


def _copy_to(expected: Any, x: Any, **_: Any) -> Any:
    found = _converted(x, expected.dtype)
    return _Unsigned(found.bits.clone(), found.dtype) if _is_unsigned(found) else found.clone()


def _view(expected: Any, x: Any, size: Any) -> Any:
    if not isinstance(size, torch.dtype):
        return NotImplemented
    if x.dtype is torch.bool and size.itemsize == 1:
        # A bool is stored as 0 or 1, so the conversion has the bits of the view.
        return _converted(x, size)
    viewed = aten.view.dtype(_bits(x), HELD.get(size, size))
    return _Unsigned(viewed, size) if size in HELD else viewed


def _where(expected: Any, condition: Any, *values: Any) -> Any:
    condition = condition.bits != 0 if _is_unsigned(condition) else condition
    if not is_unsigned(expected):
        return aten.where.self(condition, *(_converted(_tensor(each), expected.dtype) for each in values))
    given = (_converted(_tensor(each), expected.dtype).bits for each in values)
    return _Unsigned(aten.where.self(condition, *given), expected.dtype)


def _tensor(value: Any) -> Any:
    if isinstance(value, int):
        return torch.full([], value, dtype=torch.int64)
    return torch.full([], value) if isinstance(value, float) else value


def _copy(expected: Any, to: Any, source: Any, *_: Any, **__: Any) -> Any:
    found = _converted(source, expected.dtype)
    given = found.bits if _is_unsigned(found) else found
    target = to.bits if _is_unsigned(to) else to
    return _as_expected(aten.copy.default(target, given), expected)


def _write(expected: Any, to: Any, source: Any, *_: Any) -> Any:
    # The operator writes to an argument, which consists of bits here.
    target = to.bits if _is_unsigned(to) else to
    target.copy_(_bits(_converted(source, expected.dtype)))
    return to


def _no_masks(expected: Any, x: Any, indices: Any, *_: Any, **__: Any) -> Any:
    if any(_is_unsigned(each) for each in indices):
        raise CaptureError("expected indices of int64, int32 or bool, got unsigned ones")
    return NotImplemented


_RULES: dict[str, Callable[..., Any]] = {
    "_to_copy": _copy_to,
    "view": _view,
    "where": _where,
    "copy": _copy,
    "copy_": _write,
    "index": _no_masks,
    "index_put": _no_masks,
    "_unsafe_index": _no_masks,
}

_MOVED = frozenset(
    """
    view _unsafe_view reshape permute t transpose expand squeeze unsqueeze select slice slice_scatter select_scatter
    diagonal diagonal_copy diagonal_scatter alias clone detach lift_fresh_copy lift_fresh index _unsafe_index
    index_select gather flip roll repeat unbind split split_with_sizes unfold as_strided as_strided_scatter cat stack
    view_copy permute_copy expand_copy unsqueeze_copy squeeze_copy slice_copy select_copy transpose_copy t_copy
    unbind_copy split_copy split_with_sizes_copy alias_copy detach_copy unfold_copy as_strided_copy
    pixel_shuffle pixel_unshuffle _reshape_alias repeat_interleave channel_shuffle rot90 take
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d
    """.split()
)
"""Operators whose results contain elements of their operands, unchanged."""

_OF_ONE_KIND = frozenset(
    """
    add sub rsub mul div floor_divide remainder fmod maximum minimum fmax fmin eq ne lt le gt ge pow bitwise_and
    bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ gcd lcm
    logical_and logical_or logical_xor clamp clamp_min clamp_max threshold
    """.split()
)
"""Operators that convert their operands to one type."""

_BY_FLOATS = frozenset("max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices".split())
"""Operators that choose among elements and that the lowering supports for floats only."""
