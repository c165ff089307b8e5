# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rules for ATen operators on tensors in which only some rows count (selected_rows.py).

Elements that do not count may contain anything. Elementwise and row-wise operators leave these elements in place.
Operators that combine rows first replace these elements by a neutral element, which keeps NaN out of sums and their
gradients.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, dispatch_operator_names, pytree
from repro_mlir.frontends.torch.trace.selected_rows import (
    Coordinates,
    Dim,
    Rows,
    Selected,
    broadcast,
    chosen,
    extent_of,
    mismatch,
    regrouped,
    same,
    static,
)

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Number:
    """A Python number that depends on tensor values, as a tensor of shape [].

    Attributes:
      counted: the rows that the number counts, if it is a number of rows.
    """

    tensor: torch.Tensor
    counted: Rows | None = None


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    Attributes:
      target: the operator.
      expected: the fake results of the call in the graph.
      dims: a function that returns the dimensions for a shape in the graph.
      new_rows: a function that returns the `Rows` for a mask over all rows and for the values from which the mask
        follows.
      rows_of: a function that returns the `Rows` for a mask, given as a node of the graph.
      node: the node of the call.
    """

    target: Any
    expected: Any
    dims: Callable[[Sequence[Any]], tuple[Dim, ...]]
    new_rows: Callable[..., Rows]
    rows_of: Callable[[torch.fx.Node], Rows]
    node: torch.fx.Node


@dataclass(frozen=True)
class Rule:
    """The rule of an operator.

    Attributes:
      apply: a function that receives a `Call` and the operator's arguments, and returns the results.
      along: a function that returns the extents along which the operator combines elements. If one of them depends on
        tensor values, the operator is decomposed.
      takes_numbers: whether an argument may be a `Number`.
    """

    apply: Callable[..., Any]
    along: Callable[[torch.fx.Node], Any] | None = None
    takes_numbers: bool = False

    def __call__(self, call: Call, *args: Any, **kwargs: Any) -> Any:
        return self.apply(call, *args, **kwargs)


def name_of(target: Any) -> str:
    """Returns the name of an operator without its namespace and overload."""
    if isinstance(target, OpOverload):
        return target._schema.name.partition("::")[2]
    return getattr(target, "__name__", str(target))


def _dims(value: Any) -> tuple[Dim, ...]:
    return value.dims if isinstance(value, Selected) else tuple(static(int(extent)) for extent in value.shape)


def _raw(value: Any) -> Any:
    return value.tensor if isinstance(value, Selected | Number) else value


def _filled(value: Any, fill: float, only: Sequence[int] | None = None) -> torch.Tensor:
    return value.filled(fill, only) if isinstance(value, Selected) else value


def _made(tensor: torch.Tensor, dims: Sequence[Dim]) -> Any:
    """Returns `tensor` as a result with these dimensions: a plain tensor if no dimension has a selection."""
    return Selected(tensor, tuple(dims)) if any(map(chosen, dims)) else tensor


def _position(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim


def _positions(dims: Any, rank: int) -> list[int]:
    """Returns the dimensions that a reduction reduces; `dims` None or empty: all."""
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return [*range(rank)]
    return [_position(dim, rank) for dim in ([dims] if isinstance(dims, int) else dims)]


def _concerns(value: Any, dims: Sequence[int]) -> bool:
    return isinstance(value, Selected) and any(chosen(value.dims[dim]) for dim in dims)


# --- Element by element ---


def _pointwise(call: Call, *args: Any, **kwargs: Any) -> Any:
    leaves, spec = pytree.tree_flatten((args, kwargs))
    dims = broadcast([_dims(each) for each in leaves if isinstance(each, torch.Tensor | Selected)] or [()])
    if name_of(call.target) in _DIVISIONS and isinstance(args[1], Selected) and not args[1].tensor.is_floating_point():
        # In the rows that do not count, the divisor may be 0, and the division would fail.
        leaves[1] = args[1].filled(1)
    target = call.target.overloadpacket if any(isinstance(each, Number) for each in leaves) else call.target
    args, kwargs = pytree.tree_unflatten([*map(_raw, leaves)], spec)
    result = target(*args, **kwargs)
    if target is not call.target:
        result = result.to(call.expected.dtype)
    return pytree.tree_map_only(torch.Tensor, lambda each: _made(each, dims), result)


_DIVISIONS = ("div", "floor_divide", "remainder", "fmod")


def _copy(call: Call, target: Any, source: Any, *_: Any) -> Any:
    dims = _dims(target)
    if [*map(len, broadcast([dims, _dims(source)]))] != [*map(len, dims)]:
        raise CaptureError("rows that a mask selects are copied to a tensor of another shape: expected the same mask")
    raw = _raw(target)
    return _made(_raw(source).to(raw.dtype).expand(raw.shape), dims)


def _like(call: Call, value: Any, *args: Any, **kwargs: Any) -> Any:
    return _made(call.target(_raw(value), *args, **kwargs), _dims(value))


def _sized(call: Call, *args: Any, **kwargs: Any) -> Any:
    """Creates a new tensor, whose sizes are an argument of the operator."""
    dims = call.dims(call.expected.shape)
    sizes = [extent_of(dim) for dim in dims]
    if name_of(call.target) in ("full", "new_full") and isinstance(args[-1], Number):
        return _made(args[-1].tensor.to(call.expected.dtype).expand(sizes), dims)
    given = [sizes if isinstance(each, list | tuple) else _raw(each) for each in args]
    return _made(call.target(*given, **kwargs), dims)


def _arange(call: Call, *args: Any, **kwargs: Any) -> Any:
    (dim,) = call.dims(call.expected.shape)
    if len(args) > 2 or (len(args) == 2 and args[0] != 0) or len(dim) != 1 or not isinstance(dim[0], Rows):
        raise CaptureError("a shape depends on tensor values: expected torch.arange over all rows")
    return Selected((dim[0].which.cumsum(0) - 1).to(call.expected.dtype), (dim,), numbers=dim[0])


# --- Shapes ---


def _reshape(call: Call, value: Any, *_: Any) -> Any:
    shape: list[Dim | None] = []
    for extent in call.expected.shape:
        try:
            shape += call.dims([extent])
        except CaptureError:
            shape.append(None)
    dims = regrouped(_dims(value), shape) if shape.count(None) < 2 else None
    if dims is None:
        raise CaptureError("a reshape divides or joins rows that a mask selects: expected whole rows")
    reshaped = _made(_raw(value).reshape([*map(extent_of, dims)]), dims)
    coordinates = value.coordinates if isinstance(value, Selected) else None
    if coordinates is not None and coordinates.mask.dim() == 1 and len(dims) == 1:
        # The elements are positions along the mask's only dimension.
        return Selected(reshaped.tensor, dims, replace(coordinates, axis=0))
    return reshaped


def _same_elements(call: Call, value: Any, *args: Any, **kwargs: Any) -> Any:
    result = call.target(_raw(value), *args, **kwargs)
    return Selected(result, value.dims, value.coordinates) if isinstance(value, Selected) else result


def _expand(call: Call, value: Any, *_: Any, **__: Any) -> Any:
    wanted = call.dims(call.expected.shape)
    own = [(), *[()] * (len(wanted) - len(_dims(value)) - 1), *_dims(value)][-len(wanted) :] if wanted else []
    dims = [mine or given for mine, given in zip(own, wanted, strict=True)]
    return _made(_raw(value).expand([*map(extent_of, dims)]), dims)


def _permute(call: Call, value: Any, order: Sequence[int]) -> Any:
    places = [_position(dim, len(value.dims)) for dim in order]
    return _made(value.tensor.permute(places), [value.dims[place] for place in places])


def _transpose(call: Call, value: Any, one: int = 0, other: int = 1) -> Any:
    order = [*range(len(value.dims))]
    if order[1:]:
        one, other = _position(one, len(order)), _position(other, len(order))
        order[one], order[other] = order[other], order[one]
    return _permute(call, value, order)


def _row_wise(call: Call, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies an operator whose results have the rows of its first argument in the same positions."""
    return pytree.tree_map_only(
        torch.Tensor, lambda each: _made(each, _kept(value, each)), call.target(_raw(value), *args, **kwargs)
    )


