# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The functions that draw random numbers, for eager code."""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.tensors.frameworks import not_traced
from repro_mlir.random import distributions
from repro_mlir.random.boxes import Box, Shape, box_of
from repro_mlir.random.distributions import Distribution
from repro_mlir.random.generator import Generator

_FLOATS = "float32", "float64", "float16", "bfloat16"
_INTEGERS = "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"


@not_traced
def rand(
    shape: Shape,
    *,
    generator: Generator,
    dtype: Any = None,
    device: Any = None,
    site: int | None = None,
    local: Sequence[slice] | None = None,
) -> Any:
    """(R2) Returns uniform random numbers in [0, 1).

    The numbers are multiples of 2^-24 in f32. They are exact in f64 and rounded to nearest even in f16 and bf16, where
    the greatest ones become 1.

    Args:
      shape: the shape of the whole tensor: an integer, or a sequence of integers.
      generator: the generator, whose next site is taken.
      dtype: float32 (the default), float64, float16 or bfloat16, as a name, a type of NumPy or a type of PyTorch.
      device: the device of PyTorch on which the result is; "cpu" if only `dtype` is of PyTorch.
      site: the site from which to draw in place of the next one of the generator, which is then unchanged.
      local: a slice for each dimension, if the result is only a part of the tensor: the result has the bits of
        `rand(shape, ...)[local]` and is computed without the rest.
    Returns:
      a NumPy array, or a tensor if `device` or `dtype` is of PyTorch.
    Raises:
      ReproError: an argument is invalid. The generator is then unchanged.
    """
    return _draw(distributions.UNIFORM, box_of(shape, local), generator, _Form(dtype, device, _FLOATS), site)


@not_traced
def randn(
    shape: Shape,
    *,
    generator: Generator,
    dtype: Any = None,
    device: Any = None,
    site: int | None = None,
    local: Sequence[slice] | None = None,
) -> Any:
    """(R2) Returns random numbers of the normal distribution with mean 0 and variance 1.

    The numbers are those of the Box-Muller transform in f32, with a correctly rounded logarithm and cosine (S5), and at
    most 5.77 in magnitude. They are exact in f64 and rounded to nearest even in f16 and bf16.

    Args, Returns, Raises: as for `rand`.
    """
    return _draw(distributions.NORMAL, box_of(shape, local), generator, _Form(dtype, device, _FLOATS), site)


@not_traced
def randint(
    low: int,
    high: int,
    shape: Shape,
    *,
    generator: Generator,
    dtype: Any = None,
    device: Any = None,
    site: int | None = None,
    local: Sequence[slice] | None = None,
) -> Any:
    """(R2) Returns random integers from low to high - 1: low + ((bits * (high - low)) >> 32).

    Args:
      low: the smallest integer.
      high: the bound, which exceeds `low` by 1 to 2^32.
      dtype: int64 (the default), int32, int16, int8, or an unsigned type of these widths, which must represent `low`
        and high - 1.
      shape, generator, device, site, local: as for `rand`.
    Returns, Raises: as for `rand`.
    """
    form = _Form(dtype, device, _INTEGERS)
    for bound in (low, high):
        if not isinstance(bound, numbers.Integral) or isinstance(bound, bool):
            raise ReproError(f"expected whole numbers as bounds of random integers, got {low!r} and {high!r}")
    low, high = int(low), int(high)
    if not 1 <= high - low <= 2**32:
        raise ReproError(f"expected bounds with 1 to 2^32 integers from low to high - 1, got {low} and {high}")
    form.check_range(low, high - 1)
    return _draw(distributions.randint(low, high - low), box_of(shape, local), generator, form, site)


@not_traced
def randperm(
    count: int, *, generator: Generator, dtype: Any = None, device: Any = None, site: int | None = None
) -> Any:
    """(G1) Returns a random permutation of the integers 0 to count - 1, which the CPU computes for every device.

    `repro_mlir.permutation(count, seed, epoch)` is that of site 0 in step `epoch`.

    Args:
      count: the number of integers.
      dtype: as for `randint`.
      generator, device, site: as for `rand`.
    Returns, Raises: as for `rand`.
    """
    form, box = _Form(dtype, device, _INTEGERS), box_of(count)
    if len(box.whole) != 1:
        raise ReproError(f"expected a whole number from 0 as size of a permutation, got {count!r}")
    form.check_range(0, box.size - 1)
    _check(box, generator)
    return form.given(distributions.permutation(box.size, generator.take(site)))


