# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Structured operations: linalg.generic, and the operations of the repro dialect with an iteration space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from repro_mlir.base.numerics import philox as random
from repro_mlir.base.numerics.formats import ElementType, round_to_format, sign_extend
from repro_mlir.reference import arithmetic, blocks, folds, ordering
from repro_mlir.reference.bodies import CompiledBody
from repro_mlir.reference.elementwise import evaluator
from repro_mlir.reference.indexing import Along, Index, IndexBlock, IndexMap, view
from repro_mlir.reference.low_precision.binary_formats import BF16, F8E4M3FN, F8E5M2, F16, F32, BinaryFormat
from repro_mlir.reference.program import Operation
from repro_mlir.reference.random_sites import random_site

Environment = dict[int, np.ndarray]

WholeSum = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""total(init, x, y) returns init plus the sum of the products x[t] * y[t] along axis 0."""

FORMATS: dict[str, BinaryFormat] = {of.name: of for of in (F32, BF16, F16, F8E4M3FN, F8E5M2)}
"""The formats of a contraction's factors, by element type."""

_BLOCK = 1 << 16
"""The number of accumulators that are evaluated together; more would not fit in the CPU's cache."""

_CHAIN_BLOCK = 1 << 14
"""The same for chains of fma in one lane, which hold several f64 arrays."""

_TERMS = 1 << 20
"""The number of products whose factors are read together."""


class _Iteration:
    """The iteration space of a structured operation with indexing maps."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.maps = op.attributes["indexing_maps"]
        iterators = op.attributes["iterator_types"]
        self.parallel = [d for d, kind in enumerate(iterators) if kind == "parallel"]
        self.reduction = [d for d, kind in enumerate(iterators) if kind == "reduction"]
        dims = len(self.parallel) + len(self.reduction)
        extents: dict[int, int] = {}
        for access, kind in zip(self.maps, op.operand_types, strict=True):
            for result, extent in zip(access.results, kind.shape or (), strict=True):
                if result.dimension is not None:
                    extents.setdefault(result.dimension, extent)
        if len(extents) != dims:
            raise op.error(f"expected maps that give the extents of {dims} dimensions, got those of {sorted(extents)}")
        self.extents = [extents[d] for d in range(dims)]
        self.shape = tuple(self.extents[d] for d in self.parallel)
        self.reduced = [self.extents[d] for d in self.reduction]
        self.axes = 1 + len(self.parallel)
        self.division = list(range(len(self.parallel)))

    def arrange(self, x: IndexMap, y: IndexMap) -> None:
        """Orders the parallel dimensions so that the products of the operands of two maps have long inner loops: first
        the dimensions of both operands, last those of the operand with more elements, which `blocks` divides, so that a
        part reads few elements of it."""
        of_x, of_y = ({d for index in access.results for d, _ in index.dimensions} for access in (x, y))
        only_x = math.prod(self.extents[d] for d in self.parallel if d in of_x - of_y)
        only_y = math.prod(self.extents[d] for d in self.parallel if d in of_y - of_x)
        small, large = (of_y, of_x) if only_x > only_y else (of_x, of_y)
        small, large = small - large, large - small
        self.parallel.sort(key=lambda d: (d in large, d in small, d))
        self.shape = tuple(self.extents[d] for d in self.parallel)
        self.division = sorted(range(len(self.parallel)), key=lambda axis: self.parallel[axis] in small)

    def input(self, env: Environment, position: int) -> np.ndarray:
        return env[self.op.operands[position]]

    def output_axes(self, access: IndexMap) -> list[int]:
        """Returns, for each parallel dimension, the dimension of the output that it indexes."""
        dims = access.projection
        if dims is None or sorted(dims) != sorted(self.parallel):
            raise self.op.error("expected output maps that permute the parallel dimensions")
        return [dims.index(d) for d in self.parallel]

    def blocks(self, limit: int) -> Iterator[tuple[slice, ...]]:
        """Yields parts of the parallel iteration space with about `limit` elements each, or no part if the space is
        empty."""
        if math.prod(self.shape) == 0:
            return
        choices: dict[int, list[slice]] = {}
        rest = math.prod(self.shape)
        for axis in self.division:
            extent = self.shape[axis]
            rest //= extent
            size = min(extent, max(1, limit // rest))
            choices[axis] = [slice(at, min(at + size, extent)) for at in range(0, extent, size)]
        yield from itertools.product(*(choices[axis] for axis in range(len(self.shape))))

    def indices(self, part: Sequence[slice]) -> list[Index]:
        """Returns the indices of a part, with 0 for the reduction dimensions."""
        indices: list[Index] = [0] * len(self.extents)
        for axis, (dim, where) in enumerate(zip(self.parallel, part, strict=True), 1):
            indices[dim] = Along(axis, where.start, where.stop)
        return indices

    def elements(self, indices: list[Index], t: int, count: int) -> IndexBlock:
        """Returns the block of the reduction elements t, ..., t + count - 1 (row-major order)."""
        at = list(indices)
        if not self.reduced:
            return IndexBlock(tuple(at), self.axes)
        last = self.reduced[-1]
        if t % last + count <= last:
            rest = t
            for dim, extent in zip(reversed(self.reduction), reversed(self.reduced), strict=True):
                rest, at[dim] = divmod(rest, extent)
            if count > 1:
                at[self.reduction[-1]] = Along(0, t % last, t % last + count)
        else:
            numbers = np.unravel_index(np.arange(t, t + count), self.reduced)
            for dim, number in zip(self.reduction, numbers, strict=True):
                at[dim] = number
        return IndexBlock(tuple(at), self.axes)


def generic(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates a linalg.generic whose iterators are all parallel."""
    space = _Iteration(op)
    if space.reduction:
        raise op.error("expected parallel iterators only: a reduction is a repro.fold")
    outputs = range(len(op.operands) - len(op.results), len(op.operands))
    order = [space.output_axes(space.maps[position]) for position in outputs]
    results = [np.empty(kind.shape or (), kind.element.dtype) for kind in op.result_types]
    body = CompiledBody(op.regions[0], env)
    for part in space.blocks(1 << 20):
        block = IndexBlock(tuple(space.indices(part)), space.axes)
        arguments = [view(space.input(env, i), access, block) for i, access in enumerate(space.maps)]
        for value, result, axes in zip(body(arguments, block), results, order, strict=True):
            result.transpose(axes)[part] = value.reshape((1,) * (space.axes - value.ndim) + value.shape)[0]
    return results


