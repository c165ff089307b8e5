# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares contractions that have epilogues, bit by bit, with the reference interpreter. An epilogue consists of
operations on the results before these are stored."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kernel_cases import FMA, check_program, element
from kernel_runner import run_passes


def tensors(types: Sequence[str]) -> list[str]:
    return [f"tensor<{t}>" for t in types]


class Program:
    """A program with arguments %a0, %a1, ... and a list of operations; it returns the last value."""

    def __init__(self, *types: str) -> None:
        self.types = types
        self.lines: list[str] = []
        self.kinds = {f"%a{i}": t for i, t in enumerate(types)}

    def _add(self, text: str, kind: str) -> str:
        name = f"%v{len(self.kinds)}"
        self.kinds[name] = kind
        self.lines.append(f"{name} = {text}")
        return name

    def splat(self, kind: str) -> str:
        zero = "0.0" if element(kind)[0] in "bf" else "0"
        return self._add(f"arith.constant dense<{zero}> : tensor<{kind}>", kind)

    def product(self, maps: Sequence[str], iterators: str, inputs: Sequence[str], kind: str, body: str = "") -> str:
        start = self.splat(kind)
        words = ", ".join({"p": "parallel", "r": "reduction"}[c] for c in iterators)
        affine = ", ".join(f"affine_map<{m}>" for m in maps)
        ins = ", ".join(inputs), ", ".join(tensors([self.kinds[x] for x in inputs]))
        t = element(kind)
        body = body or FMA.format(a=t, b=t, t=t)
        return self._add(
            "repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> "
            f"maps [{affine}] iterators [{words}] ins({ins[0]} : {ins[1]}) outs({start} : tensor<{kind}>) "
            f"{{\n{body}\n}} -> tensor<{kind}>",
            kind,
        )

    def generic(self, maps: Sequence[str], inputs: Sequence[str], kind: str, body: str) -> str:
        empty = self._add(f"tensor.empty() : tensor<{kind}>", kind)
        rank = maps[0].split("->")[0].count(",") + 1
        words = ", ".join(['"parallel"'] * rank)
        affine = ", ".join(f"affine_map<{m}>" for m in maps)
        ins = ", ".join(inputs), ", ".join(tensors([self.kinds[x] for x in inputs]))
        arguments = ", ".join(
            [f"%x{i}: {element(self.kinds[x])}" for i, x in enumerate(inputs)] + [f"%o: {element(kind)}"]
        )
        return self._add(
            f"linalg.generic {{indexing_maps = [{affine}], iterator_types = [{words}]}} ins({ins[0]} : {ins[1]}) "
            f"outs({empty} : tensor<{kind}>) {{\n^bb0({arguments}):\n{body}\n}} -> tensor<{kind}>",
            kind,
        )

    def reshape(self, x: str, op: str, groups: str, kind: str) -> str:
        size = ", ".join(kind.split("x")[:-1])
        output = f" output_shape [{size}]" if op == "expand_shape" else ""
        return self._add(f"tensor.{op} {x} {groups}{output} : tensor<{self.kinds[x]}> into tensor<{kind}>", kind)

    def text(self) -> str:
        name, kind = list(self.kinds.items())[-1]
        arguments = ", ".join(f"%a{i}: tensor<{t}>" for i, t in enumerate(self.types))
        body = "\n".join(self.lines)
        return (
            f"func.func @main({arguments}) -> (tensor<{kind}>) attributes {{repro.num_state = 0 : i64}} {{\n"
            f"{body}\nreturn {name} : tensor<{kind}>\n}}\n"
        )

    def check(self, special: bool = True, fuses: bool = True) -> None:
        """Checks that the schedule fuses an epilogue if and only if `fuses` is true, and compares the program's bits as
        `check_program` does."""
        text = self.text()
        scheduled = run_passes(text, "schedule{fuse-epilogues=true}")
        assert ("memref.alloca_scope" in scheduled) == fuses
        check_program(text, self.types, list(self.kinds.values())[-1], special)


SUM = """  %r = arith.addf %x0, %x1 : f32
  linalg.yield %r : f32"""
RELU = """  %s = arith.addf %x0, %x1 : f32
  %z = arith.constant 0.0 : f32
  %p = arith.cmpf ugt, %s, %z : f32
  %r = arith.select %p, %s, %z : f32
  linalg.yield %r : f32"""


