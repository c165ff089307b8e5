# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Methods of lossy gradient compression (L1) to (L6): their parameters, their state and their compressed size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_flag, check_whole, shown
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.precision.formats import F32, Format
from repro_mlir.precision.named import named_recipe

Shape = tuple[int, ...]


@dataclass(frozen=True)
class MethodState:
    """A state tensor that a method keeps for a parameter.

    Attributes:
      name: the kind of state, such as `residual`.
      shape: the shape of one copy of the tensor.
      is_own: whether each microbatch has its own copy (B5).
    """

    name: str
    shape: Shape
    is_own: bool = False


class GradientCompression(ABC):
    """A compression method; each subclass is a frozen dataclass of the method's parameters.

    Attributes:
      name: the name of the method in messages and in JSON.
      is_of_microbatches: whether the gradients of each microbatch are compressed before they are added.
      is_of_means: whether the means of the gradients over all microbatches are compressed.
    """

    name: ClassVar[str]
    is_of_microbatches: ClassVar[bool] = True
    is_of_means: ClassVar[bool] = False

    @property
    def has_feedback(self) -> bool:
        """Whether the compression error of a gradient is kept and added to the next gradient."""
        return True

    def kept(self, shape: Shape) -> tuple[MethodState, ...]:
        """Returns the state tensors that the method keeps for a parameter of this shape."""
        return self._kept(shape) if self.has_feedback and self.compresses(shape) else ()

    def _kept(self, shape: Shape) -> tuple[MethodState, ...]:
        """Returns the state tensors for a parameter whose gradient is compressed with error feedback."""
        return (MethodState("residual", shape, is_own=True),)

    @property
    def is_stochastic(self) -> bool:
        """Whether the method draws random numbers (R1)."""
        return False

    def compresses(self, shape: Shape) -> bool:
        """Returns whether gradients of this shape are compressed; other gradients are unchanged."""
        return math.prod(shape) > 0

    def bytes_of(self, shape: Shape) -> int:
        """Returns the size in bytes of a compressed gradient of this shape, without headers; four bytes per element if
        it is not compressed."""
        return self._bytes(shape) if self.compresses(shape) else 4 * math.prod(shape)

    @abstractmethod
    def _bytes(self, shape: Shape) -> int:
        """Returns the compressed size in bytes for a shape that is compressed."""


@dataclass(frozen=True)
class TopK(GradientCompression):
    """(L2) Keeps the elements of largest magnitude, with error feedback.

    Attributes:
      fraction: the fraction of the elements to keep, above 0, at most 1. ceil(fraction * n) of n elements are kept,
        evaluated with the decimal number that Python prints for the fraction.
    """

    fraction: float = 0.01

    name: ClassVar[str] = "top_k"

    def __post_init__(self) -> None:
        if type(self.fraction) not in (int, float) or not 0 < self.fraction <= 1:
            raise ReproError(f"expected the fraction of top_k above 0 and at most 1, got {shown(self.fraction)}")

    def count(self, size: int) -> int:
        """Returns the number of elements that are kept if a gradient has `size` elements."""
        return math.ceil(Fraction(repr(self.fraction)) * size)

    def _bytes(self, shape: Shape) -> int:
        # Each kept element is sent as an f32 value and a u32 index.
        return 8 * self.count(math.prod(shape))


