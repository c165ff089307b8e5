# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(H2): an index expression that MLIR simplifies can be written and read, and keeps its meaning. If it is then written
again, the bytes are the same."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Sequence

import pytest

ir = pytest.importorskip("repro_mlir.ir")
from repro_mlir import ReproError  # noqa: E402
from repro_mlir._mlir_libs._repro import program_hash, read_program, write_program  # noqa: E402
from repro_mlir.program.canonical import from_bytes, to_bytes  # noqa: E402
from repro_mlir.reference import stored  # noqa: E402
from support import identity_bytes  # noqa: E402

EXTENTS = (5, 6, 7)
OFFSET = 1 << 29
"""An offset that makes all indices positive, whatever intervals the verifier computes."""

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "mod": lambda a, b: a % b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
}

Expression = int | str | tuple[str, "Expression", "Expression"]
"""An expression: a constant, a dimension, or an operator and its operands."""


def expression(draw: random.Random, depth: int) -> Expression:
    """Returns a random expression. Many of its factors and divisors have common divisors, so that MLIR can simplify
    it."""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(["d0", "d1", "d2", draw.randrange(-9, 10)])
    left = expression(draw, depth - 1)
    kind = draw.random()
    if kind < 0.45:
        return draw.choice("+-"), left, expression(draw, depth - 1)
    if kind < 0.65:
        return "*", left, draw.choice([-8, -4, -2, -1, 2, 3, 4, 6, 8])
    # `left mod divisor`, in the one order of terms that MLIR does not simplify to a mod
    if kind < 0.70:
        divisor = draw.choice([2, 3, 4, 8])
        return "+", ("*", ("floordiv", left, divisor), -divisor), left
    return draw.choice(["mod", "floordiv", "ceildiv"]), left, draw.choice([1, 2, 3, 4, 6, 8, 12])


def text(expr: Expression) -> str:
    return f"({text(expr[1])} {expr[0]} {text(expr[2])})" if isinstance(expr, tuple) else str(expr)


def value(expr: Expression, dims: Sequence[int]) -> int:
    if isinstance(expr, tuple):
        return OPERATORS[expr[0]](value(expr[1], dims), value(expr[2], dims))
    return dims[int(expr[1:])] if isinstance(expr, str) else expr


def program(indices: Sequence[str], size: int = 2 * OFFSET, extents: Sequence[int] = EXTENTS) -> str:
    """Returns a program with one generic, which reads one operand of `size` bytes for each index expression, at this
    index."""
    operands, result = f"tensor<{size}xi8>", f"tensor<{'x'.join(map(str, extents))}xi8>"
    count, dims = range(len(indices)), ", ".join(f"d{i}" for i in range(len(extents)))
    maps = ", ".join(f"affine_map<({dims}) -> ({each})>" for each in (*indices, dims))
    iterators = ", ".join(['"parallel"'] * len(extents))
    return f"""
    func.func @main({", ".join(f"%x{i}: {operands}" for i in count)}) -> {result}
        attributes {{repro.num_state = 0 : i64}} {{
      %e = tensor.empty() : {result}
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
          ins({", ".join(f"%x{i}" for i in count)} : {", ".join([operands] * len(indices))}) outs(%e : {result}) {{
      ^bb0({", ".join(f"%a{i}: i8" for i in count)}, %o: i8):
        linalg.yield %a0 : i8
      }} -> {result}
      return %0 : {result}
    }}
    """


@pytest.mark.parametrize("depth", range(1, 9))
def test_random_expressions(depth: int) -> None:
    """Checks that an expression that the compiler writes and the interpreter reads has the values that Python computes,
    and that the second implementation writes the same bytes."""
    draw = random.Random(depth)
    points = [*itertools.product((0, 1), repeat=3), *(tuple(map(draw.randrange, EXTENTS)) for _ in range(8))]
    simplified = 0
    for _ in range(40):
        expressions = [("+", expression(draw, depth), OFFSET) for _ in range(8)]
        written = program([text(each) for each in expressions])
        with ir.Context() as context:
            module = ir.Module.parse(written)
            data = write_program(module)
            again = read_program(data, context)
            assert write_program(again) == data and program_hash(again) == program_hash(module)
            before, after = (
                identity_bytes.ProgramBytes().program(each.operation.get_asm(print_generic_op_form=True))
                for each in (module, again)
            )
        body = data[32 : 32 + struct.unpack_from("<Q", data, 24)[0]]
        assert after == body
        simplified += before != body
        (maps,) = (op.attributes["indexing_maps"] for op in stored.read_program(data).body.operations if op.regions)
        for expr, index in zip(expressions, maps, strict=False):
            for dims in points:
                assert index.results[0].evaluate(dims) == value(expr, dims), text(expr)
    assert simplified or depth < 3


def test_deep_divisions() -> None:
    """Covers 64 nested divisions, which can be read, and 65, which are refused."""
    index = "d0"
    for _ in range(64):
        index = f"(({index}) + d1 * 3) floordiv 5"
    data = to_bytes(program([index], 99))
    assert to_bytes(from_bytes(data)) == data
    with pytest.raises(ReproError, match="expected divisions at most 64 deep"):
        to_bytes(program([f"(({index}) + d1 * 3) floordiv 5"], 99))


@pytest.mark.parametrize(
    ("index", "read"),
    [
        ("(d0 floordiv 2) * -2 + d0 + 4", "d0 mod 2 + 4"),
        ("((d0 + d2 * 4) + d1) floordiv 4", "d2 + (d0 + d1) floordiv 4"),
        # The first simplification gives a sum that can be simplified again.
        ("((d0 floordiv 2) * -2 + d0 + 8) floordiv 4", "(d0 mod 2) floordiv 4 + 2"),
    ],
)
def test_H2_expressions_that_are_simplified(index: str, read: str) -> None:
    data = to_bytes(program([index], 99))
    again = from_bytes(data)
    assert f"affine_map<(d0, d1, d2) -> ({read})>" in again and to_bytes(again) == data


def test_long_sums() -> None:
    index = " + ".join(f"(d0 + {n}) floordiv 100" for n in range(64))
    data = to_bytes(program([index], 99))
    assert to_bytes(from_bytes(data)) == data
    with pytest.raises(ReproError, match="expected index expressions of at most 64 terms"):
        to_bytes(program([f"{index} + (d0 + 64) floordiv 100"], 99))


# Each quotient is 1. Partial sums in this order, with alternating signs, stay small; in the order of sorted terms they
# exceed 2^62.
QUOTIENTS = [f"((d0 + {n}) floordiv 49) * {2**61}" for n in (50, 53, 51, 54, 52, 55)]
LARGE = "{} - {} + {} - {} + {} - {}".format(*QUOTIENTS)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        # The index simplifies to d0. The extents of the loop and of the operand would then have to be equal, but they
        # are not.
        ("d1 + d0 - d1", r"\(A1\) dimension 0 of operand #1 is 5, but the extent of iterator 0 is 99"),
        (LARGE, r"\(A2\) result #0 of indexing map #0 exceeds 2\^62 on the way"),
    ],
)
def test_refused_indices(index: str, reason: str) -> None:
    """A program that is canonical only after its indices are simplified is refused when it is written, because no
    reader accepts it."""
    with pytest.raises(ReproError, match=f"expected a canonical program: .*{reason}"):
        to_bytes(program([index], 99, (5, 6)))
