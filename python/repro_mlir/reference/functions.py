# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# See https://llvm.org/LICENSE.txt for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(S5) The correctly rounded elementary functions of f32 and f64, computed by MPFR.

This module is independent of the compiler's expansions of these functions: MPFR (through gmpy2) computes with the
precision and the exponent range of the type, including subnormals, and rounds once. Every element of an f64 array is
computed this way.

MPFR takes about a microsecond per element. For f32, a first evaluation in f64
by NumPy therefore settles the elements whose rounding is certain: those where
the f64 result, changed by a relative 2^-46 in either direction, rounds to the
same f32. *Assumption:* every f64 function of NumPy or the C library is within
2^-46 (64 units in the last place) of the exact value or returns an exact
special case; their documented bounds are below 4 units. MPFR computes the
remaining elements, about one in 2^20.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import gmpy2
import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

#: Rounds to f32: 24 bits, the exponent range of f32 in MPFR's convention (0.1xxx * 2^e).
F32_CONTEXT = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True, round=gmpy2.RoundToNearest)
#: Rounds to f64: 53 bits.
F64_CONTEXT = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True, round=gmpy2.RoundToNearest)
_MARGIN = 2.0**-46


def _scalar(function: Callable[[float], float]) -> Callable[[F64], F64]:
    """Returns a function on f64 arrays that applies a function of Python's math module to each element."""

    def apply(x: F64) -> F64:
        return np.fromiter(map(function, x.tolist()), np.float64, count=x.size)

    return apply


def _powi(x: F64, n: NDArray[np.int64]) -> F64:
    # An exponent beyond 2^53 loses bits here. The result then depends only on the sign and the parity (below) of the
    # exponent, and on whether |x| is below, equal to or above 1.
    y = np.power(np.abs(x), n.astype(np.float64))
    odd = (n & 1).astype(bool)
    return np.where(odd, np.copysign(y, x), y)


_APPROXIMATE: dict[str, Callable[..., F64]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": _scalar(math.erf),
    "erfc": _scalar(math.erfc),
    "exp": np.exp,
    "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "hypot": np.hypot,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "pow": np.power,
    "powi": _powi,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}

#: The functions of MPFR, which round as the active context specifies.
EXACT: dict[str, Callable[..., gmpy2.mpfr]] = {
    name: getattr(gmpy2, name) for name in _APPROXIMATE if name not in ("pow", "powi", "rsqrt")
}
EXACT["pow"] = lambda x, y: x**y
EXACT["powi"] = lambda x, n: x ** gmpy2.mpz(n)
# For -0, rec_sqrt returns +inf, but 1 / x returns -inf.
EXACT["rsqrt"] = lambda x: gmpy2.rec_sqrt(x) if x else 1 / x

#: The names of all functions of (S5).
NAMES: tuple[str, ...] = tuple(sorted(_APPROXIMATE))
BINARY: frozenset[str] = frozenset({"atan2", "hypot", "pow", "powi"})
#: The names of the functions that also support f64.
DOUBLE: tuple[str, ...] = tuple(name for name in NAMES if name not in ("atan2", "hypot", "pow"))


@functools.lru_cache(maxsize=1 << 16)
def round_exact(name: str, *operands: float) -> float:
    """Returns the correctly rounded f32 value of the function `name`, computed only by MPFR."""
    with gmpy2.context(F32_CONTEXT):
        exact = [v if isinstance(v, int) else gmpy2.mpfr(v) for v in operands]
        return float(EXACT[name](*exact))


def _evaluate_double(name: str, x: F64, *rest: NDArray[np.generic]) -> F64:
    function = EXACT[name]
    with gmpy2.context(F64_CONTEXT):
        operands = zip(map(gmpy2.mpfr, x.ravel().tolist()), *(n.ravel().tolist() for n in rest), strict=True)
        result = np.fromiter((float(function(*values)) for values in operands), np.float64, count=x.size)
    result[np.isnan(result)] = np.uint64(0x7FF8000000000000).view(np.float64)
    return result.reshape(x.shape)


def evaluate(name: str, *operands: NDArray[np.generic]) -> F32 | F64:
    """Returns the correctly rounded `repro.<name>` of f32 arrays, or of an f64 array.

    Args:
        name: mnemonic of the function, one of NAMES.
        operands: f32 arrays whose shapes are equal or broadcast; for the
            functions of DOUBLE an f32 or f64 array. The exponent of `powi` is
            an integer array.

    Returns:
        An f32 array of the common shape, or an f64 array for f64. A NaN is the
        positive quiet NaN (V4).

    Raises:
        ValueError: unknown name, wrong number or element type of operands.
    """
    if name not in _APPROXIMATE:
        raise ValueError(f"expected an elementary function of (S5), got {name!r}")
    expected = 2 if name in BINARY else 1
    if len(operands) != expected:
        raise ValueError(f"{name}: expected {expected} operands, got {len(operands)}")
    arrays = np.broadcast_arrays(*operands)
    types = {"f32": np.float32} | ({"f64": np.float64} if name in DOUBLE else {})
    for position, array in enumerate(arrays):
        integer = name == "powi" and position == 1
        if integer and array.dtype.kind not in "iu":
            raise ValueError(f"powi: expected an integer exponent, got {array.dtype}")
        if not integer and array.dtype not in types.values():
            raise ValueError(f"{name}: expected {' or '.join(types)} operands, got {array.dtype}")
    if arrays[0].dtype == np.float64:
        return _evaluate_double(name, *arrays)
    shape = arrays[0].shape
    with np.errstate(all="ignore"):
        wide = [a.ravel().astype(np.int64 if a.dtype.kind in "iu" else np.float64) for a in arrays]
        y = _APPROXIMATE[name](*wide)
        result = y.astype(np.float32)
        below = (y * (1.0 - _MARGIN)).astype(np.float32)
        above = (y * (1.0 + _MARGIN)).astype(np.float32)
    undecided = (below != above) & ~np.isnan(result)
    # Below f64's normal range the error bound does not hold, but the f32 result is 0 anyway.
    for index in np.flatnonzero(undecided):
        result[index] = round_exact(name, *(w[index].item() for w in wide))
    result[np.isnan(result)] = np.uint32(0x7FC00000).view(np.float32)
    return result.reshape(shape)
