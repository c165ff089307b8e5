# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The checks of canonical programs in Python give the verdicts of the compiler's verifier."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest
from repro_mlir import ir
from repro_mlir.base.errors import ProgramError, ReproError
from repro_mlir.program.canonical import read_module, to_bytes
from repro_mlir.reference.canonical.index_expressions import Expression, Expressions
from repro_mlir.reference.canonical.program import CHECKS, check_canonical
from repro_mlir.reference.indexing import Division, IndexSum
from repro_mlir.reference.stored import OPERATIONS, TERMINATORS, read_program
from support import stored_programs
from support.kit import EVERYTHING
from support.stored_mutations import mutate
from support.stored_samples import BLOCK_CONTRACTIONS

MUTATIONS = 10_000 if EVERYTHING else 200


def verdict(data: bytes) -> str | None:
    """Returns the reason why the checks in Python refuse a program; None if they accept it."""
    try:
        check_canonical(read_program(data))
    except ProgramError as error:
        return str(error)
    return None


def verdict_of_compiler(data: bytes) -> str | None:
    with ir.Context():
        try:
            read_module(data)
        except ReproError as error:
            return str(error)
    return None


def test_each_operation_has_a_check() -> None:
    assert CHECKS.keys() == OPERATIONS.keys() - {*TERMINATORS.values()}


def test_an_operation_without_a_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = read_program(to_bytes(stored_programs.PROGRAM))
    check_canonical(program)
    monkeypatch.delitem(CHECKS, "repro.random")
    with pytest.raises(ProgramError, match=r"'repro\.random': expected an operation that can be checked"):
        check_canonical(program)


def seeds() -> list[bytes]:
    texts = [text for group in stored_programs.GROUPS[:6] for text in stored_programs.programs(group)]
    generated = [*stored_programs.programs("random")][:40]
    return [to_bytes(text) for text in (*texts, BLOCK_CONTRACTIONS, *generated)]


def test_mutations() -> None:
    programs, outcomes = seeds(), Counter[str]()
    for number in range(MUTATIONS):
        draw = random.Random(number)
        data = mutate(draw.choice(programs), draw)
        expected, found = verdict_of_compiler(data), verdict(data)
        assert (expected is None) == (found is None), (number, expected, found)
        outcomes["accepted" if found is None else "read" if found.startswith("(H2) byte") else "check"] += 1
    assert min(outcomes.values()) > MUTATIONS / 20 and len(outcomes) == 3, outcomes


def random_sum(draw: random.Random, depth: int) -> IndexSum:
    dimensions = sorted({draw.randrange(3) for _ in range(draw.randrange(3))})
    divisions = []
    for _ in range(draw.choice((0, 0, 1, 1, 2)) if depth else 0):
        dividend = random_sum(draw, depth - 1)
        if dividend.dimensions or dividend.divisions:
            kind = draw.choice(("mod", "floordiv", "ceildiv"))
            divisions.append((Division(kind, dividend, draw.choice((1, 2, 3, 4, 6, 8))), factor(draw)))
    return IndexSum(draw.choice((0, 0, 1, -1, 4)), tuple((each, factor(draw)) for each in dimensions), tuple(divisions))


def factor(draw: random.Random) -> int:
    return draw.choice((1, 1, 1, -1, 2, 3, 4, 6, 8, -2, -3, -4))


def built(index: IndexSum) -> ir.AffineExpr:
    """Returns the expression that the compiler builds from a stored sum."""
    terms = [ir.AffineExpr.get_dim(dimension) * factor for dimension, factor in index.dimensions]
    for division, factor in index.divisions:
        divide = {
            "mod": ir.AffineExpr.get_mod, "floordiv": ir.AffineExpr.get_floor_div, "ceildiv": ir.AffineExpr.get_ceil_div
        }[division.kind]  # fmt: skip
        terms.append(divide(built(division.dividend), division.divisor) * factor)
    if not terms:
        return ir.AffineExpr.get_constant(index.constant)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total + index.constant


def text(expression: Expression) -> str:
    if expression.kind == "constant":
        return str(expression.number)
    if expression.kind == "dimension":
        return f"d{expression.number}"
    assert expression.left is not None
    word = {"add": "+", "multiply": "*"}.get(expression.kind, expression.kind)
    right = str(expression.number) if expression.right is None else text(expression.right)
    return f"({text(expression.left)} {word} {right})"


WORDS = {
    ir.AffineAddExpr: "+",
    ir.AffineMulExpr: "*",
    ir.AffineModExpr: "mod",
    ir.AffineFloorDivExpr: "floordiv",
    ir.AffineCeilDivExpr: "ceildiv",
}


def text_of_compiler(expression: ir.AffineExpr) -> str:
    """Returns the same text for an expression of the compiler. The constructor of another kind fails."""
    with contextlib.suppress(ValueError):
        return str(ir.AffineConstantExpr(expression).value)
    with contextlib.suppress(ValueError):
        return f"d{ir.AffineDimExpr(expression).position}"
    for kind, word in WORDS.items():
        with contextlib.suppress(ValueError):
            parts = kind(expression)
            return f"({text_of_compiler(parts.lhs)} {word} {text_of_compiler(parts.rhs)})"
    raise AssertionError(expression)


def test_index_expressions() -> None:
    """The expressions are those that MLIR builds, with its simplifications."""
    draw, simplified = random.Random(3), 0
    with ir.Context():
        for number in range(20_000 if EVERYTHING else 2000):
            index = random_sum(draw, 2)
            expressions = Expressions()
            assert text(expressions.build(index)) == text_of_compiler(built(index)), (number, index)
            simplified += not expressions.is_stable(index)
    assert simplified > 100
