# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Derives the coefficients of the elementary functions (S5).

Writes lib/Codegen/Functions/Coefficients.h. Every polynomial is a weighted least-squares fit on Chebyshev nodes (close
to minimax). Its coefficients are rounded to f64 one by one, lowest first, and the rest is fitted again each time. The
last column of every comment is log2 of the largest weighted error.

Some tables are then moved by a few units in the last place, as tuning.json (written by tune.py) says. After this,
inputs whose exact result is next to a rounding boundary of f32 also round correctly. patches.json lists the few inputs
that no such table rounds correctly, with their results.

Usage: python tools/functions/derive.py [--output FILE] [--check]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable

import mpmath as mp

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "lib/Codegen/Functions/Coefficients.h"
PATCHES = pathlib.Path(__file__).with_name("patches.json")
TUNING = pathlib.Path(__file__).with_name("tuning.json")
Real = Callable[[mp.mpf], mp.mpf]

UNARY = (
    "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 "
    "log log10 log1p log2 rsqrt sin sinh tan tanh"
).split()

mp.mp.dps = 60


def fit(f: Real, weight: Real, low: mp.mpf, high: mp.mpf, count: int) -> tuple[list[float], mp.mpf]:
    """Fits f on [low, high] by a polynomial with `count` f64 coefficients.

    Minimizes the squares of weight * (f - p) at Chebyshev nodes. Returns the coefficients, lowest first, and the
    largest weighted error on a grid.
    """
    nodes = max(4 * count, 60)
    xs = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * nodes)) for i in range(nodes)]
    w = [weight(x) for x in xs]
    y = [w[i] * f(x) for i, x in enumerate(xs)]
    # moments[s] is the sum of w^2 x^s. These sums are the entries of the Gram matrices of all fits below.
    powers = [[w[i] ** 2 * x**s for i, x in enumerate(xs)] for s in range(2 * count - 1)]
    moments = [mp.fsum(row) for row in powers]
    fixed: list[float] = []
    for first in range(count):
        n = count - first
        rhs = mp.matrix(n, 1)
        for p in range(n):
            rhs[p] = mp.fsum(w[i] * x ** (p + first) * y[i] for i, x in enumerate(xs)) - mp.fsum(
                c * moments[p + first + q] for q, c in enumerate(fixed)
            )
        gram = mp.matrix(n, n)
        for p in range(n):
            for q in range(n):
                gram[p, q] = moments[p + q + 2 * first]
        fixed.append(float(mp.lu_solve(gram, rhs)[0]))
    grid = [low + (high - low) * mp.mpf(i) / 401 for i in range(1, 401)]
    error = max(abs(weight(x) * (f(x) - mp.polyval(fixed[::-1], x))) for x in grid)
    return fixed, error


def truncated(x: mp.mpf, bits: int) -> mp.mpf:
    """Returns x rounded to `bits` significant bits."""
    exponent = mp.floor(mp.log(abs(x), 2)) + 1 - bits
    return mp.nint(x / mp.mpf(2) ** exponent) * mp.mpf(2) ** exponent


def sqrt_argument(f: Real) -> Real:
    """Returns f as a function of z = r^2. At z = 0, where f may be 0 / 0, f is evaluated next to 0."""
    return lambda z: f(mp.sqrt(max(z, mp.mpf(10) ** -18)))


