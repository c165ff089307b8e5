# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V3) Folding scalar operations on constants gives the bits of the reference interpreter, which does not fold."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

ir = pytest.importorskip("repro_mlir.ir")
from repro_mlir.base.numerics.formats import canonical, element_type, from_bits, to_bits  # noqa: E402
from repro_mlir.passmanager import PassManager  # noqa: E402
from repro_mlir.program.canonical import to_bytes  # noqa: E402
from repro_mlir.reference.interpreter import Interpreter  # noqa: E402

FLOAT_BITS = {"f64": (11, 52), "f32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "f8E5M2": (5, 2)}
INTEGER_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}

FLOAT_BINARY = ["addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf"]
FLOAT_UNARY = ["math.absf", "math.ceil", "math.floor", "math.trunc", "math.round", "math.roundeven", "arith.negf"]
INTEGER_BINARY = ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli", "shrsi"]
INTEGER_BINARY += ["shrui", "maxsi", "minsi", "maxui", "minui"]
INTEGER_UNARY = ["math.absi", "math.ctlz", "math.cttz", "math.ctpop"]
CMPF = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]
CMPI = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]


def float_literals(kind: str, rng: random.Random, count: int) -> list[str]:
    """Returns `count` hexadecimal literals of a float type: zeros, infinities, NaN, extreme numbers, small integers,
    random bits."""
    exponent, fraction = FLOAT_BITS[kind]
    width = 1 + exponent + fraction
    infinity = ((1 << exponent) - 1) << fraction
    one = ((1 << (exponent - 1)) - 1) << fraction
    bits = [
        0,
        1,
        infinity,
        infinity | 1 << (fraction - 1),
        infinity - 1,
        1 << fraction,
        (1 << fraction) - 1,
        one,
        one + 1,
    ]
    bits += [one + (1 << fraction), one + (1 << (fraction - 1))]
    bits = [b | s << (width - 1) for b in bits for s in (0, 1)]
    chosen = [rng.choice([*bits, rng.getrandbits(width)]) for _ in range(count)]
    return [f"0x{b:0{width // 4}X}" for b in chosen]


def integer_literals(kind: str, rng: random.Random, count: int) -> list[str]:
    width = INTEGER_BITS[kind]
    if width == 1:
        return [rng.choice(["true", "false"]) for _ in range(count)]
    low = -(1 << (width - 1))
    values = [0, 1, -1, 2, low, low + 1, -low - 1, width - 1, width, width + 1]
    return [str(rng.choice([*values, rng.randrange(low, -low)])) for _ in range(count)]


