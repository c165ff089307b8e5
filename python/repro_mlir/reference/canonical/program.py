# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks a program as a whole, and each operation by the table `CHECKS`."""

from __future__ import annotations

import math
from collections.abc import Callable

from repro_mlir.base.errors import ProgramError
from repro_mlir.reference.canonical import loops, scalars, shapes, structured
from repro_mlir.reference.canonical.index_expressions import Expressions
from repro_mlir.reference.canonical.uses import EMPTY, Uses, check_bitcast, check_empty, walk
from repro_mlir.reference.program import Body, Operation, ParsedProgram, ValueType

_MAX_PROGRAM_BYTES = 1 << 50
_MAX_CONSTANT_BYTES = 1 << 32
_CONSTANT, _DIM = "arith.constant", "dim"


def check_canonical(program: ParsedProgram) -> None:
    """Checks a program that `stored.read_program` has read.

    Raises:
      ProgramError: the program is not canonical; the message names the first operation that violates a rule.
    """
    for i, (argument, result) in enumerate(zip(program.body.argument_types, program.result_types, strict=False)):
        if i < program.num_state and argument != result:
            raise ProgramError(f"expected state #{i} of one type as argument and result, got {argument} and {result}")
    for kind in (*program.body.argument_types, *program.result_types):
        if kind.shape is None:
            raise ProgramError(f"expected tensors as arguments and results, got {kind}")
    checker = _Checker(program.body)
    for operation, body in walk(program.body):
        checker.check(operation, body)
    _check_sizes(program.body)


class _Checker:
    """Checks the operations of a program.

    Attributes:
      uses: the uses of the values.
      expressions: the indices of the program.
    """

    def __init__(self, main: Body) -> None:
        self._main = main
        self.uses = Uses(main)
        self.expressions = Expressions()
        folds = (operation for operation in main.operations if operation.name == "repro.fold")
        steps = (loops.fold_step(fold, self.uses) for fold in folds)
        self._steps = {step.results for step in steps if step is not None}

    def check(self, operation: Operation, body: Body) -> None:
        check = CHECKS.get(operation.name)
        if check is None:
            raise operation.error("expected an operation that can be checked without the compiler")
        check(operation, self)
        if operation.name.startswith(("arith.", "math.")) and operation.results not in self._steps:
            scalars.check_storage(operation)
        if operation.name == "arith.bitcast":
            check_bitcast(operation, body, self._main, self.uses)
        if operation.name == EMPTY:
            check_empty(operation, self.uses)
        for region in operation.regions:
            self._check_positions(operation, region)

    def _check_positions(self, operation: Operation, region: Body) -> None:
        """Checks that the positions that a body asks for are those of loops."""
        count = len(operation.attributes.get("iterator_types", ()))
        for each in region.operations:
            if each.name in ("linalg.index", "repro.index") and each.attributes[_DIM] >= count:
                raise each.error(f"expected a dimension below {count}, got {each.attributes[_DIM]}")


def _check_sizes(main: Body) -> None:
    """(A4) Checks the bytes of all tensors, and of all constants."""
    every = sum(map(_bytes, main.argument_types))
    constants = 0
    for operation, _ in walk(main):
        size = sum(map(_bytes, operation.result_types))
        every += size
        constants += size if operation.name == _CONSTANT else 0
        if every > _MAX_PROGRAM_BYTES:
            raise operation.error("(A4) expected at most 2^50 bytes in all tensors of the program")
        if constants > _MAX_CONSTANT_BYTES:
            raise operation.error("(A4) expected at most 2^32 bytes in all constants of the program")


