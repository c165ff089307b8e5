# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Generates the MLIR text of programs from Python formulas on the elements of tensors."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from repro_mlir.base.numerics.tensors import TensorType


def text_of(kind: TensorType) -> str:
    """Returns the MLIR type of a tensor."""
    return f"tensor<{'x'.join([*map(str, kind.shape), kind.element])}>"


def quoted(name: str) -> str:
    """Returns a string literal in MLIR syntax."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in name.encode())
    return f'"{"".join(plain)}"'


@dataclass(frozen=True)
class Tensor:
    """A tensor value of the program.

    Attributes:
      name: the SSA name, with its %.
      kind: the element type and shape.
    """

    name: str
    kind: TensorType


@dataclass(frozen=True)
class Number:
    """A scalar value in a formula. Each Python operator on it writes an f32 operation to the program."""

    name: str
    writer: Writer = field(repr=False, compare=False)

    def __add__(self, other: Number | float) -> Number:
        return self._write("arith.addf", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._write("arith.subf", other)

    def __mul__(self, other: Number | float) -> Number:
        return self._write("arith.mulf", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._write("arith.divf", other)

    def __neg__(self) -> Number:
        return self.apply("arith.negf")

    def __rsub__(self, other: float) -> Number:
        return self.writer.number(other) - self

    def apply(self, operation: str) -> Number:
        """Writes an operation on this number, such as `math.sqrt` or `repro.exp`, and returns the result."""
        return Number(self.writer.write(f"{operation} {self.name} : f32"), self.writer)

    def _write(self, operation: str, other: Number | float) -> Number:
        right = other if isinstance(other, Number) else self.writer.number(other)
        return Number(self.writer.write(f"{operation} {self.name}, {right.name} : f32"), self.writer)


Formula = Callable[..., Number]


class Writer:
    """Writes the body of a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = (f"%v{i}" for i in itertools.count())

    def write(self, operation: str) -> str:
        """Writes an operation with one result; returns the SSA name of the result."""
        name = next(self._names)
        self.lines.append(f"{name} = {operation}")
        return name

    def number(self, value: float) -> Number:
        """Writes a constant, the f32 nearest to `value`, and returns it; works inside and outside formulas."""
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return Number(self.write(f"arith.constant 0x{bits:08X} : f32"), self)

    def map(
        self,
        tensors: Sequence[Tensor],
        formula: Formula,
        dims: Sequence[Sequence[int]] | None = None,
        element: str = "f32",
    ) -> Tensor:
        """Applies a formula to the elements of tensors; returns the tensor of results.

        Args:
          tensors: the operands; the first one has the shape of the result, and those of shape [] are broadcast.
          formula: a function of one Number per tensor, whose operators are those of f32.
          dims: for each tensor, those dimensions of the result that the tensor has; by default all, or none for shape
            [].
          element: the element type of the formula's result.
        """
        shape = tensors[0].kind.shape
        rank = len(shape)
        chosen = dims or [range(rank) if each.kind.shape else () for each in tensors]
        kind = TensorType("", element, shape)
        empty = self.write(f"tensor.empty() : {text_of(kind)}")
        return self._generic(tensors, [*chosen, range(rank)], ["parallel"] * rank, kind, empty, formula)

    def fill(self, value: float, shape: tuple[int, ...]) -> Tensor:
        """Returns an f32 tensor whose elements are all `value`."""
        kind = TensorType("", "f32", shape)
        empty = Tensor(self.write(f"tensor.empty() : {text_of(kind)}"), kind)
        return self._generic(
            [], [range(len(shape))], ["parallel"] * len(shape), kind, empty.name, lambda: self.number(value)
        )

    def reduce(self, tensor: Tensor, dims: Sequence[int], initial: float, operation: str) -> Tensor:
        """Folds an f32 tensor over some dimensions with `arith.addf` or `arith.maximumf`."""
        shape = tensor.kind.shape
        kept = [dim for dim in range(len(shape)) if dim not in dims]
        start = self.fill(initial, tuple(shape[dim] for dim in kept))
        iterators = ["reduction" if dim in dims else "parallel" for dim in range(len(shape))]

        def fold(element: Number, total: Number) -> Number:
            return Number(self.write(f"{operation} {element.name}, {total.name} : f32"), self)

        return self._generic([tensor], [range(len(shape)), kept], iterators, start.kind, start.name, fold, folds=True)

    def take(self, tensor: Tensor, indices: Tensor) -> Tensor:
        """Gathers elements of an f32 tensor [N, C, *] along dimension 1, at the indices in an i64 tensor [N, *]. An
        index out of range makes the step fail (E1)."""
        rank = len(indices.kind.shape)
        kind = TensorType("", "f32", indices.kind.shape)
        empty = self.write(f"tensor.empty() : {text_of(kind)}")

        def read(index: Number) -> Number:
            row = [self.write(f"linalg.index {dim} : index") for dim in range(rank)]
            row.insert(1, self.write(f"arith.index_cast {index.name} : i64 to index"))
            return Number(self.write(f"tensor.extract {tensor.name}[{', '.join(row)}] : {text_of(tensor.kind)}"), self)

        return self._generic([indices], [range(rank)] * 2, ["parallel"] * rank, kind, empty, read)

    def increment(self, count: Tensor) -> Tensor:
        """Adds 1 to an i64 tensor of shape []."""
        empty = self.write("tensor.empty() : tensor<i64>")

        def add(number: Number) -> Number:
            one = self.write("arith.constant 1 : i64")
            return Number(self.write(f"arith.addi {number.name}, {one} : i64"), self)

        return self._generic([count], [(), ()], [], count.kind, empty, add)

    def convert(self, count: Tensor) -> Tensor:
        """Converts an i64 tensor of shape [] to f32."""
        kind = TensorType("", "f32", ())
        empty = self.write(f"tensor.empty() : {text_of(kind)}")

        def convert(number: Number) -> Number:
            return Number(self.write(f"arith.sitofp {number.name} : i64 to f32"), self)

        return self._generic([count], [(), ()], [], kind, empty, convert)

    def _generic(
        self,
        tensors: Sequence[Tensor],
        dims: Sequence[Sequence[int]],
        iterators: Sequence[str],
        kind: TensorType,
        output: str,
        formula: Formula,
        folds: bool = False,
    ) -> Tensor:
        names = ", ".join(f"d{i}" for i in range(len(iterators)))
        maps = ", ".join(f"affine_map<({names}) -> ({', '.join(f'd{d}' for d in each)})>" for each in dims)
        kinds = ", ".join(f'"{each}"' for each in iterators)
        inputs = ""
        if tensors:
            inputs = f"ins({', '.join(each.name for each in tensors)} : {', '.join(text_of(t.kind) for t in tensors)}) "
        result = next(self._names)
        self.lines.append(
            f"{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"{inputs}outs({output} : {text_of(kind)}) {{"
        )
        elements = [Number(next(self._names), self) for _ in tensors]
        total = Number(next(self._names), self)
        arguments = [
            *(f"{e.name}: {t.kind.element}" for e, t in zip(elements, tensors, strict=True)),
            f"{total.name}: {kind.element}",
        ]
        self.lines.append(f"^bb0({', '.join(arguments)}):")
        element = formula(*elements, *([total] if folds else []))
        self.lines.append(f"linalg.yield {element.name} : {kind.element}")
        self.lines.append(f"}} -> {text_of(kind)}")
        return Tensor(result, kind)
