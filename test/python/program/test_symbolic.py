# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs for many sizes (symbolic extents), from the text of imported modules."""

import struct
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from repro_mlir import ReproError, SymbolicProgram, ir
from repro_mlir.program import symbolic_program_of
from repro_mlir.program.imported import Symbol, SymbolicImport

TEXT = """
func.func @main(%w: tensor<4xf32> {repro.name = "w"},
                %x: tensor<?x4xf32> {repro.name = "x", repro.extents = affine_map<()[s0] -> (s0, 4)>},
                %y: tensor<?xf32> {repro.name = "y", repro.extents = affine_map<()[s0] -> (s0 * 2)>})
    -> (tensor<4xf32> {repro.name = "w"}, tensor<?x4xf32> {repro.name = "out"}, tensor<?xf32> {repro.name = "y"})
    attributes {repro.num_state = 1 : i64, repro.symbols = ["rows"], repro.bounds = array<i64: 1, 9>} {
  %c0 = arith.constant 0 : index
  %c7 = arith.constant 7 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %holds = arith.cmpi ne, %n, %c7 : index
  cf.assert %holds, "the program holds for sizes with rows != 7"
  %half = arith.constant 0.5 : f32
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>,
                                        affine_map<(d0, d1) -> (d0, d1)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<?x4xf32>, tensor<4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.mulf %a, %b : f32
    %t = arith.mulf %s, %half : f32
    linalg.yield %t : f32
  } -> tensor<?x4xf32>
  return %w, %0, %y : tensor<4xf32>, tensor<?x4xf32>, tensor<?xf32>
}
"""
INITIAL = (np.array([1, 2, np.nan, 4], np.float32),)


def program(text: str = TEXT) -> SymbolicProgram:
    return SymbolicProgram(text, INITIAL)


def test_attributes_of_a_program() -> None:
    made = program()
    assert made.symbols == (Symbol("rows", 1, 9),)
    x, y = made.inputs
    assert (x.name, x.element, x.extents, x.symbols) == ("x", "f32", ("s0", 4), {0: "rows"})
    assert (y.name, y.extents, y.symbols) == ("y", ("s0 * 2",), {})
    assert made.initial_state()["w"] is not made.initial[0]
    np.testing.assert_array_equal(made.initial_state()["w"], INITIAL[0])


def test_V4_initial_values_are_canonical() -> None:
    negative = np.array([1, 2, 3, 4], np.float32)
    negative.view(np.uint32)[2] = 0xFFC00001
    (value,) = symbolic_program_of(SymbolicImport(TEXT, (negative,))).initial
    assert value.view(np.uint32)[2] == 0x7FC00000


