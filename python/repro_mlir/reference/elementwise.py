# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The element-wise operations of canonical programs, on arrays that broadcast against each other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.formats import ElementType, from_bits, sign_extend, to_bits
from repro_mlir.reference import arithmetic, functions, integers
from repro_mlir.reference.program import Operation

Evaluate = Callable[..., Any]
"""Maps one array for each operand to the array of the result, or to a tuple with one array for each result."""


def evaluator(op: Operation) -> Evaluate:
    """Returns the function that evaluates an operation."""
    if op.constant is not None:
        constant = op.constant
        return lambda: constant
    return _function(op) if op.name in _FUNCTIONS else _MAKERS[op.name](op)


_FUNCTIONS = {f"repro.{name}" for name in functions.NAMES}


def _kind(op: Operation) -> ElementType:
    return op.result_types[0].element


def _function(op: Operation) -> Evaluate:
    """(S5) Returns the evaluator of an elementary function."""
    return _float(functools.partial(functions.evaluate, op.name.removeprefix("repro.")))(op)


def _float(function: Callable[..., np.ndarray]) -> Callable[[Operation], Evaluate]:
    """Makes an evaluator from a function on floats; rejects an operation whose result has a storage type (V1)."""

    def make(op: Operation) -> Evaluate:
        if _kind(op).is_storage:
            raise op.error(f"(V1) expected a computation in f32 or f64, got {_kind(op).name}")
        return function

    return make


def _exact(function: Callable[..., np.ndarray]) -> Callable[[Operation], Evaluate]:
    return lambda op: function


def _signed(x: np.ndarray) -> np.ndarray:
    """Returns an integer array as int64, with i1 true as -1 (V1)."""
    return -x.astype(np.int64) if x.dtype == np.bool_ else x


def _integer(function: Callable[..., np.ndarray]) -> Callable[[Operation], Evaluate]:
    """Makes an evaluator from a function on int64 arrays, whose results wrap to the width of the result type."""

    def make(op: Operation) -> Evaluate:
        width = _kind(op).width
        return lambda *operands: sign_extend(function(*map(_signed, operands)), width)

    return make


def _sized(function: Callable[..., np.ndarray]) -> Callable[[Operation], Evaluate]:
    """Makes an evaluator as `_integer` does, from a function that takes the width as its last argument."""

    def make(op: Operation) -> Evaluate:
        width = _kind(op).width
        return lambda *operands: sign_extend(function(*map(_signed, operands), width), width)

    return make


