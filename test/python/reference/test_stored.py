# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The interpreter's reader accepts each encoding that docs/verification/identity.md allows, and nothing else."""

from __future__ import annotations

import itertools
import math
import random
import re
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.formats import to_bits
from repro_mlir.program.canonical import from_bytes, to_bytes
from repro_mlir.reference import folds
from repro_mlir.reference.canonical.program import check_canonical
from repro_mlir.reference.indexing import Division, IndexMap, IndexSum
from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa
from repro_mlir.reference.low_precision.binary_formats import F16, F32, MXINT8_FULL
from repro_mlir.reference.low_precision.block_scales import (
    Given,
    OneLevelQuotient,
    PowerOfTwo,
    Single,
    TwoLevel,
    TwoLevelQuotient,
)
from repro_mlir.reference.program import Body, Operation, ParsedProgram, ValueType
from repro_mlir.reference.stored import read_program
from repro_mlir.reference.stored_block_format import StoredFormat
from repro_mlir.reference.stored_writer import write_program
from support import stored_programs
from support.stored_bytes import block, file, kind, many, op, program, string, u64
from support.stored_samples import BLOCK_CONTRACTIONS, EVERYTHING, LINES

PAGE = (Path(__file__).parents[3] / "docs" / "verification" / "identity.md").read_text()

ENUMERATIONS = {
    row[1]: dict(re.findall(r"(\w+) (\d+)", row[2]))
    for row in re.finditer(r"^\| ([a-z ]+) \| (\w+ 0, [\w ,]+) \|$", PAGE, re.MULTILINE)
}


# --- The same bytes by hand -------------------------------------------------------------------------------------------


def of_op(
    attributes: bytes, name: str, inputs: int = 1, results: Sequence[bytes] | None = None, outs: int = 0
) -> bytes:
    """Returns a program with one operation on f32[4]. The program does not return the results of the operation."""
    types = [kind("f32", 4)] if results is None else results
    operands = [0] * (inputs + outs)
    return file(program([kind("f32", 4)], [], [op(name, types, operands, attributes), op("func.return")]))


# (M5) The parameters of an accumulator: terms, fraction, round, floor, late and group.
ACCUMULATOR = (64, 35, 0, -133, 0, 16)


