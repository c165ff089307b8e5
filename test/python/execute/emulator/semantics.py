# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The semantics of each opcode without memory access, on Python integers and gmpy2 numbers. Written from the PTX ISA
(version 9) and independently of the emulator's table, so that the two can be compared. A value is represented by its
bit pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gmpy2
from formats import FORMATS, Format
from kernels import bits_of


@dataclass(frozen=True)
class Meaning:
    """The types of an opcode's result and sources, and a function that computes the result's bit pattern from those of
    the sources."""

    result: str
    sources: tuple[str, ...]
    compute: Callable[..., int]


def signed(value: int, bits: int) -> int:
    """Interprets a bit pattern as a two's complement number."""
    return value - (1 << bits) if value >> (bits - 1) else value


def number(value: int, kind: str) -> int:
    """Returns the integer that a bit pattern represents."""
    return signed(value, bits_of(kind)) if kind[0] == "s" else value


def pattern(value: int, kind: str) -> int:
    """Returns the bit pattern of an integer in a type: its lowest bits."""
    return value % (1 << bits_of(kind))


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,  # type: ignore[operator]
    "le": lambda a, b: a <= b,  # type: ignore[operator]
    "gt": lambda a, b: a > b,  # type: ignore[operator]
    "ge": lambda a, b: a >= b,  # type: ignore[operator]
}
UNSIGNED_COMPARISONS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _quotient(a: int, b: int) -> int:
    """Returns a / b, rounded toward zero. PTX leaves a division by zero undefined; the result is then -1 (all ones)."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


def _shift_right(a: int, by: int, kind: str) -> int:
    return number(a, kind) >> min(by, bits_of(kind))


def integer_arithmetic() -> Iterator[tuple[str, Meaning]]:
    for kind in INTEGERS:
        bits = bits_of(kind)

        def op(
            name: str, arity: int, compute: Callable[..., int], kind: str = kind, result: str = ""
        ) -> tuple[str, Meaning]:
            kinds = (kind,) * arity
            return f"{name}.{kind}", Meaning(
                result or kind,
                kinds,
                lambda *v: pattern(compute(*(number(x, kind) for x in v)), result or kind),
            )

        yield op("add", 2, lambda a, b: a + b)
        yield op("sub", 2, lambda a, b: a - b)
        yield op("mul.lo", 2, lambda a, b: a * b)
        yield op("mul.hi", 2, lambda a, b, bits=bits: a * b >> bits)
        yield op("mad.lo", 3, lambda a, b, c: a * b + c)
        yield op("mad.hi", 3, lambda a, b, c, bits=bits: (a * b >> bits) + c)
        yield op("div", 2, _quotient)
        yield op("rem", 2, _remainder)
        yield op("min", 2, min)
        yield op("max", 2, max)
        yield op("sad", 3, lambda a, b, c: c + abs(a - b))
        yield (
            f"shr.{kind}",
            Meaning(kind, (kind, "u32"), lambda a, by, kind=kind: pattern(_shift_right(a, by, kind), kind)),
        )
        if kind[0] == "s":
            yield op("abs", 1, abs)
            yield op("neg", 1, lambda a: -a)
        if bits < 64:
            wide = f"{kind[0]}{2 * bits}"
            yield op("mul.wide", 2, lambda a, b: a * b, result=wide)
            yield (
                f"mad.wide.{kind}",
                Meaning(
                    wide,
                    (kind, kind, wide),
                    lambda a, b, c, kind=kind, wide=wide: pattern(number(a, kind) * number(b, kind) + c, wide),
                ),
            )


def integer_comparisons() -> Iterator[tuple[str, Meaning]]:
    for kind in (*INTEGERS, "b16", "b32", "b64"):
        names = dict(COMPARISONS)
        if kind[0] == "b":
            names = {name: COMPARISONS[name] for name in ("eq", "ne")}
        if kind[0] == "u":
            names |= {name: COMPARISONS[same] for name, same in UNSIGNED_COMPARISONS.items()}
        for name, compare in names.items():

            def holds(a: int, b: int, compare=compare, kind: str = kind) -> bool:  # type: ignore[no-untyped-def]
                return compare(number(a, kind), number(b, kind))

            yield from comparison(name, kind, holds)
        yield f"selp.{kind}", Meaning(kind, (kind, kind, "pred"), lambda a, b, c: a if c else b)
        yield f"mov.{kind}", Meaning(kind, (kind,), lambda a: a)


def comparison(name: str, kind: str, holds: Callable[[int, int], bool]) -> Iterator[tuple[str, Meaning]]:
    """Yields the opcodes of one comparison with their meanings: setp, and set with an integer result."""
    yield f"setp.{name}.{kind}", Meaning("pred", (kind, kind), lambda a, b: int(holds(a, b)))
    if kind in ("f16", "bf16"):
        return
    for result in ("u32", "s32"):
        yield (
            f"set.{name}.{result}.{kind}",
            Meaning(result, (kind, kind), lambda a, b: 0xFFFFFFFF if holds(a, b) else 0),
        )


def bit_operations() -> Iterator[tuple[str, Meaning]]:
    for kind in ("pred", "b16", "b32", "b64"):
        top = 1 if kind == "pred" else (1 << bits_of(kind)) - 1
        yield f"and.{kind}", Meaning(kind, (kind, kind), lambda a, b: a & b)
        yield f"or.{kind}", Meaning(kind, (kind, kind), lambda a, b: a | b)
        yield f"xor.{kind}", Meaning(kind, (kind, kind), lambda a, b: a ^ b)
        yield f"not.{kind}", Meaning(kind, (kind,), lambda a, top=top: a ^ top)
    yield "mov.pred", Meaning("pred", ("pred",), lambda a: a)
    for kind in ("b16", "b32", "b64"):
        bits = bits_of(kind)
        yield f"cnot.{kind}", Meaning(kind, (kind,), lambda a: int(a == 0))
        yield (
            f"shl.{kind}",
            Meaning(kind, (kind, "u32"), lambda a, by, kind=kind, bits=bits: pattern(a << min(by, bits), kind)),
        )
        yield f"shr.{kind}", Meaning(kind, (kind, "u32"), lambda a, by, bits=bits: a >> min(by, bits))
    for kind in ("b32", "b64"):
        bits = bits_of(kind)
        yield f"popc.{kind}", Meaning("u32", (kind,), lambda a: a.bit_count())
        yield f"clz.{kind}", Meaning("u32", (kind,), lambda a, bits=bits: bits - a.bit_length())
        yield f"brev.{kind}", Meaning(kind, (kind,), lambda a, bits=bits: int(f"{a:0{bits}b}"[::-1], 2))
        yield f"bfi.{kind}", Meaning(kind, (kind, kind, "u32", "u32"), lambda *v, bits=bits: _insert(*v, bits))
    for kind in ("u32", "s32", "u64", "s64"):
        yield f"bfind.{kind}", Meaning("u32", (kind,), lambda a, kind=kind: _find(a, kind) % (1 << 32))
        yield (
            f"bfind.shiftamt.{kind}",
            Meaning(
                "u32",
                (kind,),
                lambda a, kind=kind: (bits_of(kind) - 1 - _find(a, kind)) if _find(a, kind) >= 0 else 0xFFFFFFFF,
            ),
        )
        yield f"bfe.{kind}", Meaning(kind, (kind, "u32", "u32"), lambda *v, kind=kind: _extract(*v, kind))
    yield (
        "bmsk.clamp.b32",
        Meaning("u32", ("u32", "u32"), lambda a, b: (((1 << min(b, 32)) - 1) << min(a, 32)) % (1 << 32)),
    )
    yield "bmsk.wrap.b32", Meaning("u32", ("u32", "u32"), lambda a, b: (((1 << (b & 31)) - 1) << (a & 31)) % (1 << 32))
    yield "prmt.b32", Meaning("u32", ("u32", "u32", "u32"), _permute)
    yield "lop3.b32", Meaning("u32", ("u32", "u32", "u32", "u32"), _lookup)
    for mode in ("wrap", "clamp"):
        amount = (lambda c: c & 31) if mode == "wrap" else (lambda c: min(c, 32))
        yield (
            f"shf.l.{mode}.b32",
            Meaning(
                "u32",
                ("u32", "u32", "u32"),
                lambda a, b, c, amount=amount: (((b << 32 | a) << amount(c)) >> 32) % (1 << 32),
            ),
        )
        yield (
            f"shf.r.{mode}.b32",
            Meaning(
                "u32", ("u32", "u32", "u32"), lambda a, b, c, amount=amount: ((b << 32 | a) >> amount(c)) % (1 << 32)
            ),
        )
    for a_kind in ("s32", "u32"):
        for b_kind in ("s32", "u32"):

            def dot(a: int, b: int, c: int, a_kind: str = a_kind, b_kind: str = b_kind) -> int:
                for i in range(4):
                    x, y = a >> 8 * i & 255, b >> 8 * i & 255
                    c += (signed(x, 8) if a_kind == "s32" else x) * (signed(y, 8) if b_kind == "s32" else y)
                return c % (1 << 32)

            yield f"dp4a.{a_kind}.{b_kind}", Meaning("u32", ("u32", "u32", "u32"), dot)


def _find(a: int, kind: str) -> int:
    """Returns the position of the most significant bit that differs from the sign bit; -1 if there is none."""
    value = number(a, kind)
    return (~value if value < 0 else value).bit_length() - 1


def _insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = position & 255, length & 255
    result = b
    for i in range(length):
        if position + i < bits:
            place = 1 << (position + i)
            result = result & ~place | (place if a >> i & 1 else 0)
    return result


def _extract(a: int, position: int, length: int, kind: str) -> int:
    bits = bits_of(kind)
    position, length, last = position & 255, length & 255, bits - 1
    fill = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, last) & 1
    result = 0
    for i in range(bits):
        bit = a >> (position + i) & 1 if i < length and position + i <= last else fill
        result |= bit << i
    return result


def _permute(a: int, b: int, c: int) -> int:
    data = (a | b << 32).to_bytes(8, "little")
    result = []
    for i in range(4):
        choice = c >> 4 * i & 15
        byte = data[choice & 7]
        result.append((255 if byte & 128 else 0) if choice & 8 else byte)
    return int.from_bytes(bytes(result), "little")


def _lookup(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for i in range(32):
        row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)
        result |= (table >> row & 1) << i
    return result


def conversions() -> Iterator[tuple[str, Meaning]]:
    for result in INTEGERS:
        for source in INTEGERS:
            yield (
                f"cvt.{result}.{source}",
                Meaning(
                    result,
                    (source,),
                    lambda a, result=result, source=source: pattern(number(a, source), result),
                ),
            )
    for name, form in FORMATS.items():
        for kind in INTEGERS:
            if name == "bf16":
                continue
            yield f"cvt.rn.{name}.{kind}", Meaning(name, (kind,), lambda a, f=form, k=kind: _from_integer(a, f, k))
            for mode in ROUNDINGS:
                yield (
                    f"cvt.{mode}.{kind}.{name}",
                    Meaning(kind, (name,), lambda a, name=name, kind=kind, mode=mode: _to_integer(a, name, kind, mode)),
                )
        if name in ("f32", "f64"):
            for mode, rounding in ROUNDINGS.items():
                yield (
                    f"cvt.{mode}.{name}.{name}",
                    Meaning(name, (name,), lambda a, f=form, r=rounding: f.encode(_keep_sign(r, f.decode(a)))),
                )
    for result, source in [("f64", "f32"), ("f32", "f16"), ("f64", "f16"), ("f32", "bf16"), ("f64", "bf16")]:
        yield f"cvt.{result}.{source}", Meaning(result, (source,), lambda a, r=result, s=source: _convert(a, r, s))
    for result, source in [("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64")]:
        yield f"cvt.rn.{result}.{source}", Meaning(result, (source,), lambda a, r=result, s=source: _convert(a, r, s))
    for half in ("f16", "bf16"):
        yield (
            f"cvt.rn.{half}x2.f32",
            Meaning(
                "u32",
                ("f32", "f32"),
                lambda a, b, half=half: _convert(a, half, "f32") << 16 | _convert(b, half, "f32"),
            ),
        )


def _convert(a: int, result: str, source: str) -> int:
    return FORMATS[result].round(FORMATS[source].decode(a))


def _from_integer(a: int, form: Format, kind: str) -> int:
    with gmpy2.context(precision=64):
        exact = gmpy2.mpfr(number(a, kind))
    return form.round(exact)


ROUNDINGS: dict[str, Callable[[gmpy2.mpfr], gmpy2.mpfr]] = {
    "rni": gmpy2.rint,  # rounds to nearest even in gmpy2's default context
    "rzi": gmpy2.rint_trunc,
    "rmi": gmpy2.rint_floor,
    "rpi": gmpy2.rint_ceil,
}


def _keep_sign(rounding: Callable[[gmpy2.mpfr], gmpy2.mpfr], value: gmpy2.mpfr) -> gmpy2.mpfr:
    if not gmpy2.is_finite(value):
        return value
    with gmpy2.context(precision=64):
        result = rounding(value)
        return gmpy2.copy_sign(result, value)


def _to_integer(a: int, source: str, kind: str, mode: str) -> int:
    bits = bits_of(kind)
    value = FORMATS[source].decode(a)
    if gmpy2.is_nan(value):
        # "Zero if source is not .f64 and destination is not .s64, .u64, .f64. Otherwise 1 << (BitWidth(dst) - 1)."
        return 0 if source != "f64" and bits < 64 else 1 << (bits - 1)
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    if gmpy2.is_infinite(value):
        return pattern(most if value > 0 else least, kind)
    return pattern(min(max(int(_keep_sign(ROUNDINGS[mode], value)), least), most), kind)


def float_arithmetic() -> Iterator[tuple[str, Meaning]]:
    operations: dict[str, tuple[int, Callable[..., gmpy2.mpfr]]] = {
        "add.rn": (2, gmpy2.add),
        "sub.rn": (2, gmpy2.sub),
        "mul.rn": (2, gmpy2.mul),
        "fma.rn": (3, gmpy2.fma),
        "neg": (1, lambda a: -a),
        "abs": (1, abs),
        "min": (2, lambda a, b: _extremum(a, b, -1, False)),
        "max": (2, lambda a, b: _extremum(a, b, 1, False)),
    }
    wide = {"div.rn": (2, gmpy2.div), "sqrt.rn": (1, gmpy2.sqrt), "rcp.rn": (1, lambda a: gmpy2.div(gmpy2.mpfr(1), a))}
    nan_wins = {
        "min.NaN": (2, lambda a, b: _extremum(a, b, -1, True)),
        "max.NaN": (2, lambda a, b: _extremum(a, b, 1, True)),
    }
    for name, form in FORMATS.items():
        known = operations | (nan_wins if name != "f64" else {}) | (wide if name in ("f32", "f64") else {})
        for operation, (arity, compute) in known.items():

            def apply(*v: int, form: Format = form, compute: Callable[..., gmpy2.mpfr] = compute) -> int:
                values = [form.decode(x) for x in v]
                with form.context:
                    return form.encode(compute(*values))

            yield f"{operation}.{name}", Meaning(name, (name,) * arity, apply)
            packed = f"{name}x2"
            if operation in ("add.rn", "sub.rn", "mul.rn", "fma.rn") and name != "f64":
                bits, mask = form.bits, (1 << form.bits) - 1
                yield (
                    f"{operation}.{packed}",
                    Meaning(
                        packed,
                        (packed,) * arity,
                        lambda *v, apply=apply, bits=bits, mask=mask: (
                            apply(*(x & mask for x in v)) | apply(*(x >> bits for x in v)) << bits
                        ),
                    ),
                )
        yield from float_comparisons(name, form)
    for name in ("f32", "f64"):
        form = FORMATS[name]
        top = 1 << (form.bits - 1)
        yield f"copysign.{name}", Meaning(name, (name, name), lambda a, b, top=top: (a & top) | (b & (top - 1)))
        tests: dict[str, Callable[[gmpy2.mpfr, gmpy2.mpfr], bool]] = {
            "finite": lambda x, least: gmpy2.is_finite(x),
            "infinite": lambda x, least: gmpy2.is_infinite(x),
            "number": lambda x, least: not gmpy2.is_nan(x),
            "notanumber": lambda x, least: gmpy2.is_nan(x),
            "normal": lambda x, least: gmpy2.is_finite(x) and abs(x) >= least,
            "subnormal": lambda x, least: abs(x) < least,  # includes zero
        }
        for test, holds in tests.items():
            yield (
                f"testp.{test}.{name}",
                Meaning(
                    "pred",
                    (name,),
                    lambda a, form=form, holds=holds: int(holds(form.decode(a), form.decode(1 << form.fraction_bits))),
                ),
            )
        yield f"mov.{name}", Meaning(name, (name,), lambda a: a)
        yield f"selp.{name}", Meaning(name, (name, name, "pred"), lambda a, b, c: a if c else b)


def _extremum(a: gmpy2.mpfr, b: gmpy2.mpfr, sign: int, nan_wins: bool) -> gmpy2.mpfr:
    """Returns the smaller (`sign` is -1) or the larger number (`sign` is 1); -0 counts as less than +0. If one of the
    numbers is a NaN, returns the NaN if `nan_wins`, else the other number."""
    if gmpy2.is_nan(a) or gmpy2.is_nan(b):
        return gmpy2.nan() if nan_wins or (gmpy2.is_nan(a) and gmpy2.is_nan(b)) else b if gmpy2.is_nan(a) else a
    if a == 0 and b == 0:
        return a if gmpy2.is_signed(a) == (sign < 0) else b
    return a if (a > b) == (sign > 0) else b


def float_comparisons(name: str, form: Format) -> Iterator[tuple[str, Meaning]]:
    for test, compare in COMPARISONS.items():
        for unordered in (False, True):

            def holds(a: int, b: int, compare=compare, unordered: bool = unordered) -> bool:  # type: ignore[no-untyped-def]
                x, y = form.decode(a), form.decode(b)
                return unordered if gmpy2.is_nan(x) or gmpy2.is_nan(y) else compare(x, y)

            yield from comparison(test + "u" * unordered, name, holds)
    for test, wanted in (("num", False), ("nan", True)):
        yield from comparison(
            test,
            name,
            lambda a, b, wanted=wanted: (gmpy2.is_nan(form.decode(a)) or gmpy2.is_nan(form.decode(b))) == wanted,
        )


def meanings() -> dict[str, Meaning]:
    """Returns the meaning of each opcode that does not access memory and that is a PTX statement of its own."""
    return dict(
        entry
        for group in (
            integer_arithmetic,
            integer_comparisons,
            bit_operations,
            conversions,
            float_arithmetic,
        )
        for entry in group()
    )