@dataclass(frozen=True)
class OneBit(GradientCompression):
    """(L3) Compresses a gradient to its signs and its mean magnitude, with error feedback for each microbatch and for
    the mean of all microbatches."""

    name: ClassVar[str] = "one_bit"
    is_of_means: ClassVar[bool] = True

    def _kept(self, shape: Shape) -> tuple[MethodState, ...]:
        return MethodState("residual", shape, is_own=True), MethodState("mean_residual", shape)

    def _bytes(self, shape: Shape) -> int:
        return -(-math.prod(shape) // 8) + 4


@dataclass(frozen=True)
class QSGD(GradientCompression):
    """(L4) Rounds stochastically to multiples of a fraction of the norm. The rounding is unbiased, so it needs no error
    feedback.

    Attributes:
      levels: the number of multiples above zero, 1 to 2^16.
      bucket: the number of consecutive elements that share a norm, 1 to 2^24.
    """

    levels: int = 4
    bucket: int = 512

    name: ClassVar[str] = "qsgd"

    def __post_init__(self) -> None:
        check_whole("the levels of qsgd", self.levels, 1, 1 << 16)
        check_whole("the bucket of qsgd", self.bucket, 1, 1 << 24)

    @property
    def has_feedback(self) -> bool:
        """False: the rounding is unbiased, so errors are not kept."""
        return False

    @property
    def is_stochastic(self) -> bool:
        """True: the rounding draws random numbers."""
        return True

    def _bytes(self, shape: Shape) -> int:
        # An element becomes an integer from -levels to levels, which takes a fixed number of bits.
        size = math.prod(shape)
        return -(-size * (2 * self.levels).bit_length() // 8) + 4 * -(-size // self.bucket)


@dataclass(frozen=True)
class PowerSGD(GradientCompression):
    """(L5) Approximates the gradient, as a matrix, by the product of two factors of low rank. Each training step
    does one subspace iteration, which starts from the right factor of the previous step. The method has error feedback.

    Attributes:
      rank: the rank of the factors, 1 to 64.
    """

    rank: int = 1

    name: ClassVar[str] = "power_sgd"
    is_of_microbatches: ClassVar[bool] = False
    is_of_means: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("the rank of power_sgd", self.rank, 1, 64)

    @staticmethod
    def matrix(shape: Shape) -> tuple[int, int]:
        """Returns the numbers of rows and columns of a gradient as a matrix: the rows are its first dimension, the
        columns all others."""
        return shape[0], math.prod(shape[1:])

    def compresses(self, shape: Shape) -> bool:
        """Returns whether the gradient has at least two dimensions, and more elements than its two factors together."""
        if len(shape) < 2:
            return False
        rows, columns = self.matrix(shape)
        return self.rank * (rows + columns) < rows * columns

    def _kept(self, shape: Shape) -> tuple[MethodState, ...]:
        return MethodState("residual", shape), MethodState("right", (self.matrix(shape)[1], self.rank))

    def _bytes(self, shape: Shape) -> int:
        return 4 * self.rank * sum(self.matrix(shape))


@dataclass(frozen=True)
class Blocks(GradientCompression):
    """(L6) Rounds a gradient, as a single row, to a block format.

    Attributes:
      format: the block format, without a transform; its rounding may be stochastic.
      feedback: whether the compression error is kept and added to the next gradient.
    """

    format: Format
    feedback: bool = True

    name: ClassVar[str] = "blocks"

    def __post_init__(self) -> None:
        if not isinstance(self.format, Format) or not self.format.has_blocks or self.format.hadamard is not None:
            raise ReproError(f"expected a format of blocks without a transform, got {self.format}")
        if self.format.is_delayed:
            raise ReproError("(L6) expected scales of the present gradient, got those of former steps")
        check_flag("feedback", self.feedback)

    @staticmethod
    def named(recipe: str, feedback: bool = True) -> Blocks:
        """Returns the method with the gradient format of a named precision recipe, such as `mxfp8`."""
        return Blocks(named_recipe(recipe).roles["dgrad"].operands.get("gradient", F32), feedback)

    @property
    def has_feedback(self) -> bool:
        """Whether the compression error is kept and added to the next gradient."""
        return self.feedback

    @property
    def is_stochastic(self) -> bool:
        """Whether the format rounds stochastically (R1)."""
        return self.format.is_stochastic

    def scales(self, size: int) -> int:
        """Returns the number of scales for `size` elements."""
        assert self.format.tile is not None
        return -(-size // (self.format.tile[1] or size))

    def _bytes(self, shape: Shape) -> int:
        assert self.format.scale is not None
        size = math.prod(shape)
        bits = ELEMENTS[self.format.code_type].width
        scales = self.scales(size) * ELEMENTS[self.format.scale.element].width // 8
        return -(-size * bits // 8) + scales + (4 if self.format.scale.has_tensor else 0)
