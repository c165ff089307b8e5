# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces functions of PyTorch, before autograd sees them, by compositions that autograd can differentiate.

These functions have a gradient that is a single operator without a lowering, or read tensor values to check their
arguments.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.overrides import TorchFunctionMode

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.caught_errors import note_error
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.known_shapes import is_empty
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.base.value_checks import is_all_true
from repro_mlir.frontends.torch.base.value_requests import answered, is_request
from repro_mlir.frontends.torch.operators.ctc import ctc_loss
from repro_mlir.frontends.torch.operators.resampling import linear
from repro_mlir.frontends.torch.trace.control_flow import ControlFlow
from repro_mlir.frontends.torch.trace.packed_sequences import PACKED


class Compositions(TorchFunctionMode):
    """While this mode is active, replaces functions of PyTorch by their compositions in this module and in
    control_flow.py."""

    def __init__(self) -> None:
        super().__init__()
        self._control_flow = ControlFlow()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        operator = self._control_flow.operators.get(function)
        if operator is not None:
            # Functions are also replaced inside the functions that the operator calls.
            with self:
                return operator(*args, **(kwargs or {}))
        try:
            if is_request(function):
                return answered(function, args, kwargs or {})
            return _COMPOSITIONS.get(function, function)(*args, **(kwargs or {}))
        except Exception as error:
            note_error(error, function, args, kwargs or {})
            raise


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: str | None = None) -> torch.Tensor:
    return _length(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _length(x: torch.Tensor, p: float) -> torch.Tensor:
    found = torch.linalg.vector_norm(x, p, dim=-1)
    if p == 0:
        # For p = 0, the norm is the number of differences. PyTorch's gradient of this number is zero rather than
        # absent.
        found = torch.where(torch.zeros([], dtype=torch.bool), x.sum(-1), found)
    return found


def _pdist(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    differences = [x[row] - x[row + 1 :] for row in range(x.shape[0] - 1)]
    if not differences:
        return x.new_zeros([0])
    return _length(torch.cat(differences), p)


def _cov(
    x: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    x = x.reshape(1, -1) if x.dim() < 2 else x
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given.to(x.dtype) if weights is None else weights * given.to(x.dtype)
    if weights is None:
        total: Any = x.shape[1]
        mean = x.sum(1, keepdim=True) / total
    else:
        total = weights.sum()
        mean = (x * weights).sum(1, keepdim=True) / total
    if aweights is not None and weights is not None and correction != 0:
        norm = total - correction * (weights * aweights.to(x.dtype)).sum() / total
    else:
        norm = total - correction
    if isinstance(norm, torch.Tensor):
        norm = norm.clamp(min=0)
    else:
        norm = max(norm, 0)
    centred = x - mean
    weighted = centred if weights is None else centred * weights
    return (weighted @ centred.mH / norm).squeeze()


def _corrcoef(x: torch.Tensor) -> torch.Tensor:
    covariance = _cov(x)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = torch.sqrt(covariance.diagonal())
    return (covariance / deviation.unsqueeze(1) / deviation.unsqueeze(0)).clamp(-1, 1)


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var)
    elif var.dim() == input.dim() - 1 and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    # As in PyTorch, the bound does not contribute to the gradient.
    bounded = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (torch.log(bounded) + (input - target) ** 2 / bounded)
    if full:
        loss = loss + 0.9189385332046727
    reductions: dict[str, Callable[[], torch.Tensor]] = {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}
    return reductions[reduction]()


def _ldexp(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if other.dtype is torch.bool:
        raise CaptureError("ldexp: expected an exponent of integers or floats, got bool: other.int() converts it")
    if input.dtype != torch.float32 or other.is_floating_point():
        return torch.ldexp(input, other)
    # The power of 2 may exceed the range of f32 although the product does not; in f64 all these products are exact.
    product, left = input.double(), other.to(torch.int64).clamp(-300, 300)
    for _ in range(3):
        part = left.clamp(-100, 100)
        product, left = product * torch.exp2(part.float()).double(), left - part
    return product.float()


def _grid_sampler(
    x: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> torch.Tensor:
    if padding_mode != 0 and interpolation_mode in (0, 1):
        # PyTorch moves NaN, and an infinity that it would have to reflect, to the first position of an image or the
        # last position of a volume.
        is_place = grid == grid if padding_mode == 1 else grid.abs() < float("inf")
        grid = torch.where(is_place, grid, torch.full([], -1.0 if x.dim() == 4 else 1.0, dtype=grid.dtype))
    if x.dim() == 5 and interpolation_mode in (0, 1):
        return _grid_sampler_of_volumes(x, grid, interpolation_mode, padding_mode, align_corners)
    if x.dim() != 4:
        return torch.grid_sampler(x, grid, interpolation_mode, padding_mode, align_corners)
    wide = x.float() if x.dtype.itemsize == 2 else x
    image: Any = _Image(wide)
    found: torch.Tensor = internals.grid_sampler_2d(
        image,
        grid.to(wide.dtype),
        interpolation_mode=interpolation_mode,
        padding_mode=padding_mode,
        align_corners=align_corners,
    )
    return found.to(x.dtype)


class _Image:
    """An image that PyTorch's decomposition samples. At a position outside of the image, the decomposition reads the
    first element of the image and gives it the weight 0."""

    def __init__(self, x: torch.Tensor) -> None:
        self._x = x
        self.shape, self.device = x.shape, x.device

    def __getitem__(self, indices: tuple[torch.Tensor, ...]) -> "_Sampled":
        *_, row, column = indices
        return _Sampled(self._x[indices], (row == 0) & (column == 0))


class _Sampled:
    """Sampled elements of an `_Image`, to be multiplied by their weights."""

    def __init__(self, values: torch.Tensor, is_first: torch.Tensor) -> None:
        self._values, self._is_first = values, is_first

    def __mul__(self, weight: torch.Tensor) -> torch.Tensor:
        return _finite_outside(self._values, self._is_first & (weight == 0)) * weight


def _finite_outside(values: torch.Tensor, is_outside: torch.Tensor) -> torch.Tensor:
    """Replaces infinities and NaN outside of an image by zeros.

    The values there are multiplied by zero and have no gradient.
    """
    fixed = values.detach()
    finite = torch.where(fixed.abs() < float("inf"), fixed, torch.zeros([], dtype=values.dtype))
    return torch.where(is_outside, finite, values)


def _reflected(place: torch.Tensor, twice_low: int, twice_high: int) -> torch.Tensor:
    """Reflects a position at the bounds until it is between them."""
    if twice_low == twice_high:
        return torch.zeros_like(place)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    distance = (place - low).abs()
    extra = torch.fmod(distance, span)
    turns = torch.floor(distance / span)
    return torch.where(torch.fmod(turns, 2) == 0, extra + low, span - extra + low)


def _sampled_place(grid: torch.Tensor, size: int, padding_mode: int, align_corners: bool) -> torch.Tensor:
    """Converts a grid coordinate between -1 and 1 to a position along a dimension, in elements."""
    place = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    if padding_mode == 2:
        place = _reflected(place, 0, 2 * (size - 1)) if align_corners else _reflected(place, -1, 2 * size - 1)
    return place if padding_mode == 0 else place.clamp(0, size - 1)


def _grid_sampler_of_volumes(
    x: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> torch.Tensor:
    sizes = x.shape[-3:]
    # The coordinates of the grid start with the last dimension.
    places = [_sampled_place(grid[..., 2 - i], sizes[i], padding_mode, align_corners) for i in range(3)]
    flat = x.flatten(2)

    def taken(corner: list[torch.Tensor], weight: torch.Tensor) -> torch.Tensor:
        inside = torch.ones([], dtype=torch.bool)
        position = torch.zeros([], dtype=torch.int64)
        for each, size in zip(corner, sizes, strict=True):
            inside = inside & (each >= 0) & (each <= size - 1)
            position = position * size + each.clamp(0, size - 1).to(torch.int64)
        shape = position.shape[1:]
        index = position.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
        values = flat.gather(2, index).unflatten(2, shape)
        used = torch.where(inside, weight, torch.zeros([], dtype=x.dtype)).unsqueeze(1)
        return _finite_outside(values, ~inside.unsqueeze(1)) * used

    if interpolation_mode == 1:
        corner = [torch.round(each.detach()) for each in places]
        return taken(corner, torch.ones([], dtype=x.dtype))
    floors = [torch.floor(each.detach()) for each in places]
    total: Any = None
    for bits in range(8):
        corner, weight = [], torch.ones([], dtype=x.dtype)
        for i in range(3):
            far = bits >> (2 - i) & 1
            corner.append(floors[i] + far)
            weight = weight * (places[i] - floors[i] if far else floors[i] + 1 - places[i])
        term = taken(corner, weight)
        total = term if total is None else total + term
    return total


def _grid_sample(
    input: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> torch.Tensor:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return _grid_sampler(input, grid, modes.index(mode), paddings.index(padding_mode), bool(align_corners))


def _multivariate_lgamma(input: torch.Tensor, p: int) -> torch.Tensor:
    if p < 1:
        raise CaptureError(f"expected p of at least 1 for mvlgamma, got {p}")
    return torch.mvlgamma(input, p)


def _conv_tbc(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pad: int = 0) -> torch.Tensor:
    return F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def _norm_of_element(function: Any) -> Callable[..., torch.Tensor]:
    """Returns a norm that also accepts dimension 0 or -1 of a tensor of shape []."""

    def call(*args: Any, **kwargs: Any) -> torch.Tensor:
        dim = args[2] if len(args) > 2 else kwargs.get("dim")
        found: torch.Tensor
        if args and args[0].dim() == 0 and dim in (0, -1, (0,), (-1,), [0], [-1]):
            found = function(args[0].reshape(1), *args[1:], **kwargs)
            return found.reshape(())
        found = function(*args, **kwargs)
        return found

    return call


def _of_selection(composition: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `composition` if a tensor has an extent that depends on tensor values, else
    `function`.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        return (composition if any(map(free_unbacked_symbols, tensors)) else function)(*args, **kwargs)

    return call


def _cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, dim: int = 1, eps: float = 1e-8) -> torch.Tensor:
    units = []
    for each in (x1, x2):
        norm = torch.linalg.vector_norm(each, 2, dim, keepdim=True)
        # The bound does not contribute to the gradient.
        units.append(each / (norm + (norm.detach().clamp(min=eps) - norm.detach())))
    return (units[0] * units[1]).sum(dim)


def _cosine_embedding_loss(
    input1: torch.Tensor,
    input2: torch.Tensor,
    target: torch.Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> torch.Tensor:
    product = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = product / squares.sqrt()
    zero = torch.zeros_like(cosine)
    apart = (cosine - margin).clamp(min=0)
    loss = torch.where(target == 1, 1 - cosine, zero) + torch.where(target == -1, apart, zero)
    reductions: dict[str, Callable[[], torch.Tensor]] = {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}
    return reductions[reduction]()


def _einsum(*operands: Any) -> torch.Tensor:
    # The search for the best contraction order needs the extents as numbers.
    with torch.backends.opt_einsum.flags(enabled=False):
        return torch.einsum(*operands)


def _embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor:
    if sparse and torch.is_grad_enabled() and weight.requires_grad:
        raise CaptureError("embedding with sparse=True is not supported: expected sparse=False, with a dense gradient")
    return F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)


def _embedding_bag(
    input: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> torch.Tensor:
    if mode not in ("sum", "mean") or max_norm is not None or scale_grad_by_freq:
        raise CaptureError(
            f"embedding_bag with mode={mode!r}, max_norm={max_norm}, scale_grad_by_freq={scale_grad_by_freq} "
            "is not supported; expected mode 'sum' or 'mean' without the other options"
        )
    rows = F.embedding(input, weight, padding_idx)
    counted = torch.ones(input.shape, dtype=weight.dtype)
    if padding_idx is not None:
        counted = (input != padding_idx % weight.shape[0]).to(weight.dtype)
    rows = rows * counted.unsqueeze(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if input.dim() == 2:
        total, count = rows.sum(1), counted.sum(1)
    else:
        if offsets is None:
            raise CaptureError("expected offsets for embedding_bag of a one-dimensional input, got none")
        internals.assert_async((offsets[:1] == 0).all(), "embedding_bag: expected the first offset to be 0")
        is_inside = (offsets[-1:] <= input.shape[0]).all()
        internals.assert_async(is_inside, "embedding_bag: expected the last offset to be at most the number of indices")
        begins = offsets[:-1] if include_last_offset else offsets
        # The bag of an element is the last one that begins at or before it.
        bag = (begins.unsqueeze(0) <= torch.arange(input.shape[0]).unsqueeze(1)).to(torch.int64).sum(1) - 1
        total = weight.new_zeros([begins.shape[0], weight.shape[1]]).index_add(0, bag, rows)
        count = weight.new_zeros([begins.shape[0]]).index_add(0, bag, counted)
    return total if mode == "sum" else total / count.clamp(min=1).unsqueeze(-1)


def _grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if bias is not None or (a.dim(), b.dim(), offs is not None) not in ((2, 3, True), (3, 3, False)):
        raise CaptureError(
            f"this grouped_mm of tensors with {a.dim()} and {b.dim()} dimensions is not supported: expected a matrix "
            "whose rows offs divides into groups, a matrix for each group, and no bias"
        )
    if offs is None:
        product = a @ b
    else:
        # The group of a row is the number of groups that end at or before it; rows in no group are zero.
        group = (offs.unsqueeze(0) <= torch.arange(a.shape[0]).unsqueeze(1)).to(torch.int64).sum(1)
        is_in = (group < b.shape[0]).unsqueeze(1)
        product = (a.unsqueeze(1) @ b[group.clamp(max=b.shape[0] - 1)]).squeeze(1)
        product = torch.where(is_in, product, torch.zeros([], dtype=product.dtype))
    return product if out_dtype is None else product.to(out_dtype)


def _bucketize(input: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    if isinstance(input, torch.Tensor):
        return torch.bucketize(input, boundaries, out_int32=out_int32, right=right)
    # PyTorch's bucketize would convert the number to a tensor and read its value.
    return torch.searchsorted(boundaries, input, out_int32=out_int32, right=right)


def _signed_diagonal(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the diagonal of U in the LU factorization of a, and the sign of its row exchanges.

    The gradient goes through the factorization: the determinant's own gradient depends on the strides of its operand,
    which a trace does not keep.
    """
    lu, pivots = torch.linalg.lu_factor(a)
    moved = (pivots != torch.arange(1, a.shape[-1] + 1, dtype=torch.int32)).to(torch.int64).sum(-1)
    sign = torch.where(moved % 2 == 0, torch.ones([], dtype=a.dtype), torch.full([], -1.0, dtype=a.dtype))
    return torch.diagonal(lu, 0, -2, -1), sign


def _product(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    if x.shape[-1] == 0:
        # The sum of no elements keeps x, with an empty gradient, in the graph.
        return start + x.sum(-1)
    for position in range(x.shape[-1]):
        start = start * x.select(-1, position)
    return start


def _det(a: torch.Tensor) -> torch.Tensor:
    return _product(*_signed_diagonal(a))


def _slogdet(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    diagonal, sign = _signed_diagonal(a)
    parts = _product(torch.sign(diagonal), sign), torch.log(diagonal.abs()).sum(-1)
    return torch.return_types.linalg_slogdet(parts)  # type: ignore[attr-defined]  # absent from the stubs


def _logdet(a: torch.Tensor) -> torch.Tensor:
    sign, logarithm = _slogdet(a)
    return torch.where(sign < 0, torch.full([], float("nan"), dtype=a.dtype), logarithm)


def _set_item(x: torch.Tensor, index: Any, value: Any) -> None:
    is_mask = isinstance(index, torch.Tensor) and index.dtype is torch.bool and index.shape == x.shape
    if is_mask and (not isinstance(value, torch.Tensor) or value.dim() == 0):
        # Indexing by the mask would need the positions of the elements, whose number is unknown.
        x.masked_fill_(index, value)
    else:
        x[index] = value


def _set_data(x: torch.Tensor, value: torch.Tensor) -> None:
    # A trace does not record an assignment to `data`. Assigning a tensor to itself, as `module.to(...)` does, is
    # harmless.
    if value is not x:
        raise CaptureError("the step assigns to the data of a tensor: use data.copy_(...)")


def _require_no_bytes(x: torch.Tensor, mode: str) -> None:
    if x.dtype is torch.uint8:
        raise CaptureError(
            f"{mode} interpolation of uint8, for which PyTorch rounds the weights to integers, is not supported: "
            "expected floats, as of x.float()"
        )


def _require_elements(x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Returns the resampled image `found`. As PyTorch's kernels do, refuses empty dimensions other than the batch."""
    if any(statically_known_true(extent == 0) for extent in (*x.shape[1:], *found.shape[1:])):
        shapes = f"{list(x.shape)} to {list(found.shape)}"
        raise CaptureError(f"expected channels and sizes of an interpolation greater than 0, got {shapes}")
    return found


_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
"""The number of spatial dimensions of each mode."""


def _interpolate(
    input: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> torch.Tensor:
    options = (size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if mode in ("nearest", "nearest-exact", "area"):
        return _resized(input, *options)
    _require_no_bytes(input, mode)
    return _require_elements(input, _resized(input, *options))


def _resized(
    input: torch.Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> torch.Tensor:
    rank = input.dim() - 2
    repeats = mode == "nearest" and rank == 2 and size is None and not (align_corners or recompute_scale_factor)
    is_linear = _LINEAR.get(mode) == rank and not antialias
    if (size is None) == (scale_factor is None) or not (repeats or is_linear):
        return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if size is not None:
        return linear(input, [*size] if isinstance(size, tuple | list) else [size] * rank, bool(align_corners))
    factors = [*scale_factor] if isinstance(scale_factor, tuple | list) else [scale_factor] * rank
    sizes = internals.upsample_compute_output_size(input.shape, None, factors)
    if recompute_scale_factor:
        return linear(input, sizes, bool(align_corners))
    scales = factors
    # The check below needs known extents.
    if all(isinstance(extent, int) for extent in input.shape):
        # PyTorch copies a dimension that keeps its size, whatever the factor, and repeats the nearest elements of an
        # image whose size doubles.
        ratios = (1, 2) if repeats else (1,)
        scales = [
            None if any(result == ratio * extent and factor != ratio for ratio in ratios) else factor
            for result, extent, factor in zip(sizes, input.shape[2:], factors, strict=True)
        ]
    if is_linear:
        return linear(input, sizes, bool(align_corners), *scales)
    found: torch.Tensor = torch.ops.aten.upsample_nearest2d.default(input, sizes, *scales)
    return found


def _group_norm(
    x: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> torch.Tensor:
    if not is_empty(x):
        return torch.group_norm(x, num_groups, weight, bias, eps, cudnn_enabled)
    if weight is not None and weight.requires_grad and x.shape[0] != 0:
        raise CaptureError("group_norm of an empty tensor is not supported: PyTorch's gradient of its weight is NaN")
    # The operator's own gradient divides by the number of elements, which is 0 here.
    shape = [-1, *[1] * (x.dim() - 2)]
    x = x.clone() if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def _pad(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> torch.Tensor:
    padded: torch.Tensor = internals.nn_functions.pad(input, pad, mode, value)
    if mode == "circular":
        for i in range(0, len(pad), 2):
            kept = input.shape[-1 - i // 2] + min(pad[i], 0) + min(pad[i + 1], 0)
            if max(pad[i], pad[i + 1]) > kept:
                # In this case, PyTorch would copy elements of the result that it has not written yet.
                raise CaptureError(f"circular padding by {list(pad[i : i + 2])} repeats {kept} elements more than once")
    return padded


def _softshrink(input: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    # PyTorch's decomposition has no gradient for NaN inputs, unlike eager PyTorch.
    if not (input.is_floating_point() and lambd >= 0):
        return F.softshrink(input, lambd)
    return torch.where(input.abs() <= lambd, torch.zeros([], dtype=input.dtype), input - torch.sign(input) * lambd)


def _loss(function: Any, place: int) -> Callable[..., torch.Tensor]:
    """Returns a loss of pairs of elements that also accepts empty tensors, for which PyTorch's gradient divides by
    zero.

    Args:
      place: the position of the `reduction` argument after input and target.
    """

    def call(input: torch.Tensor, target: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        found: torch.Tensor
        if not is_empty(input):
            found = function(input, target, *rest, **named)
            return found
        found = input - target
        reduction = rest[place] if len(rest) > place else named.get("reduction", "mean")
        return found.mean() if reduction in ("mean", 1) else found.sum() if reduction in ("sum", 2) else found

    return call


def _of_classes(function: Any) -> Callable[..., torch.Tensor]:
    """Returns a loss of classes that also accepts uint8 targets, which PyTorch's gradient of the loss does not
    support."""

    def call(input: torch.Tensor, target: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        found: torch.Tensor = function(input, target.long() if target.dtype is torch.uint8 else target, *rest, **named)
        return found

    return call


def _weighted(function: Any) -> Callable[..., torch.Tensor]:
    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        _require_no_bytes(x, "weighted")
        return _require_elements(x, function(x, *args, **kwargs))

    return call


_COMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.cdist: _cdist,
    torch.pdist: _pdist,
    internals.torch_is_all_true: is_all_true,
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
    torch.ldexp: _ldexp,
    torch.Tensor.ldexp: _ldexp,
    torch.conv_tbc: _conv_tbc,
    torch.Tensor.norm: _norm_of_element(torch.Tensor.norm),
    torch.norm: _norm_of_element(torch.norm),
    torch.linalg.vector_norm: _norm_of_element(torch.linalg.vector_norm),
    torch.mvlgamma: _multivariate_lgamma,
    torch.Tensor.mvlgamma: _multivariate_lgamma,
    torch.special.multigammaln: _multivariate_lgamma,
    torch.grid_sampler: _grid_sampler,
    torch.grid_sampler_2d: _grid_sampler,
    torch.grid_sampler_3d: _grid_sampler,
    torch.bucketize: _bucketize,
    torch.det: _det,
    torch.Tensor.det: _det,
    torch.linalg.det: _det,
    torch.slogdet: _slogdet,
    torch.Tensor.slogdet: _slogdet,
    torch.linalg.slogdet: _slogdet,
    torch.logdet: _logdet,
    torch.Tensor.logdet: _logdet,
    torch.Tensor.__setitem__: _set_item,
    torch.Tensor.data.__set__: _set_data,  # type: ignore[attr-defined]  # a slot
    F.pdist: _pdist,
    F.grid_sample: _grid_sample,
    F.gaussian_nll_loss: _gaussian_nll_loss,
    F.embedding: _embedding,
    F.embedding_bag: _embedding_bag,
    F.ctc_loss: ctc_loss,
    F.grouped_mm: _grouped_mm,
    internals.grouped_mm: _grouped_mm,
    F.interpolate: _interpolate,
    F.softshrink: _softshrink,
    F.pad: _pad,
    internals.nn_functions.pad: _pad,
    F.group_norm: _group_norm,
    torch.group_norm: _group_norm,
    F.cosine_similarity: _of_selection(_cosine_similarity, F.cosine_similarity),
    F.cosine_embedding_loss: _of_selection(_cosine_embedding_loss, F.cosine_embedding_loss),
    torch.einsum: _of_selection(_einsum, torch.einsum),
    **PACKED,
}
for _name, _replaced in {
    "upsample_linear1d": linear,
    "upsample_bilinear2d": linear,
    "upsample_trilinear3d": linear,
    "upsample_bicubic2d": None,
    "_upsample_bilinear2d_aa": None,
    "_upsample_bicubic2d_aa": None,
}.items():
    _packet = getattr(torch.ops.aten, _name)
    for _function in (_packet, _packet.default, _packet.vec, getattr(internals.nn_functions, _name)):
        _COMPOSITIONS[_function] = _weighted(_replaced or _function)
for _name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
    _COMPOSITIONS[getattr(F, _name)] = _loss(getattr(F, _name), 0 if _name == "huber_loss" else 2)
    _COMPOSITIONS[getattr(internals.nn_functions, _name)] = _loss(getattr(internals.nn_functions, _name), 0)
for _owner, _name in (
    (F, "cross_entropy"),
    (F, "nll_loss"),
    (internals.nn_functions, "cross_entropy_loss"),
    (internals.nn_functions, "nll_loss_nd"),
):
    _COMPOSITIONS[getattr(_owner, _name)] = _of_classes(getattr(_owner, _name))
