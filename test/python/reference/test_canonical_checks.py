# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The checks of canonical programs in Python give the verdicts of the compiler's verifier."""

from __future__ import annotations

import contextlib
import random
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from repro_mlir import ir
from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.formats import element_type
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.canonical.index_expressions import Expression, Expressions
from repro_mlir.reference.canonical.program import CHECKS, check_canonical
from repro_mlir.reference.canonical.uses import walk
from repro_mlir.reference.indexing import Division, IndexSum
from repro_mlir.reference.program import Body, Operation, ValueType
from repro_mlir.reference.stored import OPERATIONS, TERMINATORS, read_program
from repro_mlir.reference.stored_writer import write_program
from support import stored_programs
from support.kit import EVERYTHING
from support.stored_mutations import mutate
from support.stored_samples import BLOCK_CONTRACTIONS
from support.verdicts import verdict, verdict_of_compiler

MUTATIONS = 10_000 if EVERYTHING else 200
ACCESSES = 10_000 if EVERYTHING else 300


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


LARGE = (2**31 - 1, 2**31, 2**62, 2**63 - 2, 2**63 - 1)
"""Numbers near the limits of index arithmetic, of which the negative ones are used, too."""


def random_sum(draw: random.Random, depth: int, large: float = 0) -> IndexSum:
    """Returns a sum of dimensions and divisions, in which each number is one of LARGE with the probability `large`."""

    def number(*small: int) -> int:
        return draw.choice(small if draw.random() >= large else (*LARGE, -(2**63), *(-each for each in LARGE)))

    def factor() -> int:
        return number(1, 1, 1, -1, 2, 3, 4, 6, 8, -2, -3, -4)

    dimensions = sorted({draw.randrange(3) for _ in range(draw.randrange(3))})
    divisions = []
    for _ in range(draw.choice((0, 0, 1, 1, 2)) if depth else 0):
        dividend = random_sum(draw, depth - 1, large)
        if dividend.dimensions or dividend.divisions:
            kind = draw.choice(("mod", "floordiv", "ceildiv"))
            divisor = draw.choice((1, 2, 3, 4, 6, 8) if draw.random() >= large else LARGE)
            divisions.append((Division(kind, dividend, divisor), factor()))
    return IndexSum(number(0, 0, 1, -1, 4), tuple((each, factor()) for each in dimensions), tuple(divisions))


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


# --- Accesses by random indices ---------------------------------------------------------------------------------------

ELEMENTWISE = """
func.func @main(%x: tensor<{size}xf32>, %y: tensor<{loops}x{size}xf32>) -> tensor<{loops}x{size}xf32>
    attributes {{repro.num_state = 0 : i64}} {{
  %e = tensor.empty() : tensor<{loops}x{size}xf32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%x, %y : tensor<{size}xf32>, tensor<{loops}x{size}xf32>) outs(%e : tensor<{loops}x{size}xf32>) {{
  ^bb0(%p: f32, %q: f32, %r: f32):
    linalg.yield %p : f32
  }} -> tensor<{loops}x{size}xf32>
  return %0 : tensor<{loops}x{size}xf32>
}}
"""

MAXIMUM = """
func.func @main(%x: tensor<{size}xf32>, %y: tensor<{loops}x{size}xf32>, %i: tensor<f32>) -> tensor<f32>
    attributes {{repro.num_state = 0 : i64}} {{
  %0 = repro.fold #repro.any_order maps [affine_map<(a, b, c, d) -> (d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> ()>] iterators [reduction, reduction, reduction, reduction]
      ins(%x, %y : tensor<{size}xf32>, tensor<{loops}x{size}xf32>) outs(%i : tensor<f32>) {{
  ^bb0(%p: f32, %q: f32, %acc: f32):
    %1 = arith.maximumf %p, %q : f32
    %2 = arith.maximumf %1, %acc : f32
    repro.yield %2 : f32
  }} -> tensor<f32>
  return %0 : tensor<f32>
}}
"""