def polynomials() -> dict[str, tuple[str, list[float], mp.mpf]]:
    """Returns all tables, keyed by name: the approximated function as text, the coefficients and the largest error."""
    tables: dict[str, tuple[str, list[float], mp.mpf]] = {}
    wide = 1 + mp.mpf(2) ** -16

    def add(name: str, what: str, f: Real, weight: Real, low: mp.mpf, high: mp.mpf, count: int) -> None:
        tables[name] = (what, *fit(f, weight, mp.mpf(low), mp.mpf(high), count))

    half = mp.log(2) / 2 * wide
    for name, count in (("Exp", 9), ("Expm1", 10), ("Tanh", 10), ("ErfcExp", 10)):
        add(
            name,
            "(e^r - 1 - r) / r^2, |r| <= log(2)/2",
            lambda r: (mp.exp(r) - 1 - r) / r**2 if r else mp.mpf(1) / 2,
            lambda r: r**2 * mp.exp(-r),
            -half,
            half,
            count,
        )
    for name, base, reach in (
        ("Exp2", mp.mpf(2), mp.mpf(1) / 2),
        ("Exp10", mp.mpf(10), mp.log10(2) / 2 * wide),
    ):
        log_base = mp.log(base)
        add(
            name,
            f"({mp.nstr(base, 2)}^r - 1) / r",
            lambda r, g=log_base: mp.expm1(r * g) / r if r else g,
            lambda r, g=log_base: r * mp.exp(-r * g),
            -reach,
            reach,
            10,
        )
    z_half = half**2
    for name in ("Sinh", "Cosh"):
        add(
            name + "Odd",
            "(sinh r - r) / r^3, z = r^2, |r| <= log(2)/2",
            sqrt_argument(lambda r: (mp.sinh(r) - r) / r**3),
            lambda z: z,
            0,
            z_half,
            6,
        )
        add(
            name + "Even",
            "(cosh r - 1) / r^2, z = r^2, |r| <= log(2)/2",
            sqrt_argument(lambda r: (mp.cosh(r) - 1) / r**2),
            lambda z: z,
            0,
            z_half,
            6,
        )
    s_log = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * wide
    for name, s_max, count in (
        ("Log", s_log, 7),
        ("Log1p", s_log, 7),
        ("Log2", s_log, 7),
        ("Log10", s_log, 7),
        ("Asinh", s_log, 7),
        ("Acosh", s_log, 7),
        ("Atanh", mp.mpf("0.2041"), 8),
    ):
        add(
            name,
            "(2 atanh s - 2 s) / s^3, z = s^2",
            sqrt_argument(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3),
            lambda z: z,
            0,
            s_max**2,
            count,
        )
    for name in ("Sin", "Cos"):
        add(
            name,
            "(sin r - r) / r^3, z = r^2, |r| <= pi/2",
            sqrt_argument(lambda r: (mp.sin(r) - r) / r**3),
            lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)) if z else z,
            0,
            (mp.pi / 2) ** 2 * (1 + mp.mpf(2) ** -10),
            9,
        )
    quarter = (mp.pi / 4) ** 2 * (1 + mp.mpf(2) ** -10)
    add(
        "TanSin",
        "(sin r - r) / r^3, z = r^2, |r| <= pi/4",
        sqrt_argument(lambda r: (mp.sin(r) - r) / r**3),
        lambda z: z,
        0,
        quarter,
        7,
    )
    add(
        "TanCos",
        "(cos r - 1) / r^2, z = r^2, |r| <= pi/4",
        sqrt_argument(lambda r: (mp.cos(r) - 1) / r**2),
        lambda z: z,
        0,
        quarter,
        7,
    )
    for name in ("Asin", "Acos"):
        add(
            name,
            "(asin w - w) / w^3, z = w^2, |w| <= 1/2",
            sqrt_argument(lambda w: (mp.asin(w) - w) / w**3),
            lambda z: z,
            0,
            mp.mpf(1) / 4,
            13,
        )
    add(
        "Atan",
        "(atan w - w) / w^3, z = w^2, |w| <= tan(pi/8)",
        sqrt_argument(lambda w: (mp.atan(w) - w) / w**3),
        lambda z: z,
        0,
        (mp.sqrt(2) - 1) ** 2 * wide,
        12,
    )
    # One polynomial in x^2, centered at the middle of the range, covers all arguments up to the one at which erf rounds
    # to 1.
    erf_middle = mp.mpf("7.6875")

    def erf_quotient(u: mp.mpf) -> mp.mpf:
        x = mp.sqrt(max(u + erf_middle, mp.mpf(10) ** -30))
        return mp.erf(x) / x

    add(
        "Erf",
        "erf(x) / x, u = x^2 - 7.6875, |x| <= 3.92",
        erf_quotient,
        lambda u: 1 / erf_quotient(u),
        -erf_middle,
        mp.mpf("3.92") ** 2 - erf_middle,
        27,
    )
    add(
        "ErfcSmall",
        "(erf(x) - (2/sqrt(pi)) x) / x^3, z = x^2, |x| <= 1/2",
        sqrt_argument(lambda x: (mp.erf(x) - 2 / mp.sqrt(mp.pi) * x) / x**3),
        lambda z: z,
        0,
        mp.mpf(1) / 4,
        10,
    )
    add(
        "Erfcx",
        "e^(x^2) erfc(x) (x + 4), t = (x - 4) / (x + 4), 1/2 <= x <= 10.1",
        lambda t: (lambda x: mp.exp(x * x) * mp.erfc(x) * (x + 4))(4 * (1 + t) / (1 - t)),
        lambda t: mp.mpf(1),
        mp.mpf("-3.5") / mp.mpf("4.5"),
        mp.mpf("6.1") / mp.mpf("14.1"),
        21,
    )
    add(
        "CbrtSeed",
        "m^(-1/3), 1 <= m <= 2",
        lambda m: m ** (-mp.mpf(1) / 3),
        lambda m: m ** (mp.mpf(1) / 3),
        1,
        2,
        6,
    )
    # Each low part of log(2) is a table with one element, because tune.py can change tables but not constants.
    ln2 = mp.log(2)
    for name, high in (("LogLn2", mp.mpf(float(ln2))), ("Log1pLn2", truncated(ln2, 42))):
        tables[name] = ("log(2), low part", [float(ln2 - high)], mp.mpf(2) ** -106)
    return tables


