# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Stored operations whose parts do not fit each other are refused with an error by the compiler and by the checks in
Python.

The compiler reads the programs in this process, without a sandbox: a failed assertion of MLIR would end the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.stored_bytes import block, file, kind, many, op, program, u64
from support.verdicts import verdict, verdict_of_compiler

F, FOUR, SQUARE = kind("f32", scalar=True), kind("f32", 4), kind("f32", 2, 2)
INDEX, I8, F64 = (kind(name, scalar=True) for name in ("index", "i8", "f64"))
FIRST = b"\0" + u64(0)
ZERO = op("arith.constant", [F], [], b"\0" + bytes(4))
LARGE = (24, 2**31, 2**40 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def whole(*operations: bytes, arguments: Sequence[bytes] = (FOUR, FOUR)) -> bytes:
    return file(program(arguments, [], [*operations, op("func.return")]))


def plus(constant: int, dimension: int = 0) -> bytes:
    return u64(constant, 1, 1) + b"\0" + u64(dimension)


def index_map(dimensions: int, *indices: bytes) -> bytes:
    return u64(dimensions) + many(indices)


D0 = index_map(1, plus(0))


def loops(
    name: str,
    *,
    maps: Sequence[bytes] = (D0, D0),
    iterators: bytes = b"\0",
    segments: Sequence[int] = (1, 1),
    operands: Sequence[int] = (0, 1),
    results: Sequence[bytes] = (FOUR,),
    arguments: Sequence[bytes] = (F, F),
    body: Sequence[bytes] | None = None,
    regions: int = 1,
    types: Sequence[bytes] = (FOUR, FOUR),
) -> bytes:
    """Returns a program with a linalg.generic or repro.fold that, by default, copies operand 0; its body begins with
    the values 3 and 4."""
    order = b"\2" if name == "repro.fold" else b""
    end = op("repro.yield" if order else "linalg.yield", [], [3])
    attributes = many(maps) + u64(len(iterators)) + iterators + order + many(map(u64, segments))
    region = block(arguments, [end] if body is None else body)
    head = op(name, results, operands, attributes)
    return whole(head[:-8] + u64(regions) + region * regions, arguments=types)


def pad(
    low: Sequence[int] = (1,),
    high: Sequence[int] = (1,),
    *,
    arguments: Sequence[bytes] = (INDEX,),
    result: bytes = kind("f32", 6),
    segments: Sequence[int] = (1, 0, 0),
    operand: int = 0,
    body: Sequence[bytes] | None = None,
) -> bytes:
    numbers = b"".join(many(map(u64, each)) for each in (low, high, segments))
    region = block(arguments, [op("tensor.yield", [], [2])] if body is None else body)
    return whole(ZERO, op("tensor.pad", [result], [operand], numbers, region), arguments=[FOUR, SQUARE])


def reshape(name: str, groups: Sequence[Sequence[int]], shape: Sequence[int] = (2, 2)) -> bytes:
    expands = name == "tensor.expand_shape"
    numbers = many(many(map(u64, group)) for group in groups) + (many(map(u64, shape)) if expands else b"")
    return whole(op(name, [SQUARE if expands else FOUR], [0 if expands else 1], numbers), arguments=[FOUR, SQUARE])


def concat(dimension: int, operands: Sequence[int] = (0, 0), result: bytes = kind("f32", 8)) -> bytes:
    return whole(op("tensor.concat", [result], operands, u64(dimension)), arguments=[FOUR, SQUARE])


def scan(dimension: int, result: bytes = FOUR) -> bytes:
    return whole(op("repro.scan", [result], [0, 0], u64(0, dimension, 2, 1, 1)), arguments=[FOUR])


@pytest.mark.parametrize(
    "data",
    [
        loops("linalg.generic"), loops("repro.fold"), pad(), reshape("tensor.expand_shape", [[0, 1]]),
        reshape("tensor.collapse_shape", [[0, 1]]), concat(0), scan(0),
    ],
)  # fmt: skip
def test_operations_that_fit_are_accepted(data: bytes) -> None:
    assert verdict(data) is None and verdict_of_compiler(data) is None


def bodies(name: str, end: str, index: str) -> dict[str, bytes]:
    """Returns programs whose body has wrong arguments, operations or a wrong end."""
    other = "repro.yield" if end == "linalg.yield" else "linalg.yield"
    kinds = [kind(each, scalar=True) for each in ("f64", "bf16", "f8E8M0FNU", "f4E2M1FN", "i1", "i8", "i64", "index")]
    kinds += [FOUR, SQUARE, kind("f32"), kind("f32", 0), kind("i1", 2**40)]
    ends = [op(end, [], [3])]
    negated, nested = op("arith.negf", [F], [3]), op(name, [FOUR], [0, 1], bytes(32), block([F, F], ends))
    used = [negated, op("arith.addf", [F], [5, 4]), op(end, [], [6])]
    return {
        **{f"argument {at} {i} {bool(body)}": loops(name, arguments=[[each, F], [F, each]][at], body=body)
           for i, each in enumerate(kinds) for at in (0, 1) for body in (None, used)},
        "all arguments": loops(name, arguments=[F64, F64]),
        "one argument": loops(name, arguments=[F]),
        "no argument": loops(name, arguments=[], body=[op(end)]),
        "five arguments": loops(name, arguments=[F] * 5),
        "yields nothing": loops(name, body=[op(end)]),
        "yields two": loops(name, body=[op(end, [], [3, 4])]),
        "yields a tensor": loops(name, body=[op(end, [], [0])]),
        "yields an index": loops(name, body=[op(index, [INDEX], [], u64(0)), op(end, [], [5])]),
        "no operation": loops(name, body=[]),
        "no terminator": loops(name, body=[negated]),
        "terminator first": loops(name, body=[*ends, negated]),
        "two terminators": loops(name, body=ends * 2),
        "terminator of another operation": loops(name, body=[op(other, [], [3])]),
        "terminator of a pad": loops(name, body=[op("tensor.yield", [], [3])]),
        "terminator of the function": loops(name, body=[op("func.return", [], [3])]),
        "index of loop 1": loops(name, body=[op(index, [INDEX], [], u64(1)), *ends]),
        "index of f32": loops(name, body=[op(index, [F], [], u64(0)), *ends]),
        "nested": loops(name, body=[nested, *ends]),
        "no body": loops(name, regions=0),
        "two bodies": loops(name, regions=2),
    }  # fmt: skip


def accesses(name: str) -> dict[str, bytes]:
    """Returns programs with wrong maps, iterators, operands or results."""
    second, none = index_map(2, plus(0, 1)), index_map(1)
    square = kind("f32", 4, 4)
    return {
        "maps of 2 dimensions": loops(name, maps=[second] * 2),
        "a map of 2 dimensions": loops(name, maps=[D0, second]),
        "maps of no dimension": loops(name, maps=[index_map(0, u64(0, 0))] * 2),
        "maps of 25 dimensions": loops(name, maps=[index_map(25, plus(0))] * 2),
        "no maps": loops(name, maps=[]),
        "one map": loops(name, maps=[D0]),
        "three maps": loops(name, maps=[D0] * 3),
        "a map without an index": loops(name, maps=[none, D0]),
        "maps without an index": loops(name, maps=[none] * 2),
        "a map with two indices": loops(name, maps=[index_map(1, plus(0), plus(0)), D0]),
        "indices of another dimension": loops(name, maps=[index_map(1, plus(0, 1)), D0]),
        "constant indices": loops(name, maps=[index_map(1, u64(0, 0))] * 2),
        "a constant index of the output": loops(name, maps=[D0, index_map(1, u64(0, 0))]),
        "the same index twice": loops(
            name, maps=[D0, index_map(1, plus(0), plus(0))], results=[square], types=[FOUR, square]
        ),
        **{f"index + {each}": loops(name, maps=[index_map(1, plus(each)), D0]) for each in LARGE},
        **{f"index * {each}": loops(name, maps=[index_map(1, u64(0, 1, each) + FIRST), D0]) for each in LARGE},
        "no iterators": loops(name, iterators=b""),
        "two iterators": loops(name, iterators=b"\0\0"),
        "thirty iterators": loops(name, iterators=b"\0" * 30),
        "a reduction": loops(name, iterators=b"\1"),
        **{f"operands by role {each}": loops(name, segments=each)
           for each in ((), (2,), (0, 2), (2, 0), (0, 0), (2, 1), (1, 0), (1, 1, 0), (2**31, 2), (-1, 3))},
        "an operand of another rank": loops(name, types=[SQUARE, FOUR]),
        "an operand of another extent": loops(name, types=[kind("f32", 2**38), FOUR]),
        "operands of rank 0": loops(name, types=[kind("f32")] * 2),
        "a result of another rank": loops(name, results=[SQUARE]),
        "a result of another extent": loops(name, results=[kind("f32", 2**38)]),
        "a scalar as result": loops(name, results=[F]),
        "no result": loops(name, results=[]),
        "two results": loops(name, results=[FOUR] * 2),
    }  # fmt: skip


def moves() -> dict[str, bytes]:
    """Returns programs with wrong operations that move elements, or with wrong dimensions."""
    ends = [op("tensor.yield", [], [2])]
    groups = (
        [], [[]], [[0]], [[0], [1]], [[1, 0]], [[0, 0]], [[0], [0]], [[0, 1], []], [[], [0, 1]], [[0, 24]], [[2**63]]
    )  # fmt: skip
    return {
        "no argument": pad(arguments=[]),
        "two arguments": pad(arguments=[INDEX] * 2),
        **{f"argument {i}": pad(arguments=[each]) for i, each in enumerate((F, FOUR, I8))},
        "padding of two dimensions": pad((1, 1), (1, 1)),
        "low padding alone": pad((1,), ()),
        "no padding": pad((), ()),
        **{f"padding of {each}": pad((each,), (each,)) for each in LARGE},
        "an operand of another rank": pad(operand=1),
        "a result of another rank": pad(result=SQUARE),
        "a result of another element": pad(result=kind("i32", 6)),
        "a scalar as result": pad(result=F),
        **{f"operands by role {each}": pad(segments=each) for each in ((), (0, 1, 0), (1,), (1, 0, 0, 0), (1, 1, 0))},
        "yields nothing": pad(body=[op("tensor.yield")]),
        "yields two": pad(body=[op("tensor.yield", [], [2, 2])]),
        "yields a tensor": pad(body=[op("tensor.yield", [], [0])]),
        "yields an index": pad(body=[op("tensor.yield", [], [4])]),
        "no operation": pad(body=[]),
        "two terminators": pad(body=ends * 2),
        "another terminator": pad(body=[op("linalg.yield", [], [2])]),
        **{f"{name} {each}": reshape(f"tensor.{name}", each) for name in ("expand_shape", "collapse_shape")
           for each in groups},
        **{f"expand_shape to {each}": reshape("tensor.expand_shape", [[0, 1]], each)
           for each in ((), (4,), (2, 2, 1), (2**40, 2**40), (2**63, 2))},
        **{f"concat {each}": concat(each) for each in (1, *LARGE)},
        "concat of ranks": concat(0, [0, 1]),
        "concat of nothing": concat(0, []),
        "concat to another rank": concat(0, [0, 0], SQUARE),
        **{f"scan {each}": scan(each) for each in (1, *LARGE)},
        "scan to another rank": scan(0, SQUARE),
    }  # fmt: skip


REFUSED = {
    "bodies of linalg.generic": bodies("linalg.generic", "linalg.yield", "linalg.index"),
    "bodies of repro.fold": bodies("repro.fold", "repro.yield", "repro.index"),
    "accesses of linalg.generic": accesses("linalg.generic"),
    "accesses of repro.fold": accesses("repro.fold"),
    "moves": moves(),
}


@pytest.mark.parametrize("group", REFUSED)
def test_operations_that_do_not_fit_are_refused(group: str) -> None:
    accepted = {name for name, data in REFUSED[group].items() if None in (verdict(data), verdict_of_compiler(data))}
    assert not accepted


def test_arguments_are_refused_before_the_operations_that_use_them() -> None:
    cases = REFUSED["bodies of linalg.generic"]
    found = [verdict_of_compiler(data) or "" for name, data in cases.items() if "argument" in name]
    wanted = "of the body to be 'f32', got ", "expected a body of 2 arguments, got "
    assert len(found) == 56 and all(any(part in each for part in wanted) for each in found)
