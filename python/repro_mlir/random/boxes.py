# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parts of a tensor, such as the part that one rank holds of a sharded tensor."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError

Shape = int | Sequence[int]
"""A number of elements, or the extent of each dimension."""

_MOST_DIMENSIONS = 64
"""The largest number of dimensions of arrays and tensors."""

_MOST_ELEMENTS = 2**62
"""The largest number of elements of a whole tensor; the numbers of two uniform elements per element fit into i64."""


@dataclass(frozen=True)
class Box:
    """The elements of a tensor that a slice of each dimension selects.

    Attributes:
      whole: the shape of the tensor.
      ranges: the indices that are selected in each dimension.
    """

    whole: tuple[int, ...]
    ranges: tuple[range, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the part."""
        return tuple(len(each) for each in self.ranges)

    @property
    def size(self) -> int:
        """The number of elements of the part."""
        return math.prod(self.shape)

    @functools.cached_property
    def runs(self) -> tuple[np.ndarray, int]:
        """The runs of consecutive elements that make up the part in row-major order.

        The value is the row-major index in the whole tensor of the first element of each run, as u64 [runs], and the
        number of elements of each run.
        """
        if self.size == 0:
            return np.zeros(0, np.uint64), 0
        length, stride, first = 1, 1, 0
        left = list(zip(self.whole, self.ranges, strict=True))
        while left:
            extent, selected = left[-1]
            if len(selected) > 1 and selected.step != 1:
                break
            left.pop()
            first += selected.start * stride
            length *= len(selected)
            stride *= extent
            if len(selected) != extent:
                break
        starts = np.array([first], np.uint64)
        for extent, selected in reversed(left):
            # The step of a single index may be of any size.
            step = selected.step * stride if len(selected) > 1 else 0
            offsets = np.arange(len(selected), dtype=np.int64) * step + selected.start * stride
            starts = (offsets.astype(np.uint64)[:, np.newaxis] + starts).reshape(-1)
            stride *= extent
        return starts, length


def shape_of(shape: Shape, what: str = "shape") -> tuple[int, ...]:
    """Returns the extents of a whole tensor.

    Args:
      shape: an integer or a sequence of integers.
      what: names the argument in messages.
    Raises:
      ReproError: the shape is not an integer or a sequence of integers from 0, or has more than 64 dimensions or 2^62
        elements.
    """
    try:
        extents = [shape] if isinstance(shape, int | np.integer) else list(shape)
        found = tuple(operator.index(extent) for extent in extents)
    except TypeError:
        raise ReproError(f"expected a whole number or a sequence of whole numbers as {what}, got {shape!r}") from None
    if any(isinstance(extent, bool) for extent in extents) or any(extent < 0 for extent in found):
        raise ReproError(f"expected a {what} of whole numbers from 0, got {shape!r}")
    if len(found) > _MOST_DIMENSIONS:
        raise ReproError(f"expected a {what} of at most {_MOST_DIMENSIONS} dimensions, got {len(found)}")
    # Zeros are left out, so that an empty tensor has bounded strides too.
    if math.prod(extent for extent in found if extent) > _MOST_ELEMENTS:
        raise ReproError(f"expected a {what} of at most 2^62 elements, got {list(found)}")
    return found


def box_of(shape: Shape, local: Sequence[slice] | None = None) -> Box:
    """Returns a part of a tensor.

    Args:
      shape: the shape of the whole tensor.
      local: a slice for each of the first dimensions, with the meaning that the slices have in `whole[local]`; None for
        the whole tensor.
    Raises:
      ReproError: the shape is invalid; or `local` is not a sequence of slices of integers, at most one per dimension.
    """
    whole = shape_of(shape)
    slices = [local] if isinstance(local, slice) else list(local) if isinstance(local, list | tuple) else local
    if slices is None:
        slices = []
    if not isinstance(slices, list) or not all(isinstance(each, slice) for each in slices):
        raise ReproError(f"expected a tuple of slices as local, such as (slice(0, 2), slice(4, 8)), got {local!r}")
    if len(slices) > len(whole):
        raise ReproError(f"expected at most {len(whole)} slices for a tensor of shape {list(whole)}, got {len(slices)}")
    slices += [slice(None)] * (len(whole) - len(slices))
    try:
        ranges = tuple(range(*each.indices(extent)) for each, extent in zip(slices, whole, strict=True))
    except (TypeError, ValueError) as error:
        raise ReproError(f"expected slices of whole numbers with a step other than 0, got {local!r}: {error}") from None
    return Box(whole, ranges)


def local_slices(
    shape: Shape, mesh_shape: Shape, coordinate: Sequence[int], placements: Sequence[Any]
) -> tuple[slice, ...]:
    """Returns the part of a sharded tensor that one rank holds, for the argument `local` of the functions that draw.

    Each dimension of the mesh that shards a dimension of the tensor cuts the rank's part into pieces of ceil(extent /
    size) elements, the first dimension of the mesh first; the last pieces may be smaller or empty. PyTorch's DTensor
    distributes tensors in the same way.

    Args:
      shape: the shape of the whole tensor.
      mesh_shape: the shape of the mesh of ranks, such as `device_mesh.shape`.
      coordinate: the rank's index in each dimension of the mesh, such as `device_mesh.get_coordinate()`.
      placements: for each dimension of the mesh, the dimension of the tensor that it shards, or None if the ranks along
        it hold the same elements. PyTorch's `Shard` and `Replicate` are accepted too.
    Returns:
      a slice for each dimension of the tensor.
    Raises:
      ReproError: the arguments have other forms, or contradict each other.
    """
    whole, mesh, place = shape_of(shape), shape_of(mesh_shape, "mesh_shape"), shape_of(coordinate, "coordinate")
    if not isinstance(placements, list | tuple) or not len(mesh) == len(place) == len(placements):
        raise ReproError(
            f"expected a coordinate and a placement for each of the {len(mesh)} dimensions of the mesh, got "
            f"{coordinate} and {placements}"
        )
    bounds = [(0, extent) for extent in whole]
    for size, index, placement in zip(mesh, place, placements, strict=True):
        if not index < size:
            raise ReproError(f"expected a coordinate within the mesh {list(mesh)}, got {list(place)}")
        dimension = _dimension(placement, len(whole))
        if dimension is not None:
            start, stop = bounds[dimension]
            piece = -(-(stop - start) // size)
            bounds[dimension] = min(start + index * piece, stop), min(start + (index + 1) * piece, stop)
    return tuple(slice(start, stop) for start, stop in bounds)


def _dimension(placement: Any, rank: int) -> int | None:
    """Returns the dimension that a placement shards, counted from 0; None if it shards none."""
    if placement is None or type(placement).__name__ == "Replicate":
        return None
    found = placement.dim if type(placement).__name__ == "Shard" else placement
    if not isinstance(found, int) or isinstance(found, bool) or not -rank <= found < rank:
        raise ReproError(
            f"expected placements that are a dimension of the tensor below {rank}, None, Shard or Replicate, got "
            f"{placement!r}"
        )
    return found % rank
