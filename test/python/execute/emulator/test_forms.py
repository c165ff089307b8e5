# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PTX statements that correspond to several rows of the emulator's table: lists of registers, carries, wide registers,
guards, constants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from formats import FORMATS
from kernels import dtype_of, entry, launch, load_addresses, run_instruction
from patterns import operands
from repro_mlir.execute import emulator
from semantics import COMPARISONS, number, pattern


def check(lines: str, results: list[str], sources: list[str], compute, seed: int = 0) -> None:
    """Runs `lines` on test operands and compares the results with those of `compute`, which maps the bit patterns of
    the sources to those of the results."""
    arrays = operands(sources, seed=seed)
    got = run_instruction(lines, results, arrays, sources)
    rows = [compute(*row) for row in zip(*(array.tolist() for array in arrays), strict=True)]
    for index, kind in enumerate(results):
        want = np.array([row[index] for row in rows], dtype_of(kind))
        assert np.array_equal(got[index], want), lines


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_conversions_in_wider_registers(source: str) -> None:
    bits = int(source[1:])
    for result in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        for from_bits, to_bits in itertools.product((16, 32, 64), (16, 32, 64)):
            if from_bits < bits or to_bits < int(result[1:]):
                continue

            def convert(a: int, result: str = result, to_bits: int = to_bits) -> tuple[int]:
                value = number(a % (1 << bits), source)
                return (number(pattern(value, result), result) % (1 << to_bits),)

            check(f"  cvt.{result}.{source} %d0, %s0;", [f"b{to_bits}"], [f"b{from_bits}"], convert)


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16"])
@pytest.mark.parametrize("result", ["f16", "f32", "f64"])
def test_float_from_small_integer(source: str, result: str) -> None:
    bits = int(source[1:])
    for register in ("b16", "b32", "b64"):
        check(
            f"  cvt.rn.{result}.{source} %d0, %s0;",
            [result],
            [register],
            lambda a: (FORMATS[result].round_float(float(number(a % (1 << bits), source))),),
        )


def test_moves_of_lists() -> None:
    check("  mov.b32 %d0, {%s0, %s1};", ["b32"], ["b16", "b16"], lambda a, b: (a | b << 16,))
    check("  mov.b64 %d0, {%s0, %s1};", ["b64"], ["b32", "b32"], lambda a, b: (a | b << 32,))
    check(
        "  mov.b64 %d0, {%s0, %s1, %s2, %s3};",
        ["b64"],
        ["b16"] * 4,
        lambda a, b, c, d: (a | b << 16 | c << 32 | d << 48,),
    )
    check("  mov.b32 {%d0, %d1}, %s0;", ["b16", "b16"], ["b32"], lambda a: (a & 0xFFFF, a >> 16))
    check("  mov.b64 {%d0, %d1}, %s0;", ["b32", "b32"], ["b64"], lambda a: (a & 0xFFFFFFFF, a >> 32))
    check("  mov.b64 {%d0, _}, %s0;", ["b32"], ["b64"], lambda a: (a & 0xFFFFFFFF,))
    check("  mov.b64 {_, %d0}, %s0;", ["b32"], ["b64"], lambda a: (a >> 32,))
    check(
        "  mov.b64 {%d0, %d1, %d2, %d3}, %s0;",
        ["b16"] * 4,
        ["b64"],
        lambda a: tuple(a >> 16 * i & 0xFFFF for i in range(4)),
    )
    check("  mov.b64 %d0, {%s0, 7};", ["b64"], ["b32"], lambda a: (a | 7 << 32,))


def test_registers_of_a_scope() -> None:
    check(
        "  { .reg .b32 tmp; mov.b64 {tmp, %d0}, %s0; }\n  { .reg .b32 tmp; mov.b64 {%d1, tmp}, %s0; }",
        ["b32", "b32"],
        ["b64"],
        lambda a: (a >> 32, a & 0xFFFFFFFF),
    )


@pytest.mark.parametrize("bits", [32, 64])
def test_carries(bits: int) -> None:
    kind, limbs = f"u{bits}", 3
    sources = [kind] * (2 * limbs)

    def split(total: int) -> tuple[int, ...]:
        return tuple(total >> bits * i & (1 << bits) - 1 for i in range(limbs))

    def join(words: tuple[int, ...]) -> int:
        return sum(word << bits * i for i, word in enumerate(words))

    for name, sign in (("add", 1), ("sub", -1)):
        lines = (
            f"  {name}.cc.{kind} %d0, %s0, %s3;\n  {name}c.cc.{kind} %d1, %s1, %s4;\n  {name}c.{kind} %d2, %s2, %s5;"
        )
        check(lines, [kind] * limbs, sources, lambda *v, s=sign: split(join(v[:limbs]) + s * join(v[limbs:])))


@pytest.mark.parametrize("kind", ["s32", "u16", "f32", "f16", "f64"])
def test_set_predicate_with_more(kind: str) -> None:
    def less(a: int, b: int) -> bool:
        if kind in FORMATS:
            x, y = FORMATS[kind].decode(a), FORMATS[kind].decode(b)
            return COMPARISONS["lt"](x, y)  # false if x or y is NaN
        return number(a, kind) < number(b, kind)

    both = ["pred", "pred"]
    check(
        f"  setp.lt.{kind} %d0|%d1, %s0, %s1;",
        both,
        [kind, kind],
        lambda a, b: (less(a, b), not less(a, b)),
    )
    for name, combine in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
        sources = [kind, kind, "pred"]
        check(
            f"  setp.lt.{name}.{kind} %d0|%d1, %s0, %s1, %s2;",
            both,
            sources,
            lambda a, b, c, f=combine: (f(int(less(a, b)), c), f(int(not less(a, b)), c)),
        )
        check(
            f"  setp.lt.{name}.{kind} %d0, %s0, %s1, !%s2;",
            ["pred"],
            sources,
            lambda a, b, c, f=combine: (f(int(less(a, b)), 1 - c),),
        )