def pairs() -> dict[str, tuple[str, list[mp.mpf]]]:
    """Returns the series that are evaluated in twice the precision, keyed by name: a description and the exact
    coefficients."""
    log2e = 1 / mp.log(2)
    return {
        "Log2Pair": ("2 log2(e) / (2 j + 1)", [2 * log2e / (2 * j + 1) for j in range(20)]),
        "ExpPair": ("1 / j!", [1 / mp.factorial(j) for j in range(14)]),
        "AtanPair": ("(-1)^j / (2 j + 1), j >= 1", [mp.mpf(-1) ** j / (2 * j + 1) for j in range(1, 13)]),
        "AtanEighths": ("atan(j / 8)", [mp.atan(mp.mpf(j) / 8) for j in range(9)]),
    }


def constants() -> dict[str, mp.mpf]:
    """Returns the scalar constants by name. Values whose names end in Hi, Lo and, for some, Lo2 add up to one
    constant."""
    values: dict[str, mp.mpf] = {}

    def split(name: str, x: mp.mpf, bits: int = 53) -> None:
        high = truncated(x, bits)
        values[name + "Hi"] = high
        values[name + "Lo"] = x - high

    split("Ln2", mp.log(2))
    split("Ln2Short", mp.log(2), 42)
    split("Log10Of2", mp.log10(2))
    split("Log10Of2Short", mp.log10(2), 42)
    split("Log2Of10", mp.log(10, 2))
    split("Log2EShort", 1 / mp.log(2), 28)
    split("Log10EShort", 1 / mp.log(10), 28)
    values["Log2E"] = 1 / mp.log(2)
    values["Log10E"] = 1 / mp.log(10)
    split("Pi", mp.pi)
    split("HalfPi", mp.pi / 2)
    values["HalfPiLo2"] = mp.pi / 2 - mp.mpf(float(mp.pi / 2))
    values["HalfPiLo2"] -= mp.mpf(float(values["HalfPiLo2"]))
    values["PiLo2"] = 2 * values["HalfPiLo2"]
    split("QuarterPi", mp.pi / 4)
    values["InvPi"] = 1 / mp.pi
    values["TwoOverPi"] = 2 / mp.pi
    split("TwoOverSqrtPi", 2 / mp.sqrt(mp.pi))
    split("Ln2Sixteenth", mp.log(2) / 16)
    values["CubeRoot2"] = mp.cbrt(2)
    values["CubeRoot4"] = mp.cbrt(4)
    values["TanPi8"] = mp.sqrt(2) - 1
    values["TanThreePi8"] = mp.sqrt(2) + 1
    return values