class Writer:
    """A second implementation that writes the bytes of (H4), made from docs/verification/identity.md alone."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def program(self, text: str) -> bytes:
        with ir.Context():
            module = ir.Module.parse(text)
            (main,) = module.body.operations
            bounds = list(ir.DenseI64ArrayAttr(main.attributes["repro.bounds"]))
            count = ir.IntegerAttr(main.attributes["repro.num_state"]).value
            extents = b""
            for marks in map(ir.DictAttr, ir.ArrayAttr(main.attributes["arg_attrs"])):
                known = "repro.extents" in marks
                extents += b"\1" + self.map(ir.AffineMapAttr(marks["repro.extents"]).value) if known else b"\0"
            head = b"repro-symbolic-v1\0" + u64(len(bounds) // 2) + b"".join(map(u64, bounds))
            return head + u64(count) + extents + self.block(main.regions[0].blocks[0])

    def define(self, value: Any) -> None:
        self.numbers[value] = len(self.numbers)

    def block(self, block: Any) -> bytes:
        data = u64(len(block.arguments)) + b"".join(self.type(value.type) for value in block.arguments)
        for value in block.arguments:
            self.define(value)
        operations = list(block.operations)
        return data + u64(len(operations)) + b"".join(self.operation(each.operation) for each in operations)

    def operation(self, op: Any) -> bytes:
        data = string(op.name) + u64(len(op.results)) + b"".join(self.type(value.type) for value in op.results)
        data += u64(len(op.operands)) + b"".join(u64(self.numbers[value]) for value in op.operands)
        names = [] if op.name == "cf.assert" else sorted(op.attributes.keys())
        data += u64(len(names)) + b"".join(string(name) + self.value(op.attributes[name]) for name in names)
        for value in op.results:
            self.define(value)
        data += u64(len(op.regions))
        for region in op.regions:
            blocks = list(region)
            data += u64(len(blocks)) + b"".join(map(self.block, blocks))
        return data

    def type(self, kind: Any) -> bytes:
        if not isinstance(kind, ir.RankedTensorType):
            return b"\0" + string(str(kind))
        extents = [2**63 if kind.is_dynamic_dim(dim) else kind.shape[dim] for dim in range(kind.rank)]
        return b"\1" + string(str(kind.element_type)) + u64(kind.rank) + b"".join(map(u64, extents))

    def map(self, found: Any) -> bytes:
        numbers = found.n_dims, found.n_symbols, len(found.results)
        return b"".join(map(u64, numbers)) + b"".join(map(self.expr, found.results))

    def expr(self, expr: Any) -> bytes:
        expr = expr.maybe_downcast()
        if isinstance(expr, ir.AffineConstantExpr):
            return b"\0" + u64(expr.value)
        if isinstance(expr, ir.AffineDimExpr):
            return b"\1" + u64(expr.position)
        if isinstance(expr, ir.AffineSymbolExpr):
            return b"\2" + u64(expr.position)
        kinds = [ir.AffineAddExpr, ir.AffineMulExpr, ir.AffineModExpr, ir.AffineFloorDivExpr, ir.AffineCeilDivExpr]
        return bytes([3 + kinds.index(type(expr))]) + self.expr(expr.lhs) + self.expr(expr.rhs)

    def value(self, value: Any) -> bytes:
        if isinstance(value, ir.IntegerAttr):
            return b"\0" + self.type(value.type) + u64(value.value)
        if isinstance(value, ir.FloatAttr):
            return b"\1" + self.type(value.type) + struct.pack("<fI", value.value, 0)
        if isinstance(value, ir.ArrayAttr):
            return b"\3" + u64(len(value)) + b"".join(map(self.value, value))
        if isinstance(value, ir.DenseI32ArrayAttr):
            return b"\4" + u64(len(value)) + b"".join(map(u64, value))
        if isinstance(value, ir.AffineMapAttr):
            return b"\5" + self.map(value.value)
        return b"\7" + string(str(value))


def u64(number: int) -> bytes:
    return (number % 2**64).to_bytes(8, "little")


def string(text: str) -> bytes:
    return u64(len(text)) + text.encode()


def test_H4_is_the_identity_of_docs_identity() -> None:
    """The identity is the hash of the bytes that the second implementation writes. The hash in this test never
    changes."""
    assert program().hash == blake3(Writer().program(TEXT)).hexdigest()
    assert program().hash == "afef61b039ab853adf65d1b4644ea998701e6f2facbd74cc6e46a343f3fa9f4d"


def test_H4_depends_on_the_computation_only() -> None:
    made = program().hash
    for old, new in (
        ("rows", "batch"),
        ('"w"', '"weight"'),
        ('"out"', '"result"'),
        ("sizes with rows != 7", "sizes"),
        ("%holds", "%p"),
    ):
        assert program(TEXT.replace(old, new)).hash == made, old
    for old, new in (
        ("arith.mulf %a", "arith.addf %a"),
        ("constant 0.5", "constant 0.25"),
        ("1, 9>", "1, 8>"),
        ("s0 * 2", "s0 * 3"),
        ("cmpi ne", "cmpi slt"),
        ("constant 7", "constant 8"),
        ("tensor<4xf32>", "tensor<4xf64>"),
        ("num_state = 1", "num_state = 0"),
    ):
        changed = TEXT.replace(old, new)
        if new == "tensor<4xf64>":
            changed = changed.replace("%b: f32", "%b: f64").replace("%a, %b", "%a, %a")
        assert program(changed).hash != made, old


def test_each_size_is_a_program() -> None:
    made = program()
    three, four = made.specialize(rows=3), made.specialize(rows=4)
    assert three.hash != four.hash and three.hash == made.specialize(rows=3).hash
    assert [kind.shape for kind in three.inputs] == [(3, 4), (6,)]
    assert [(kind.name, kind.shape) for kind in four.outputs] == [("out", (4, 4)), ("y", (8,))]
    assert three.state[0].name == "w" and three.initial_state()["w"].shape == (4,)


def test_sizes_that_are_refused() -> None:
    made = program()
    for size in (0, 10, -1, True, 3.0, None, 2**70):
        with pytest.raises(ReproError, match=f"expected a size of rows from 1 to 9, got {size}"):
            made.specialize(rows=size)  # type: ignore[arg-type]
    with pytest.raises(ReproError, match="expected a size of rows from 1 to 9, got None"):
        made.specialize()
    with pytest.raises(ReproError, match="expected sizes of rows, got one of columns"):
        made.specialize(rows=3, columns=2)
    with pytest.raises(ReproError, match=r"^rows = 7: the program holds for sizes with rows != 7$"):
        made.specialize(rows=7)


def test_sizes_of_inputs() -> None:
    made = program()
    assert made.sizes_of([np.zeros((5, 4)), np.zeros(10)]) == {"rows": 5}
    with pytest.raises(ReproError, match="expected 2 inputs, got 1"):
        made.sizes_of([np.zeros((5, 4))])
    with pytest.raises(ReproError, match=r"input x: expected 2 dimensions, got shape \[5\]"):
        made.sizes_of([np.zeros(5), np.zeros(10)])


def test_arguments_without_names() -> None:
    made = program(TEXT.replace('repro.name = "x", ', ""))
    assert made.inputs[0].name == "argument 1" and made.specialize(rows=2).inputs[0].name == "argument 1"


def test_text_that_is_not_a_program() -> None:
    for text in (
        "",
        "func.func",
        TEXT.replace("repro.symbols", "repro.other"),
        TEXT.replace("1, 9>", "0, 9>"),
        TEXT.replace("repro.num_state = 1 : i64, ", ""),
        TEXT + TEXT.replace("@main", "@other"),
        TEXT.replace("num_state = 1", "num_state = 9"),
    ):
        with pytest.raises(ReproError) as caught:
            program(text)
        assert len(str(caught.value).splitlines()) == 1