def test_constants() -> None:
    check("  add.s32 %d0, %s0, -5;", ["b32"], ["b32"], lambda a: ((a - 5) % (1 << 32),))
    check("  and.b16 %d0, %s0, 0xff0;", ["b16"], ["b16"], lambda a: (a & 0xFF0,))
    check("  add.rn.f32 %d0, %s0, 0f00000000;", ["f32"], ["f32"], lambda a: (_plus_zero(a, "f32"),))
    check("  add.rn.f64 %d0, %s0, 0d0000000000000000;", ["f64"], ["f64"], lambda a: (_plus_zero(a, "f64"),))
    check("  mov.b32 %d0, 0f40490FDB;", ["b32"], ["b32"], lambda a: (0x40490FDB,))


def _plus_zero(a: int, kind: str) -> int:
    form = FORMATS[kind]
    value = form.decode(a)
    return 0 if value == 0 else form.encode(value)


def test_guards() -> None:
    check("  mov.b32 %d0, 1;\n  @%s0 mov.b32 %d0, 2;", ["b32"], ["pred"], lambda a: (2 if a else 1,))
    check("  mov.b32 %d0, 1;\n  @!%s0 mov.b32 %d0, 2;", ["b32"], ["pred"], lambda a: (1 if a else 2,))
    check(
        "  mov.b32 %d0, %s1;\n  @%s0 add.s32 %d0, %d0, %d0;",
        ["b32"],
        ["pred", "b32"],
        lambda a, b: (b * (2 if a else 1) % (1 << 32),),
    )


def test_special_registers() -> None:
    names = ["tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "ctaid.y", "ctaid.z"]
    names += ["nctaid.x", "nctaid.y", "nctaid.z", "laneid", "warpid", "nwarpid"]
    names += [f"lanemask_{name}" for name in ("eq", "lt", "le", "gt", "ge")]
    names += ["dynamic_smem_size", "total_smem_size"]
    body = [
        "  mov.u32 %r1, %tid.z;\n  mov.u32 %r2, %ntid.y;\n  mov.u32 %r3, %tid.y;\n  mad.lo.u32 %r1, %r1, %r2, %r3;",
        "  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n  mad.lo.u32 %r1, %r1, %r2, %r3;",
        "  mov.u32 %r4, %ctaid.z;\n  mov.u32 %r5, %nctaid.y;\n  mov.u32 %r6, %ctaid.y;",
        "  mad.lo.u32 %r4, %r4, %r5, %r6;",
        "  mov.u32 %r5, %nctaid.x;\n  mov.u32 %r6, %ctaid.x;\n  mad.lo.u32 %r4, %r4, %r5, %r6;",
        "  mad.lo.u32 %r1, %r4, 30, %r1;\n  ld.param.u64 %rd1, [p0];",
        f"  mad.wide.u32 %rd1, %r1, {4 * len(names)}, %rd1;",
    ]
    body += [f"  mov.u32 %r7, %{name};\n  st.global.u32 [%rd1+{4 * i}], %r7;" for i, name in enumerate(names)]
    module = emulator.load(entry("\n".join(body), 1))
    block, grid = (5, 3, 2), (2, 3, 4)
    got = np.zeros((4, 3, 2, 30, len(names)), np.uint32)
    launch(module, [got], grid=grid, block=block, shared_bytes=48)
    z, y, x = (index.reshape(-1) for index in np.indices((2, 3, 5)))
    thread = np.arange(30)
    one = np.uint32(1) << thread.astype(np.uint32)
    for bz, by, bx in np.ndindex(4, 3, 2):
        columns = [x, y, z, *block, bx, by, bz, *grid, thread % 32, thread // 32, 1]
        columns += [one, one - 1, one | (one - 1), ~(one | (one - 1)), ~(one - 1), 48, 48]
        for index, want in enumerate(columns):
            assert np.all(got[bz, by, bx, :, index] == np.asarray(want, np.uint32)), names[index]


def test_parameters_of_all_sizes() -> None:
    header, rest = entry(
        f"""{load_addresses(1, [32])}
  ld.param.u8 %r1, [a]; ld.param.s8 %r2, [a]; ld.param.u16 %r3, [b]; ld.param.s16 %r4, [b];
  ld.param.u32 %r5, [c]; ld.param.f32 %r6, [v+4]; ld.param.v2.b32 {{%r7, %r8}}, [v];
  st.global.v4.u32 [%rd0], {{%r1, %r2, %r3, %r4}};
  st.global.v4.u32 [%rd0+16], {{%r5, %r6, %r7, %r8}};""",
        1,
    ).split("p0)", 1)
    text = f"{header}p0, .param .u8 a, .param .b16 b, .param .u32 c, .param .align 8 .b8 v[8]){rest}"
    module = emulator.load(text)
    assert module.kernels["kernel"].parameters == ((0, 8), (8, 1), (10, 2), (12, 4), (16, 8))
    got = np.zeros(8, np.uint32)
    memory = emulator.Memory()
    address = memory.add(got, "out")
    block = np.zeros(24, np.uint8)
    block[:8].view(np.uint64)[0] = address
    block[8], block[10:12], block[12:16] = 0x85, (0x34, 0x92), (4, 3, 2, 1)
    block[16:] = range(8)
    module.launch("kernel", (1, 1, 1), (1, 1, 1), 0, block.tobytes(), memory)
    want = [0x85, 0xFFFFFF85, 0x9234, 0xFFFF9234, 0x01020304, 0x07060504, 0x03020100, 0x07060504]
    assert got.tolist() == want