@not_traced
@float_environment()
def dropout(
    x: Any,
    p: float = 0.5,
    *,
    generator: Generator,
    training: bool = True,
    site: int | None = None,
    shape: Shape | None = None,
    local: Sequence[slice] | None = None,
) -> Any:
    """Sets each element to 0 with probability p, and multiplies the others by 1 / (1 - p).

    The result is kept * x * (1 / (1 - p)), each operation rounded, where kept is drawn by bernoulli(1 - p) (R2). A
    compiled program computes `torch.nn.functional.dropout` in the same way. For p of 0 or 1, or without `training`, no
    site is taken.

    Args:
      x: an array of NumPy or a tensor of PyTorch, of the element types of `rand`. Autograd differentiates the result.
      p: the probability, from 0 to 1.
      training: whether to drop elements; if not, the result is `x` itself.
      shape: if `x` is a part of a tensor, the shape of the whole tensor.
      local: the part of the tensor that `x` is.
      generator, site: as for `rand`.
    Returns:
      an array or a tensor of the shape and type of `x`, on its device.
    Raises:
      ReproError: an argument is invalid. The generator is then unchanged.
    """
    if isinstance(p, bool) or not isinstance(p, numbers.Real) or not 0 <= p <= 1:
        raise ReproError(f"expected a probability from 0 to 1 for dropout, got {p!r}")
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        raise ReproError(f"expected an array of NumPy or a tensor of PyTorch for dropout, got a {type(x).__name__}")
    if hasattr(x, "to_local"):
        raise ReproError("expected a rank's part of a DTensor, x.to_local(), with `shape` and `local`, got the DTensor")
    p, is_array = float(p), isinstance(x, np.ndarray | np.generic)
    form = _Form(x.dtype, None if is_array else getattr(x, "device", None), _FLOATS)
    if local is not None and shape is None:
        raise ReproError("expected the shape of the whole tensor for a local part, got none")
    box = box_of(tuple(x.shape) if shape is None else shape, local)
    if box.shape != tuple(x.shape):
        raise ReproError(f"expected x of the shape {list(box.shape)} of its part, got {list(x.shape)}")
    _check(box, generator)
    if not training or p == 0:
        return x
    kept = None if p == 1 else form.drawn(distributions.bernoulli(1.0 - p), box, generator.take(site))
    return form.dropped(x, p, kept)


class _Form:
    """The form of a result: an array of NumPy or a tensor of PyTorch, and its element type.

    Attributes:
      name: the name of the element type.
      device: the device of PyTorch; None for an array.
    """

    def __init__(self, dtype: Any, device: Any, known: Sequence[str]) -> None:
        """Raises ReproError unless the type is one of those whose names are `known`, of which the first is the
        default."""
        name, is_foreign = _type_name(known[0] if dtype is None else dtype)
        if name is None or name not in known:
            raise ReproError(f"expected one of the element types {', '.join(known)}, got {dtype!r}")
        self.name = name
        if is_foreign and device is None:
            device = "cpu"
        self._devices = None if device is None else _devices()
        self.device = None if self._devices is None else self._devices.device_of(device)
        self._dtype = _numpy_type(self.name) if self._devices is None else None

    def check_range(self, least: int, most: int) -> None:
        """Raises ReproError unless the integer type represents these numbers."""
        bounds = np.iinfo(self.name)
        if least < bounds.min or most > bounds.max:
            raise ReproError(f"expected integers that {self.name} represents, got {least} to {most}")

    def drawn(self, distribution: Distribution, box: Box, place: Any) -> Any:
        """Returns numbers of the distribution's own element type."""
        if self._devices is None:
            return distributions.draw(distribution, box, place)
        return self._devices.draw(distribution, box, place, self.device)

    def given(self, values: Any) -> Any:
        """Returns numbers that `drawn` returned, or an array of i64, in this form."""
        if self._devices is None:
            return values.astype(self._dtype, copy=False)
        if isinstance(values, np.ndarray):
            values = self._devices.from_array(values, self.device)
        return self._devices.convert(values, self.name)

    def dropped(self, x: Any, probability: float, kept: Any) -> Any:
        """Returns kept * x * (1 / (1 - probability)), or zeros if `kept` is None."""
        if self._devices is not None:
            return self._devices.dropout(x, probability, kept)
        if kept is None:
            return np.zeros_like(x)
        # Types of 16 bits are extended to f32 for the product (V1).
        wide = np.float64 if self.name == "float64" else np.float32
        with np.errstate(invalid="ignore", over="ignore"):
            result = kept * x.astype(wide) * wide(1.0 / (1.0 - probability))
            return np.asarray(result).astype(x.dtype)


def _type_name(dtype: Any) -> tuple[str | None, bool]:
    """Returns the name of an element type, and whether it is a type of PyTorch."""
    if isinstance(dtype, str):
        return dtype, False
    try:
        return np.dtype(dtype).name, False
    except TypeError:
        # NumPy does not know the types of PyTorch, which print as their module and name.
        return (str(dtype).rpartition(".")[2], True) if type(dtype).__name__ == "dtype" else (None, False)


def _numpy_type(name: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ReproError("expected the package ml_dtypes for arrays of bfloat16: pip install ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def _devices() -> Any:
    try:
        return importlib.import_module("repro_mlir.random.devices")
    except ImportError as error:
        raise ReproError(f"expected PyTorch for tensors: pip install torch ({error})") from None


def _check(box: Box, generator: Any) -> None:
    if not isinstance(generator, Generator):
        raise ReproError(f"expected a Generator of repro_mlir.random as generator, got {type(generator)!r}")
    # Numbers are computed in types of up to 8 bytes.
    most = limits().tensor_bytes // 8
    if box.size > most:
        raise ReproError(
            f"expected a tensor or part of at most {most} elements, got {box.size}; pass `local`, or set "
            f"REPRO_MLIR_LIMITS=tensor_bytes={8 * box.size}"
        )


@float_environment()
def _draw(distribution: Distribution, box: Box, generator: Generator, form: _Form, site: int | None) -> Any:
    _check(box, generator)
    return form.given(form.drawn(distribution, box, generator.take(site)))
