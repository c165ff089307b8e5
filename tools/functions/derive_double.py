# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the constants of the elementary functions of f64 (S5), lib/Codegen/Functions/DoubleConstants.h.

Each constant is a real number truncated after 252 bits, in nine digits of base 2^28; the first digit is its whole part.

Usage: python tools/functions/derive_double.py [--check]
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import mpmath as mp

HEADER = pathlib.Path(__file__).resolve().parents[2] / "lib/Codegen/Functions/DoubleConstants.h"
BITS, DIGITS = 28, 9
#: The number of digits of 2 / pi after the point. An argument may have up to 1024 bits before its point, and its
#: product with 2 / pi is computed to nine digits.
TURN_DIGITS = 51

mp.mp.prec = 2000


def digits(value: mp.mpf, count: int) -> list[int]:
    """Returns the digits of a value >= 0 in base 2^BITS: its whole part, then count - 1 digits after the point."""
    whole = int(mp.floor(mp.ldexp(value, BITS * (count - 1))))
    return [(whole >> (BITS * (count - 1 - i))) & ((1 << BITS) - 1) for i in range(count)]


def constants() -> dict[str, mp.mpf]:
    """Returns the scalar constants by name."""
    return {
        "One": mp.mpf(1),
        "Ln2": mp.log(2),
        "Ln10": mp.log(10),
        "Log2E": 1 / mp.log(2),
        "Log10E": 1 / mp.log(10),
        "Log10Of2": mp.log10(2),
        "HalfPi": mp.pi / 2,
        "QuarterPi": mp.pi / 4,
        "HalfLn2": mp.log(2) / 2,
        "Half": mp.mpf(1) / 2,
        "Quarter": mp.mpf(1) / 4,
        "TwoOverSqrtPi": 2 / mp.sqrt(mp.pi),
        "ThreeEighths": mp.mpf(3) / 8,
        "FiveSixteenths": mp.mpf(5) / 16,
        "TwoThirds": mp.mpf(2) / 3,
        "FiveNinths": mp.mpf(5) / 9,
        "FortyEightyFirsts": mp.mpf(40) / 81,
    }


def tables() -> dict[str, tuple[str, list[mp.mpf]]]:
    """Returns the tables, keyed by name: a description and the values."""
    return {
        "InverseFactorial": ("1 / j!", [1 / mp.factorial(j) for j in range(44)]),
        "InverseOdd": ("1 / (2 j + 1)", [1 / mp.mpf(2 * j + 1) for j in range(39)]),
        "Inverse": ("1 / j; 1 for 0", [1 / mp.mpf(max(j, 1)) for j in range(42)]),
        "Erf": ("erf(j / 8)", [mp.erf(mp.mpf(j) / 8) for j in range(49)]),
        "Erfcx": (
            "erfc(j / 4) e^(j^2 / 16)",
            [mp.erfc(mp.mpf(j) / 4) * mp.exp(mp.mpf(j * j) / 16) for j in range(111)],
        ),
        "ErfSlope": ("erf'(j / 8)", [2 / mp.sqrt(mp.pi) * mp.exp(-((mp.mpf(j) / 8) ** 2)) for j in range(49)]),
        "ArcTangent": ("atan(j / 8)", [mp.atan(mp.mpf(j) / 8) for j in range(9)]),
    }


def row(value: mp.mpf) -> str:
    """Returns the text of a number's C++ initializer: its f64 value, then its digits."""
    text = ", ".join(f"0x{d:07x}" for d in digits(value, DIGITS))
    return f"{{{float(value).hex()}, {{{text}}}}}"


def render() -> str:
    """Returns the text of the generated header."""
    lines = [
        "//===- DoubleConstants.h - Constants of the functions of f64 ----*- C++ -*-===//",
        "//",
        "// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.",
        "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception",
        "//",
        "//===----------------------------------------------------------------------===//",
        "//",
        "// Written by tools/functions/derive_double.py: do not edit.",
        "//",
        "//===----------------------------------------------------------------------===//",
        "",
        "#ifndef REPRO_CODEGEN_FUNCTIONS_DOUBLECONSTANTS_H",
        "#define REPRO_CODEGEN_FUNCTIONS_DOUBLECONSTANTS_H",
        "",
        "#include <cstdint>",
        "",
        "namespace mlir::repro::functions {",
        "",
        "/// A real number of at least 0, rounded to f64 and cut off after 252 bits: its",
        "/// whole part and digits of 28 bits.",
        "struct LongConstant {",
        "  double value;",
        f"  uint32_t digits[{DIGITS}];",
        "};",
        "",
        "// clang-format off",
    ]
    lines += [f"inline constexpr LongConstant kLong{name} = {row(value)};" for name, value in constants().items()]
    for name, (what, values) in tables().items():
        lines += ["", f"// {what}", f"inline constexpr LongConstant kLong{name}[] = {{"]
        lines += [f"    {row(value)}," for value in values]
        lines += ["};"]
    turn = ", ".join(f"0x{d:07x}" for d in digits(2 / mp.pi, TURN_DIGITS + 1)[1:])
    lines += [
        "",
        "// 2 / pi after the point",
        f"inline constexpr uint32_t kTwoOverPiDigits[] = {{{turn}}};",
        "// clang-format on",
        "",
        "} // namespace mlir::repro::functions",
        "",
        "#endif // REPRO_CODEGEN_FUNCTIONS_DOUBLECONSTANTS_H",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the header is out of date")
    if not parser.parse_args().check:
        HEADER.write_text(render())
    elif HEADER.read_text() != render():
        print(f"{HEADER} is out of date: run tools/functions/derive_double.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
