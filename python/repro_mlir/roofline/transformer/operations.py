# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes a kernel by its products, bytes and operations."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS

# Vector operations per element of a softmax, in addition to its exponential.
SOFTMAX_FLOPS = 5


@dataclass(frozen=True)
class Product:
    """`batch` matrix products m x k times k x n, with operands in a format of `NUMBER_FORMATS`."""

    batch: int
    m: int
    n: int
    k: int
    format: str

    @property
    def flops(self) -> int:
        """The number of operations; a multiply-add counts as two."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Operation:
    """A kernel, or a chain of kernels.

    Attributes:
      name: a description of the computation.
      group: `projection`, `attention`, `vector` or `head`.
      products: the products, in execution order.
      vector_flops, exponentials: the numbers of operations of vector units.
      bytes: the number of bytes read and written in memory.
      launches: the number of kernels.
    """

    name: str
    group: str
    bytes: float
    products: tuple[Product, ...] = ()
    vector_flops: float = 0.0
    exponentials: float = 0.0
    launches: int = 1


def vector(
    name: str, elements: float, bytes: float, flops: float, launches: int = 1, exponentials: float = 0.0
) -> Operation:
    """Returns a kernel without products; `bytes` and `flops` are per element, and `exponentials` is the total."""
    return Operation(name, "vector", elements * bytes, (), elements * flops, exponentials, launches)


def moved(product: Product, output: float) -> float:
    """Returns the number of bytes of both operands and of the result, each counted once."""
    operand = NUMBER_FORMATS[product.format].operand_bytes
    read = (product.m + product.n) * product.k * operand
    return product.batch * (read + product.m * product.n * output)
