# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the arithmetic of gradient compression, rules (L1) to (L6), as MLIR text of imported programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.gradient_compression.methods import QSGD, Blocks, GradientCompression, OneBit, PowerSGD, Shape, TopK
from repro_mlir.program.writer import Number, Tensor, Writer, text_of

_EPSILON = 1e-8
"""(L5) Added to the norm of a column before dividing by it, as in the original implementation."""


@dataclass(frozen=True)
class Random:
    """(R1) Identifies the random numbers to draw: the names of the scalars seed and step, and the site."""

    seed: str
    step: str
    site: int


class GradientWriter(Writer):
    """Writes the body of a function that compresses the gradient of one parameter."""

    def write_several(self, operation: str, count: int) -> str:
        """Writes an operation with several results, and returns its name; result i is `name#i`."""
        name = next(self._names)
        self.lines.append(f"{name}:{count} = {operation}")
        return name

    def reshape(self, tensor: Tensor, shape: Shape) -> Tensor:
        """Reshapes a tensor to a vector or a vector to a tensor, in row-major order."""
        old, new = tensor.kind.shape, shape
        if old == new:
            return tensor
        kind = TensorType("", tensor.kind.element, shape)
        more = max(len(old), len(new))
        assert min(len(old), len(new)) <= 1
        joined = [[*range(more)]] if min(len(old), len(new)) == 1 else []
        if len(old) > len(new):
            text = f"tensor.collapse_shape {tensor.name} {joined} : {text_of(tensor.kind)} into {text_of(kind)}"
        else:
            text = (
                f"tensor.expand_shape {tensor.name} {joined} output_shape {list(new)} : "
                f"{text_of(tensor.kind)} into {text_of(kind)}"
            )
        return Tensor(self.write(text), kind)

    def slice(self, tensor: Tensor, offsets: Shape, shape: Shape) -> Tensor:
        """Returns a slice of a tensor, with the same rank as the tensor."""
        kind = TensorType("", tensor.kind.element, shape)
        places = "".join(f"[{', '.join(map(str, each))}]" for each in (offsets, shape, [1] * len(shape)))
        text = f"tensor.extract_slice {tensor.name}{places} : {text_of(tensor.kind)} to {text_of(kind)}"
        return Tensor(self.write(text), kind)

    def insert(self, part: Tensor, whole: Tensor, offsets: Shape) -> Tensor:
        """Returns the tensor `whole` with a slice replaced by `part`."""
        ones = [1] * len(part.kind.shape)
        places = "".join(f"[{', '.join(map(str, each))}]" for each in (offsets, part.kind.shape, ones))
        text = f"tensor.insert_slice {part.name} into {whole.name}{places} : {text_of(part.kind)} into "
        return Tensor(self.write(text + text_of(whole.kind)), whole.kind)

    def column(self, matrix: Tensor, number: int) -> Tensor:
        """Returns a column of a matrix as a vector."""
        rows = matrix.kind.shape[0]
        return self.reshape(self.slice(matrix, (0, number), (rows, 1)), (rows,))

    def select(self, predicate: str, left: Number, right: Number, yes: Number, no: Number) -> Number:
        """Returns `yes` if the comparison `predicate` of `left` and `right` is true, else `no`."""
        condition = self.write(f"arith.cmpf {predicate}, {left.name}, {right.name} : f32")
        return Number(self.write(f"arith.select {condition}, {yes.name}, {no.name} : f32"), self)

    def is_at_least_zero(self, number: Number) -> Number:
        """Returns an i1 that is true if the number is >= 0."""
        return Number(self.write(f"arith.cmpf oge, {number.name}, {self.number(0.0).name} : f32"), self)

    def contract(self, left: Tensor, right: Tensor, dims: tuple[str, str, str]) -> Tensor:
        """(K1) Returns an einsum. `dims` has the index letters of `left`, `right` and the result. Indices that are not
        in the result are summed in a defined order: those of `left` first."""
        of_left, of_right, of_result = dims
        extents = dict(zip(of_left, left.kind.shape, strict=True)) | dict(zip(of_right, right.kind.shape, strict=True))
        folded = [index for index in dict.fromkeys(of_left + of_right) if index not in of_result]
        order = [*of_result, *folded]
        start = self.fill(0.0, tuple(extents[index] for index in of_result))
        maps = [[order.index(index) for index in each] for each in dims]
        iterators = ["parallel"] * len(of_result) + ["reduction"] * len(folded)

        def add(a: Number, b: Number, total: Number) -> Number:
            return total + a * b

        return self._generic([left, right], maps, iterators, start.kind, start.name, add, folds=True)

    def uniform(self, shape: Shape, random: Random) -> Tensor:
        """(R2) Returns uniform random numbers in [0, 1)."""
        kind = TensorType("", "f32", shape)
        empty = self.write(f"tensor.empty() : {text_of(kind)}")
        text = f"repro.random uniform site = {random.site} ins({random.seed}, {random.step} : i64, i64) "
        return Tensor(self.write(f"{text}outs({empty} : {text_of(kind)}) -> {text_of(kind)}"), kind)


