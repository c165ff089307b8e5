# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Derives the polynomials of the special functions that the PyTorch frontend composes.

Writes python/repro_mlir/frontends/torch/operators/special_coefficients.py with the fits of derive.py. The comment of a
table states log2 of its largest relative error.

Usage: python tools/functions/derive_special.py [--check]
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import mpmath as mp
from derive import Real, fit

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULE = ROOT / "python/repro_mlir/frontends/torch/operators/special_coefficients.py"


def erfinv_quotient(w: mp.mpf) -> mp.mpf:
    """Returns erfinv(x) / x for 1 - x^2 = e^-w. Solves for erfinv(x) by Newton's method on log erfc."""
    if w < mp.mpf(10) ** -12:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    tail = mp.exp(-w) / (1 + x)  # 1 - x
    y = mp.findroot(lambda y: mp.log(mp.erfc(y) / tail), mp.sqrt(w) if w > 1 else mp.sqrt(w) * 0.9)
    return mp.mpf(y) / x


def bessel_tail(order: int) -> Real:
    """Returns sqrt(x) e^-x I_order(x) for x = 8 / t, where I is the modified Bessel function."""

    def tail(t: mp.mpf) -> mp.mpf:
        if t < mp.mpf(10) ** -6:
            # the asymptotic series I_n(x) ~ e^x / sqrt(2 pi x) (1 - (4 n^2 - 1) / (8 x))
            return (1 - (4 * order**2 - 1) * t / 64) / mp.sqrt(2 * mp.pi)
        x = 8 / t
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return tail


def scaled_erfc(t: mp.mpf) -> mp.mpf:
    """Returns e^(x^2) erfc(x) (x + 4) for t = (x - 4) / (x + 4)."""
    if t > 1 - mp.mpf(10) ** -6:
        return 1 / mp.sqrt(mp.pi)
    x = 4 * (1 + t) / (1 - t)
    if x > 60:
        series = 1 - 1 / (2 * x**2) + 3 / (4 * x**4) - 15 / (8 * x**6)
        return series * (x + 4) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x) * (x + 4)


#: For each polynomial: name, description, function, interval, and number of coefficients.
FITS: list[tuple[str, str, Real, tuple[float, float], int]] = [
    ("ERFINV_CENTRE", "erfinv(x) / x, w - 3, w = -log(1 - x^2) <= 6", lambda u: erfinv_quotient(u + 3), (-3, 3), 15),
    (
        "ERFINV_TAIL",
        "erfinv(x) / x, (s - 5) / (s + 5), s = sqrt(w), 6 <= w <= 104",
        lambda t: erfinv_quotient((5 * (1 + t) / (1 - t)) ** 2),
        (-0.344, 0.343),
        22,
    ),
    ("I0_TAIL", "sqrt(x) e^-x I0(x), 8 / x <= 1", bessel_tail(0), (0, 1), 12),
    ("I1_TAIL", "sqrt(x) e^-x I1(x), 8 / x <= 1", bessel_tail(1), (0, 1), 12),
    ("ERFCX", "e^(x^2) erfc(x) (x + 4), (x - 4) / (x + 4), x >= 0", scaled_erfc, (-1, 1), 22),
]


def render() -> str:
    """Returns the text of the generated module."""
    lines = [
        "# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.",
        "# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception",
        "",
        '"""Polynomials of special_functions.py, lowest coefficient first.',
        "",
        "Written by tools/functions/derive_special.py: do not edit. In brackets: log2 of the largest relative error.",
        '"""',
    ]
    with mp.workdps(40):
        for name, what, f, (low, high), count in FITS:
            coefficients, error = fit(f, lambda x, f=f: 1 / f(x), mp.mpf(low), mp.mpf(high), count)
            lines += ["", f"# {what} [{mp.nstr(mp.log(error, 2), 4)}]", f"{name} = ("]
            lines += [f"    {c!r}," for c in coefficients] + [")"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the module is out of date")
    arguments = parser.parse_args()
    text = render()
    if arguments.check:
        if MODULE.read_text() != text:
            print(f"{MODULE} is out of date: run tools/functions/derive_special.py", file=sys.stderr)
            return 1
        return 0
    MODULE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