def _bytes(kind: ValueType) -> int:
    return 0 if kind.shape is None else math.prod(kind.shape) * -(-kind.element.width // 8)


def _index(operation: Operation, checker: _Checker) -> None:
    kind = operation.result_types[0]
    if kind.shape is not None or kind.element.name != "index":
        raise operation.error(f"expected index as result, got {kind}")


def _read(operation: Operation, checker: _Checker) -> None:
    """The check of an operation that the reader has checked completely."""


def _checks() -> dict[str, Callable[[Operation, _Checker], None]]:
    checks: dict[str, Callable[[Operation, _Checker], None]] = {}

    def add(dialect: str, names: str, check: Callable[[Operation], None]) -> None:
        for name in names.split():
            checks[f"{dialect}.{name}"] = lambda operation, checker, own=check: own(operation)  # type: ignore[misc]

    floats, integers = scalars.is_float, scalars.is_integer
    add("arith", "addf divf maximumf minimumf mulf negf remf subf", scalars.FLOATS)
    add("arith", "addi andi divsi divui maxsi maxui minsi minui muli ori remsi remui shli shrsi", scalars.INTEGERS)
    add("arith", "shrui subi xori mulsi_extended mului_extended", scalars.INTEGERS)
    add("arith", "addui_extended", scalars.check_carry)
    add("arith", "extsi extui", scalars.conversion(integers, integers, grows=True))
    add("arith", "trunci", scalars.conversion(integers, integers, grows=False))
    add("arith", "extf", scalars.conversion(floats, floats, grows=True))
    add("arith", "truncf", scalars.conversion(floats, floats, grows=False))
    add("arith", "sitofp uitofp", scalars.conversion(integers, floats, grows=None))
    add("arith", "fptosi fptoui", scalars.conversion(floats, integers, grows=None))
    add("arith", "index_cast index_castui", scalars.check_index_cast)
    add("arith", "bitcast", scalars.check_bitcast_types)
    add("arith", "select", scalars.check_select)
    add("arith", "cmpi", scalars.comparison(scalars.is_integer_or_index))
    add("arith", "cmpf", scalars.comparison(floats))
    add("math", "absf ceil copysign floor fma round roundeven sqrt trunc", scalars.FLOATS)
    add("math", "absi ctlz ctpop cttz", scalars.INTEGERS)
    add("cf", "assert", scalars.check_assertion)
    add("repro", "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1", scalars.FUNCTION)
    add("repro", "log log10 log1p log2 rsqrt sin sinh tan tanh", scalars.FUNCTION)
    add("repro", "atan2 hypot pow", scalars.BINARY_FUNCTION)
    add("repro", "powi", scalars.check_power)
    add("tensor", "extract", shapes.check_extract)
    add("tensor", "empty", shapes.check_empty_type)
    add("tensor", "cast", shapes.check_same)
    add("tensor", "splat", shapes.check_splat)
    add("tensor", "from_elements", shapes.check_from_elements)
    add("tensor", "extract_slice", shapes.check_extract_slice)
    add("tensor", "insert_slice", shapes.check_insert_slice)
    add("tensor", "expand_shape", shapes.check_expand)
    add("tensor", "collapse_shape", shapes.check_collapse)
    add("tensor", "concat", shapes.check_concat)
    add("repro", "barrier", shapes.check_same)
    add("repro", "arg_reduce", structured.check_arg_reduce)
    add("repro", "scatter", structured.check_scatter)
    add("repro", "scan", structured.check_scan)
    add("repro", "sort", structured.check_sort)
    add("repro", "random", structured.check_random)
    checks["tensor.dim"] = lambda operation, checker: shapes.check_dim(operation, checker.uses)
    checks["tensor.pad"] = lambda operation, checker: shapes.check_pad(operation, checker.uses)
    checks["linalg.generic"] = lambda operation, checker: loops.check_generic(
        operation, checker.uses, checker.expressions
    )
    checks["repro.fold"] = lambda operation, checker: loops.check_fold(operation, checker.uses, checker.expressions)
    for name in ("linalg.index", "repro.index"):
        checks[name] = _index
    for name in ("quantize", "dequantize", "pack_codes", "unpack_codes"):
        checks[f"repro.{name}"] = _read
    for name in ("block_contraction", "accumulated_block_contraction"):
        checks[f"repro.{name}"] = _read
    checks[_CONSTANT] = _read
    return checks


CHECKS = _checks()
"""The check of each operation of the stored form, except the terminators."""