def _kept(value: Any, result: torch.Tensor) -> list[Dim]:
    return [dim if chosen(dim) else static(int(extent)) for dim, extent in zip(_dims(value), result.shape, strict=True)]


def _require_static(value: Any, dim: int, what: str) -> int:
    place = _position(dim, len(_dims(value)))
    if _concerns(value, [place]):
        raise CaptureError(
            f"{what} of rows that a mask selects, whose number depends on tensor values: expected operations on each "
            "row and a reduction, or torch.where(mask, x, 0) on all rows"
        )
    return place


def _along(default: int = -1, argument: int = 1) -> Callable[..., Any]:
    """Returns the rule of an operator that works along one dimension and computes each row independently."""

    def apply(call: Call, value: Any, *args: Any, **kwargs: Any) -> Any:
        dim = args[argument - 1] if len(args) >= argument else kwargs.get("dim", default)
        _require_static(value, dim, f"{name_of(call.target)} along the number")
        return _row_wise(call, value, *args, **kwargs)

    return apply


def _select(call: Call, value: Any, dim: int, index: Any) -> Any:
    if isinstance(index, Number):
        raise CaptureError(
            "a Python index depends on tensor values: expected a tensor as index, as in x[index] without int() or "
            ".item()"
        )
    place = _require_static(value, dim, "a row by its number")
    dims = [*value.dims[:place], *value.dims[place + 1 :]]
    tensor = value.tensor.select(place, index)
    if value.coordinates is not None and value.coordinates.axis is None:
        return Selected(tensor, tuple(dims), replace(value.coordinates, axis=index))
    return _made(tensor, dims)