def sum_bytes(index: IndexSum) -> bytes:
    terms = [(b"\0" + numbers(dimension), factor) for dimension, factor in index.dimensions]
    for division, factor in index.divisions:
        kind = bytes([1 + ("mod", "floordiv", "ceildiv").index(division.kind)])
        terms.append((kind + sum_bytes(division.dividend) + numbers(division.divisor), factor))
    return numbers(index.constant, len(terms)) + b"".join(numbers(factor) + term for term, factor in sorted(terms))


def test_accesses() -> None:
    """An operand is accessed at a random index, in loops with and without iterations."""
    programs = [
        (to_bytes(text.format(size=size, loops=loops)), name)
        for text, name in ((ELEMENTWISE, "linalg.generic"), (MAXIMUM, "repro.fold"))
        for size in (0, 1, 9, 2**33)
        for loops in ("2x3x4", "0x3x4", "2x0x1", "1x1x1", "0x0x0")
    ]
    alone = sum_bytes(IndexSum(0, ((3, 1),), ()))
    draw, outcomes = random.Random(11), Counter[str]()
    for number in range(ACCESSES):
        data, name = draw.choice(programs)
        index = random_sum(draw, draw.choice((0, 0, 1, 2)), large=0.4)
        changed = edited_bytes(data, name, exchanged(alone, sum_bytes(index)))
        expected, found = verdict_of_compiler(changed), verdict(changed)
        assert (expected is None) == (found is None), (number, index, expected, found)
        outcomes["accepted" if found is None else found.split("(")[1][:2]] += 1
    assert min(outcomes[each] for each in ("accepted", "A2", "H2")) > ACCESSES / 20, outcomes


# --- Refusals that mutations seldom reach -----------------------------------------------------------------------------

GENERIC = """
func.func @main(%x: tensor<4x6xf32>, %z: tensor<0xf32>, %b: tensor<4xbf16>, %i: tensor<4xi8>, %t: tensor<f32>)
    -> tensor<4x6xf32> attributes {repro.num_state = 0 : i64} {
  %f = arith.constant 0.0 : f32
  %n = arith.constant 2 : i8
  %c = arith.constant dense<0> : tensor<8xi8>
  %p = tensor.pad %x low[0, 1] high[0, 1] {
  ^bb0(%j: index, %k: index):
    tensor.yield %f : f32
  } : tensor<4x6xf32> to tensor<4x8xf32>
  %s = tensor.extract_slice %x[0, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<6xf32>
  %d = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %e0 = tensor.empty() : tensor<0xf32>
  %none = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 + 1)>,
      affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%z, %b : tensor<0xf32>, tensor<4xbf16>)
      outs(%e0 : tensor<0xf32>) {
  ^bb0(%a: f32, %u: bf16, %o: f32):
    linalg.yield %a : f32
  } -> tensor<0xf32>
  %e1 = tensor.empty() : tensor<4xi8>
  %q = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 mod 3)>,
      affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%b, %i : tensor<4xbf16>, tensor<4xi8>)
      outs(%e1 : tensor<4xi8>) {
  ^bb0(%a: bf16, %u: i8, %o: i8):
    %g = linalg.index 0 : index
    %w = arith.extf %a : bf16 to f32
    %v = arith.truncf %w : f32 to f8E5M2
    %y = arith.sitofp %u : i8 to f32
    %r = math.absf %w : f32
    linalg.yield %u : i8
  } -> tensor<4xi8>
  return %x : tensor<4x6xf32>
}
"""

BITS = """
func.func @main(%x: tensor<4x0xf32>) -> (tensor<4x0xi32>, tensor<0xf32>, tensor<0xi64>)
    attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 2143289344 : i32
  %e = tensor.empty() : tensor<4x0xi32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x0xf32>) outs(%e : tensor<4x0xi32>) {
  ^bb0(%a: f32, %o: i32):
    %b = arith.bitcast %a : f32 to i32
    %u = arith.cmpf uno, %a, %a : f32
    %s = arith.select %u, %nan, %b : i32
    linalg.yield %s : i32
  } -> tensor<4x0xi32>
  %v = tensor.empty() : tensor<0xf32>
  %n = tensor.empty() : tensor<0xi64>
  %1:2 = repro.arg_reduce max dimension = 0 ins(%x : tensor<4x0xf32>) outs(%v, %n : tensor<0xf32>, tensor<0xi64>)
      -> tensor<0xf32>, tensor<0xi64>
  return %0, %1#0, %1#1 : tensor<4x0xi32>, tensor<0xf32>, tensor<0xi64>
}
"""

