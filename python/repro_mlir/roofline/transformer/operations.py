# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The data of a kernel: its products, its bytes, its operations."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS

# Vector operations of an element of a softmax, beside its exponential.
SOFTMAX_FLOPS = 5


@dataclass(frozen=True)
class Product:
    """`batch` products of matrices m x k and k x n, whose operands have a format of `NUMBER_FORMATS`."""

    batch: int
    m: int
    n: int
    k: int
    format: str

    @property
    def flops(self) -> int:
        """Operations, a multiply-add being two."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Operation:
    """A kernel, or a chain of them.

    Attributes:
      name: what it computes.
      group: `projection`, `attention`, `vector` or `head`.
      products: that it has, in their order.
      vector_flops, exponentials: of vector units.
      bytes: that it reads and writes in memory.
      launches: kernels.
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
    """A kernel without products, by its elements: bytes and operations of each of them, exponentials of all."""
    return Operation(name, "vector", elements * bytes, (), elements * flops, exponentials, launches)


def moved(product: Product, output: float) -> float:
    """Bytes of both operands and of the result, each once."""
    operand = NUMBER_FORMATS[product.format].operand_bytes
    read = (product.m + product.n) * product.k * operand
    return product.batch * (read + product.m * product.n * output)