class Program:
    """A program that returns the results of scalar operations on constants, as tensors of rank 0."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.types: list[str] = []

    def add(self, operation: str, operands: list[tuple[str, str]], suffix: str, result: str) -> None:
        """Adds an operation: its name, its operands as (literal, type), the text after the operands, and the type of
        its result."""
        n = len(self.types)
        names = []
        for k, (literal, kind) in enumerate(operands):
            value = literal if kind == "i1" else f"{literal} : {kind}"
            self.lines.append(f"%c{n}_{k} = arith.constant {value}")
            names.append(f"%c{n}_{k}")
        self.lines.append(f"%s{n} = {operation} {', '.join(names)} {suffix}")
        self.lines.append(f"%t{n} = tensor.from_elements %s{n} : tensor<{result}>")
        self.types.append(f"tensor<{result}>")

    def operations(self) -> list[str]:
        """Returns the line of each operation that was added, in the order of the results."""
        return [line for line in self.lines if line.startswith("%s")]

    def text(self) -> str:
        """Returns the text of the canonical program, in which arithmetic on storage types is in f32 (V1)."""
        types = ", ".join(self.types)
        values = ", ".join(f"%t{n}" for n in range(len(self.types)))
        body = "\n  ".join([*self.lines, f"return {values} : {types}"])
        with ir.Context():
            module = ir.Module.parse(
                f"func.func @main() -> ({types}) attributes {{repro.num_state = 0 : i64}} {{\n  {body}\n}}"
            )
            PassManager.parse("builtin.module(repro-widen-storage)").run(module.operation)
            return str(module)


def run_folded(program: Program, folded_names: set[str]) -> list[np.ndarray]:
    """Folds the program, checks that no operation of `folded_names` is left, and returns the results of the
    interpreter."""
    with ir.Context():
        module = ir.Module.parse(program.text())
        PassManager.parse("builtin.module(repro-fold-constants)").run(module.operation)
        remaining = {op.operation.name for op in module.body.operations[0].regions[0].blocks[0].operations}
        assert not remaining & folded_names
        return Interpreter(to_bytes(str(module))).run()


def assert_same_bits(program: Program, folded_names: set[str]) -> None:
    """Checks that folding the operations of `folded_names` does not change the bits of the results."""
    expected = Interpreter(to_bytes(program.text())).run()
    actual = run_folded(program, folded_names)
    for line, want, got in zip(program.operations(), expected, actual, strict=True):
        assert want.dtype == got.dtype, line
        assert want.tobytes() == got.tobytes(), f"{line}: reference {want}, folded {got}"


@pytest.mark.parametrize("kind", FLOAT_BITS)
def test_floats(kind: str) -> None:
    rng = random.Random(kind)
    program = Program()

    def literals(count: int) -> list[tuple[str, str]]:
        return [(literal, kind) for literal in float_literals(kind, rng, count)]

    for _ in range(40):
        for name in FLOAT_BINARY:
            program.add(f"arith.{name}", literals(2), f": {kind}", kind)
        for name in FLOAT_UNARY:
            program.add(name, literals(1), f": {kind}", kind)
        program.add("math.copysign", literals(2), f": {kind}", kind)
        program.add("math.fma", literals(3), f": {kind}", kind)
        program.add(f"arith.cmpf {rng.choice(CMPF)},", literals(2), f": {kind}", "i1")
    names = {f"arith.{name}" for name in FLOAT_BINARY} | set(FLOAT_UNARY) | {"math.fma", "math.copysign", "arith.cmpf"}
    assert_same_bits(program, names)


@pytest.mark.parametrize("kind", INTEGER_BITS)
def test_integers(kind: str) -> None:
    rng = random.Random(kind)
    program = Program()

    def literals(count: int) -> list[tuple[str, str]]:
        return [(literal, kind) for literal in integer_literals(kind, rng, count)]

    for _ in range(40):
        for name in INTEGER_BINARY:
            program.add(f"arith.{name}", literals(2), f": {kind}", kind)
        for name in INTEGER_UNARY:
            program.add(name, literals(1), f": {kind}", kind)
        program.add(f"arith.cmpi {rng.choice(CMPI)},", literals(2), f": {kind}", "i1")
    assert_same_bits(program, {f"arith.{name}" for name in INTEGER_BINARY} | set(INTEGER_UNARY) | {"arith.cmpi"})


def test_casts() -> None:
    rng = random.Random(1)
    program = Program()
    widths = {kind: 1 + sum(bits) for kind, bits in FLOAT_BITS.items()}
    for _ in range(10):
        for source in FLOAT_BITS:
            for target in FLOAT_BITS:
                if widths[source] != widths[target]:
                    name = "arith.extf" if widths[source] < widths[target] else "arith.truncf"
                    literal = float_literals(source, rng, 1)[0]
                    program.add(name, [(literal, source)], f": {source} to {target}", target)
            for target in INTEGER_BITS:
                literal = float_literals(source, rng, 1)[0]
                for name in ("fptosi", "fptoui"):
                    program.add(f"arith.{name}", [(literal, source)], f": {source} to {target}", target)
                literal = integer_literals(target, rng, 1)[0]
                for name in ("sitofp", "uitofp"):
                    program.add(f"arith.{name}", [(literal, target)], f": {target} to {source}", source)
        for source, width in INTEGER_BITS.items():
            for target, wider in INTEGER_BITS.items():
                literal = integer_literals(source, rng, 1)[0]
                names = ["extsi", "extui"] if width < wider else ["trunci"] if width > wider else []
                for name in names:
                    program.add(f"arith.{name}", [(literal, source)], f": {source} to {target}", target)
    assert_same_bits(
        program,
        {f"arith.{name}" for name in "extf truncf fptosi fptoui extsi trunci sitofp uitofp".split()},
    )


def test_bitcasts_V4() -> None:
    """Computes the expected bits in Python, because a canonical program, which the interpreter needs, has bitcasts only
    of canonical floats."""
    rng = random.Random(2)
    program = Program()
    expected = []
    for _ in range(40):
        (literal,) = float_literals("f32", rng, 1)
        program.add("arith.bitcast", [(literal, "f32")], ": f32 to i32", "i32")
        value = from_bits(np.array(int(literal, 16), np.uint32), element_type("f32"))
        expected.append(to_bits(value, element_type("f32")).view(np.int32))
        (number,) = integer_literals("i16", rng, 1)
        program.add("arith.bitcast", [(number, "i16")], ": i16 to bf16", "bf16")
        bf16 = element_type("bf16")
        expected.append(canonical(from_bits(np.array(int(number) % 2**16, np.uint16), bf16), bf16))
    results = run_folded(program, {"arith.bitcast"})
    for line, want, got in zip(program.operations(), expected, results, strict=True):
        assert want.dtype == got.dtype and want.tobytes() == got.tobytes(), f"{line}: expected {want}, folded {got}"


def test_one_rounding_of_a_double() -> None:
    """(S3) A double constant is rounded once to f32, to nearest even."""
    program = Program()
    rng = np.random.default_rng(0)
    for value in np.concatenate([rng.standard_normal(50), 1 + rng.integers(0, 9, 50) * 2.0**-25]):
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        program.add("arith.truncf", [(f"0x{bits:016X}", "f64")], ": f64 to f32", "f32")
    assert_same_bits(program, {"arith.truncf"})