def matmul(program: Program, m: int, n: int, layout: str = "mk kn mn", kind: str = "f32") -> str:
    size = {"m": m, "n": n}
    a, b, c = layout.split()
    maps = [f"(m, n, k) -> ({o[0]}, {o[1]})" for o in (a, b, c)]
    return program.product(maps, "ppr", ["%a0", "%a1"], f"{size[c[0]]}x{size[c[1]]}x{kind}")


def convolution(program: Program, kind: str) -> str:
    maps = [
        "(n, o, h, w, i, y, x) -> (n, i, h + y, w + x)",
        "(n, o, h, w, i, y, x) -> (o, i, y, x)",
        "(n, o, h, w, i, y, x) -> (n, o, h, w)",
    ]
    return program.product(maps, "pppprrr", ["%a0", "%a1"], kind)


@pytest.mark.parametrize("layout", ["mk kn mn", "mk nk mn", "km kn nm", "mk nk nm"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 3), (1, 100, 5), (100, 1, 5), (13, 48, 19), (70, 47, 1100), (300, 290, 40)]
)
@pytest.mark.diagonal
def test_bias_and_relu_K1(m: int, n: int, k: int, layout: str) -> None:
    size = {"m": m, "n": n, "k": k}
    a, b, c = layout.split()
    program = Program(f"{size[a[0]]}x{size[a[1]]}xf32", f"{size[b[0]]}x{size[b[1]]}xf32", f"{n}xf32")
    result = matmul(program, m, n, layout)
    order = f"(m, n) -> ({c[0]}, {c[1]})"
    program.generic([order, "(m, n) -> (n)", order], [result, "%a2"], program.kinds[result], RELU)
    program.check(fuses=(m, n) != (1, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(540, 300, 600), (13, 2100, 600)])
def test_blocks_parts_and_strips_K1(m: int, n: int, k: int) -> None:
    """Uses more rows than one block, more elements of K than one K-block, and more columns than one strip."""
    program = Program(f"{m}x{k}xf32", f"{n}x{k}xf32", f"{m}x{n}xf32")
    result = matmul(program, m, n, "mk nk mn")
    same = "(m, n) -> (m, n)"
    program.generic([same] * 3, [result, "%a2"], f"{m}x{n}xf32", SUM)
    program.check(special=False)


@pytest.mark.parametrize("output", ["(m, n) -> (m, n)", "(m, n) -> (n, m)"])
@pytest.mark.parametrize("residual", ["(m, n) -> (m, n)", "(m, n) -> (n, m)"])
@pytest.mark.diagonal
def test_residuals_of_other_layouts_K1(output: str, residual: str) -> None:
    size = {"(m, n) -> (m, n)": "75x66xf32", "(m, n) -> (n, m)": "66x75xf32"}
    program = Program("75x20xf32", "20x66xf32", size[residual])
    result = matmul(program, 75, 66)
    program.generic(["(m, n) -> (m, n)", residual, output], [result, "%a2"], size[output], SUM)
    program.check()


@pytest.mark.parametrize(
    ("kinds", "maps", "fuses"),
    [
        (("6x11x70xf32", "70xf32"), ("(i, j, n) -> (i, j, n)", "(i, j, n) -> (n)"), True),
        # The row m of the product is (i, j); these operands depend on only one of i and j.
        (("6x70xf32", "11xf32"), ("(i, j, n) -> (i, n)", "(i, j, n) -> (j)"), False),
    ],
)
def test_results_in_another_shape_K1(kinds: tuple[str, str], maps: tuple[str, str], fuses: bool) -> None:
    program = Program("66x20xf32", "20x70xf32", *kinds)
    result = program.reshape(matmul(program, 66, 70), "expand_shape", "[[0, 1], [2]]", "6x11x70xf32")
    body = """  %s = arith.mulf %x0, %x1 : f32
  %r = arith.addf %s, %x2 : f32
  linalg.yield %r : f32"""
    same = "(i, j, n) -> (i, j, n)"
    program.generic([same, *maps, same], [result, "%a2", "%a3"], "6x11x70xf32", body)
    program.check(fuses=fuses)