def _unsigned_choice(better: Callable[..., np.ndarray]) -> Callable[[Operation], Evaluate]:
    def choose(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
        return np.where(better(integers.as_unsigned(a, width), integers.as_unsigned(b, width)), a, b)

    return _sized(choose)


def _extended(low: Callable[..., np.ndarray], high: Callable[..., np.ndarray]) -> Callable[[Operation], Evaluate]:
    def make(op: Operation) -> Evaluate:
        width, upper_width = _kind(op).width, op.result_types[1].element.width

        def evaluate(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x, y = _signed(a), _signed(b)
            return sign_extend(low(x, y), width), sign_extend(high(x, y, width), upper_width)

        return evaluate

    return make


def _carry(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    x, y = integers.as_unsigned(a, width), integers.as_unsigned(b, width)
    return (integers.as_unsigned((x + y).astype(np.int64), width) < x).astype(np.int64)


_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
_COMPARE |= {"gt": np.greater, "ge": np.greater_equal}


def _compare_integers(op: Operation) -> Evaluate:
    predicate, width = op.attributes["predicate"], op.operand_types[0].element.width
    compare = _COMPARE[predicate[-2:]]
    if predicate.startswith("u"):
        return lambda a, b: compare(integers.as_unsigned(_signed(a), width), integers.as_unsigned(_signed(b), width))
    return lambda a, b: compare(_signed(a), _signed(b))


def _compare_floats(op: Operation) -> Evaluate:
    predicate = op.attributes["predicate"]
    if predicate in ("false", "true"):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), predicate == "true")

    def evaluate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        unordered = np.isnan(a) | np.isnan(b)
        if predicate in ("ord", "uno"):
            return unordered if predicate == "uno" else ~unordered
        holds = _COMPARE[predicate[1:]](a, b)
        return holds | unordered if predicate[0] == "u" else holds & ~unordered

    return evaluate


def _zero_extended(op: Operation) -> Evaluate:
    source, width = op.operand_types[0].element.width, _kind(op).width
    return lambda x: sign_extend(integers.as_unsigned(_signed(x), source).astype(np.int64), width)


def _convert_float(op: Operation) -> Evaluate:
    source, to = op.operand_types[0].element, _kind(op)
    return lambda x: arithmetic.convert(x, source, to)


def _to_integer(signed: bool) -> Callable[[Operation], Evaluate]:
    def make(op: Operation) -> Evaluate:
        width = _kind(op).width
        return lambda x: arithmetic.to_integer(x, width, signed)

    return make


def _from_integer(signed: bool) -> Callable[[Operation], Evaluate]:
    def make(op: Operation) -> Evaluate:
        kind, width = _kind(op), op.operand_types[0].element.width
        return lambda x: arithmetic.from_integer(x, kind, width, signed)

    return make


def _bitcast(op: Operation) -> Evaluate:
    source, to = op.operand_types[0].element, _kind(op)
    return lambda x: from_bits(to_bits(x, source), to)


def _extract(op: Operation) -> Evaluate:
    def evaluate(tensor: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        for dim, (index, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
            outside = (index < 0) | (index >= extent)
            if outside.any():
                wrong = int(index[outside].flat[0]) if index.ndim else int(index)
                raise op.failure(f"expected an index of dimension {dim} within 0 .. {extent - 1}, got {wrong}")
        return np.asarray(tensor[tuple(indices)])

    return evaluate


def _assert(op: Operation) -> Evaluate:
    message = op.attributes["msg"]

    def evaluate(condition: np.ndarray) -> tuple[np.ndarray, ...]:
        if not condition.all():
            raise StepFailed(f"{op.place}{message}")
        return ()

    return evaluate


def _dimension(op: Operation) -> Evaluate:
    shape = op.operand_types[0].shape or ()

    def evaluate(tensor: np.ndarray, dim: np.ndarray) -> np.ndarray:
        if not 0 <= int(dim) < len(shape):
            raise op.failure(f"expected a dimension below {len(shape)}, got {int(dim)}")
        return np.array(shape[int(dim)], np.int64)

    return evaluate


_MAKERS: dict[str, Callable[[Operation], Evaluate]] = {
    "arith.addf": _float(np.add),
    "arith.subf": _float(np.subtract),
    "arith.mulf": _float(np.multiply),
    "arith.divf": _float(np.divide),
    "arith.remf": _float(arithmetic.remainder),
    "arith.negf": _exact(np.negative),
    "arith.maximumf": _exact(arithmetic.maximum),
    "arith.minimumf": _exact(arithmetic.minimum),
    "arith.addi": _integer(np.add),
    "arith.subi": _integer(np.subtract),
    "arith.muli": _integer(np.multiply),
    "arith.andi": _integer(np.bitwise_and),
    "arith.ori": _integer(np.bitwise_or),
    "arith.xori": _integer(np.bitwise_xor),
    "arith.maxsi": _integer(np.maximum),
    "arith.minsi": _integer(np.minimum),
    "arith.maxui": _unsigned_choice(np.greater),
    "arith.minui": _unsigned_choice(np.less),
    "arith.divsi": _sized(integers.divide_signed),
    "arith.divui": _sized(integers.divide_unsigned),
    "arith.remsi": _sized(integers.remainder_signed),
    "arith.remui": _sized(integers.remainder_unsigned),
    "arith.shli": _sized(integers.shift_left),
    "arith.shrsi": _sized(integers.shift_right_signed),
    "arith.shrui": _sized(integers.shift_right_unsigned),
    "arith.addui_extended": _extended(np.add, _carry),
    "arith.mulsi_extended": _extended(np.multiply, integers.multiply_high_signed),
    "arith.mului_extended": _extended(np.multiply, integers.multiply_high_unsigned),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _exact(np.where),
    "arith.extsi": _integer(np.positive),
    "arith.extui": _zero_extended,
    "arith.trunci": _integer(np.positive),
    "arith.index_cast": _integer(np.positive),
    "arith.index_castui": _zero_extended,
    "arith.extf": _convert_float,
    "arith.truncf": _convert_float,
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
    "arith.sitofp": _from_integer(signed=True),
    "arith.uitofp": _from_integer(signed=False),
    "arith.bitcast": _bitcast,
    "math.fma": _float(arithmetic.fma),
    "math.sqrt": _float(np.sqrt),
    "math.absf": _exact(np.abs),
    "math.copysign": _exact(arithmetic.copysign),
    "math.floor": _exact(np.floor),
    "math.ceil": _exact(np.ceil),
    "math.trunc": _exact(np.trunc),
    "math.roundeven": _exact(np.rint),
    "math.round": _exact(arithmetic.round_half_away),
    "math.absi": _integer(np.abs),
    "math.ctpop": _sized(integers.count_ones),
    "math.ctlz": _sized(integers.leading_zeros),
    "math.cttz": _sized(integers.trailing_zeros),
    "cf.assert": _assert,
    "tensor.dim": _dimension,
    "tensor.extract": _extract,
}