def _slice(call: Call, value: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    kept = _dims(value)
    place = _position(dim, len(kept))
    if chosen(kept[place]) and not start and step == 1 and (end is None or end == 2**63 - 1):
        return value
    part = _part(call, kept[place]) if step == 1 else None
    if part is not None:
        begin, dims = part
        tensor = value.tensor.narrow(place, begin, extent_of(dims))
        return _made(tensor, [*kept[:place], dims, *kept[place + 1 :]])
    _require_static(value, dim, "a slice")
    if any(isinstance(each, Number) for each in (start, end)):
        raise CaptureError(
            "a slice ends at a number that depends on tensor values: expected torch.where(torch.arange(n) < count, x, "
            "0) on all rows"
        )
    tensor = aten.slice.Tensor(value.tensor, place, start, end, step)
    return _made(tensor, _kept(value, tensor))


def _part(call: Call, dim: Dim) -> tuple[int, Dim] | None:
    """Returns the first position and the dimension of a part of a concatenation if a slice selects exactly this part,
    else None.
    """
    if len(dim) != 1 or not isinstance(dim[0], Rows):
        return None
    bounds = [_expression(each) for each in call.node.args[2:4]]
    position, extents = 0, [0]
    for part, extent in dim[0].parts:
        extents.append(extents[-1] + _expression(extent))
        if bounds == extents[-2:]:
            return position, part
        position += extent_of(part)
    return None


def _expression(value: Any) -> Any:
    value = value.meta["val"] if isinstance(value, torch.fx.Node) else value
    return value.node.expr if isinstance(value, torch.SymInt) else value


def _unbind(call: Call, value: Any, dim: int = 0) -> Any:
    place = _require_static(value, dim, "a loop over the rows")
    return [_select(call, value, place, i) for i in range(extent_of(value.dims[place]))]


def _split(call: Call, value: Any, sizes: Any, dim: int = 0) -> Any:
    _require_static(value, dim, "a split")
    if any(isinstance(each, Number) for each in pytree.tree_leaves(sizes)):
        raise CaptureError("the sizes of a split depend on tensor values: expected masks over all rows")
    return _row_wise(call, value, sizes, dim)


def _cat(call: Call, tensors: Sequence[Any], dim: int = 0) -> Any:
    # Old models start a concatenation with an empty tensor of shape [0].
    kept = [isinstance(each, Selected) or tuple(each.shape) != (0,) for each in tensors]
    tensors = [each for each, is_kept in zip(tensors, kept, strict=True) if is_kept]
    place = _position(dim, len(_dims(tensors[0])))
    others = [[*_dims(each)] for each in tensors]
    for each in others:
        each[place] = ()
    if any(len(one) != len(other) for each in others[1:] for one, other in zip(each, others[0], strict=True)):
        raise CaptureError("rows that a mask selects are joined with whole tensors: expected rows of the same mask")
    dims = [*broadcast(others)]
    joined = torch.cat([*map(_raw, tensors)], place)
    if any(_concerns(each, [place]) for each in tensors):
        parts = [_all_counts(_dims(each)[place]) for each in tensors]
        keys = [tuple(f.key if isinstance(f, Rows) else f for f in _dims(each)[place]) for each in tensors]
        given: Any = call.node.args[0]
        nodes = [node for node, is_kept in zip(given, kept, strict=True) if is_kept]
        extents = [node.meta["val"].shape[place] for node in nodes]
        joints = tuple((_dims(each)[place], extent) for each, extent in zip(tensors, extents, strict=True))
        dims[place] = (replace(call.new_rows(torch.cat(parts), "cat", *keys), parts=joints),)
    else:
        dims[place] = static(int(joined.shape[place]))
    return _made(joined, dims)


def _all_counts(dim: Dim) -> torch.Tensor:
    """Returns a bool tensor of shape [extent]: which elements of a dimension count."""
    everything = torch.ones([extent_of(dim)], dtype=torch.bool)
    counts = Selected(everything, (dim,)).counts()
    return everything if counts is None else counts


def _stack(call: Call, tensors: Sequence[Any], dim: int = 0) -> Any:
    dims = [*broadcast([_dims(each) for each in tensors])]
    dims.insert(_position(dim, len(dims) + 1), static(len(tensors)))
    return _made(torch.stack([*map(_raw, tensors)], dim), dims)


def _size(call: Call, value: Any, dim: int | None = None) -> Any:
    if dim is None:
        return _number_of(value.dims)
    return _number_of([value.dims[_position(dim, len(value.dims))]])


def _number_of(dims: Sequence[Dim]) -> Any:
    """Returns the number of elements that count along the dimensions."""
    factors = [each for dim in dims for each in dim]
    plain = math.prod(each for each in factors if isinstance(each, int))
    counts = [each.count for each in factors if isinstance(each, Rows)]
    return Number(functools.reduce(torch.mul, counts) * plain) if counts else plain


def _element(call: Call, value: Any) -> Number:
    if isinstance(value, Selected):
        raise CaptureError("an element of rows that a mask selects is read: expected a reduction, such as .sum()")
    tensor = value.reshape([])
    if tensor.is_floating_point():
        return Number(tensor.to(torch.float64))
    source: Any = call.node.args[0]
    mask = source.args[0] if source.target is aten.sum.default and not source.kwargs else None
    counted = None
    if mask is not None and mask.meta["val"].dtype is torch.bool and not free_unbacked_symbols(mask.meta["val"]):
        counted = call.rows_of(mask)
    return Number(tensor.to(torch.int64), counted)


def _scalar_tensor(call: Call, value: Number, **_: Any) -> torch.Tensor:
    return value.tensor.to(call.expected.dtype)


# --- Reductions ---


def _without(dims: Sequence[Dim], places: Sequence[int], keepdim: bool) -> list[Dim]:
    kept = [() if place in places else dim for place, dim in enumerate(dims)]
    return kept if keepdim else [dim for place, dim in enumerate(kept) if place not in places]


def _reduction(neutral: Callable[[torch.dtype], float], is_defined_on_none: bool = True) -> Callable[..., Any]:
    """Returns the rule of a reduction that has a neutral element."""

    def apply(call: Call, value: Any, dim: Any = None, keepdim: bool = False, *rest: Any, **kwargs: Any) -> Any:
        places = _positions(dim, len(value.dims))
        if _concerns(value, places) and not is_defined_on_none:
            _require_some(value, places, name_of(call.target))
        filled = value.filled(neutral(value.tensor.dtype), places)
        if call.target._overloadname == "default" and dim is None:
            return call.target(filled, **kwargs)
        return _made(call.target(filled, dim, keepdim, *rest, **kwargs), _without(value.dims, places, keepdim))

    return apply


def _require_some(value: Any, places: Sequence[int], name: str) -> None:
    number = _number_of([value.dims[place] for place in places])
    if isinstance(number, Number):
        message = f"{name} of the rows that a mask selects, of which there are none"
        aten._assert_async.msg(number.tensor > 0, message)


def _zero(dtype: torch.dtype) -> float:
    return 0


def _one(dtype: torch.dtype) -> float:
    return 1


def _least(dtype: torch.dtype) -> float:
    return -math.inf if dtype.is_floating_point else 0 if dtype is torch.bool else torch.iinfo(dtype).min


def _most(dtype: torch.dtype) -> float:
    return math.inf if dtype.is_floating_point else 1 if dtype is torch.bool else torch.iinfo(dtype).max


def _mean(call: Call, value: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    dtype = dtype or value.tensor.dtype
    places = _positions(dim, len(value.dims))
    # (V1): low precision is rounded once.
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    total = value.filled(0, places).to(wide).sum(places, keepdim)
    mean = total / _raw(_number_of([value.dims[place] for place in places]))
    return _made(mean.to(dtype), _without(value.dims, places, keepdim))


def _norm(call: Call, value: Any, order: Any = 2, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    places = _positions(dim, len(value.dims))
    if _concerns(value, places) and order < 0:
        raise CaptureError(f"expected a norm of order 0 or more of rows that a mask selects, got order {order}")
    if order == math.inf:
        _require_some(value, places, "the largest magnitude")
    result = call.target(value.filled(0, places), order, places, keepdim, **kwargs)
    return _made(result, _without(value.dims, places, keepdim))


def _with_places(call: Call, value: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Computes the maximum or minimum along a dimension, and its position."""
    place = _require_static(value, dim, f"the place of a {name_of(call.target)}imum")
    results = call.target(value.tensor, place, keepdim)
    dims = _without(value.dims, [place], keepdim)
    return tuple(_made(each, dims) for each in results)


def _place(call: Call, value: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        _require_static(value, next(i for i, each in enumerate(value.dims) if chosen(each)), name_of(call.target))
    place = _require_static(value, dim or 0, name_of(call.target))
    return _made(call.target(value.tensor, place, keepdim), _without(value.dims, [place], keepdim))


def _cumulative(neutral: Callable[[torch.dtype], float]) -> Callable[..., Any]:
    def apply(call: Call, value: Any, dim: int, **kwargs: Any) -> Any:
        place = _position(dim, len(value.dims))
        filled = value.filled(neutral(value.tensor.dtype), [place])
        return _made(call.target(filled, place, **kwargs), value.dims)

    return apply


# --- Products ---


def _contracted(one: Any, other: Any) -> tuple[list[torch.Tensor], list[Dim]]:
    """Returns the operands of a product of vectors, matrices or batches of matrices, and the product's dimensions."""
    left, right = _dims(one), _dims(other)
    first, second = len(left) - 1, max(len(right) - 2, 0)
    if not same(left[first], right[second]) and (chosen(left[first]) or chosen(right[second])):
        raise CaptureError(mismatch(left[first], right[second]))
    batch = broadcast([left[:-2], right[:-2]]) if len(left) == 3 else ()
    return [_filled(one, 0, [first]), _filled(other, 0, [second])], [*batch, *left[-2:-1], *right[second + 1 :]]


def _product(call: Call, one: Any, other: Any) -> Any:
    """Computes mm, bmm, mv and dot."""
    operands, dims = _contracted(one, other)
    return _made(call.target(*operands), dims)


def _sum_of_product(call: Call, added: Any, one: Any, other: Any, **factors: Any) -> Any:
    """Computes addmm, baddbmm and addmv."""
    operands, dims = _contracted(one, other)
    return _made(call.target(_raw(added), *operands, **factors), broadcast([_dims(added), dims]))


def _convolution(call: Call, x: Any, *args: Any) -> Any:
    if any(map(chosen, x.dims[1:])) or any(isinstance(each, Selected) for each in args):
        raise CaptureError("a convolution along rows that a mask selects: expected it on all rows")
    result = call.target(x.tensor, *args)
    return _made(result, [x.dims[0], *map(static, result.shape[1:])])


def _convolution_backward(call: Call, gradient: Any, x: Any, *args: Any) -> Any:
    if any(map(chosen, (*_dims(gradient)[1:], *_dims(x)[1:]))):
        raise CaptureError("a convolution along rows that a mask selects: expected it on all rows")
    first, *rest = call.target(_filled(gradient, 0), _filled(x, 0), *args)
    return (first if first is None else _made(first, [_dims(x)[0], *map(static, first.shape[1:])]), *rest)


def _normalization(call: Call, x: Any, shape: Sequence[int], *args: Any) -> Any:
    """Computes layer normalization; also returns the mean and the reciprocal standard deviation of each row."""
    results = call.target(_raw(x), shape, *args)
    return tuple(_made(each, _kept(x, each)) for each in results)


# --- Elements by their positions ---


def _masks(indices: Sequence[Any]) -> list[Any]:
    """Returns the indices; consecutive coordinates that belong to one mask are replaced by the mask."""
    found: list[Any] = []
    position = 0
    while position < len(indices):
        each = indices[position]
        coordinates = each.coordinates if isinstance(each, Selected) else None
        if coordinates is not None and coordinates.axis == 0:
            group = indices[position : position + coordinates.mask.dim()]
            kept = [other.coordinates if isinstance(other, Selected) else None for other in group]
            if len(kept) == coordinates.mask.dim() and all(
                other is not None and other.rows.key == coordinates.rows.key and other.axis == axis
                for axis, other in enumerate(kept)
            ):
                found.append(coordinates)
                position += len(kept)
                continue
        found.append(each)
        position += 1
    return found


def _is_mask(index: Any) -> bool:
    return isinstance(index, Coordinates) or (index is not None and _raw(index).dtype in (torch.bool, torch.uint8))


def _chooser(call: Call, x: Any, indices: Sequence[Any], argument: int) -> tuple[int, int, Rows] | None:
    """If the only index is a mask, returns the first dimension that the mask indexes, the number of dimensions that it
    indexes, and the selected rows. Returns None otherwise, and for coordinates of a mask of another shape."""
    found = _masks(indices)
    places = [i for i, each in enumerate(found) if each is not None]
    if len(places) != 1 or not _is_mask(found[places[0]]):
        return None
    (place,) = places
    mask = found[place]
    if isinstance(mask, Coordinates):
        # The coordinates may belong to a mask of another shape.
        rank = mask.mask.dim()
        is_whole = _same_shape(_dims(x)[place : place + rank], _dims(mask.mask))
        return (place, rank, mask.rows) if is_whole else None
    rank = len(_dims(mask))
    for own, given in zip(_dims(x)[place : place + rank], _dims(mask), strict=True):
        if not same(own, given) and (chosen(own) or chosen(given)):
            raise CaptureError(mismatch(own, given))
    node = call.node.args[argument][place]  # type: ignore[index]
    which = _raw(mask).to(torch.bool)
    counts = mask.counts() if isinstance(mask, Selected) else None
    return place, rank, call.new_rows(which if counts is None else which & counts, "mask", node)


def _indexed(call: Call, x: Any, indices: Sequence[Any]) -> Any:
    choice = _chooser(call, x, indices, 1)
    if choice is not None:
        place, rank, rows = choice
        raw = _raw(x)
        flat = raw.reshape([*raw.shape[:place], -1, *raw.shape[place + rank :]])
        return Selected(flat, (*_dims(x)[:place], (rows,), *_dims(x)[place + rank :]))
    places, flat_indices, dims = _places(call, x, indices, 1)
    result = aten.index.Tensor(_raw(x), flat_indices)
    kept = _dims(x)
    first = places[0] if places == [*range(places[0], places[-1] + 1)] else 0
    rest = [dim for i, dim in enumerate(kept) if i not in places]
    return _made(result, [*rest[:first], *dims, *rest[first:]])


def _places(call: Call, x: Any, indices: Sequence[Any], argument: int) -> tuple[list[int], list[Any], Sequence[Dim]]:
    """Returns the indexed dimensions, the indices with 0 in elements that do not count, and the indices' dimensions."""
    if any(map(_is_mask, indices)):
        indices = [
            each
            for index, node in zip(indices, call.node.args[argument], strict=True)  # type: ignore[arg-type]
            for each in (_coordinates(call, index, node) if _is_mask(index) else [index])
        ]
    places = [i for i, each in enumerate(indices) if each is not None]
    dims = broadcast([_dims(indices[i]) for i in places])
    found = [None if each is None else _filled(each, 0) for each in indices]
    for i in places:
        if _concerns(x, [i]):
            rows = indices[i].numbers if isinstance(indices[i], Selected) else None
            if rows is None or not same(x.dims[i], (rows,)):
                _require_static(x, i, "an index")
            found[i] = torch.arange(extent_of(x.dims[i])).reshape(_raw(indices[i]).shape)
    return places, found, dims


def _coordinates(call: Call, mask: Any, node: Any) -> list[Selected]:
    """Returns the positions at which a mask is true, as one tensor per dimension of the mask."""
    if isinstance(mask, Selected):
        raise CaptureError("a mask of rows that another mask selects has other indices next to it: expected one mask")
    rows = call.new_rows(mask, "mask", node)
    grid = torch.arange(mask.numel())
    found: list[Selected] = []
    for axis in reversed(range(mask.dim())):
        extent = int(mask.shape[axis])
        found.insert(0, Selected(grid % extent, ((rows,),), Coordinates(mask, rows, axis)))
        grid = grid // extent
    return found


def _nonzero(call: Call, value: Any) -> Any:
    if isinstance(value, Selected):
        raise CaptureError("nonzero of rows that a mask selects is not supported: expected nonzero of all rows")
    mask = value if value.dtype is torch.bool else value != 0
    node = call.node.args[0]
    key = [node] if value.dtype is torch.bool else ["nonzero", node]
    rows = call.new_rows(mask, "mask", *key)
    columns = [each.tensor for each in _coordinates(call, mask, node)]
    dims = ((rows,), static(mask.dim()))
    return Selected(torch.stack(columns, 1), dims, Coordinates(mask, rows, None))


def _index_put(call: Call, x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    choice = _chooser(call, x, indices, 1)
    if choice is None:
        return _put_at_places(call, x, indices, values, accumulate)
    place, rank, rows = choice
    raw, dims = _raw(x), _dims(x)
    kept = (*dims[:place], (rows,), *dims[place + rank :])
    given = _dims(values)
    for own, other in zip(kept[len(kept) - len(given) :], given, strict=True):
        if other and not same(own, other):
            raise CaptureError(mismatch(own, other))
    flat = raw.reshape([*raw.shape[:place], -1, *raw.shape[place + rank :]])
    shape = [1] * flat.dim()
    shape[place] = -1
    which = rows.which.reshape(shape)
    new = _raw(values)
    changed = torch.where(which, flat + new if accumulate else new.expand(flat.shape), flat)
    return _made(changed.reshape(raw.shape), dims)


def _put_at_places(call: Call, x: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    places, flat_indices, dims = _places(call, x, indices, 1)
    if any(map(chosen, dims)) and not accumulate:
        raise CaptureError(
            "rows are written at positions that a mask selects: use x[mask] = value, or torch.where(mask, value, x)"
        )
    first = places[0] if places == [*range(places[0], places[-1] + 1)] else 0
    rest = [dim for i, dim in enumerate(_dims(x)) if i not in places]
    target = [*rest[:first], *dims, *rest[first:]]
    if any(other and not same(own, other) for own, other in zip(target[::-1], _dims(values)[::-1], strict=False)):
        raise CaptureError("rows are added at positions that another mask selects: expected the same mask for both")
    whole = Selected(_raw(values).expand([*map(extent_of, target)]), tuple(target))
    counted = [i for i, dim in enumerate(target) if chosen(dim)]
    return _made(aten.index_put.default(_raw(x), flat_indices, whole.filled(0, counted), accumulate), _dims(x))


def _index_select(call: Call, x: Any, dim: int, index: Any) -> Any:
    place = _position(dim, len(_dims(x)))
    return _indexed(call, x, [*[None] * place, index])


def _index_add(call: Call, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    place = _position(dim, len(_dims(x)))
    if alpha != 1:
        source = _made(_raw(source) * _raw(alpha), _dims(source))
    return _index_put(call, x, [*[None] * place, index], source, True)


def _embedding(call: Call, weight: Any, indices: Any, *rest: Any, **kwargs: Any) -> Any:
    result = call.target(weight, indices.filled(0), *rest, **kwargs)
    return Selected(result, (*indices.dims, *map(static, result.shape[len(indices.dims) :])))


def _embedding_backward(
    call: Call, gradient: Any, indices: Any, rows: int, padding: int, scales_by_frequency: bool
) -> Any:
    if scales_by_frequency:
        raise CaptureError("embedding with scale_grad_by_freq of rows that a mask selects: call it on all rows")
    return call.target(_filled(gradient, 0), _filled(indices, 0), rows, padding, scales_by_frequency)


def _gather(call: Call, x: Any, dim: int, index: Any, *rest: Any, **kwargs: Any) -> Any:
    _require_static(x, dim, "an index")
    place = _position(dim, len(_dims(x)))
    for i, (own, given) in enumerate(zip(_dims(x), _dims(index), strict=True)):
        if i != place and not same(own, given) and (chosen(own) or chosen(given)):
            raise CaptureError(mismatch(own, given))
    return _made(call.target(_raw(x), place, _filled(index, 0), *rest, **kwargs), _dims(index))


def _scatter(call: Call, x: Any, dim: int, index: Any, source: Any, *rest: Any, **kwargs: Any) -> Any:
    place = _require_static(x, dim, "an index")
    sources = [_dims(source)] if isinstance(source, torch.Tensor | Selected) else []
    for i, own in enumerate(_dims(x)):
        for given in (_dims(index)[i], *(each[i] for each in sources)):
            if i != place and not same(own, given) and (chosen(own) or chosen(given)):
                raise CaptureError(mismatch(own, given))
    if chosen(_dims(index)[place]):
        if name_of(call.target) != "scatter_add" or not same(_dims(index)[place], _dims(source)[place]):
            raise CaptureError("rows that a mask selects are scattered: expected scatter_add, or a scatter of all rows")
        return _made(call.target(_raw(x), place, _filled(index, 0), _filled(source, 0, [place])), _dims(x))
    return _made(call.target(_raw(x), place, _filled(index, 0), _raw(source), *rest, **kwargs), _dims(x))


def _masked_select(call: Call, x: Any, mask: Any) -> Any:
    dims = broadcast([_dims(x), _dims(mask)])
    shape = [*map(extent_of, dims)]
    which = _raw(mask).expand(shape)
    counts = Selected(which, dims).counts()
    node = call.node.args[1]
    flat = _raw(x).expand(shape).reshape([-1])
    own = [(), *[()] * (len(dims) - len(_dims(mask)) - 1), *_dims(mask)][-len(dims) :] if dims else []
    whole = next((i for i in range(len(dims)) if not any(own[i:])), len(dims))
    if not any(map(chosen, dims)) and _same_shape(own[:whole], dims[:whole]):
        # The mask selects whole rows, as in x[mask].
        return Selected(flat, ((call.new_rows(_raw(mask), "mask", node), *sum(dims[whole:], ())),))
    rows = call.new_rows(which if counts is None else which & counts, "mask", node, tuple(shape))
    return Selected(flat, ((rows,),))


def _same_shape(one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    return len(one) == len(other) and all(map(same, one, other))


def _masked_scatter(call: Call, x: Any, mask: Any, source: Any) -> Any:
    if not isinstance(source, Selected):
        raise CaptureError("masked_scatter from a whole tensor is not supported: use torch.where(mask, value, x)")
    dims = _dims(x)
    shape = [*map(extent_of, dims)]
    selected = _masked_select(call, x, mask)
    if not same(sum(source.dims, ()), *selected.dims):
        raise CaptureError("masked_scatter writes rows that another mask selects: expected the same mask")
    return _made(torch.where(_raw(mask), source.tensor.reshape(shape), _raw(x)), dims)


def _backward_of_view(call: Call, gradient: Any, *args: Any) -> Any:
    """Computes select_backward and slice_backward."""
    dims = call.dims(call.expected.shape)
    return _made(call.target(_raw(gradient), [*map(extent_of, dims)], *args[1:]), dims)


def _extent_along(argument: int) -> Callable[[torch.fx.Node], Any]:
    def along(node: torch.fx.Node) -> Any:
        dim: Any = node.args[argument]
        value: Any = node.args[0].meta["val"]  # type: ignore[union-attr]
        return value.shape[dim]

    return along


def _extents_of_norm(node: torch.fx.Node) -> Any:
    extents: Any = node.args[1]
    return [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in extents]


def _rules() -> dict[str, Rule]:
    every: dict[str, Rule] = {}

    def add(names: str, apply: Callable[..., Any], along: Callable[[torch.fx.Node], Any] | None = None) -> None:
        for name in names.split():
            every[name] = Rule(apply, along, apply in _TAKE_NUMBERS)

    for name in dispatch_operator_names():
        if name.startswith("aten::"):
            overload = name.removeprefix("aten::").partition(".")
            packet = getattr(aten, overload[0], None)
            found = getattr(packet, overload[2] or "default", None) if packet is not None else None
            if found is not None and torch.Tag.pointwise in found.tags and not found._schema.is_mutable:
                every[overload[0]] = Rule(_pointwise, takes_numbers=True)
    add(
        "hardtanh_backward elu_backward softplus_backward leaky_relu_backward mish_backward log_sigmoid_forward "
        "log_sigmoid_backward hardswish hardswish_backward hardsigmoid_backward masked_fill floor_divide rsub prelu "
        "_prelu_kernel _prelu_kernel_backward fill _to_copy where",
        _pointwise,
    )
    add("detach alias clone lift_fresh_copy", _same_elements)
    add("copy", _copy)
    add("zeros_like ones_like full_like empty_like", _like)
    add("zeros ones full empty new_zeros new_ones new_full new_empty", _sized)
    add("random_uniform random_bernoulli random_randint random_normal", _sized)
    add("arange", _arange)
    add("view _unsafe_view reshape squeeze unsqueeze flatten", _reshape)
    add("expand", _expand)
    add("permute", _permute)
    add("t transpose", _transpose)
    add("select", _select)
    add("slice", _slice)
    add("unbind", _unbind)
    add("split split_with_sizes", _split)
    add("cat", _cat)
    add("stack", _stack)
    add("sym_size sym_numel", _size)
    add("_local_scalar_dense", _element)
    add("scalar_tensor", _scalar_tensor)
    add("select_backward slice_backward", _backward_of_view)
    add("sum", _reduction(_zero))
    add("prod", _reduction(_one))
    add("any", _reduction(_zero))
    add("all", _reduction(_one))
    add("amax", _reduction(_least, is_defined_on_none=False))
    add("amin", _reduction(_most, is_defined_on_none=False))
    add("mean", _mean)
    add("linalg_vector_norm", _norm)
    add("max", _maximum(_least))
    add("min", _maximum(_most))
    add("argmax argmin", _place)
    add("cumsum", _cumulative(_zero))
    add("cumprod", _cumulative(_one))
    add("logcumsumexp", _cumulative(_least))
    add("_softmax _log_softmax", _along(), _extent_along(1))
    add("sort", _along())
    add("topk", _along(argument=2))
    add("flip", _flip)
    add("_softmax_backward_data _log_softmax_backward_data", _softmax_backward, _extent_along(2))
    add("mm bmm mv dot", _product)
    add("addmm addmv baddbmm", _sum_of_product)
    add("convolution", _convolution)
    add("convolution_backward", _convolution_backward)
    add("native_layer_norm", _normalization, _extents_of_norm)
    add("index", _indexed)
    add("index_put", _index_put)
    add("nonzero", _nonzero)
    add("index_select", _index_select)
    add("index_add", _index_add)
    add("embedding", _embedding)
    add("embedding_dense_backward", _embedding_backward)
    add("gather", _gather)
    add("scatter scatter_add", _scatter)
    add("masked_select", _masked_select)
    add("masked_scatter", _masked_scatter)
    return every


def _flip(call: Call, value: Any, dims: Sequence[int]) -> Any:
    places = _positions(dims, len(value.dims))
    turned = [
        tuple(each.reversed() if isinstance(each, Rows) else each for each in dim) if place in places else dim
        for place, dim in enumerate(value.dims)
    ]
    return _made(value.tensor.flip(places), turned)


def _softmax_backward(call: Call, gradient: Any, output: Any, *rest: Any) -> Any:
    dims = broadcast([_dims(gradient), _dims(output)])
    return _made(call.target(_raw(gradient), _raw(output), *rest), dims)


def _maximum(neutral: Callable[[torch.dtype], float]) -> Callable[..., Any]:
    """Returns the rule of max or min: of all elements, along a dimension, or of two tensors element by element."""
    whole = _reduction(neutral, is_defined_on_none=False)

    def apply(call: Call, value: Any, *args: Any) -> Any:
        if call.target._overloadname == "dim":
            return _with_places(call, value, *args)
        return _pointwise(call, value, *args) if args else whole(call, value)

    return apply


_TAKE_NUMBERS = (
    *(_pointwise, _sized, _arange, _reshape, _expand, _select, _slice, _split, _backward_of_view, _index_add),
    _scalar_tensor,
)

RULES = _rules()
"""The rules, keyed by the operator's name without the namespace."""