def in_unit(
    accumulator: Sequence[int] = ACCUMULATOR,
    step: int = 2,
    block: int = 16,
    element: str = "f4E2M1FN",
    scale: str = "f8E8M0FNU",
    name: str = "repro.accumulated_block_contraction",
    rows: tuple[int, int] = (1, 1),
) -> bytes:
    """Returns a program that contracts two tensors [4, 32] in blocks: by (Q4) if `name` is repro.block_contraction, by
    default with an accumulator (M5)."""
    types = [kind(element, 4, 32), kind(scale, 4, -(-32 // block)), kind("f32", 4, 4)]
    by = u64(*accumulator) if "accumulated" in name else u64(0)
    attributes = u64(step, block, 2, *rows) + by + u64(2, 4, 1)
    return file(program(types, [], [op(name, types[2:], [0, 1, 0, 1, 2], attributes), op("func.return")]))


def first(data: bytes) -> Operation:
    return read_program(data).body.operations[0]


def refusal(data: bytes) -> str:
    with pytest.raises(ProgramError) as caught:
        read_program(data)
    assert re.match(r"\(H2\) byte \d+ of the stored program: (\(.*\) )?expected ", str(caught.value))
    return str(caught.value)


# --- Enumerations -----------------------------------------------------------------------------------------------------

ENUMERATED = {
    "integer predicates": ("arith.cmpi", "predicate", b"%s"),
    "float predicates": ("arith.cmpf", "predicate", b"%s"),
    "kind": ("repro.arg_reduce", "kind", b"%s" + u64(0, 2, 1, 2)),
    "combine": ("repro.scatter", "combine", b"%s" + u64(2, 2, 1)),
    "direction": ("repro.sort", "direction", b"%s" + u64(0, 2, 1, 1)),
    "distribution": ("repro.random", "distribution", b"%s" + u64(0, 2, 2, 1)),
}


def enumerated(name: str, number: int) -> bytes:
    operation, _, attributes = ENUMERATED[name]
    inputs, outs, results = {
        "arith.cmpi": (2, 0, 1), "arith.cmpf": (2, 0, 1), "repro.arg_reduce": (1, 2, 2), "repro.scatter": (2, 1, 1),
        "repro.sort": (1, 1, 1), "repro.random": (2, 1, 1),
    }[operation]  # fmt: skip
    return of_op(attributes.replace(b"%s", u64(number)), operation, inputs, [kind("f32", 4)] * results, outs)


def test_the_page_has_the_enumerations() -> None:
    assert ENUMERATIONS.keys() == {*ENUMERATED, "step", "totals", "round", "start"}
    assert [len(words) for words in ENUMERATIONS.values()] == [10, 16, 2, 5, 2, 2, 3, 2, 4, 2]


def test_Q4_step() -> None:
    steps = [each.attributes["step"] for each in read_program(to_bytes(BLOCK_CONTRACTIONS)).body.operations[:2]]
    assert [int(ENUMERATIONS["step"][step]) for step in steps] == [1, 0]
    unknown = of_op(u64(3, 4, 2, 1, 1, 0, 2, 4, 1), "repro.block_contraction", 4, [kind("f32", 4)], 1)
    assert "below 3, got 3" in refusal(unknown)


def test_Q7_types() -> None:
    floats = of_op(b"", "repro.pack_codes", 1, [kind("i8", 2)])
    assert "(Q7) expected codes of f4E2M1FN in rows, got tensor<4xf32>" in refusal(floats)
    missing = of_op(b"", "repro.unpack_codes", 1, [kind("f4E2M1FN", 5)])
    assert "(Q7) expected two codes in a byte, tensor<3xi8> of tensor<5xf4E2M1FN>, got tensor<4xf32>" in refusal(
        missing
    )


@pytest.mark.parametrize("name", ENUMERATED)
def test_enumerations(name: str) -> None:
    for word, number in ENUMERATIONS[name].items():
        assert first(enumerated(name, int(number))).attributes[ENUMERATED[name][1]] == word
    count = len(ENUMERATIONS[name])
    for number in (count, 2**63, 2**64 - 1):
        assert f"below {count}, got {number}" in refusal(enumerated(name, number))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("integer predicates", "%r = arith.cmpi {}, %i, %i : i64"),
        ("float predicates", "%r = arith.cmpf {}, %f, %f : f32"),
        ("combine", "%r = repro.scatter {} ins(%x, %w : !x, tensor<4x1xi64>) outs(%x : !x) -> !x"),
        ("kind", "%r, %s = repro.arg_reduce {} dimension = 0 ins(%x : !x) outs(%e, %n : !e, !n) -> !e, !n"),
        ("direction", "%r = repro.sort {} dimension = 0 ins(%x : !x) outs(%x : !x) -> !x"),
        ("distribution", "%r = repro.random {} site = 3 ins(%i, %i : i64, i64) outs(%b : !b) -> !b"),
    ],
    ids=lambda value: value if " = " not in value else "",
)  # fmt: skip
def test_enumerations_of_the_compiler(name: str, text: str) -> None:
    """Each word of an enumeration that the compiler writes is read as the same word."""
    for word in ENUMERATIONS[name]:
        element = {"bits": "i32", "uniform": "f32"}.get(word, "f32")
        line = text.replace("{}", word)
        found = read_program(to_bytes(f"""
!x = tensor<4xf32>
!e = tensor<f32>
!n = tensor<i64>
!b = tensor<4x{element}>
func.func @main(%x: !x, %w: tensor<4x1xi64>, %k: tensor<i64>) attributes {{repro.num_state = 0 : i64}} {{
  %i = tensor.extract %k[] : tensor<i64>
  %f = arith.constant 0.5 : f32
  %e = tensor.empty() : !e
  %n = tensor.empty() : !n
  %b = tensor.empty() : !b
  {line}
  return
}}"""))  # fmt: skip
        attributes = next(each.attributes for each in found.body.operations if ENUMERATED[name][0] == each.name)
        assert attributes[ENUMERATED[name][1]] == word


# --- Forms ------------------------------------------------------------------------------------------------------------


def rewritten(read: ParsedProgram) -> bytes:
    """Encodes the program that the reader returned, to show that the reader has lost nothing."""
    return program(
        [type_of(each) for each in read.body.argument_types],
        [type_of(each) for each in read.result_types],
        operations_of(read.body, "func.return"),
        read.num_state,
    )


def type_of(value: ValueType) -> bytes:
    return kind(value.element.name, *(value.shape or ()), scalar=value.shape is None)


TERMINATORS = {"linalg.generic": "linalg.yield", "repro.fold": "repro.yield", "tensor.pad": "tensor.yield"}


def operations_of(body: Body, terminator: str) -> list[bytes]:
    operations = []
    for each in body.operations:
        attributes = b"".join(attribute_of(each, key, value) for key, value in each.attributes.items())
        if each.constant is not None:
            attributes = constant_of(each.constant, each.result_types[0])
        inner = b""
        if each.regions:
            (region,) = each.regions
            inner = block([type_of(t) for t in region.argument_types], operations_of(region, TERMINATORS[each.name]))
        operations.append(op(each.name, [type_of(t) for t in each.result_types], each.operands, attributes, inner))
    return [*operations, op(terminator, [], body.yields)]


def constant_of(array: np.ndarray, value: ValueType) -> bytes:
    bits = to_bits(array, value.element)
    is_one = bits.size > 1 and bool((bits == bits.flat[0]).all())
    return bytes([is_one]) + (bits.flat[0] if is_one else bits).tobytes()


def attribute_of(each: Operation, key: str, value: Any) -> bytes:
    if key == "msg":
        return b""
    if isinstance(value, StoredFormat):
        return blocks_of(value)
    if each.name == "repro.quantize" and key == "site":
        return many([] if value is None else [u64(value)])
    if isinstance(value, int):
        return u64(value)
    if isinstance(value, str):
        tables = [
            words
            for name, (operation, _, _) in ENUMERATED.items()
            if operation == each.name
            for words in [ENUMERATIONS[name]]
        ]
        if each.name == "repro.scan":
            tables = [ENUMERATIONS["combine"]]
        if key == "step":
            tables = [ENUMERATIONS["step"]]
        return u64(int(tables[0][value]))
    if isinstance(value, tuple):
        return many(element_of(item) for item in value)
    if key == "accumulator":
        return block_sum_of(value) + u64(value.group if isinstance(value, Fdpa) else 1)
    return order_of(value)


def blocks_of(form: StoredFormat) -> bytes:
    rounding, scale, (rows, columns) = form.format.rounding, form.format.scale, form.format.tile
    numbers = [rows or 0, columns or 0, form.format.element != MXINT8_FULL]
    numbers += [
        ("nearest_even", "nearest_away", "toward_zero", "stochastic").index(rounding.direction.value),
        rounding.bits,
        form.is_ptx,
    ]
    numbers += [rounding.saturate, ("largest", "zero", "negative_zero").index(rounding.nan), rounding.signed_zero]
    match scale:
        case PowerOfTwo():
            rule = ("floor", "ceil", "even", "rceil", "rceil_product").index(scale.rule.value)
            infinity = ("nan", "largest", "power").index(scale.infinity.value)
            assert scale.least is not None
            numbers += [0, rule, infinity, scale.nan, scale.least]
        case TwoLevel():
            numbers += [1, scale.largest]
        case TwoLevelQuotient() | OneLevelQuotient():
            numbers += [2, 1 + isinstance(scale, TwoLevelQuotient)]
        case Single():
            encoding = ("product", "reciprocal", "quotient").index(scale.encoding.value)
            numbers += [3, encoding, *struct.unpack("<q", struct.pack("<d", scale.least)), scale.inverse, scale.power]
        case Given():
            numbers.append(4)
    return many(map(u64, numbers)) + kind(form.element.name, scalar=True)[1:]


def element_of(item: int | str | tuple[int, ...] | IndexMap) -> bytes:
    if isinstance(item, int):
        return u64(item)
    if isinstance(item, str):
        return bytes([("parallel", "reduction").index(item)])
    if isinstance(item, tuple):
        return many(map(u64, item))
    return u64(item.dims) + many(map(sum_of, item.results))


def sum_of(value: IndexSum) -> bytes:
    terms = [u64(factor) + b"\0" + u64(dim) for dim, factor in value.dimensions]
    for division, factor in value.divisions:
        number = 1 + ("mod", "floordiv", "ceildiv").index(division.kind)
        terms.append(u64(factor) + bytes([number]) + sum_of(division.dividend) + u64(division.divisor))
    return u64(value.constant) + many(terms)


def order_of(order: folds.FoldOrder) -> bytes:
    if isinstance(order, folds.Order):
        return b"\0" + u64(order.chunk, order.lanes, order.run, order.refold)
    if isinstance(order, folds.Exact):
        return b"\3" + u64(order.digits)
    if isinstance(order, folds.Accumulated):
        return b"\4" + block_sum_of(order.accumulator) + u64(order.chunk, order.from_init)
    return b"\1" if isinstance(order, folds.AnyOrder) else b"\2"


def block_sum_of(accumulator: Fdpa | LateFdpa) -> bytes:
    """Returns the encoding of the parameters by which an accumulator adds products."""
    late = isinstance(accumulator, LateFdpa)
    by = accumulator.inner if isinstance(accumulator, LateFdpa) else accumulator
    return u64(by.terms, by.fraction or 0, int(ENUMERATIONS["round"][by.round]), by.floor, late)


def check(text: str) -> None:
    data = to_bytes(text)
    size = struct.unpack_from("<Q", data, 24)[0]
    read = read_program(data)
    assert rewritten(read) == data[32 : 32 + size]
    assert write_program(read) == data
    check_canonical(read)


@pytest.mark.parametrize("group", stored_programs.GROUPS)
def test_programs(group: str) -> None:
    """The reader accepts each program that the compiler writes, and loses nothing of it. The program is canonical."""
    for text in stored_programs.programs(group):
        check(text)


def with_map(indices: Sequence[bytes], dims: int = 1) -> bytes:
    """Returns a program with a linalg.generic on f32[4]; `indices` are the results of the indexing map of its input."""
    maps = many([u64(dims) + many(indices), u64(1, 1, 0, 1, 1) + b"\0" + u64(0)])
    body = block([kind("f32", scalar=True)] * 2, [op("linalg.yield", [], [2])])
    attributes = maps + u64(1) + b"\0" + u64(2, 1, 1)
    result = kind("f32", 4)
    return file(program([result], [], [op("linalg.generic", [result], [0, 0], attributes, body), op("func.return")]))


D0 = b"\0" + u64(0)


def term(factor: int, of: bytes) -> bytes:
    return u64(factor) + of


def total(constant: int, *terms: bytes) -> bytes:
    return u64(constant) + many(terms)


def test_index_sums() -> None:
    inner = total(-1, term(-2, D0))
    divisions = [bytes([number]) + inner + u64(3) for number in (1, 2, 3)]
    data = total(5, term(-1, D0), *(term(7, each) for each in divisions))
    (index,) = first(with_map([data])).attributes["indexing_maps"][0].results
    dividend = IndexSum(-1, ((0, -2),))
    assert index == IndexSum(
        5, ((0, -1),), tuple((Division(name, dividend, 3), 7) for name in ("mod", "floordiv", "ceildiv"))
    )
    for x in range(-4, 5):
        y = -1 - 2 * x
        assert index.evaluate([x]) == 5 - x + 7 * (y % 3 + math.floor(y / 3) + math.ceil(y / 3))
    assert first(with_map([LINEAR])).attributes["indexing_maps"][0].projection == [0]


LINEAR = total(0, term(1, D0))


def deep(depth: int) -> bytes:
    value = LINEAR
    for _ in range(depth):
        value = total(1, term(1, b"\1" + value + u64(2)))
    return value


FOUR = kind("f32", 4)
VALUE = kind("f32", scalar=True)
HALF = struct.pack("<f", 0.5)
NAN = struct.pack("<I", 0x7FC00000)


YIELD = op("repro.yield", [], [3])


def fold(
    order: bytes = b"\1", end: bytes = YIELD, segments: bytes = u64(2, 1, 1), iterators: bytes = u64(1) + b"\1",
    arguments: int = 2, returned: Sequence[int] = (),
) -> bytes:  # fmt: skip
    """Returns a program with a fold of f32[4]. The fold's result is definition 2, the third value in the order of
    definition."""
    maps = many([u64(1, 1, 0, 1, 1) + D0, u64(1, 0)])
    body = block([VALUE] * arguments, [end])
    whole = op("repro.fold", [kind("f32")], [0, 1], maps + iterators + order + segments, body)
    return file(program([FOUR, kind("f32")], [], [whole, op("func.return", [], returned)]))


@pytest.mark.parametrize(
    ("data", "order"),
    [
        (b"\0" + u64(7, 8, 1, 0), folds.Order(7, 8, 1, False)),
        (b"\0" + u64(2, 1024, 0, 1), folds.Order(2, 1024, 0, True)),
        (b"\1", folds.AnyOrder()),
        (b"\2", folds.Sequential()),
        (b"\3" + u64(2), folds.Exact(2)),
        (b"\4" + u64(16, 25, 0, -133, 0, 0, 0), folds.Accumulated(Fdpa(16, 25, "rz_f32", -133), 0, False)),
        (b"\4" + u64(3, 0, 3, 0, 0, 6, 0), folds.Accumulated(Fdpa(3, None, "rne_f32", 0), 6, False)),
        (
            b"\4" + u64(2, 13, 1, 5, 1, 0, 1),
            folds.Accumulated(LateFdpa(Fdpa(2, 13, "rz_e8m13", 5), F32), 0, True),
        ),
        (
            b"\4" + u64(2, 24, 2, -20, 1, 4, 0),
            folds.Accumulated(LateFdpa(Fdpa(2, 24, "rne_f16", -20), F16), 4, False),
        ),
    ],
    ids=str,
)
def test_orders(data: bytes, order: folds.FoldOrder) -> None:
    assert first(fold(data)).attributes["order"] == order


def constant(element: str, shape: Sequence[int] | None, data: bytes) -> bytes:
    value = kind(element, scalar=True) if shape is None else kind(element, *shape)
    return file(program([], [], [op("arith.constant", [value], [], data), op("func.return")]))


@pytest.mark.parametrize(
    ("element", "shape", "data", "want"),
    [
        ("f64", (2,), b"\0" + struct.pack("<2d", -0.0, 1e300), np.array([-0.0, 1e300])),
        ("f32", (), b"\0" + NAN, np.array(np.nan, np.float32)),
        ("f32", (3,), b"\1" + NAN, np.full(3, np.nan, np.float32)),
        ("bf16", (2, 2), b"\0" + struct.pack("<4H", 0x3FC0, 0x8000, 0x7FC0, 1), [[1.5, -0.0], [np.nan, 2.0**-133]]),
        ("f16", (2,), b"\0" + struct.pack("<2H", 0x7E00, 0xFC00), [np.nan, -np.inf]),
        ("f8E4M3FN", (3,), b"\0\x7f\x7e\x80", [np.nan, 448, -0.0]),
        ("f8E5M2", (3,), b"\0\x7e\x7c\x01", [np.nan, np.inf, 2.0**-16]),
        ("f8E5M2", (70, 70), b"\1\x3c", np.ones((70, 70))),
        ("i1", (3,), b"\0\1\0\1", np.array([True, False, True])),
        ("i1", None, b"\0\1", np.array(True)),
        ("i8", (2,), b"\0\x80\x7f", np.array([-128, 127])),
        ("i16", (2,), b"\0\xff\xff\1\0", np.array([-1, 1])),
        ("i32", (0, 3), b"\0", np.zeros((0, 3), np.int64)),
        ("i64", (1,), b"\0" + u64(2**63), np.array([-(2**63)])),
        ("index", None, b"\0" + u64(-7), np.array(-7)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_constants(element: str, shape: Sequence[int] | None, data: bytes, want: Any) -> None:
    operation = first(constant(element, shape, data))
    array, held = operation.constant, operation.result_types[0].element.dtype
    assert array is not None and operation.attributes == {}
    assert array.dtype == held and array.shape == (shape or ())
    assert array.tobytes() == np.asarray(want, held).tobytes()


def test_equal_elements_take_no_memory() -> None:
    tracemalloc.start()
    array = first(constant("f32", (1 << 10, 1 << 20), b"\1" + HALF)).constant
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert array is not None and array.shape == (1 << 10, 1 << 20) and array[5, 7] == 0.5 and not array.flags.writeable


def test_names_and_locations() -> None:
    read = read_program(to_bytes(LINES))
    assert (read.argument_names, read.result_names, read.num_state) == (("é",), ("y",), 0)
    places = [(each.location, each.attributes) for each in read.body.operations]
    assert places == [
        ("module encoder.0", {}),
        ("model.py:7:3", {"msg": "first"}),
        ("model.py:8:3", {"msg": "second"}),
    ]
    nameless = read_program(file(program([FOUR], [FOUR], [op("func.return", [], [0])], 1)))
    assert (nameless.argument_names, nameless.result_names, nameless.num_state) == (("",), ("",), 1)


# --- Rejected programs ------------------------------------------------------------------------------------------------


RETURN = op("func.return")
ACCESSES = many([u64(1, 1, 0, 1, 1) + D0] * 2) + u64(1) + b"\0" + u64(2, 1, 1)
CHECKED = program(
    [], [], [op("arith.constant", [kind("i1", scalar=True)], [], b"\0\1"), op("cf.assert", [], [0]), RETURN]
)
MESSAGE = (2, many([string("why")]))


def origins(texts: Sequence[str], *operations: tuple[int, int, int, int]) -> bytes:
    return file(
        program([], [], [RETURN]), (3, many(map(string, texts)) + b"".join(struct.pack("<4I", *o) for o in operations))
    )


def named(arguments: Sequence[str], results: Sequence[str]) -> bytes:
    return file(program([FOUR], [], [RETURN]), (1, many(map(string, arguments)) + many(map(string, results))))


def main(*operations: bytes, arguments: Sequence[bytes] = (FOUR,), results: Sequence[bytes] = ()) -> bytes:
    return file(program(arguments, results, [*operations, RETURN]))


def slices(sizes: Sequence[int], segments: Sequence[int]) -> bytes:
    numbers = many(map(u64, sizes))
    return of_op(numbers * 3 + many(map(u64, segments)), "tensor.extract_slice")


# The numbers that encode a block format: codes in f4E2M1FN, blocks of 1 x 4.
FORM = (1, 4, 1, 0, 0, 0, 1, 0, 1, 0, 3, 0, 255, -127)
STOCHASTIC = (1, 4, 1, 3, 8, 0, 1, 0, 1, 0, 3, 0, 255, -127)


def form_bytes(numbers: Sequence[int], element: str = "f4E2M1FN") -> bytes:
    return many(map(u64, numbers)) + kind(element, scalar=True)[1:]


def blocks(
    numbers: Sequence[int] = FORM,
    element: str = "f4E2M1FN",
    *,
    scales: bytes | None = None,
    site: Sequence[int] = (),
    segments: Sequence[int] = (1, 0, 0, 0),
    operands: Sequence[int] = (0,),
    codes: bytes | None = None,
) -> bytes:
    """Returns a program that quantizes f32[2, 8]. Definitions 1 and 2, which operands may name, are scalars f32 and
    i64."""
    results = [codes or kind("f4E2M1FN", 2, 8), scales or kind("f8E8M0FNU", 2, 2)]
    attributes = form_bytes(numbers, element) + many(map(u64, site)) + many(map(u64, segments))
    arguments = [kind("f32", 2, 8), kind("f32"), kind("i64")]
    extract = op("tensor.extract", [kind("i64", scalar=True)], [2])
    return file(program(arguments, [], [extract, op("repro.quantize", results, operands, attributes), RETURN]))


def with_numbers(start: int, *numbers: int, form: Sequence[int] = FORM) -> bytes:
    return blocks([*form[:start], *numbers, *form[start + len(numbers) :]])


def scaled(*numbers: int, element: str = "f4E2M1FN") -> bytes:
    return blocks([*FORM[:9], *numbers], element)


BITS_OF_ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]
E4M3 = kind("f8E4M3FN", 2, 2)
BLOCKS_REFUSED = {
    "blocks-empty": (blocks([]), "expected more numbers of a format of blocks"),
    "blocks-short": (blocks(FORM[:-1]), "expected more numbers of a format of blocks"),
    "blocks-long": (blocks([*FORM, 0]), "no more numbers of a format of blocks"),
    "blocks-count": (blocks().replace(u64(len(FORM), *FORM[:2]), u64(2**60, *FORM[:2])), "no more integers than"),
    "blocks-element": (blocks(element="f8E8M0FNU"), "Q1.*expected elements of f8E4M3FN"),
    "blocks-no-element": (blocks(element="f3"), "the name of an element type"),
    "blocks-rows": (with_numbers(0, -1), r"Q2.*2\^31 rows and columns, 0 for all, got -1 and 4"),
    "blocks-columns": (with_numbers(1, 2**31 + 1), r"Q2.*2\^31 rows"),
    "blocks-symmetric": (with_numbers(2, 0), "Q1.*expected i8 for a format that is not symmetric, got f4E2M1FN"),
    "blocks-flag": (with_numbers(2, 2), "below 2, got 2"),
    "blocks-direction": (with_numbers(3, 4), "below 4, got 4"),
    "blocks-negative-direction": (with_numbers(3, -1), "below 4, got -1"),
    "blocks-bits": (with_numbers(4, 8), "Q3.*random bits only for a stochastic rounding, got 8"),
    "blocks-no-bits": (with_numbers(3, 3), "Q3.*1 to 32 random bits, got 0"),
    "blocks-many-bits": (with_numbers(3, 3, 2**62), "Q3.*1 to 32 random bits, got 4611686018427387904"),
    "blocks-layout": (with_numbers(5, 1), "Q3.*random bits only for a stochastic rounding, got 0"),
    "blocks-ptx-bits": (with_numbers(3, 3, 8, 1), "Q3.*16 random bits of `ptx`, got 8"),
    "blocks-nan-code": (with_numbers(7, 3), "below 3, got 3"),
    "blocks-kind": (with_numbers(9, 5), "below 5, got 5"),
    "blocks-rule": (with_numbers(10, 5), "below 5, got 5"),
    "blocks-nan-byte": (with_numbers(12, 256), "Q2.*a byte for NaN, got 256"),
    "blocks-least": (with_numbers(13, -128), "Q2.*a least exponent from -127 to 127, got -128"),
    "blocks-largest": (scaled(1, 449), "Q2.*a largest scale of 448 or 256, got 449"),
    "blocks-levels": (scaled(2, 0), "Q2.*1 or 2 levels, got 0"),
    "blocks-encoding": (scaled(3, 3, BITS_OF_ONE, 0, 0), "below 3, got 3"),
    "blocks-least-nan": (scaled(3, 0, 0x7FF8 << 48, 0, 0), "Q2.*a least amax that is normal in f32, got nan"),
    "blocks-least-negative": (scaled(3, 0, -1 << 62, 0, 0), "Q2.*normal in f32, got -2.0"),
    "blocks-inverse": (scaled(3, 1, BITS_OF_ONE, 1, 0), "Q2.*a product for an inverse scale"),
    "blocks-power": (scaled(3, 0, BITS_OF_ONE, 0, 1), "Q2.*no product by a power of two"),
    "blocks-two-levels-of-f8": (scaled(1, 448, element="f8E5M2"), "Q2.*f4E2M1FN under scales of f8E4M3FN"),
    "blocks-ptx-of-i8": (blocks([1, 4, 1, 3, 16, 1, *FORM[6:]], "i8"), "Q3.*floats for `ptx`, got i8"),
    "blocks-site": (blocks(site=[1]), "Q3.*a site, seed and step for stochastic rounding, and none for other"),
    "blocks-no-site": (blocks(STOCHASTIC), "Q3.*a site, seed and step"),
    "blocks-two-sites": (blocks(site=[1, 2]), "one integer or none"),
    "blocks-large-site": (
        blocks(STOCHASTIC, site=[2**32], segments=[1, 0, 1, 1], operands=[0, 3, 3]), "R1.*a site of 32 bits"
    ),
    "blocks-seed": (
        blocks(STOCHASTIC, site=[1], segments=[1, 0, 1, 1], operands=[0, 2, 3]), "a seed and a step of i64"
    ),
    "blocks-segments": (blocks(segments=[1, 1, 0, 0]), r"at most one of each optional operand, got \[1, 1, 0, 0\]"),
    "blocks-three-segments": (blocks(segments=[1, 0, 0]), "at most one of each optional operand"),
    "blocks-tensor": (blocks(segments=[1, 1, 0, 0], operands=[0, 1]), "Q2.*no value of the whole tensor"),
    "blocks-no-tensor": (blocks([*FORM[:9], 1, 448], scales=E4M3), "Q2.*a value of the whole tensor"),
    "blocks-tensor-type": (
        blocks([*FORM[:9], 1, 448], scales=E4M3, segments=[1, 1, 0, 0], operands=[0, 2]), "f32 of the whole tensor"
    ),
    "blocks-input": (blocks(operands=[1]), "Q2.*two dimensions or more"),
    "blocks-codes": (blocks(codes=kind("f4E2M1FN", 2, 7)), "Q1.*codes of tensor<2x8xf4E2M1FN>, got tensor<2x7x"),
    "blocks-scales": (blocks(scales=kind("f8E8M0FNU", 2, 3)), "Q2.*scales of tensor<2x2xf8E8M0FNU>"),
    "value-f4": (constant("f4E2M1FN", (2,), b"\0\1\x12"), "V1.*elements of 4 bits"),
    "value-f6": (constant("f6E3M2FN", (), b"\0\x40"), "V1.*elements of 6 bits"),
}  # fmt: skip


REFUSALS = BLOCKS_REFUSED | {
    "nothing": (b"", "byte 0 .*the beginning of a stored program"),
    "text": (b"func.func @main", "byte 0 .*the beginning of a stored program"),
    "magic": (b"\x89repro-mlir\n\x1a\n\0\0\1\0\0\0", "byte 0 "),
    "version": (file(b"")[:16] + b"\2\0\0\0", "byte 16 .*version 1 of the format, got 2"),
    "no-body": (file(b"")[:20], "byte 20 .*expected a body"),
    "names-alone": (file(b"")[:20] + struct.pack("<IQ", 1, 0), "byte 32 .*expected a body"),
    "empty-body": (file(b""), "byte 32 .*the beginning of a body"),
    "first-body": (file(main()[32:].replace(b"-v2\0", b"-v1\0")), "byte 32 .*the beginning of a body"),
    "kind-of-section": (main() + struct.pack("<IQ", 4, 0), "a kind of section below 4, got 4"),
    "section-twice": (main() + struct.pack("<IQ", 0, 0), "the sections in their order"),
    "section-order": (file(CHECKED, MESSAGE, (1, b"")), "the sections in their order"),
    "section-size": (main()[:24] + u64(10**6) + main()[32:], "byte 24 .*no more bytes than the file holds"),
    "rest": (main() + b"\0", "expected 4 bytes, got 1"),
    "rest-of-body": (file(main()[32:] + b"\0"), "the end of the body, got 1 bytes more"),
    "states": (file(program([FOUR], [], [RETURN], 1)), "byte 49 .*got 1 states"),
    "states-negative": (file(program([FOUR], [FOUR], [op("func.return", [], [0])], -1)), "got 18446744073709551615 st"),
    "results": (
        file(program([FOUR], [kind("f32", 3)], [op("func.return", [], [0])])),
        "expected returned values of the types of the results",
    ),
    "kind-of-type": (main(arguments=[b"\2" + FOUR[1:]]), "a kind of type below 2, got 2"),
    "element": (main(arguments=[kind("f31", 4)]), "the name of an element type"),
    "element-padding": (main(arguments=[FOUR[:16] + b"x" + FOUR[17:]]), "the name of an element type"),
    "element-i4": (main(arguments=[kind("i4", 4)]), "the name of an element type"),
    "index-tensor": (main(arguments=[kind("index", 4)]), "elements of .V1"),
    "dimension-unknown": (main(arguments=[kind("f32", 2**63)]), "dimensions below 9223372036854775808"),
    "rank": (main(arguments=[kind("f32", *[1] * 25)]), "A4"),
    "size": (main(arguments=[kind("f32", 2**20, 2**20)]), "A4"),
    "size-beside-zero": (main(arguments=[kind("f32", 0, 2**62)]), "A4"),
    "types-count": (file(b"repro-program-v2\0" + u64(0, 2**60)), "no more types than the file holds"),
    "operation": (main(op("arith.subg", [VALUE], [0, 0])), "the name of an operation of a canonical program"),
    "operation-not-utf8": (main(op("x", [], []).replace(b"x", b"\xff")), "the name of an operation"),
    "operation-elsewhere": (main(op("linalg.index", [kind("index", scalar=True)], [], u64(0))), "no linalg.index in"),
    "operations-count": (file(program([], [], [])[:-8] + u64(2**59)), "no more operations than the file holds"),
    "no-operations": (file(program([], [], [])), "expected func.return at the end"),
    "no-return": (file(program([FOUR], [], [op("tensor.empty", [FOUR])])), "func.return only as the last operation"),
    "two-returns": (main(RETURN), "func.return only as the last operation"),
    "other-end": (file(program([FOUR], [], [op("linalg.yield")])), "no linalg.yield in the body of a func.func"),
    "undefined": (main(op("tensor.cast", [FOUR], [1])), "a definition below 1, got 1"),
    "itself": (main(op("tensor.cast", [FOUR], [1]), arguments=[FOUR]), "a definition below 1, got 1"),
    "own-result": (fold(end=op("repro.yield", [], [2])), "a value defined before its use, got 2"),
    "ended-body": (fold(returned=[3]), "a value defined before its use, got 3"),
    "operands": (main(op("arith.addf", [VALUE], [0])), "expected 2 operands of arith.addf, got 1"),
    "operands-count": (main(op("tensor.empty", [FOUR]).replace(u64(0, 0), u64(2**61, 0))), "no more operands than"),
    "no-operand": (main(op("tensor.concat", [FOUR], [], u64(0))), "one operand or more of tensor.concat, got 0"),
    "op-results": (main(op("arith.negf", [], [0])), "expected 1 result of arith.negf, got 0"),
    "constant-of-two": (main(op("arith.constant", [VALUE] * 2, [], b"\0" + HALF)), "expected 1 result of arith.con"),
    "regions": (main(op("tensor.empty", [FOUR], [], b"", block([], [RETURN]))), "no body of tensor.empty, got 1"),
    "no-region": (of_op(ACCESSES, "linalg.generic", 2), "expected one body of linalg.generic, got 0"),
    "body-arguments": (fold(arguments=1), "a body of 2 arguments"),
    "body-yields": (fold(end=op("repro.yield")), "yields 1 values, got 2 and 0"),
    "body-in-body": (fold(end=op("tensor.empty", [FOUR])), "no tensor.empty in the body of a repro.fold"),
    "iterator": (fold(iterators=u64(1) + b"\2"), "an iterator below 2, got 2"),
    "iterators": (fold(iterators=u64(2) + b"\1\0"), "maps of 2 dimensions"),
    "order": (fold(b"\5"), "a kind of order below 5, got 5"),
    "order-chunk": (fold(b"\0" + u64(0, 1, 0, 0)), "F1.*got chunk = 0"),
    "order-refold": (fold(b"\0" + u64(1, 1, 0, 1)), "F1.*got chunk = 1"),
    "order-lanes": (fold(b"\0" + u64(8, 3, 0, 0)), "F2|F1.*lanes = 3"),
    "order-many-lanes": (fold(b"\0" + u64(8, 2048, 0, 0)), "lanes = 2048"),
    "order-no-lanes": (fold(b"\0" + u64(8, 0, 0, 0)), "lanes = 0"),
    "order-run": (fold(b"\0" + u64(8, 1, 2, 0)), "F1.*no more dimensions in a run than reduction dimensions"),
    "order-totals": (fold(b"\0" + u64(8, 1, 0, 2)), "a way of totals below 2, got 2"),
    "order-negative": (fold(b"\0" + u64(-1, 1, 0, 0)), "an integer below 9223372036854775808"),
    "exact": (fold(b"\3" + u64(4)), "K4.*2 or 3 digits, got 4"),
    "fdpa-terms": (fold(b"\4" + u64(0, 25, 0, 0, 0, 0, 0)), "M1.*1 to 128 terms"),
    "fdpa-fraction": (fold(b"\4" + u64(1, 9, 0, 0, 0, 0, 0)), "M1.*10 to 40 bits"),
    "fdpa-round": (fold(b"\4" + u64(1, 25, 4, 0, 0, 0, 0)), "a rounding of sums below 4, got 4"),
    "fdpa-floor": (fold(b"\4" + u64(1, 25, 0, -301, 0, 0, 0)), "M4.*a floor of at most 300"),
    "fdpa-no-fraction": (fold(b"\4" + u64(1, 0, 0, 1, 0, 0, 0)), "M4.*0 without fraction"),
    "fdpa-late": (fold(b"\4" + u64(2, 25, 0, 0, 2, 0, 0)), "late below 2, got 2"),
    "fdpa-late-terms": (fold(b"\4" + u64(3, 25, 0, 0, 1, 0, 0)), "M4.*an even number of terms"),
    "fdpa-chunk": (fold(b"\4" + u64(4, 25, 0, 0, 1, 12, 0)), "M4.*chunks of whole blocks.*got 12"),
    "fdpa-start": (fold(b"\4" + u64(4, 25, 0, 0, 0, 0, 2)), "a start of sums below 2, got 2"),
    "fdpa-init": (fold(b"\4" + u64(4, 25, 0, 0, 0, 8, 1)), "M4.*without an init, got 8"),
    "block-step": (in_unit(step=0), "M5.*group 1 except in scaled contractions"),
    "block-fraction": (in_unit((4, 0, 3, 0, 0, 1)), "M5.*with a fraction, and not late"),
    "block-late": (in_unit((4, 25, 0, 0, 1, 1)), "M5.*with a fraction, and not late"),
    "block-late-flag": (in_unit((4, 25, 0, 0, 2, 1)), "late below 2, got 2"),
    "block-group": (in_unit((64, 35, 0, -133, 0, 12)), "M1.*groups that divide the 64 terms of a block, got 12"),
    "block-groups": (in_unit(block=24), "M5.*blocks of whole groups of 16 products, got blocks of 24"),
    "block-scales": (in_unit(scale="f32"), "M5.*scales of f8E8M0FNU or f8E4M3FN as factors"),
    "block-sums": (in_unit((128, 40, 0, -133, 0, 16), element="f8E4M3FN"), "M5.*groups of at most 62 bits"),
    "block-no-rows": (in_unit(rows=(1, 0)), r"Q4.*rows from 1 to 1099511627776, got \[1, 0\]"),
    "block-rows": (in_unit(rows=(2**40 + 1, 1)), "Q4.*rows from 1 to 1099511627776, got"),
    "block-codes": (in_unit(element="i8"), "Q4.*codes of f8E4M3FN, f6E3M2FN, f6E2M3FN, f4E2M1FN"),
    "scaled-without": (
        in_unit(name="repro.block_contraction"),
        "M5.*an accumulator with a fraction",
    ),
    "segments": (fold(b"\1", YIELD, u64(2, 2, 0)), r"expected \[1, 1\] operands by role, got \[2, 0\]"),
    "segments-count": (fold(b"\1", YIELD, u64(1, 2)), r"expected \[1, 1\] operands by role, got \[2\]"),
    "slice-segments": (slices([1], [0, 1, 0, 0]), r"expected \[1, 0, 0, 0\] operands by role"),
    "slice-dynamic": (slices([2**63], [1, 0, 0, 0]), "integers below 9223372036854775808"),
    "reassociation": (of_op(u64(1, 1, 24), "tensor.collapse_shape"), "dimensions below 24, got 24"),
    "dim": (of_op(u64(2**63), "tensor.concat"), "an integer below"),
    "map-count": (with_map([total(0)]).replace(u64(2, 1, 1, 0, 0), u64(2**61, 1, 1, 0, 0)), "no more maps"),
    "map-rank": (with_map([]), "a map for each operand with an index for each of its dimensions"),
    "map-dims": (with_map([LINEAR], 2), "maps of 1 dimensions"),
    "map-25-dims": (with_map([total(0)], 25), "a number of dimensions below 25, got 25"),
    "term": (with_map([total(0, term(1, b"\4" + u64(0)))]), "a kind of term below 4, got 4"),
    "term-dimension": (with_map([total(0, term(1, b"\0" + u64(1)))]), "a dimension below 1, got 1"),
    "term-factor": (with_map([total(0, term(0, D0))]), "ascending order with factors other than 0"),
    "term-twice": (with_map([total(0, term(1, D0), term(2, D0))]), "ascending order"),
    "term-order": (
        with_map([total(0, *(term(1, bytes([n]) + LINEAR + u64(2)) for n in (2, 1)))]), "ascending order",
    ),
    "division-of-constant": (with_map([total(0, term(1, b"\1" + total(5) + u64(2)))]), "of dimensions"),
    "division-by-zero": (with_map([total(0, term(1, b"\1" + LINEAR + u64(0)))]), "a positive constant"),
    "division-by-negative": (with_map([total(0, term(1, b"\1" + LINEAR + u64(-2)))]), "a positive const"),
    "divisions": (with_map([deep(65)]), "divisions at most 64 deep"),
    "terms": (with_map([total(0, *(term(1, b"\1" + LINEAR + u64(n)) for n in range(2, 67)))]), "at most 64 terms"),
    "value-form": (constant("f32", (2,), b"\2" + HALF), "a form of constant below 2, got 2"),
    "value-short": (constant("f32", (10**9,), b"\0" + HALF), "expected 4000000000 bytes"),
    "value-equal": (constant("f32", (2,), b"\0" + HALF * 2), "equal elements to be stored as one"),
    "value-one": (constant("f32", (1,), b"\1" + HALF), "all elements of a tensor with fewer than two"),
    "value-scalar": (constant("f32", None, b"\1" + HALF), "all elements of a tensor with fewer than two"),
    "value-none": (constant("f32", (0,), b"\1" + HALF), "all elements of a tensor with fewer than two"),
    "value-i1": (constant("i1", (2,), b"\0\1\2"), "elements that are 0 or 1"),
    "value-nan": (constant("f32", (), b"\0" + struct.pack("<I", 0xFFC00000)), "V4.*canonical NaNs"),
    "value-nan-bf16": (constant("bf16", (2,), b"\0" + struct.pack("<2H", 0x7FC0, 0x7FC1)), "V4.*canonical NaNs"),
    "value-nan-f8": (constant("f8E4M3FN", (), b"\0\xff"), "V4.*canonical NaNs"),
    "no-message": (file(CHECKED), "a message for each assertion"),
    "messages-short": (file(CHECKED, (2, u64(0))), "at least one message, or no section"),
    "messages-long": (file(CHECKED, (2, many([string("a"), string("b")]))), "the end of the messages"),
    "messages-without": (main() + struct.pack("<IQ", 2, 16) + u64(1, 0), "the end of the messages"),
    "message-utf8": (file(CHECKED, (2, u64(1, 1) + b"\xff")), "expected UTF-8"),
    "names-empty": (named([""], []), "at least one name, or no section"),
    "names-few": (named([], []), "a name for each argument and result"),
    "names-many": (named(["a"], ["b"]), "a name for each argument and result"),
    "names-end": (file(main()[32:], (1, u64(1, 1) + b"a" + u64(0, 0))), "the end of the names"),
    "names-count": (file(program([FOUR], [], [RETURN]), (1, u64(2**62))), "no more names than the file holds"),
    "origins-empty": (origins([], (0, 0, 0, 0)), "each text only once"),
    "origins-double": (origins(["a", "a"], (1, 2, 1, 1)), "each text only once"),
    "origins-unused": (origins(["a"], (0, 0, 0, 0)), "only texts that operations use"),
    "origins-order": (origins(["a", "b"], (2, 1, 1, 1)), "the number of a text below 2, got 2"),
    "origins-number": (origins(["a"], (1, 2, 1, 1)), "the number of a text below 2, got 2"),
    "origins-line": (origins(["a"], (1, 0, 7, 0)), "no line without a file"),
    "origins-few": (origins(["a"]), "expected 4 bytes, got 0"),
    "origins-many": (origins(["a"], (1, 0, 0, 0), (0, 0, 0, 0)), "the end of the origins, got 16 bytes more"),
}  # fmt: skip


def test_refused_programs_differ_from_accepted_ones_in_one_place() -> None:
    for data in (
        main(), file(CHECKED, MESSAGE), named(["a"], []), origins(["a"], (1, 0, 0, 0)), fold(),
        with_map([total(0)]), with_map([deep(64)]), slices([1], [1, 0, 0, 0]), constant("f32", (2,), b"\1" + HALF),
        blocks(), blocks(STOCHASTIC, site=[1], segments=[1, 0, 1, 1], operands=[0, 3, 3]),
        blocks([*FORM[:9], 1, 448], scales=E4M3, segments=[1, 1, 0, 0], operands=[0, 1]),
        blocks([*FORM[:9], 3, 0, BITS_OF_ONE, 0, 0], scales=kind("f32", 2, 2)),
        constant("f4E2M1FN", (2,), b"\0\1\x0f"), constant("f8E8M0FNU", (2,), b"\0\0\xFF"),
    ):  # fmt: skip
        read_program(data)


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    data, reason = REFUSALS[name]
    assert re.search(reason, refusal(data)), refusal(data)


@pytest.mark.parametrize("name", BLOCKS_REFUSED)
def test_refusals_of_the_compiler(name: str) -> None:
    """The compiler refuses each program that the reader refuses, and the compiler's message names the same rule."""
    data, reason = BLOCKS_REFUSED[name]
    with pytest.raises(ReproError) as caught:
        from_bytes(data)
    assert str(caught.value).count("expected") >= 1
    if rule := re.match(r"[QRV]\d", reason):
        assert f"({rule[0]})" in str(caught.value)


# --- Damage -----------------------------------------------------------------------------------------------------------


def attempt(data: bytes) -> bool:
    try:
        read_program(data)
    except ProgramError:
        return False
    return True


def test_prefixes() -> None:
    data = to_bytes(LINES)
    sizes = [size for size in range(len(data)) if attempt(data[:size])]
    # Only one proper prefix of the bytes is a program: the one that lacks just the section of locations.
    assert sizes == [
        len(data) - 12 - struct.unpack_from("<Q", data, data.index(struct.pack("<I", 3) + b"", 400) + 4)[0]
    ]


def test_every_byte_changed() -> None:
    """Changes each byte: the reader must report an error or return a program, and never fail otherwise."""
    data = to_bytes(LINES)
    for position, value in itertools.product(range(len(data)), (0, 1, 2, 0x7F, 0x80, 0xFF)):
        attempt(data[:position] + bytes([value]) + data[position + 1 :])


def test_every_number_changed() -> None:
    """Replaces each number by a large one: the reader must compare counts with the remaining bytes before it allocates
    memory."""
    data = to_bytes(LINES)
    tracemalloc.start()
    for position, number in itertools.product(range(20, len(data) - 8), (1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63)):
        attempt(data[:position] + u64(number) + data[position + 8 :])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_bytes_that_the_compiler_accepts_are_accepted() -> None:
    """The interpreter's reader may accept more than the compiler, because it does not check types, but never less."""
    draw = random.Random(3)
    data = to_bytes(EVERYTHING)
    accepted = 0
    for _ in range(1500):
        changed = bytearray(data)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        try:
            from_bytes(bytes(changed))
        except ReproError:
            attempt(bytes(changed))
        else:
            accepted += 1
            read_program(bytes(changed))
    assert accepted > 100