@pytest.mark.parametrize("layout", ["mk kn mn", "mk nk nm"])
def test_rounding_F7(layout: str) -> None:
    """Operands are extended from bf16 to f32, and the f32 sum in registers is rounded to bf16 when it is stored."""
    size = {"m": 37, "n": 50, "k": 90}
    a, b, c = layout.split()
    program = Program(f"{size[a[0]]}x{size[a[1]]}xbf16", f"{size[b[0]]}x{size[b[1]]}xbf16", "50xbf16")
    body = """^bb0(%x: bf16, %y: bf16, %acc: f32):
  %e = arith.extf %x : bf16 to f32
  %f = arith.extf %y : bf16 to f32
  %r = math.fma %e, %f, %acc : f32
  repro.yield %r : f32"""
    maps = [f"(m, n, k) -> ({o[0]}, {o[1]})" for o in (a, b, c)]
    result = program.product(maps, "ppr", ["%a0", "%a1"], f"{size[c[0]]}x{size[c[1]]}xf32", body)
    order = f"(m, n) -> ({c[0]}, {c[1]})"
    rounding = """  %h = arith.truncf %x0 : f32 to bf16
  %e = arith.extf %h : bf16 to f32
  %b = arith.extf %x1 : bf16 to f32
  %s = arith.addf %e, %b : f32
  %r = arith.truncf %s : f32 to bf16
  linalg.yield %r : bf16"""
    kind = f"{size[c[0]]}x{size[c[1]]}xbf16"
    program.generic([order, "(m, n) -> (n)", order], [result, "%a2"], kind, rounding)
    program.check()


def test_double_precision_and_mask_F7() -> None:
    program = Program("40x33xf64", "33x51xf64", "40x51xi1", "40xf32")
    result = matmul(program, 40, 51, kind="f64")
    body = """  %z = arith.constant 0.0 : f64
  %e = arith.extf %x2 : f32 to f64
  %s = arith.mulf %x0, %e : f64
  %r = arith.select %x1, %s, %z : f64
  linalg.yield %r : f64"""
    same = "(m, n) -> (m, n)"
    program.generic([same, same, "(m, n) -> (m)", same], [result, "%a2", "%a3"], "40x51xf64", body)
    program.check()


@pytest.mark.parametrize("size", [(5, 16), (9, 32), (6, 7), (4, 5)])
@pytest.mark.parametrize("channels", [10, 32])
@pytest.mark.diagonal
def test_convolution_K2(size: tuple[int, int], channels: int) -> None:
    """The epilogue multiplies each channel by a scale and adds a shift."""
    h, w = size
    program = Program(f"3x4x{h + 2}x{w + 2}xf32", f"{channels}x4x3x3xf32", f"{channels}xf32", f"{channels}xf32")
    kind = f"3x{channels}x{h}x{w}xf32"
    body = """  %s = arith.mulf %x0, %x1 : f32
  %t = arith.addf %s, %x2 : f32
  %z = arith.constant 0.0 : f32
  %p = arith.cmpf ugt, %t, %z : f32
  %r = arith.select %p, %t, %z : f32
  linalg.yield %r : f32"""
    same, channel = "(n, o, h, w) -> (n, o, h, w)", "(n, o, h, w) -> (o)"
    program.generic([same, channel, channel, same], [convolution(program, kind), "%a2", "%a3"], kind, body)
    program.check()


def test_residual_of_a_convolution_stays_apart_K2() -> None:
    kind = "3x10x6x7xf32"
    program = Program("3x4x8x9xf32", "10x4x3x3xf32", kind)
    program.generic(["(n, o, h, w) -> (n, o, h, w)"] * 3, [convolution(program, kind), "%a2"], kind, SUM)
    program.check(fuses=False)


def test_values_are_special_as_in_memory_V4() -> None:
    """A select in the epilogue passes on the bits of a NaN, so the NaN must be canonical before, as it would be in
    memory."""
    program = Program("4x3xf32", "3x40xf32", "4x40xi1")
    result = matmul(program, 4, 40)
    body = """  %n = arith.negf %x0 : f32
  %r = arith.select %x1, %n, %x0 : f32
  linalg.yield %r : f32"""
    same = "(m, n) -> (m, n)"
    program.generic([same] * 3, [result, "%a2"], "4x40xf32", body)
    program.check()


def test_bits_do_not_depend_on_values_of_others_K1() -> None:
    """The residual is also an operand of the product: a store must not overwrite elements that are read later."""
    program = Program("64x64xf32", "64x64xf32")
    result = matmul(program, 64, 64)
    same = "(m, n) -> (m, n)"
    body = """  %s = arith.addf %x0, %x1 : f32
  %r = arith.subf %s, %x2 : f32
  linalg.yield %r : f32"""
    program.generic([same] * 4, [result, "%a0", "%a1"], "64x64xf32", body)
    program.check()