def with_feedback(
    writer: GradientWriter, gradient: Tensor, residual: Tensor, compress: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """(L1) Compresses the sum of the gradient and the residual. Returns the compressed sum, and its error as the new
    residual."""
    given = writer.map([gradient, residual], lambda g, e: g + e)
    found = compress(given)
    return found, writer.map([given, found], lambda a, c: a - c)


def compressed(writer: GradientWriter, method: GradientCompression, given: Tensor, random: Random | None) -> Tensor:
    """(L2), (L3), (L4), (L6) Compresses and decompresses a tensor; returns the decompressed values."""
    shape = given.kind.shape
    flat = writer.reshape(given, (math.prod(shape),))
    return writer.reshape(_COMPRESS[type(method)](writer, method, flat, random), shape)


def _top_k(writer: GradientWriter, method: TopK, x: Tensor, _: Random | None) -> Tensor:
    size = x.kind.shape[0]
    count = method.count(size)
    # Ranks send the indices as a tensor (program/payload.py). An index takes four bytes if all indices fit in an i32.
    index = "i32" if size <= 1 << 31 else "i64"
    kinds = (x.kind, x.kind, TensorType("", index, (size,)))
    magnitudes = writer.map([x], lambda a: a.apply("math.absf"))
    empty = [writer.write(f"tensor.empty() : {text_of(kind)}") for kind in kinds]
    positions = writer.write(
        f'linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}} '
        f"outs({empty[2]} : {text_of(kinds[2])}) {{\n^bb0(%out: {index}):\n%i = linalg.index 0 : index\n"
        f"%n = arith.index_cast %i : index to {index}\nlinalg.yield %n : {index}\n}} -> {text_of(kinds[2])}"
    )
    types = ", ".join(map(text_of, kinds))
    found = writer.write_several(
        f"repro.sort descending dimension = 0 ins({magnitudes.name}, {x.name}, {positions} : {types}) "
        f"outs({', '.join(empty)} : {types}) -> {types}",
        3,
    )
    values = writer.slice(Tensor(f"{found}#1", kinds[1]), (0,), (count,))
    chosen = writer.slice(Tensor(f"{found}#2", kinds[2]), (0,), (count,))
    if index == "i32":
        chosen = writer.map(
            [chosen], lambda n: Number(writer.write(f"arith.extsi {n.name} : i32 to i64"), writer), element="i64"
        )
    places = writer.reshape(chosen, (count, 1))
    zeros = writer.fill(0.0, (size,))
    return Tensor(
        writer.write(
            f"repro.scatter replace ins({values.name}, {places.name} : {text_of(values.kind)}, {text_of(places.kind)}) "
            f"outs({zeros.name} : {text_of(zeros.kind)}) -> {text_of(zeros.kind)}"
        ),
        zeros.kind,
    )


def _one_bit(writer: GradientWriter, _: OneBit, x: Tensor, __: Random | None) -> Tensor:
    magnitudes = writer.map([x], lambda a: a.apply("math.absf"))
    total = writer.reduce(magnitudes, [0], 0.0, "arith.addf")
    mean = writer.map([total], lambda a: a / float(x.kind.shape[0]))
    # The signs form a tensor of i1, so that ranks can send them as bits (program/payload.py).
    signs = writer.map([x], writer.is_at_least_zero, element="i1")

    def signed(is_positive: Number, s: Number) -> Number:
        return Number(writer.write(f"arith.select {is_positive.name}, {s.name}, {(-s).name} : f32"), writer)

    return writer.map([signs, mean], signed)


def _qsgd(writer: GradientWriter, method: QSGD, x: Tensor, random: Random | None) -> Tensor:
    assert random is not None
    size = x.kind.shape[0]
    width = min(method.bucket, size)
    buckets = -(-size // width)
    shape, number = (buckets, width), writer.number
    padded = x if size == buckets * width else writer.insert(x, writer.fill(0.0, (buckets * width,)), (0,))
    rows = writer.reshape(padded, shape)
    squares = writer.reduce(writer.map([rows], lambda a: a * a), [1], 0.0, "arith.addf")
    norms = writer.map([squares], lambda a: a.apply("math.sqrt"))
    uniform = writer.uniform(shape, random)
    # The code of an element is its level, or -1 - level for a negative element. Codes form a tensor, so that ranks can
    # send them (program/payload.py).
    code = "i8" if method.levels < 1 << 7 else "i16" if method.levels < 1 << 15 else "i32"

    def integer(operation: str) -> str:
        return writer.write(f"{operation} : {code}")

    def inverted(name: str) -> str:
        return integer(f"arith.xori {name}, {integer('arith.constant -1')}")

    def encode(a: Number, norm: Number, u: Number) -> Number:
        level = (a.apply("math.absf") / norm * float(method.levels) + u).apply("math.floor")
        # The level may exceed the largest one: because of rounding, |a| / norm may be above 1.
        least = Number(writer.write(f"arith.minimumf {level.name}, {number(method.levels).name} : f32"), writer)
        # (S3) A NaN is converted to 0. Decoding gives NaN again, since the norm is NaN too, or infinite, and infinity
        # times 0 is NaN.
        found = writer.write(f"arith.fptosi {least.name} : f32 to {code}")
        below = writer.write(f"arith.cmpf olt, {a.name}, {number(0.0).name} : f32")
        return Number(integer(f"arith.select {below}, {inverted(found)}, {found}"), writer)

    def decode(given: Number, norm: Number) -> Number:
        below = integer(f"arith.cmpi slt, {given.name}, {integer('arith.constant 0')}")
        level = integer(f"arith.select {below}, {inverted(given.name)}, {given.name}")
        value = norm * Number(writer.write(f"arith.sitofp {level} : {code} to f32"), writer) / float(method.levels)
        signed = writer.write(f"arith.select {below}, {(-value).name}, {value.name} : f32")
        return writer.select("oeq", norm, number(0.0), number(0.0), Number(signed, writer))

    codes = writer.map([rows, norms, uniform], encode, [(0, 1), (0,), (0, 1)], element=code)
    found = writer.map([codes, norms], decode, [(0, 1), (0,)])
    flat = writer.reshape(found, (buckets * width,))
    return flat if size == buckets * width else writer.slice(flat, (0,), (size,))


def _blocks(writer: GradientWriter, method: Blocks, x: Tensor, random: Random | None) -> Tensor:
    format, size = method.format, x.kind.shape[0]
    assert format.scale is not None
    row = writer.reshape(x, (1, size))
    codes = TensorType("", format.code_type, (1, size))
    scales = TensorType("", format.scale.element, (1, method.scales(size)))
    tensor = ""
    if format.scale.has_tensor:
        amax = writer.reduce(writer.map([x], lambda a: a.apply("math.absf")), [0], 0.0, "arith.maximumf")
        if format.scale.rule == "nvfp4_quotient":
            amax = writer.map([amax], lambda a: a / 2688.0)
        tensor = f" tensor({amax.name} : tensor<f32>)"
    site = "" if random is None else f" site = {random.site} ({random.seed}, {random.step} : i64, i64)"
    kinds = f"{text_of(codes)}, {text_of(scales)}"
    found = writer.write_several(
        f"repro.quantize {format.block_format} {row.name}{tensor}{site} : {text_of(row.kind)} -> {kinds}", 2
    )
    values = writer.write(
        f"repro.dequantize {format.block_format} {found}#0, {found}#1{tensor} : {kinds} -> {text_of(row.kind)}"
    )
    return writer.reshape(Tensor(values, row.kind), (size,))


_COMPRESS: dict[type[GradientCompression], Callable[[GradientWriter, Any, Tensor, Random | None], Tensor]] = {
    TopK: _top_k,
    OneBit: _one_bit,
    QSGD: _qsgd,
    Blocks: _blocks,
}


def low_rank(writer: GradientWriter, method: PowerSGD, given: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """(L5) Approximates a tensor by a product of two factors of low rank. Returns the product and the new right factor;
    `right` is the right factor of the last step."""
    shape = given.kind.shape
    rows, columns = method.matrix(shape)
    matrix = given if len(shape) == 2 else writer.reshape(writer.reshape(given, (rows * columns,)), (rows, columns))
    left = _orthogonal(writer, writer.contract(matrix, right, ("ij", "jk", "ik")))
    new = writer.contract(matrix, left, ("ij", "ik", "jk"))
    found = writer.contract(left, new, ("ik", "jk", "ij"))
    if len(shape) == 2:
        return found, new
    return writer.reshape(writer.reshape(found, (rows * columns,)), shape), new


def _orthogonal(writer: GradientWriter, matrix: Tensor) -> Tensor:
    """Returns the matrix with its columns orthogonalized from left to right, by the modified Gram-Schmidt method."""
    rows, count = matrix.kind.shape
    found, rest = writer.fill(0.0, (rows, count)), matrix
    for number in range(count):
        column = writer.column(rest, 0)
        square = writer.contract(column, column, ("i", "i", ""))
        column = writer.map([column, square], lambda a, s: a / (s.apply("math.sqrt") + _EPSILON), [(0,), ()])
        found = writer.insert(writer.reshape(column, (rows, 1)), found, (0, number))
        others = count - number - 1
        if others:
            rest = writer.slice(rest, (0, 1), (rows, others))
            dots = writer.contract(rest, column, ("ik", "i", "k"))
            rest = writer.map([rest, column, dots], lambda a, c, d: a - d * c, [(0, 1), (0,), (1,)])
    return found