FOLD = """
func.func @main(%x: tensor<4x8xf32>, %i: tensor<f32>, %k: tensor<4xi64>) -> tensor<f32>
    attributes {repro.num_state = 0 : i64} {
  %0 = repro.fold #repro.fdpa<terms = 4, fraction = 24, round = rne_f16, floor = -133>
      maps [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> ()>]
      iterators [reduction, reduction] ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %1 = math.fma %a, %b, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  %2 = repro.scan add dimension = 1 ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<f32>
}
"""


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *(value % 2**64 for value in values))


def exchanged(old: bytes, new: bytes) -> Callable[[Operation], Operation]:
    """Returns a change of the stored attributes of an operation."""

    def edit(operation: Operation) -> Operation:
        encoded = bytes(operation.encoded)
        assert encoded.count(old) >= 1
        return replace(operation, encoded=encoded.replace(old, new, 1))

    return edit


def of_types(*kinds: ValueType) -> Callable[[Operation], Operation]:
    return lambda operation: replace(operation, result_types=kinds)


def appended(operation: Operation) -> Operation:
    return replace(operation, encoded=bytes(operation.encoded) + numbers(0))


def of_element(element: str, shape: tuple[int, ...] | None = None) -> ValueType:
    return ValueType(element_type(element), shape)


def of_bf16(operation: Operation) -> Operation:
    """Lets math.absf compute on %a of GENERIC, which is 4 values before its extension %w."""
    return replace(operation, operands=(operation.operands[0] - 4,), result_types=(of_element("bf16"),))


def edited(text: str, name: str, edit: Callable[[Operation], Operation], nth: int = 0) -> bytes:
    """Returns the stored program of a text in which one operation is changed."""
    return edited_bytes(to_bytes(text), name, edit, nth)


def edited_bytes(data: bytes, name: str, edit: Callable[[Operation], Operation], nth: int = 0) -> bytes:
    program = read_program(data)
    found = [operation for operation, _ in walk(program.body) if operation.name == name][nth]

    def body(old: Body) -> Body:
        return replace(old, operations=tuple(changed(each) for each in old.operations))

    def changed(old: Operation) -> Operation:
        return edit(old) if old is found else replace(old, regions=tuple(map(body, old.regions)))

    return write_program(replace(program, body=body(program.body)))


D0 = numbers(0, 1, 1) + b"\0" + numbers(0)
# An accumulator (M4): terms, fraction, round, floor, late, chunk and start.
UNIT = b"\4" + numbers(4, 24, 2, -133, 0, 0)

