# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The decomposition table of the second tracing stage: torch-mlir's table, and entries for operators that torch-mlir
does not support or computes incorrectly.

An operator has an entry if torch-mlir's decomposition or lowering computes in f64, loses a NaN, or scatters where a
comparison suffices, or if torch-mlir's lowering to linalg does not support the operator or crashes on it.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.known_shapes import is_empty
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, smooth_l1_loss_backward, torch_decompositions
from repro_mlir.frontends.torch.base.torch_mlir_names import get_decomposition_table, ir, torch_dialect
from repro_mlir.frontends.torch.operators import (
    bit_patterns,
    convolutions,
    counting,
    fractional_pooling,
    householder,
    integers,
    linear_algebra,
    pooling,
    quantization,
    rank_zero,
    resampling,
    scans,
    special_functions,
    special_polynomials,
    views,
)

aten = torch.ops.aten

_entries: dict[Any, Callable[..., Any]] = {
    **bit_patterns.DECOMPOSITIONS,
    **convolutions.DECOMPOSITIONS,
    **counting.DECOMPOSITIONS,
    **fractional_pooling.DECOMPOSITIONS,
    **householder.DECOMPOSITIONS,
    **integers.DECOMPOSITIONS,
    **linear_algebra.DECOMPOSITIONS,
    **pooling.DECOMPOSITIONS,
    **quantization.DECOMPOSITIONS,
    **resampling.DECOMPOSITIONS,
    **scans.DECOMPOSITIONS,
    **special_functions.DECOMPOSITIONS,
    **special_polynomials.DECOMPOSITIONS,
    **views.DECOMPOSITIONS,
}