def fold(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.fold in its order."""
    order = op.attributes["order"]
    if isinstance(order, folds.Exact):
        return _exact(op, env, order.digits)
    if isinstance(order, folds.Accumulated):
        return _accumulated(op, env, order)
    if isinstance(order, folds.Order):
        return _ordered(op, env, order)
    if isinstance(order, folds.AnyOrder) and _step(op) is not None:
        return _ordered(op, env, folds.ONE_OF_ANY)
    return _sequential(op, env)


def _full(width: int) -> int:
    return 2 ** (width - 1) - 1


# (F4) The start values, by the operation that combines the elements; they depend on the accumulator's width.
_STARTS: dict[str, Callable[[int], float]] = {
    "arith.addf": lambda width: 0.0,
    "math.fma": lambda width: 0.0,
    "arith.mulf": lambda width: 1.0,
    "arith.maximumf": lambda width: -math.inf,
    "arith.minimumf": lambda width: math.inf,
    "arith.addi": lambda width: 0,
    "arith.muli": lambda width: 1,
    "arith.andi": lambda width: -1,
    "arith.ori": lambda width: 0,
    "arith.xori": lambda width: 0,
    "arith.maxsi": lambda width: -_full(width) - 1,
    "arith.minsi": _full,
    "arith.maxui": lambda width: 0,
    "arith.minui": lambda width: -1,
}


def start_value(step: str, kind: ElementType) -> np.ndarray:
    """(F4) Returns the start value of a fold's accumulators, as a 0-d array."""
    value = _STARTS[step](kind.width)
    if kind.is_float and not kind.format.has_infinity:
        value = min(max(value, -kind.format.max_finite), kind.format.max_finite)
    return np.array(value, kind.dtype) if kind.is_float else sign_extend(np.array(value, np.int64), kind.width)


def _step(op: Operation) -> tuple[Operation, int] | None:
    """Returns the operation acc = op(acc, f(inputs)) of a fold's body and the operand index of acc; None if absent."""
    body = op.regions[0]
    if len(body.yields) != 1:
        return None
    accumulator = body.arguments[-1]
    users = [inner for inner in body.operations if accumulator in inner.operands]
    if len(users) != 1 or users[0].results != body.yields or users[0].name not in _STARTS:
        return None
    step = users[0]
    if step.operands.count(accumulator) != 1 or any(step.results[0] in inner.operands for inner in body.operations):
        return None
    position = step.operands.index(accumulator)
    return (step, position) if step.name != "math.fma" or position == 2 else None


def _round_result(value: np.ndarray, accumulator: ElementType, result: ElementType) -> np.ndarray:
    """(F7) Rounds an f32 accumulator once to a storage type."""
    return round_to_format(value, result) if result.is_storage and accumulator != result else value


def _ordered(op: Operation, env: Environment, order: folds.Order) -> list[np.ndarray]:
    found = _step(op)
    if found is None:
        raise op.error("(F6) expected a body acc = op(acc, f(inputs)) with an op of (F4), or #repro.sequential")
    step, position = found
    space = _Iteration(op)
    if order is folds.ONE_OF_ANY and math.prod(space.shape) >= order.lanes:
        order = folds.Order(order.chunk, 1, 0, False)
    region = op.regions[0]
    accumulator, kind = region.argument_types[-1].element, op.result_types[0].element
    body = CompiledBody(region, env, leave_out=step, without=region.arguments[-1])
    advance = evaluator(step)
    combine = np.add if step.name == "math.fma" else advance
    start = start_value(step.name, accumulator)
    inputs = [space.input(env, i) for i in range(len(space.maps) - 1)]
    factors = _factors(op) if order.lanes == 1 else None
    if factors is not None:
        space.arrange(*(space.maps[i] for i in factors))
    axes = space.output_axes(space.maps[-1])
    init = space.input(env, len(inputs)).transpose(axes)
    result = np.empty(op.result_types[0].shape or (), kind.dtype)
    target = result.transpose(axes)
    for part in space.blocks(max(1, (_BLOCK if factors is None else _CHAIN_BLOCK) // order.lanes)):
        indices = space.indices(part)

        def meet(acc: np.ndarray, t: int, count: int, indices: list[Index] = indices) -> np.ndarray:
            block = space.elements(indices, t, count)
            terms = body([view(x, access, block) for x, access in zip(inputs, space.maps[:-1], strict=True)], block)
            terms.insert(position, acc)
            return advance(*terms)

        def multiply(acc: np.ndarray, t: int, count: int, indices: list[Index] = indices) -> np.ndarray:
            together = max(1, _TERMS // max(acc.size, 1))
            for first in range(t, t + count, together):
                number = min(together, t + count - first)
                block = space.elements(indices, first, number)
                views = (view(inputs[i], space.maps[i], block) for i in factors or ())
                # An operand that is the same for all elements has one item.
                x, y = (np.broadcast_to(v.astype(np.float64, "C"), (number, *v.shape[1:])) for v in views)
                acc = arithmetic.fma_chain(x, y, acc)
            return acc

        chain = multiply if factors is not None else None
        folded = folds.ordered_fold(order, space.reduced, start, init[part], meet, combine, chain)
        target[part] = _round_result(folded, accumulator, kind)
    return [result]


def _factors(op: Operation) -> tuple[int, int] | None:
    """Returns the positions of the inputs that a contraction (K1) in f32 multiplies: its body is acc = math.fma(x, y,
    acc), where x and y are inputs or extensions of inputs. Returns None for a fold with another body."""
    found, region = _step(op), op.regions[0]
    if found is None or found[0].name != "math.fma" or region.argument_types[-1].element.name != "f32":
        return None
    if any(inner.name not in ("arith.extf", "math.fma") for inner in region.operations):
        return None
    sources = {inner.results[0]: inner.operands[0] for inner in region.operations if inner.name == "arith.extf"}
    positions = []
    for value in found[0].operands[:2]:
        while value in sources:
            value = sources[value]
        if value not in region.arguments[:-1]:
            return None
        positions.append(region.arguments.index(value))
    return positions[0], positions[1]


def _required_factors(op: Operation, rule: str, order: str) -> tuple[int, int]:
    """Returns the factors of a contraction after checking that the contraction may have the order `order`, which the
    rule `rule` defines."""
    factors = _factors(op)
    if factors is None:
        raise op.error(
            f"({rule}) expected acc = math.fma(x, y, acc) in f32, with inputs or extensions (arith.extf) of inputs as "
            f"x and y, for {order}"
        )
    return factors


def _whole_sums(op: Operation, env: Environment, factors: tuple[int, int], total: WholeSum) -> list[np.ndarray]:
    """Evaluates a contraction, one block of results at a time. `total` computes the results of a block from init and
    all factors of these results."""
    space = _Iteration(op)
    terms = math.prod(space.reduced)
    kind = op.result_types[0].element
    axes = space.output_axes(space.maps[-1])
    init = space.input(env, len(space.maps) - 1).transpose(axes)
    result = np.empty(op.result_types[0].shape or (), kind.dtype)
    target = result.transpose(axes)
    for part in space.blocks(max(1, (1 << 22) // max(terms, 1))):
        value = init[part]
        if terms:
            block = space.elements(space.indices(part), 0, terms)
            x, y = (
                np.broadcast_to(view(space.input(env, i), space.maps[i], block), (terms, *value.shape)) for i in factors
            )
            value = total(value, x, y)
        target[part] = _round_result(value, op.regions[0].argument_types[-1].element, kind)
    return [result]


def _exact(op: Operation, env: Environment, digits: int) -> list[np.ndarray]:
    """(K4) Evaluates a contraction whose sum of integer products is exact."""
    factors = _required_factors(op, "K4", "#repro.exact")
    terms = math.prod(_Iteration(op).reduced)
    if terms > folds.EXACT_TERMS:
        raise op.error(f"(K4) expected at most {folds.EXACT_TERMS} reduction elements, got {terms}")
    return _whole_sums(op, env, factors, lambda init, x, y: init + folds.exact_contraction(x, y, digits))


def _accumulated(op: Operation, env: Environment, order: folds.Accumulated) -> list[np.ndarray]:
    """(M4) Evaluates a contraction with an accumulator of matrix units."""
    factors = _required_factors(op, "M4", "#repro.fdpa")
    if order.from_init and order.accumulator.result == F16 and op.result_types[0].element.name != "f16":
        raise op.error("(M4) expected results of f16 for start = init with rne_f16")
    of_x, of_y = (FORMATS[op.operand_types[i].element.name] for i in factors)

    def total(init: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return folds.accumulated_contraction(x, y, (of_x, of_y), init, order)

    return _whole_sums(op, env, factors, total)


def _sequential(op: Operation, env: Environment) -> list[np.ndarray]:
    """(F6) Evaluates a fold that starts from init itself, one element after the other."""
    space = _Iteration(op)
    region = op.regions[0]
    outputs = len(op.result_types)
    inputs = [space.input(env, i) for i in range(len(space.maps) - outputs)]
    body = CompiledBody(region, env)
    order = [space.output_axes(access) for access in space.maps[len(inputs) :]]
    inits = [space.input(env, len(inputs) + i).transpose(axes) for i, axes in enumerate(order)]
    results = [np.empty(kind.shape or (), kind.element.dtype) for kind in op.result_types]
    for part in space.blocks(_BLOCK):
        indices = space.indices(part)
        values = [init[part][np.newaxis] for init in inits]
        for t in range(math.prod(space.reduced)):
            block = space.elements(indices, t, 1)
            terms = [view(x, access, block) for x, access in zip(inputs, space.maps, strict=False)]
            values = body(terms + values, block)
        for i, (value, result, axes) in enumerate(zip(values, results, order, strict=True)):
            accumulator = region.argument_types[len(inputs) + i].element
            rounded = _round_result(value, accumulator, op.result_types[i].element)
            result.transpose(axes)[part] = rounded.reshape((1,) * (space.axes - rounded.ndim) + rounded.shape)[0]
    return results


def arg_reduce(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.arg_reduce (D2)."""
    x = np.moveaxis(env[op.operands[0]], op.attributes["dimension"], -1)
    if x.shape[-1] == 0:
        raise op.error("(D2) expected a dimension with elements, got extent 0")
    index = ordering.arg_extreme(x, largest=op.attributes["kind"] == "max")
    value = np.take_along_axis(x, index[..., np.newaxis], axis=-1)[..., 0]
    return [value, sign_extend(index, op.result_types[1].element.width)]


def sort(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.sort (D2)."""
    dimension = op.attributes["dimension"]
    columns = [np.moveaxis(env[n], dimension, -1) for n in op.operands[: len(op.results)]]
    order = ordering.sort_order(columns[0], descending=op.attributes["direction"] == "descending")
    return [np.moveaxis(np.take_along_axis(column, order, axis=-1), -1, dimension) for column in columns]


def _combination(op: Operation, kind: ElementType) -> tuple[folds.Combine, np.ndarray]:
    """Returns a function that applies the op of a scan or scatter to accumulators (F7), and the start value of the
    op."""
    name = op.attributes["combine"]
    floats: dict[str, tuple[str, folds.Combine]] = {
        "add": ("arith.addf", np.add),
        "mul": ("arith.mulf", np.multiply),
        "maximum": ("arith.maximumf", arithmetic.maximum),
        "minimum": ("arith.minimumf", arithmetic.minimum),
    }
    whole: dict[str, tuple[str, folds.Combine]] = {
        "add": ("arith.addi", np.add),
        "mul": ("arith.muli", np.multiply),
        "maximum": ("arith.maxsi" if kind.width > 1 else "arith.maxui", np.maximum),
        "minimum": ("arith.minsi" if kind.width > 1 else "arith.minui", np.minimum),
    }
    table = floats if kind.is_float else whole
    if name not in table:
        raise op.error(f"expected one of {', '.join(table)}, got {name}")
    step, function = table[name]
    if kind.is_float:
        return function, start_value(step, kind)

    def wrapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x, y = (v.astype(np.int64) for v in (a, b))
        return sign_extend(function(x, y), kind.width)

    return wrapped, start_value(step, kind)


def scan(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.scan (D3)."""
    kind, dimension = op.result_types[0].element, op.attributes["dimension"]
    combine, _ = _combination(op, kind)
    result = folds.scan(np.moveaxis(env[op.operands[0]], dimension, 0), combine)
    result = round_to_format(result, kind) if kind.is_storage else result
    return [np.moveaxis(result, 0, dimension)]


def scatter(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.scatter (D1)."""
    updates, indices, original = (env[n] for n in op.operands)
    kind, depth = op.result_types[0].element, indices.shape[1]
    extents = original.shape[:depth]
    for dim, extent in enumerate(extents):
        wrong = indices[(indices[:, dim] < 0) | (indices[:, dim] >= extent), dim]
        if wrong.size:
            raise op.failure(f"expected an index of dimension {dim} within 0 .. {extent - 1}, got {wrong[0]}")
    rows = original.reshape((-1, *original.shape[depth:])) if original.size else original
    if not original.size or not len(indices):
        return [original]
    destinations = np.ravel_multi_index(tuple(indices.T), extents) if depth else np.zeros(len(indices), np.int64)
    if op.attributes["combine"] == "replace":
        return [folds.scatter_replace(rows, destinations, updates).reshape(original.shape)]
    combine, start = _combination(op, kind)
    result = folds.scatter(rows, destinations, updates, start, combine)
    # Rounding does not change an element without an update, because its type represents it exactly.
    result = round_to_format(result, kind) if kind.is_storage else result
    return [result.reshape(original.shape)]


def random_numbers(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.random (R1), (R2)."""
    shape = op.result_types[0].shape or ()
    seed, site, step = random_site(op, env[op.operands[0]], env[op.operands[1]])
    if op.attributes["distribution"] == "uniform":
        return [random.random_uniform(shape, seed, site, step)]
    bits = random.random_bits(shape, seed, site, step).astype(np.int64)
    return [sign_extend(bits, op.result_types[0].element.width)]


STRUCTURED: dict[str, Callable[[Operation, Environment], list[np.ndarray]]] = {
    "linalg.generic": generic,
    "repro.accumulated_block_contraction": blocks.block_contraction,
    "repro.arg_reduce": arg_reduce,
    "repro.block_contraction": blocks.block_contraction,
    "repro.dequantize": blocks.dequantize,
    "repro.fold": fold,
    "repro.pack_codes": blocks.pack_codes,
    "repro.quantize": blocks.quantize,
    "repro.random": random_numbers,
    "repro.scan": scan,
    "repro.scatter": scatter,
    "repro.sort": sort,
    "repro.unpack_codes": blocks.unpack_codes,
}
