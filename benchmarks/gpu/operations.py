# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lists the PTX operations that compiled programs use, with C code that computes their expected results.

In `ptx`, {d} is the destination, {a}, {b} and {c} are the operands, and {p} and {q} are predicates; %x, %y, %d, %b16_7
and %b16_8 are free registers; %cell is the address of 8 bytes of shared memory. In `c`, a, b, c are the operands, and
arithmetic follows IEEE 754 fully (the compiler fuses no operations). The C is written from the PTX manual and
docs/reference/numerics.md, not from the compiler, so that the comparison is independent.
"""

from __future__ import annotations

from dataclasses import dataclass

C_TYPES = {
    "f32": "float",
    "f64": "double",
    "s32": "int32_t",
    "u32": "uint32_t",
    "s64": "int64_t",
    "u64": "uint64_t",
    "b16": "uint16_t",
}


@dataclass(frozen=True)
class Operation:
    """One operation: its name, the types of its operands and result, and its code in PTX and C."""

    name: str
    operands: tuple[str, ...]
    result: str
    ptx: str
    c: str
    architecture: int = 75  # the first compute capability that has the operation, times 10


def _float_operations() -> list[Operation]:
    found = []
    for t, suffix in (("f32", "f"), ("f64", "")):
        for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
            found.append(Operation(f"{name}.rn.{t}", (t, t), t, f"{name}.rn.{t} {{d}}, {{a}}, {{b}};", f"a {sign} b"))
        found.append(
            Operation(f"fma.rn.{t}", (t, t, t), t, f"fma.rn.{t} {{d}}, {{a}}, {{b}}, {{c}};", f"fma{suffix}(a, b, c)")
        )
        found.append(Operation(f"sqrt.rn.{t}", (t,), t, f"sqrt.rn.{t} {{d}}, {{a}};", f"sqrt{suffix}(a)"))
        found.append(Operation(f"rcp.rn.{t}", (t,), t, f"rcp.rn.{t} {{d}}, {{a}};", "1 / a"))
        found.append(Operation(f"neg.{t}", (t,), t, f"neg.{t} {{d}}, {{a}};", "-a"))
        found.append(Operation(f"abs.{t}", (t,), t, f"abs.{t} {{d}}, {{a}};", f"fabs{suffix}(a)"))
        for name, wanted in (("min", "a < b"), ("max", "a > b")):
            # If one operand is a NaN, the result is the other operand; -0 counts as less than +0.
            other = f"a == b ? ({'' if name == 'min' else '!'}signbit(a) ? a : b) : b"
            c = f"isnan(a) ? b : isnan(b) ? a : {wanted} ? a : {other}"
            found.append(Operation(f"{name}.{t}", (t, t), t, f"{name}.{t} {{d}}, {{a}}, {{b}};", c))
        for name, sign in (("rmi", "floor"), ("rpi", "ceil"), ("rzi", "trunc"), ("rni", "rint")):
            ptx = f"cvt.{name}.{t}.{t} {{d}}, {{a}};"
            found.append(Operation(f"cvt.{name}.{t}.{t}", (t,), t, ptx, f"{sign}{suffix}(a)"))
        for name, sign in (("eq", "=="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
            for unordered in ("", "u"):
                ptx = f"setp.{name}{unordered}.{t} {{p}}, {{a}}, {{b}};  selp.u32 {{d}}, 1, 0, {{p}};"
                c = f"a {sign} b" + (" || isnan(a) || isnan(b)" if unordered else "")
                found.append(Operation(f"setp.{name}{unordered}.{t}", (t, t), "u32", ptx, c))
        # PTX's copysign returns b with the sign of a; C's copysign returns a with the sign of b. The sign of a NaN is
        # not compared.
        ptx = f"copysign.{t} {{d}}, {{a}}, {{b}};"
        found.append(Operation(f"copysign.{t}", (t, t), t, ptx, f"copysign{suffix}(b, a)"))
        for name, c in (
            ("num", "!isnan(a) && !isnan(b)"),
            ("neu", "!(a == b)"),
            ("ne", "a < b || a > b"),
            ("nan", "isnan(a) || isnan(b)"),
        ):
            ptx = f"setp.{name}.{t} {{p}}, {{a}}, {{b}};  selp.u32 {{d}}, 1, 0, {{p}};"
            found.append(Operation(f"setp.{name}.{t}", (t, t), "u32", ptx, c))
    for name, wanted in (("min", "a < b"), ("max", "a > b")):
        other = f"a == b ? ({'' if name == 'min' else '!'}signbit(a) ? a : b) : b"
        c = f"isnan(a) ? a : isnan(b) ? b : {wanted} ? a : {other}"
        ptx = f"{name}.NaN.f32 {{d}}, {{a}}, {{b}};"
        found.append(Operation(f"{name}.NaN.f32", ("f32", "f32"), "f32", ptx, c, architecture=80))
    return found


def _conversions() -> list[Operation]:
    found = [
        Operation("cvt.f64.f32", ("f32",), "f64", "cvt.f64.f32 {d}, {a};", "(double)a"),
        Operation("cvt.rn.f32.f64", ("f64",), "f32", "cvt.rn.f32.f64 {d}, {a};", "(float)a"),
        Operation("cvt.f32.f16", ("b16",), "f32", "cvt.f32.f16 {d}, {a};", "from_half(a)"),
        Operation("cvt.f64.f16", ("b16",), "f64", "cvt.f64.f16 {d}, {a};", "from_half(a)"),
        Operation("cvt.rn.f16.f32", ("f32",), "b16", "cvt.rn.f16.f32 {d}, {a};", "to_half(a)"),
        Operation("cvt.rn.f16.f64", ("f64",), "b16", "cvt.rn.f16.f64 {d}, {a};", "to_half(a)"),
        Operation("cvt.rn.bf16.f32", ("f32",), "b16", "cvt.rn.bf16.f32 {d}, {a};", "to_bfloat(a)", architecture=80),
    ]
    for t in ("f32", "f64"):
        for i in ("s32", "u32", "s64", "u64"):
            name = f"cvt.rn.{t}.{i}"
            found.append(Operation(name, (i,), t, f"{name} {{d}}, {{a}};", f"({C_TYPES[t]})a"))
            # PTX saturates numbers out of range. It converts a NaN to 0, except from f64 or to 64 bits; therefore
            # compiled code sets the result for a NaN to 0 itself, and so does `ptx`.
            name = f"cvt.rzi.{i}.{t}"
            ptx = f"{name} {{d}}, {{a}};  setp.nan.{t} {{p}}, {{a}}, {{a}};  selp.{_bits(i)} {{d}}, 0, {{d}}, {{p}};"
            found.append(Operation(name, (t,), i, ptx, f"to_{i}((double)a)"))
    found.append(Operation("cvt.rn.f32.u16", ("b16",), "f32", "cvt.rn.f32.u16 {d}, {a};", "(float)a"))
    for narrow, wide in (("s32", "s64"), ("u32", "u64")):
        found.append(
            Operation(
                f"cvt.{wide}.{narrow}", (narrow,), wide, f"cvt.{wide}.{narrow} {{d}}, {{a}};", f"({C_TYPES[wide]})a"
            )
        )
        found.append(
            Operation(
                f"cvt.{narrow}.{wide}", (wide,), narrow, "cvt.u32.u64 {d}, {a};", f"({C_TYPES[narrow]})(uint64_t)a"
            )
        )
    return found


def _integer_operations() -> list[Operation]:
    found = []
    for bits, wide in (("32", "__int128"), ("64", "__int128")):
        for sign in ("s", "u"):
            t = f"{sign}{bits}"
            u, c_type = f"uint{bits}_t", C_TYPES[t]
            product = f"(({'unsigned ' if sign == 'u' else ''}{wide})a * b) >> {bits}"
            pairs = [
                ("add", f"({u})a + ({u})b"),
                ("sub", f"({u})a - ({u})b"),
                ("mul.lo", f"({u})a * ({u})b"),
                ("mul.hi", f"({c_type})({product})"),
                ("min", "a < b ? a : b"),
                ("max", "a > b ? a : b"),
            ]
            for name, c in pairs:
                found.append(
                    Operation(f"{name}.{t}", (t, t), t, f"{name}.{t} {{d}}, {{a}}, {{b}};", f"({c_type})({c})")
                )
            # In PTX, the quotient by 0, and that of the least number by -1, are undefined; compiled code replaces these
            # results. Here `ptx` and `c` divide by 1 instead.
            guard = f"setp.eq.{t} {{p}}, {{b}}, 0;  selp.b{bits} {{b}}, 1, {{b}}, {{p}};  "
            c_guard = "(b == 0 ? 1 : b)"
            if sign == "s":
                guard += f"setp.eq.{t} {{p}}, {{b}}, -1;  selp.b{bits} {{b}}, 1, {{b}}, {{p}};  "
                c_guard = "(b == 0 || b == -1 ? 1 : b)"
                found.append(Operation(f"neg.{t}", (t,), t, f"neg.{t} {{d}}, {{a}};", f"({c_type})(0 - ({u})a)"))
            for name, symbol in (("div", "/"), ("rem", "%")):
                ptx = f"{guard}{name}.{t} {{d}}, {{a}}, {{b}};"
                found.append(Operation(f"{name}.{t}", (t, t), t, ptx, f"a {symbol} {c_guard}"))
            # A right shift by the width or more gives 0, or copies of the sign if the number is signed.
            fill = f"(a < 0 ? ({c_type})-1 : 0)" if sign == "s" else "0"
            ptx = f"shr.{t} {{d}}, {{a}}, {{b}};"
            found.append(Operation(f"shr.{t}", (t, "u32"), t, ptx, f"b < {bits} ? a >> b : {fill}"))
            for name, symbol in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
                ptx = f"setp.{name}.{t} {{p}}, {{a}}, {{b}};  selp.u32 {{d}}, 1, 0, {{p}};"
                found.append(Operation(f"setp.{name}.{t}", (t, t), "u32", ptx, f"a {symbol} b"))
            ptx = f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};"
            found.append(Operation(f"mad.lo.{t}", (t, t, t), t, ptx, f"({c_type})(({u})a * ({u})b + ({u})c)"))
        u = f"u{bits}"
        # Extracts a bit field; position and length may be any numbers up to 127. Bits beyond the width read as zero.
        ptx = f"and.b32 {{b}}, {{b}}, 127;  and.b32 {{c}}, {{c}}, 127;  bfe.{u} {{d}}, {{a}}, {{b}}, {{c}};"
        c = "field((uint64_t)a, b & 127, c & 127)"
        found.append(Operation(f"bfe.{u}", (u, "u32", "u32"), u, ptx, c))
        ptx = ptx.replace(u, f"s{bits}")
        c = f"signed_field((uint64_t)a, {bits}, b & 127, c & 127)"
        found.append(Operation(f"bfe.s{bits}", (f"s{bits}", "u32", "u32"), f"s{bits}", ptx, c))
        found += [
            Operation(f"shl.b{bits}", (u, "u32"), u, f"shl.b{bits} {{d}}, {{a}}, {{b}};", f"b < {bits} ? a << b : 0"),
            Operation(f"and.b{bits}", (u, u), u, f"and.b{bits} {{d}}, {{a}}, {{b}};", "a & b"),
            Operation(f"or.b{bits}", (u, u), u, f"or.b{bits} {{d}}, {{a}}, {{b}};", "a | b"),
            Operation(f"xor.b{bits}", (u, u), u, f"xor.b{bits} {{d}}, {{a}}, {{b}};", "a ^ b"),
            Operation(f"not.b{bits}", (u,), u, f"not.b{bits} {{d}}, {{a}};", "~a"),
            Operation(f"clz.b{bits}", (u,), "u32", f"clz.b{bits} {{d}}, {{a}};", f"leading_zeros((uint64_t)a, {bits})"),
            Operation(f"popc.b{bits}", (u,), "u32", f"popc.b{bits} {{d}}, {{a}};", "__builtin_popcountll((uint64_t)a)"),
        ]
    for name, c in (
        ("eq", "x == y"),
        ("lt", "x < y"),
        ("gtu", "!(x <= y)"),
        ("neu", "!(x == y)"),
        ("nan", "x != x || y != y"),
        ("num", "x == x && y == y"),
    ):
        ptx = f"setp.{name}.f16 {{p}}, {{a}}, {{b}};  selp.u32 {{d}}, 1, 0, {{p}};"
        c = f"({{ float x = from_half(a), y = from_half(b); {c}; }})"
        found.append(Operation(f"setp.{name}.f16", ("b16", "b16"), "u32", ptx, c))
    for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
        found.append(
            Operation(f"{name}.b16", ("b16", "b16"), "b16", f"{name}.b16 {{d}}, {{a}}, {{b}};", f"a {symbol} b")
        )
    found += [
        Operation("shl.b16", ("b16", "u32"), "b16", "shl.b16 {d}, {a}, {b};", "b < 16 ? (uint32_t)a << b : 0"),
        Operation("shr.u16", ("b16", "u32"), "b16", "shr.u16 {d}, {a}, {b};", "b < 16 ? a >> b : 0"),
        Operation("cvt.u16.u32", ("u32",), "b16", "cvt.u16.u32 {d}, {a};", "a"),
        Operation("cvt.u16.u64", ("u64",), "b16", "cvt.u16.u64 {d}, {a};", "a"),
        Operation("cvt.u32.u16", ("b16",), "u32", "cvt.u32.u16 {d}, {a};", "a"),
        Operation("cvt.u64.u16", ("b16",), "u64", "cvt.u64.u16 {d}, {a};", "a"),
        Operation("add.s16", ("b16", "b16"), "b16", "add.s16 {d}, {a}, {b};", "a + b"),
        Operation("max.s16", ("b16", "b16"), "b16", "max.s16 {d}, {a}, {b};", "(int16_t)a > (int16_t)b ? a : b"),
        Operation("neg.s16", ("b16",), "b16", "neg.s16 {d}, {a};", "-a"),
        Operation("cvt.s16.s8", ("b16",), "b16", "cvt.s16.s8 {d}, {a};", "(uint16_t)(int8_t)a"),
        Operation("cvt.s32.s16", ("b16",), "s32", "cvt.s32.s16 {d}, {a};", "(int16_t)a"),
    ]
    for name, c in (
        ("eq.b16", "a == b"),
        ("ne.b16", "a != b"),
        ("lt.u16", "a < b"),
        ("gt.u16", "a > b"),
        ("lt.s16", "(int16_t)a < (int16_t)b"),
    ):
        ptx = f"setp.{name} {{p}}, {{a}}, {{b}};  selp.u32 {{d}}, 1, 0, {{p}};"
        found.append(Operation(f"setp.{name}", ("b16", "b16"), "u32", ptx, c))
    found += [
        Operation("brev.b32", ("u32",), "u32", "brev.b32 {d}, {a};", "reversed(a) >> 32"),
        Operation("brev.b64", ("u64",), "u64", "brev.b64 {d}, {a};", "reversed(a)"),
        Operation(
            "shf.l.wrap.b32",
            ("u32", "u32", "u32"),
            "u32",
            "shf.l.wrap.b32 {d}, {a}, {b}, {c};",
            "(((uint64_t)b << 32 | a) << (c & 31)) >> 32",
        ),
        Operation(
            "shf.r.wrap.b32",
            ("u32", "u32", "u32"),
            "u32",
            "shf.r.wrap.b32 {d}, {a}, {b}, {c};",
            "((uint64_t)b << 32 | a) >> (c & 31)",
        ),
        Operation("prmt.b32", ("u32", "u32", "u32"), "u32", "prmt.b32 {d}, {a}, {b}, {c};", "permuted(a, b, c)"),
        Operation("abs.s64", ("s64",), "s64", "abs.s64 {d}, {a};", "(int64_t)(a < 0 ? 0 - (uint64_t)a : (uint64_t)a)"),
        Operation("mul.wide.s16", ("b16", "b16"), "s32", "mul.wide.s16 {d}, {a}, {b};", "(int16_t)a * (int16_t)b"),
        Operation("mul.wide.u16", ("b16", "b16"), "u32", "mul.wide.u16 {d}, {a}, {b};", "(uint32_t)a * b"),
        Operation("mul.wide.u32", ("u32", "u32"), "u64", "mul.wide.u32 {d}, {a}, {b};", "(uint64_t)a * b"),
        Operation("mul.wide.s32", ("s32", "s32"), "s64", "mul.wide.s32 {d}, {a}, {b};", "(int64_t)a * b"),
    ]
    return found


def _stores() -> list[Operation]:
    """Returns operations that add and then store the low bits of the sum. Before the store they have a mov, as compiled
    code has.

    Without the mov, ptxas would convert the sum to an integer and store the integer. The bits of a NaN are ignored.
    """
    found = []
    for bits in (8, 16):
        ptx = "add.rn.f32 %x, {a}, {b};  cvt.u16.u32 %b16_7, %x;  mov.b16 %b16_8, %b16_7;  "
        ptx += f"st.shared.b{bits} [%cell], %b16_8;  ld.shared.u{bits} %b16_8, [%cell];  cvt.u32.u16 {{d}}, %b16_8;  "
        ptx += "setp.nan.f32 {p}, %x, %x;  selp.b32 {d}, 0, {d}, {p};"
        c = f"({{ float r = a + b; isnan(r) ? 0 : bits_f32(r) & {(1 << bits) - 1}; }})"
        found.append(Operation(f"st.b{bits} of f32", ("f32", "f32"), "u32", ptx, c))
    ptx = "add.rn.f64 %d, {a}, {b};  cvt.u32.u64 %x, %d;  mov.b32 %y, %x;  st.shared.b32 [%cell], %y;  "
    ptx += "ld.shared.b32 {d}, [%cell];  setp.nan.f64 {p}, %d, %d;  selp.b32 {d}, 0, {d}, {p};"
    c = "({ double r = a + b; isnan(r) ? 0 : (uint32_t)bits_f64(r); })"
    found.append(Operation("st.b32 of f64", ("f64", "f64"), "u32", ptx, c))
    return found


def _bits(t: str) -> str:
    return f"b{t[1:]}"


OPERATIONS = tuple(_float_operations() + _conversions() + _integer_operations() + _stores())
"""All operations, in a fixed order."""