REFUSALS: dict[str, tuple[str, str, Callable[[Operation], Operation], int, str]] = {
    "no-iterations": (GENERIC, "linalg.generic", exchanged(numbers(1, 1, 1), numbers(1, 1, 9)), 0, r"\(A2\)"),
    "no-iterations-largest": (
        GENERIC, "linalg.generic", exchanged(numbers(1, 1, 1), numbers(1, 1, 2**63 - 1)), 0, r"\(A2\).* below 2\^63 - 1"
    ),
    "reduction": (
        GENERIC,
        "linalg.generic",
        exchanged(b"\0" + numbers(2, 2, 1), b"\1" + numbers(2, 2, 1)),
        1,
        r"\(F1\)",
    ),
    "slice-at-the-end": (
        GENERIC,
        "tensor.extract_slice",
        lambda each: of_types(of_element("f32", (0, 6)))(exchanged(numbers(0, 0, 2, 1), numbers(4, 0, 2, 0))(each)),
        0,
        r"\(A3\) expected a slice of dimension 0 within its 4 elements, got offset 4, size 0",
    ),
    "empty-group": (
        GENERIC,
        "tensor.collapse_shape",
        lambda each: of_types(of_element("f32", (24, 1)))(exchanged(numbers(1, 2), numbers(2, 2))(appended(each))),
        0,
        r"\(A3\) expected no group without dimensions",
    ),
    "only-an-empty-group": (
        GENERIC,
        "tensor.collapse_shape",
        exchanged(numbers(1, 2, 0, 1), numbers(1, 0)),
        0,
        r"\(A3\) expected no group without dimensions",
    ),
    "unstable": (
        GENERIC,
        "linalg.generic",
        exchanged(b"\1" + D0 + numbers(3), b"\1" + D0 + numbers(1)),
        1,
        r"\(H2\) expected result #0 of map #1 as it is simplified",
    ),
    "loop": (GENERIC, "linalg.index", exchanged(numbers(0), numbers(1)), 0, "expected a dimension below 1, got 1"),
    "storage": (GENERIC, "math.absf", of_bf16, 0, r"\(V1\) expected a computation in f32 or f64"),
    "to-a-scale": (GENERIC, "arith.truncf", of_types(of_element("f8E8M0FNU")), 0, r"\(V1\) expected a type to which"),
    "from-an-integer-to-a-scale": (GENERIC, "arith.sitofp", of_types(of_element("f8E8M0FNU")), 0, r"\(V1\)"),
    "padding": (GENERIC, "tensor.pad", exchanged(numbers(0, 1), numbers(0, 2)), 0, r"\(A3\) expected"),
    "padded-type": (GENERIC, "tensor.pad", of_types(of_element("i32", (4, 8))), 0, r"\(A3\) expected tensor"),
    "slice": (GENERIC, "tensor.extract_slice", of_types(of_element("f32", (3, 2))), 0, r"\(A3\) expected tensor<1x6"),
    "groups": (GENERIC, "tensor.collapse_shape", of_types(of_element("f32", (12,))), 0, r"\(A3\) expected groups of"),
    "constants": (
        GENERIC,
        "arith.constant",
        lambda each: replace(each, result_types=(of_element("i8", (2**33,)),)),
        2,
        r"\(A4\) expected at most 2\^32 bytes",
    ),
    "exact": (
        FOLD.replace("4x8x", "4x131072x"),
        "repro.fold",
        exchanged(UNIT + numbers(0), b"\3" + numbers(2)),
        0,
        r"\(K4\) expected at most 262144",
    ),
    "digits": (FOLD, "repro.fold", exchanged(UNIT + numbers(0), b"\3" + numbers(9)), 0, r"digits"),
    "negative": (FOLD, "repro.scan", exchanged(numbers(0, 1), numbers(0, 2**64 - 1)), 0, "expected an integer below"),
    "chunk": (
        FOLD,
        "repro.fold",
        exchanged(UNIT, b"\4" + numbers(4, 24, 2, -133, 0, 2**63)),
        0,
        r"\(M4\) expected a chunk below 2\^63",
    ),
    "start": (FOLD, "repro.fold", exchanged(UNIT + numbers(0), UNIT + numbers(1)), 0, r"\(M4\) expected results"),
    "nan-comparison": (BITS, "arith.cmpf", exchanged(numbers(14), numbers(7)), 0, r"\(V4\) expected each use"),
    "nan-bits": (BITS, "arith.constant", exchanged(b"\xc0\x7f", b"\x80\x7f"), 0, r"\(V4\) expected each use"),
    "nan-of-float": (
        BITS,
        "arith.constant",
        lambda each: replace(
            each, result_types=(of_element("f32"),), encoded=b"\0" + struct.pack("<I", 0x7FC00000)
        ),
        0,
        r"\(V4\) expected each use",
    ),
    "no-extent": (BITS, "repro.arg_reduce", exchanged(numbers(0, 0), numbers(0, 1)), 0, r"\(D2\) expected elements"),
    "prefix-of-replace": (FOLD, "repro.scan", exchanged(numbers(0, 1), numbers(4, 1)), 0, r"\(D3\) expected a reduc"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    text, operation, edit, nth, message = REFUSALS[name]
    assert verdict(to_bytes(text)) is None
    data = edited(text, operation, edit, nth)
    found = verdict(data)
    assert found is not None and re.search(message, found), found
    assert verdict_of_compiler(data) is not None