def nudged(x: float, steps: int) -> float:
    """Returns x plus `steps` units in its last place, in f64."""
    mantissa, exponent = mp.frexp(mp.mpf(x))
    return float(mp.ldexp(mantissa + mp.mpf(steps) * mp.mpf(2) ** -53, exponent))


def render() -> str:
    """Returns the text of the generated header."""
    tuning: dict[str, list[int]] = json.loads(TUNING.read_text()) if TUNING.exists() else {}
    lines = [
        "//===- Coefficients.h - Constants of the elementary functions --*- C++ -*-===//",
        "//",
        "// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.",
        "// See https://llvm.org/LICENSE.txt for license information.",
        "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception",
        "//",
        "//===----------------------------------------------------------------------===//",
        "//",
        "// Written by tools/functions/derive.py: do not edit. The bracket gives log2 of",
        "// the largest weighted error of the fit before the table was tuned.",
        "//",
        "//===----------------------------------------------------------------------===//",
        "",
        "#ifndef REPRO_CODEGEN_FUNCTIONS_COEFFICIENTS_H",
        "#define REPRO_CODEGEN_FUNCTIONS_COEFFICIENTS_H",
        "",
        "#include <array>",
        "#include <cstdint>",
        "",
        "// The tuner compiles the same formulas with coefficients that it can change.",
        "#ifndef REPRO_FUNCTION_TABLE",
        "#define REPRO_FUNCTION_TABLE inline constexpr",
        "#endif",
        "",
        "namespace mlir::repro::functions {",
        "",
        "/// An f32 input and its result, as bits.",
        "struct Patch {",
        "  uint32_t input, result;",
        "};",
        "",
        "// clang-format off",
    ]
    for name, value in constants().items():
        lines.append(f"inline constexpr double k{name} = {float(value).hex()};")
    lines.append("")
    one_over_pi = int(mp.floor(mp.ldexp(1 / mp.pi, 256)))
    words = [(one_over_pi >> (224 - 32 * i)) & 0xFFFFFFFF for i in range(8)]
    lines.append("// 1/pi, rounded to 204 bits after the binary point, in words of 32 bits. The 52")
    lines.append("// bits that follow are 0.")
    lines.append("inline constexpr uint32_t kInvPiWords[] = {" + ", ".join(f"0x{w:08x}" for w in words) + "};")
    for name, (what, coefficients, error) in polynomials().items():
        steps = tuning.get(name, [0] * len(coefficients))
        lines.append("")
        lines.append(f"// {what} [{mp.nstr(mp.log(error, 2), 4)}]")
        lines.append(f"REPRO_FUNCTION_TABLE double k{name}[] = {{")
        for c, s in zip(coefficients, steps, strict=True):
            lines.append(f"    {nudged(c, s).hex()},")
        lines.append("};")
    for name, (what, values) in pairs().items():
        lines.append("")
        lines.append(f"// {what}, as unevaluated sums")
        lines.append(f"inline constexpr double k{name}[][2] = {{")
        for v in values:
            high = float(v)
            lines.append(f"    {{{high.hex()}, {float(v - mp.mpf(high)).hex()}}},")
        lines.append("};")
    patches: dict[str, list[list[str]]] = json.loads(PATCHES.read_text()) if PATCHES.exists() else {}
    lines.append("")
    for name in UNARY:
        rows = ", ".join(f"{{0x{u}, 0x{v}}}" for u, v in patches.get(name, []))
        count = len(patches.get(name, []))
        initial = f"{{{{{rows}}}}}" if count else "{}"
        lines.append(f"inline constexpr std::array<Patch, {count}> k{name.capitalize()}Patches = {initial};")
    lines += [
        "// clang-format on",
        "",
        "} // namespace mlir::repro::functions",
        "",
        "#endif // REPRO_CODEGEN_FUNCTIONS_COEFFICIENTS_H",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=HEADER)
    parser.add_argument("--check", action="store_true", help="fail if the header is out of date")
    arguments = parser.parse_args()
    text = render()
    if arguments.check:
        if arguments.output.read_text() != text:
            print(f"{arguments.output} is out of date: run tools/functions/derive.py", file=sys.stderr)
            return 1
        return 0
    arguments.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