def _decomposes(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operator in operators:
            integer = integers.DECOMPOSITIONS.get(operator)
            _entries[operator] = function if integer is None else _with_default(integer, function)
        return function

    return register


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """Returns the table from ATen operators to decompositions; an entry that returns NotImplemented falls back to
    torch-mlir's entry."""
    table = dict(get_decomposition_table())
    # torch-mlir lowers aten.full itself, and the decompositions of uninitialised tensors produce aten.full.
    del table[aten.full.default]
    table |= _of_unknown_operators(table)
    for operator, function in _entries.items():
        default = table.get(operator)
        table[operator] = function if default is None else _with_default(function, default)
    for operator in rank_zero.operators():
        function = rank_zero.along_one(operator)
        table[operator] = _with_default(function, table[operator]) if operator in table else function
    return table


def _of_unknown_operators(table: Mapping[Any, Any]) -> dict[Any, Callable[..., Any]]:
    """Returns PyTorch's decompositions of the ATen operators that torch-mlir's dialect does not have."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    found = {}
    for operator, function in torch_decompositions.items():
        if not isinstance(operator, OpOverload) or operator in table:
            continue
        schema = operator._schema
        name = "torch." + schema.name.replace("::", ".") + (f".{schema.overload_name}" if schema.overload_name else "")
        if schema.name.startswith("aten::") and not context.is_registered_operation(name):
            found[operator] = function
    return found


def _with_default(function: Callable[..., Any], default: Callable[..., Any]) -> Callable[..., Any]:
    def decompose(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return default(*args, **kwargs) if result is NotImplemented else result

    return decompose


def _dimensions(x: torch.Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.dim()))
    return [d % max(x.dim(), 1) for d in ([dim] if isinstance(dim, int) else dim)]


# --- Reductions ---


@_decomposes(aten.var_mean.correction)
def _var_mean(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    # torch-mlir's default computes in f64.
    if x.dtype.is_complex:
        return NotImplemented
    correction = 1 if correction is None else correction
    dims = _dimensions(x, dim)
    count = math.prod(x.shape[d] for d in dims)
    mean = torch.sum(x, dims, True) / count
    difference = x - mean
    # A tensor divided by the number 0 gives NaN or infinity, as in PyTorch.
    variance = torch.sum(difference * difference, dims, True) / max(count - correction, 0)
    if not keepdim:
        for d in sorted(dims, reverse=True):
            mean, variance = mean.squeeze(d), variance.squeeze(d)
    return variance, mean


@_decomposes(aten.var.correction)
def _var(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    result = _var_mean(x, dim, correction=correction, keepdim=keepdim)
    return result if result is NotImplemented else result[0]


@_decomposes(aten.std.correction)
def _std(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    result = _var_mean(x, dim, correction=correction, keepdim=keepdim)
    return result if result is NotImplemented else torch.sqrt(result[0])


@_decomposes(aten.linalg_vector_norm.default)
def _vector_norm(
    x: torch.Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    if x.dtype.is_complex or not x.numel():
        return NotImplemented
    if dtype is not None:
        x = x.to(dtype)
    dims = _dimensions(x, dim)
    if ord == 2 and all(x.shape[d] == 1 for d in dims):
        # As in PyTorch, the norm of a single element is its magnitude, because the square may overflow.
        return torch.amax(x.abs(), dims, keepdim)
    if ord == 2:
        return torch.sqrt(torch.sum(x * x, dims, keepdim))
    if ord == 1:
        return torch.sum(x.abs(), dims, keepdim)
    if ord == 0:
        return torch.sum((x != 0).to(x.dtype), dims, keepdim)
    if ord == math.inf:
        return torch.amax(x.abs(), dims, keepdim)
    if ord == -math.inf:
        return torch.amin(x.abs(), dims, keepdim)
    return torch.pow(torch.sum(torch.pow(x.abs(), ord), dims, keepdim), 1.0 / ord)


@_decomposes(aten.logit_backward.default)
def _logit_backward(gradient: torch.Tensor, x: torch.Tensor, eps: float | None = None) -> Any:
    if eps is None:
        return NotImplemented
    # In torch-mlir's default, the comparison gives a zero gradient for NaN.
    outside = (x < eps) | (x > 1 - eps)
    return torch.where(outside, torch.zeros([], dtype=x.dtype), gradient / (x * (1 - x)))


# --- Products ---


def _product(operator: Any) -> Callable[..., Any]:
    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        # torch-mlir's lowering crashes on sums of no elements and on i8.
        if not x.is_complex() and x.shape[-1] == 0:
            return torch.zeros([*x.shape[:-1], *y.shape[max(x.dim() - 1, 1) :]], dtype=x.dtype)
        if x.dtype is torch.int8:
            return operator(x.to(torch.int32), y.to(torch.int32)).to(torch.int8)
        return NotImplemented

    return call


for _operator in (aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default):
    _entries[_operator] = _product(_operator)


# --- Comparison and power with a Python number ---


def _compare(operator: Any) -> Callable[..., Any]:
    def compare(x: torch.Tensor, number: Any) -> Any:
        # torch-mlir's default compares f32 elements and the Python number in f64.
        if x.dtype.is_floating_point and isinstance(number, int | float):
            return operator(x, torch.full([], float(number), dtype=x.dtype))
        return NotImplemented

    return compare


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _decomposes(getattr(aten, _name).Scalar)(_compare(getattr(aten, _name).Tensor))


@_decomposes(aten.pow.Tensor_Scalar)
def _power(x: torch.Tensor, exponent: float) -> Any:
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        return torch.pow(x.to(torch.result_type(x, exponent)), exponent)
    # ATen itself computes powers with the following exponents by these operations.
    if not x.dtype.is_floating_point:
        return NotImplemented
    if exponent == 0.5:
        return torch.sqrt(x)
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if exponent == -0.5:
        return torch.rsqrt(x)
    if exponent == -1:
        return torch.reciprocal(x)
    if exponent == -2:
        return torch.reciprocal(x * x)
    return NotImplemented


# --- Elementwise ---


def _extremum(greater: bool) -> Callable[..., Any]:
    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        # torch-mlir's lowering compares and selects, which loses a NaN in x.
        kind = torch.promote_types(x.dtype, y.dtype)
        if not kind.is_floating_point:
            return NotImplemented
        x, y = x.to(kind), y.to(kind)
        return torch.where(((x >= y) if greater else (x <= y)) | torch.isnan(x), x, y)

    return call


_entries[aten.maximum.default] = _extremum(True)
_entries[aten.minimum.default] = _extremum(False)


@_decomposes(aten.eq.Tensor)
def _equal(x: torch.Tensor, y: torch.Tensor) -> Any:
    # torch-mlir folds x == x to true, which is wrong for NaN.
    if not (x.dtype.is_floating_point or y.dtype.is_floating_point):
        return NotImplemented
    return (x <= y) & (x >= y)


@_decomposes(aten.reciprocal.default)
def _reciprocal(x: torch.Tensor) -> Any:
    # torch-mlir's lowering emits an assertion that fails if an element is zero.
    if x.dtype.is_complex:
        return NotImplemented
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    return torch.full([], 1, dtype=x.dtype) / x


@_decomposes(aten.trunc.default)
def _trunc(x: torch.Tensor) -> Any:
    # torch-mlir's default multiplies by the sign, which loses the sign of -0.
    return torch.where(x < 0, torch.ceil(x), torch.floor(x)) if x.dtype.is_floating_point else NotImplemented


@_decomposes(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _divide(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    # Use the exact remainder, as ATen does: the floor of a rounded quotient may be too large by one.
    kind = torch.result_type(x, y)
    if rounding_mode != "floor" or not kind.is_floating_point:
        return NotImplemented
    x, y = (each.to(kind) if isinstance(each, torch.Tensor) else torch.full([], each, dtype=kind) for each in (x, y))
    remainder = torch.fmod(x, y)
    quotient = (x - remainder) / y
    quotient = torch.where((remainder != 0) & ((y < 0) != (remainder < 0)), quotient - 1, quotient)
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    floor = torch.where(quotient == 0, torch.copysign(torch.zeros([], dtype=x.dtype), x / y), floor)
    return torch.where(y == 0, x / y, floor)


def _bound(x: torch.Tensor, low: Any, high: Any) -> Any:
    # torch-mlir's lowering of clamp loses NaN and compares integers in f64.
    for bound, operator in ((low, torch.maximum), (high, torch.minimum)):
        if bound is None:
            continue
        kind = torch.result_type(x, bound)
        x = x.to(kind)
        if isinstance(bound, torch.Tensor):
            bound = bound.to(kind)
        else:
            if type(bound) is int and not integers.holds(kind, bound):
                raise CaptureError(f"expected a bound within the range of {kind}, got {bound}")
            bound = torch.full([], bound, dtype=kind)
        x = operator(x, bound)
    return x


@_decomposes(aten.clamp.default, aten.clamp.Tensor)
def _clamp(x: torch.Tensor, min: Any = None, max: Any = None) -> Any:
    return _bound(x, min, max)


@_decomposes(aten.clamp_min.default, aten.clamp_min.Tensor)
def _clamp_min(x: torch.Tensor, min: Any) -> Any:
    return _bound(x, min, None)


@_decomposes(aten.clamp_max.default, aten.clamp_max.Tensor)
def _clamp_max(x: torch.Tensor, max: Any) -> Any:
    return _bound(x, None, max)


@_decomposes(aten.hardtanh.default)
def _hardtanh(x: torch.Tensor, min_val: float = -1, max_val: float = 1) -> Any:
    return _bound(x, min_val, max_val)


@_decomposes(aten.gelu.default)
def _gelu(x: torch.Tensor, approximate: str = "none") -> Any:
    if approximate != "tanh":
        return NotImplemented
    # torch-mlir's lowering uses only four digits of sqrt(2 / pi).
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + torch.tanh(inner))


@_decomposes(aten.fmax.default)
def _fmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.maximum(x, y)))


@_decomposes(aten.fmin.default)
def _fmin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.minimum(x, y)))


@_decomposes(aten.isinf.default)
def _isinf(x: torch.Tensor) -> Any:
    # torch-mlir's default compares in f64.
    return x.abs() == torch.full([], math.inf, dtype=x.dtype) if x.dtype.is_floating_point else NotImplemented


@_decomposes(aten.isfinite.default)
def _isfinite(x: torch.Tensor) -> Any:
    return x.abs() < torch.full([], math.inf, dtype=x.dtype) if x.dtype.is_floating_point else NotImplemented


def _truth(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.bool else x != 0


def _logical(operator: Any) -> Callable[..., Any]:
    def call(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        other = [*others]
        if other and 0 in (x.dim(), other[0].dim()):
            # As in PyTorch, an integer of shape [] is converted to the type of the other operand.
            x, *other = integers.of_one_kind(x, *other) or (x, *other)
        # For the logical operators, torch-mlir would compare floats with zero in f64.
        return operator(_truth(x), *(_truth(y) for y in other))

    return call


for _name in ("and", "or", "xor", "not"):
    _entries[getattr(aten, f"logical_{_name}").default] = _logical(getattr(torch, f"bitwise_{_name}"))


def _is_negative(x: torch.Tensor) -> torch.Tensor:
    """Returns the sign bit as a boolean; the sign of a NaN reads as plus (V4)."""
    if not x.dtype.is_floating_point:
        return torch.zeros_like(x) if x.dtype == torch.bool else x < 0
    return (x < 0) | ((x == 0) & (1 / x < 0))


@_decomposes(aten.signbit.default)
def _signbit(x: torch.Tensor) -> torch.Tensor:
    return _is_negative(x)


@_decomposes(aten.copysign.Tensor)
def _copysign(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if not torch.promote_types(x.dtype, y.dtype).is_floating_point:
        x = x.to(torch.get_default_dtype())
    return torch.where(_is_negative(y), -x.abs(), x.abs())


@_decomposes(aten.copysign.Scalar)
def _copysign_number(x: torch.Tensor, y: float) -> torch.Tensor:
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    return -x.abs() if math.copysign(1.0, y) < 0 else x.abs()


@_decomposes(aten.fmod.Tensor)
def _fmod(x: torch.Tensor, y: torch.Tensor) -> Any:
    # torch-mlir's default rounds a quotient; torch.remainder of magnitudes is exact, as C's fmod is.
    if not (x.dtype.is_floating_point and y.dtype == x.dtype):
        return NotImplemented
    magnitude = torch.remainder(x.abs(), y.abs())
    # A zero remainder also has the sign of x, so that it may be -0.
    return torch.where(magnitude == 0, x * 0, torch.where(x < 0, -magnitude, magnitude))


@_decomposes(aten.fmod.Scalar)
def _fmod_number(x: torch.Tensor, y: float) -> Any:
    return _fmod(x, torch.full([], y, dtype=x.dtype)) if x.dtype.is_floating_point else NotImplemented


@_decomposes(aten.remainder.Scalar_Tensor)
def _remainder_of_number(x: float, y: torch.Tensor) -> Any:
    kind = torch.result_type(x, y)
    return (
        aten.remainder.Tensor(torch.full([], x, dtype=kind), y.to(kind)) if kind.is_floating_point else NotImplemented
    )


@_decomposes(aten.sgn.default)
def _sgn(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x)


@_decomposes(aten.angle.default)
def _angle(x: torch.Tensor) -> Any:
    if x.dtype.is_complex:
        return NotImplemented
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    pi = torch.full([], math.pi, dtype=x.dtype)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, pi, torch.zeros([], dtype=x.dtype)))


@_decomposes(aten.hypot.default)
def _hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    # Scale by the greater magnitude, so that no square overflows.
    x, y = x.abs(), y.abs()
    great, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = small / great
    length = torch.where(great == 0, great, great * torch.sqrt(1 + ratio * ratio))
    infinite = (x == math.inf) | (y == math.inf)
    return torch.where(infinite, torch.full([], math.inf, dtype=x.dtype), length)


@_decomposes(aten.elu.default)
def _elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> torch.Tensor:
    # torch-mlir's lowering subtracts 1 from an exponential, which loses digits near 0; expm1 does not.
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


def _log_add(exponential: Callable[..., Any], logarithm: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        # torch-mlir's lowering compares in f64.
        infinite = (x == y) & torch.isinf(x)
        # If the operands are equal, one counts as the greater and one as the lesser: each has half of the gradient.
        first = x >= y
        great, small = torch.where(first, x, y), torch.where(first, y, x)
        return torch.where(infinite, x, great + logarithm(exponential(small - great)))

    return call


_entries[aten.logaddexp.default] = _log_add(torch.exp, torch.log1p)
_entries[aten.logaddexp2.default] = _log_add(torch.exp2, lambda x: torch.log2(1 + x))


@_decomposes(aten.log_sigmoid_forward.default)
def _log_sigmoid_forward(x: torch.Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    wide = x.float() if x.dtype.itemsize == 2 else x
    # This is min(0, x) - log1p(exp(-|x|)) without min and abs, whose corners at 0 would give a wrong gradient.
    is_negative = wide < 0
    distance = torch.exp(torch.where(is_negative, wide, -wide))
    result = torch.where(is_negative, wide, torch.zeros([], dtype=wide.dtype)) - torch.log1p(distance)
    return result.to(x.dtype), distance.to(x.dtype)


@_decomposes(aten.logcumsumexp.default)
def _logcumsumexp(x: torch.Tensor, dim: int) -> Any:
    if x.is_complex():
        return NotImplemented
    if not x.numel():
        return x.clone()
    # torch-mlir's sum of exponentials overflows. Here the exponents are differences from the greatest element so far.
    # The greatest element is added only at the end; otherwise the gradient would contain the exponential of a rounding
    # error. Each round doubles the number of elements in a sum.
    greatest = x.float() if x.dtype.itemsize == 2 else x
    total, reach = torch.ones_like(greatest), 1
    while reach < x.shape[dim]:
        rest = x.shape[dim] - reach
        before, after = greatest.narrow(dim, 0, rest), greatest.narrow(dim, reach, rest)
        # The difference of two equal infinities is NaN. If the elements are equal, all selects choose the same one, so
        # that the gradients are consistent.
        endless = (before == after) & (before.abs() == math.inf)
        distance = torch.where(endless, torch.zeros([], dtype=before.dtype), before - after)
        factor = torch.exp(torch.where(distance > 0, -distance, distance))
        earlier, later = total.narrow(dim, 0, rest), total.narrow(dim, reach, rest)
        joined = torch.where(distance > 0, earlier + later * factor, earlier * factor + later)
        total = torch.cat([total.narrow(dim, 0, reach), joined], dim)
        greatest = torch.cat([greatest.narrow(dim, 0, reach), torch.where(distance > 0, before, after)], dim)
        reach *= 2
    return (greatest + torch.log(total)).to(x.dtype)


@_decomposes(aten.sinc.default)
def _sinc(x: torch.Tensor) -> Any:
    if not x.dtype.is_floating_point:
        return NotImplemented
    turned = math.pi * x
    one = torch.ones([], dtype=x.dtype)
    # The gradient at 0 is zero; 0 / 0 would make it NaN.
    divisor = torch.where(turned == 0, one, turned)
    return torch.where(turned == 0, one, torch.sin(turned) / divisor)


@_decomposes(aten.renorm.default)
def _renorm(x: torch.Tensor, p: float, dim: int, maxnorm: float) -> torch.Tensor:
    dims = [d for d in range(x.dim()) if d != dim % x.dim()]
    norm = torch.linalg.vector_norm(x, p, dims, keepdim=True)
    factor = torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), torch.ones([], dtype=x.dtype))
    return x * factor


@_decomposes(aten.linspace.Tensor_Tensor)
def _linspace(start: torch.Tensor, end: torch.Tensor, steps: int, *, dtype: Any = None, **_: Any) -> torch.Tensor:
    dtype = dtype or torch.get_default_dtype()
    position = torch.arange(steps).to(dtype)
    step = (end.to(dtype) - start.to(dtype)) / max(steps - 1, 1)
    rising, falling = start.to(dtype) + step * position, end.to(dtype) - step * (steps - 1 - position)
    return torch.where(position < steps // 2, rising, falling)


@_decomposes(aten.searchsorted.Tensor)
def _searchsorted(
    edges: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    right = right or side == "right"

    def is_before(edge: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        # In PyTorch every edge is before a NaN.
        return torch.logical_not(edge > x if right else edge >= x)

    kind = torch.int32 if out_int32 else torch.int64
    extent = edges.shape[-1]
    if isinstance(extent, torch.SymInt):
        return is_before(edges.unsqueeze(-2), x.unsqueeze(-1)).to(torch.int64).sum(-1).to(kind)
    # Repeats PyTorch's binary search: with NaN among the edges, the result depends on which edges the search reads.
    low = torch.zeros(x.shape, dtype=torch.int64)
    high = torch.full(x.shape, extent, dtype=torch.int64)
    for _ in range(extent.bit_length()):
        middle = torch.div(low + high, 2, rounding_mode="trunc")
        place = middle.clamp(max=extent - 1)
        edge = (
            edges.index_select(0, place.reshape(-1)).reshape(x.shape) if edges.dim() == 1 else edges.gather(-1, place)
        )
        searches, goes_on = low < high, is_before(edge, x)
        low = torch.where(searches & goes_on, middle + 1, low)
        high = torch.where(searches & ~goes_on, middle, high)
    return low.to(kind)


@_decomposes(aten.searchsorted.Scalar)
def _searchsorted_number(edges: torch.Tensor, x: float, **options: Any) -> torch.Tensor:
    kind = torch.result_type(edges, x)
    return _searchsorted(edges.to(kind), torch.full([], x, dtype=kind), **options)


@_decomposes(aten.bucketize.Tensor)
def _bucketize(x: torch.Tensor, edges: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    return _searchsorted(edges, x, out_int32=out_int32, right=right)


@_decomposes(aten.histc.default)
def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    x = x.reshape(-1)
    low, high = torch.full([], min, dtype=x.dtype), torch.full([], max, dtype=x.dtype)
    if min == max:
        low, high = x.amin(), x.amax()
    equal = low == high
    low, high = torch.where(equal, low - 1, low), torch.where(equal, high + 1, high)
    inside = (x >= low) & (x <= high)
    bin_of = torch.floor((x - low) * bins / (high - low))
    bin_of = torch.minimum(bin_of, torch.full([], bins - 1, dtype=x.dtype))
    hit = (torch.arange(bins).to(x.dtype).unsqueeze(1) == bin_of) & inside
    return hit.to(x.dtype).sum(1)


# --- Losses, embeddings, indexing ---


@_decomposes(aten.smooth_l1_loss_backward.default)
def _smooth_l1_loss_backward(
    gradient: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, beta: float
) -> torch.Tensor:
    # torch-mlir's default uses the sign of the difference, which gives 0 where the difference is NaN.
    difference = x - target
    found: torch.Tensor = smooth_l1_loss_backward(gradient, x, target, reduction, beta)
    return torch.where(difference.isnan(), difference, found)


@_decomposes(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def _nll_loss_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    # Compares class indices with the target; torch-mlir's default uses a scatter.
    axis = 0 if x.dim() < 2 else 1
    if reduction == 1:
        gradient = gradient / total_weight
    shape = [1] * x.dim()
    shape[axis] = x.shape[axis]
    classes = torch.arange(x.shape[axis], dtype=target.dtype).view(shape)
    # The target of an input without a batch dimension has shape [] or [1].
    target = target.unsqueeze(axis) if axis else target.reshape(1)
    hit = (classes == target) & (target != ignore_index)
    if 0 < gradient.dim() < x.dim():
        gradient = gradient.unsqueeze(axis)
    if weight is not None:
        gradient = gradient * weight.view(shape)
    return torch.where(hit, -gradient, torch.zeros([], dtype=x.dtype))


def _scatter_mean(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, include_self: bool
) -> torch.Tensor:
    base = x if include_self else aten.scatter.value(x, dim, index, 0)
    total = aten.scatter_add.default(base, dim, index, source)
    ones = torch.ones(source.shape, dtype=x.dtype)
    count = torch.ones(x.shape, dtype=x.dtype)
    if not include_self:
        count = aten.scatter.value(count, dim, index, 0)
    count = aten.scatter_add.default(count, dim, index, ones)
    return total / count if x.dtype.is_floating_point else torch.div(total, count, rounding_mode="floor")


def _scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    # A negative dimension crashes torch-mlir's lowering to tm_tensor, and no single reduction computes a mean.
    if x.dtype == torch.bool:
        # The sum of booleans is a disjunction, and torch-mlir's lowering compares i1 as signed integers.
        wide = aten.scatter_reduce.two(
            x.to(torch.int32), dim, index, source.to(torch.int32), reduce, include_self=include_self
        )
        return wide != 0
    if dim < 0:
        return aten.scatter_reduce.two(x, dim + max(x.dim(), 1), index, source, reduce, include_self=include_self)
    if reduce == "mean" and x.dim():
        source = source[tuple(slice(0, extent) for extent in index.shape)]
        return _scatter_mean(x, dim, index, source, include_self)
    return NotImplemented


def _positive_dimension(operator: Any) -> Callable[..., Any]:
    def call(x: torch.Tensor, dim: int, *args: Any, **kwargs: Any) -> Any:
        # A negative dimension crashes torch-mlir's lowering to tm_tensor.
        if dim < 0:
            return operator(x, dim + max(x.dim(), 1), *args, **kwargs)
        return NotImplemented

    return call


for _operator in (
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.gather.default,
):
    _entries[_operator] = _positive_dimension(_operator)
_entries[aten.scatter_reduce.two] = _scatter_reduce


def _or_of_booleans(operator: Any, positive: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, **options: Any) -> Any:
        # The sum of booleans is a disjunction, but addition of i1 is exclusive or (D1).
        if x.dtype == torch.bool:
            return operator(x.to(torch.int32), dim, index, source.to(torch.int32), **options) != 0
        return positive(x, dim, index, source, **options)

    return call


_entries[aten.scatter_add.default] = _or_of_booleans(aten.scatter_add.default, _entries[aten.scatter_add.default])
_entries[aten.index_add.default] = _or_of_booleans(aten.index_add.default, lambda *_, **__: NotImplemented)


@_decomposes(aten.cat.default)
def _concatenate(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    # Drop empty tensors, since torch-mlir's lowering counts their extents; PyTorch accepts shape [0] next to any rank.
    filled = [each for each in tensors if each.numel()]
    if len(filled) == len(tensors):
        return NotImplemented
    dtype = functools.reduce(torch.promote_types, (each.dtype for each in tensors))
    if not filled:
        shaped = [each for each in tensors if each.shape != (0,)] or tensors[:1]
        shape = [*shaped[0].shape]
        shape[dim] = sum(each.shape[dim] for each in shaped)
        return torch.zeros(shape, dtype=dtype)
    if filled[1:]:
        return aten.cat.default([each.to(dtype) for each in filled], dim)
    # Copy to contiguous strides, for which the views of the result were traced.
    return filled[0].to(dtype).clone(memory_format=torch.contiguous_format)


@_decomposes(aten.topk.default)
def _top_k(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    # If the caller requests no order, return the sorted order, which is defined.
    return NotImplemented if sorted else aten.topk.default(x, k, dim, largest, True)


@_decomposes(aten.sort.stable)
def _stable_sort(
    x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    # (D2) Every sort is stable.
    return aten.sort.default(x, dim % max(x.dim(), 1), descending)


@_decomposes(aten.embedding_dense_backward.default)
def _embedding_backward(
    gradient: torch.Tensor, indices: torch.Tensor, count: int, padding_index: int, scale_by_frequency: bool
) -> Any:
    # torch-mlir's lowering accepts only indices of rank 1.
    if indices.dim() == 1:
        return NotImplemented
    rows = gradient.reshape(-1, gradient.shape[-1])
    return aten.embedding_dense_backward(rows, indices.reshape(-1), count, padding_index, scale_by_frequency)


@_decomposes(aten._neg_view.default)
def _negative_view(x: torch.Tensor) -> torch.Tensor:
    # PyTorch creates this view for the imaginary part of a conjugate.
    return aten.neg.default(x)


@_decomposes(aten.take.default)
def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    # torch-mlir's default reads the value of an index of shape [], which is unknown during tracing.
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


@_decomposes(aten.put.default)
def _put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    flat = aten.index_put(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


@_decomposes(aten.index.Tensor)
def _index(x: torch.Tensor, indices: Sequence[Any]) -> Any:
    # torch-mlir's lowering compares an index with an extent, which is an i64, so i32 indices are converted.
    if not any(index is not None and index.dtype is torch.int32 for index in indices):
        return NotImplemented
    wide = [index if index is None or index.dtype is not torch.int32 else index.to(torch.int64) for index in indices]
    return aten.index.Tensor(x, wide)


@_decomposes(aten.index_put.default)
def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    if any(each is not None and is_empty(each) for each in indices):
        # A write of no elements crashes torch-mlir's lowering.
        return x.clone()
    if accumulate and x.dtype == torch.bool:
        # The sum of booleans is a disjunction, but addition of i1 is exclusive or (D1).
        return aten.index_put(x.to(torch.int32), indices, values.to(torch.int32), True) != 0
    # torch-mlir's lowering puts the indices in a list of one type, which fails for i32 indices next to None.
    if all(each is not None for each in indices) or all(each is None or each.dtype != torch.int32 for each in indices):
        return NotImplemented
    wide = [None if each is None else each.to(torch.int64) for each in indices]
    return aten.index_put(x, wide, values, accumulate)


@_decomposes(aten.index_reduce.default)
def _index_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    dim %= max(x.dim(), 1)
    shape = [1] * source.dim()
    shape[dim] = -1
    spread = index.reshape(shape).expand(source.shape)
    return aten.scatter_reduce.two(x, dim, spread, source, reduce, include_self=include_self)


def _median_of(x: torch.Tensor, dim: int, keepdim: bool, ignore_nan: bool) -> tuple[torch.Tensor, torch.Tensor]:
    dim %= x.dim()
    values, indices = aten.sort.default(x, dim, False)
    middle = torch.full_like(values.select(dim, 0).unsqueeze(dim), (x.shape[dim] - 1) // 2, dtype=torch.int64)
    nan = torch.isnan(values).to(torch.int64).sum(dim, True)
    if ignore_nan:
        # NaN sorts last. If all elements of a slice are NaN, the median is the first of them.
        middle = ((x.shape[dim] - nan - 1) // 2).clamp(min=0)
    else:
        middle = torch.where(nan > 0, x.shape[dim] - nan, middle)
    found = values.gather(dim, middle), indices.gather(dim, middle)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


@_decomposes(aten.median.dim)
def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return _median_of(x, dim, keepdim, False)


@_decomposes(aten.nanmedian.dim)
def _nanmedian(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return _median_of(x, dim, keepdim, True)


@_decomposes(aten.median.default)
def _median_all(x: torch.Tensor) -> torch.Tensor:
    return _median_of(x.reshape(-1), 0, False, False)[0]


@_decomposes(aten.nanmedian.default)
def _nanmedian_all(x: torch.Tensor) -> torch.Tensor:
    return _median_of(x.reshape(-1), 0, False, True)[0]


@_decomposes(aten.masked_scatter_backward.default)
def _masked_scatter_backward(gradient: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    # Element i of the source went to the i-th true position of the mask.
    chosen = mask.expand(gradient.shape).reshape(-1)
    position = torch.cumsum(chosen.to(torch.int64), 0) - 1
    values = torch.where(chosen, gradient.reshape(-1), torch.zeros([], dtype=gradient.dtype))
    count = math.prod(sizes)
    slots = torch.zeros([count + 1], dtype=gradient.dtype)
    # Unchosen elements go to one extra slot after the others.
    target = torch.where(chosen, position, torch.full([], count, dtype=torch.int64))
    return slots.scatter_add(0, target, values)[:count].reshape(list(sizes))


# --- Weight normalisation ---


@_decomposes(aten._weight_norm_interface.default)
def _weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    norm = torch.sqrt((v * v).sum([d for d in range(v.dim()) if d != dim], True))
    return v * (g / norm), norm


@_decomposes(aten._weight_norm_interface_backward.default)
def _weight_norm_backward(
    gradient: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norm: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    dot = (gradient * v).sum([d for d in range(v.dim()) if d != dim], True)
    return g / norm * gradient - g * dot / (norm * norm * norm) * v, dot / norm
