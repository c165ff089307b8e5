# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Elementary functions (S5) and small elementwise functions."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Builder, Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_FUNCTIONS = {
    "chlo.acos": "acos",
    "chlo.acosh": "acosh",
    "chlo.asin": "asin",
    "chlo.asinh": "asinh",
    "chlo.atan": "atan",
    "chlo.atanh": "atanh",
    "chlo.cosh": "cosh",
    "chlo.erf": "erf",
    "chlo.erfc": "erfc",
    "chlo.sinh": "sinh",
    "chlo.tan": "tan",
    # An HLO operation without a StableHLO counterpart.
    "mhlo.erf": "erf",
    "stablehlo.atan2": "atan2",
    "stablehlo.cbrt": "cbrt",
    "stablehlo.cosine": "cos",
    "stablehlo.exponential": "exp",
    "stablehlo.exponential_minus_one": "expm1",
    "stablehlo.log": "log",
    "stablehlo.log_plus_one": "log1p",
    "stablehlo.power": "pow",
    "stablehlo.rsqrt": "rsqrt",
    "stablehlo.sine": "sin",
    "stablehlo.tan": "tan",
    "stablehlo.tanh": "tanh",
}

#: Functions that (S5) does not define for f64.
_OF_F32 = ("atan2", "pow")


@rule(*_FUNCTIONS)
def elementary(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value] | None:
    """Calls the correctly rounded function. Must run before any pass that folds the operation or expands it to a
    polynomial."""
    name = _FUNCTIONS[operation.name]
    element = emit.element_of(operation.results[0])
    if isinstance(element, ir.IntegerType):
        # StableHLO's own lowering computes the power of integers, which is exact.
        return None
    if isinstance(element, ir.F64Type) and name in _OF_F32:
        raise Unsupported(f"of f64 is not supported: {name} is defined for f32 only (S5)")

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        kind = build.types[0].element_type
        return [build.elementwise(operands, lambda values: build.scalar(f"repro.{name}", values, kind))]

    return calls.call(list(operation.operands), [operation.results[0].type], write)


@rule("stablehlo.logistic")
def logistic(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to 1 / (1 + exp(-x)) (S6), computed in f32 for narrower types."""
    value = operation.operands[0]
    element = emit.element_of(value)
    wide = value if isinstance(element, ir.F64Type) else emit.convert(value, ir.F32Type.get())
    one = emit.like(wide, 1.0)
    return [emit.convert(hlo.divide(one, hlo.add(one, hlo.exponential(hlo.negate(wide)))), element)]


@rule("stablehlo.reduce_precision")
def reduce_precision(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Rounds to `mantissa_bits` fraction bits, to nearest even, with integer arithmetic on the bits of the value in
    f32. With fewer than 8 exponent bits, a result that overflows the reduced format becomes infinite, and one that is
    subnormal in this format becomes zero."""
    given = emit.element_of(operation.operands[0])
    if isinstance(given, ir.F64Type):
        raise Unsupported("of f64 is not supported")
    element = ir.F32Type.get()
    value = emit.convert(operation.operands[0], element)
    exponent, fraction = (
        ir.IntegerAttr(operation.attributes[name]).value for name in ("exponent_bits", "mantissa_bits")
    )
    integer = ir.IntegerType.get_unsigned(32)
    bits = emit.bitcast(value, integer)

    def number(value: int) -> ir.Value:
        return emit.like(bits, value)

    sign = hlo.and_(bits, number(0x80000000))
    size: ir.Value = hlo.and_(bits, number(0x7FFFFFFF))
    dropped = 23 - fraction
    if dropped > 0:
        odd = hlo.and_(hlo.shift_right_logical(size, number(dropped)), number(1))
        size = hlo.add(size, hlo.add(number((1 << (dropped - 1)) - 1), odd))
        size = hlo.and_(size, number(0xFFFFFFFF >> dropped << dropped))
    if exponent < 8:
        bias = (1 << (exponent - 1)) - 1
        is_large = emit.compare("GE", size, number((127 + bias + 1) << 23))
        is_small = emit.compare("LT", size, number((127 - bias + 1) << 23))
        size = emit.select(is_large, number(0x7F800000), emit.select(is_small, number(0), size))
    result = emit.bitcast(hlo.or_(sign, size), element)
    is_nan = emit.compare("NE", value, value)
    return [emit.convert(emit.select(is_nan, value, result), given)]


@rule("chlo.square")
def square(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to x * x."""
    return [hlo.multiply(operation.operands[0], operation.operands[0])]


@rule("mhlo.copy")
def copy(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Returns the operand."""
    return list(operation.operands)


@rule("stablehlo.optimization_barrier")
def barrier(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to repro.barrier (V5): `jax.checkpoint` puts a barrier before recomputed operations."""

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        return build.create("repro.barrier", [operands], build.types)

    # Integers, such as loop bounds, get no barrier: recomputing them would save hardly any memory.
    return [
        calls.call([value], [value.type], write)[0] if isinstance(emit.element_of(value), ir.FloatType) else value
        for value in operation.operands
    ]


@rule("stablehlo.reshape")
def reshape(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value] | None:
    """Removes a reshape to the same shape: jaxlib's lowering crashes on such a reshape of an unsigned scalar."""
    value = operation.operands[0]
    return [value] if value.type == operation.results[0].type else None
