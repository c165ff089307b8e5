# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import HEADER, entry, launch, load_addresses
from repro_mlir.base.errors import ReproError
from repro_mlir.execute import emulator

ORDERS: list[str | int] = ["lockstep", "ascending", "descending", 3]


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("kind", ["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "f32", "u64", "s64", "f64"])
def test_loads_and_stores(space: str, kind: str) -> None:
    """Copies elements in permuted order, through registers that are at least as wide as the elements."""
    bits = int(kind[1:])
    rng = np.random.default_rng(1)
    given = rng.integers(0, 256, 64 * bits // 8).astype(np.uint8)
    if kind in ("f32", "f64"):
        widths = [bits]
    else:
        widths = [width for width in (16, 32, 64) if width >= bits]
    for width in widths:
        register = {16: "%rs5", 32: "%r5", 64: "%rd5"}[width]
        dot = "" if space == "generic" else f".{space}"
        through = f"""
  mul.lo.u32 %r6, %r0, 13; and.b32 %r6, %r6, 63;
  mul.wide.u32 %rd6, %r6, {bits // 8};
  add.u64 %rd7, %rd1, %rd6;
  ld.global.{kind} {register}, [%rd7];"""
        if space == "shared":
            through += f"""
  mov.u64 %rd8, buffer; add.u64 %rd8, %rd8, %rd6;
  st.shared.{kind} [%rd8], {register};
  mov.b{width} {register}, 0;
  bar.sync 0;
  ld.shared.{kind} {register}, [%rd8];"""
        body = f"""  .shared .align 16 .b8 buffer[{64 * bits // 8}];
{load_addresses(2, [width // 8, 0])}{through}
  st{"" if dot == ".shared" else dot}.b{width} [%rd0], {register};"""
        module = emulator.load(entry(body, 2))
        dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")
        want = given.view(dtype)[np.arange(64) * 13 % 64].astype(
            f"i{width // 8}" if kind[0] == "s" else f"u{width // 8}"
        )
        for order in ORDERS:
            got = np.zeros(64, want.dtype)
            launch(module, [got, given], block=(64, 1, 1), order=order)
            assert np.array_equal(got, want), (kind, width, order)


@pytest.mark.parametrize(
    ("count", "bits"), [(2, 8), (4, 8), (2, 16), (4, 16), (2, 32), (4, 32), (8, 32), (2, 64), (4, 64)]
)
def test_vectors(count: int, bits: int) -> None:
    names = [f"%{ {8: 'rs', 16: 'rs', 32: 'r', 64: 'rd'}[bits] }{10 + i}" for i in range(count)]
    if count == 8:
        names[-1] = "%r9"
    size = count * bits // 8
    kept = ["_", *names[1:]]
    rng = np.random.default_rng(2)
    given = rng.integers(0, 256, 32 * size).astype(np.uint8)
    for stride in (1, 5):  # words that are adjacent, and words that are not
        body = f"""{load_addresses(2, [size, 0])}
  mul.lo.u32 %r4, %r0, {stride}; and.b32 %r4, %r4, 31; mad.wide.u32 %rd4, %r4, {size}, %rd1;
  mov.b{max(bits, 16)} {names[0]}, 7;
  ld.global.v{count}.b{bits} {{{", ".join(kept)}}}, [%rd4];
  st.global.v{count}.b{bits} [%rd0], {{{", ".join(names)}}};"""
        module = emulator.load(entry(body, 2))
        got = np.zeros_like(given)
        launch(module, [got, given])
        want = given.view(f"u{bits // 8}").reshape(32, count)[np.arange(32) * stride % 32].copy()
        want[:, 0] = 7
        assert np.array_equal(got.view(f"u{bits // 8}").reshape(32, count), want)


def test_same_address_for_all() -> None:
    module = emulator.load(
        entry(f"{load_addresses(2, [4, 0])}\n  ld.global.u32 %r5, [%rd1+8];\n  st.global.u32 [%rd0], %r5;", 2)
    )
    got = np.zeros(64, np.uint32)
    launch(module, [got, np.arange(4, dtype=np.uint32) + 9], block=(64, 1, 1))
    assert np.all(got == 11)


def test_modifiers_that_change_no_value() -> None:
    lines = []
    for name in ("ld.global", "ld.global.nc", "ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.sys.global"):
        lines.append(f"  {name}.u32 %r5, [%rd1];")
    for name in ("ld.global.ca", "ld.global.cg", "ld.global.nc.L1::no_allocate", "ld.weak.global", "ldu.global"):
        lines.append(f"  {name}.u32 %r5, [%rd1];")
    for name in ("st.global", "st.volatile.global", "st.relaxed.gpu.global", "st.release.sys.global", "st.global.wt"):
        lines.append(f"  {name}.u32 [%rd0], %r5;")
    lines += ["  membar.gl;", "  fence.acq_rel.gpu;", "  prefetch.global.L2 [%rd1];"]
    module = emulator.load(entry(load_addresses(2, [4, 4]) + "\n" + "\n".join(lines), 2))
    got, given = np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32)
    launch(module, [got, given])
    assert np.array_equal(got, given)


ATOMICS = {
    "add.u32": lambda old, b: old + b,
    "add.s32": lambda old, b: old + b,
    "add.u64": lambda old, b: old + b,
    "min.u32": np.minimum,
    "max.u32": np.maximum,
    "min.s32": np.minimum,
    "max.s32": np.maximum,
    "min.u64": np.minimum,
    "max.u64": np.maximum,
    "min.s64": np.minimum,
    "max.s64": np.maximum,
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
    "and.b64": np.bitwise_and,
    "or.b64": np.bitwise_or,
    "xor.b64": np.bitwise_xor,
}


@pytest.mark.parametrize("name", ATOMICS)
def test_reductions_in_memory(name: str) -> None:
    """Many threads, on several host threads, reduce into one word. The result does not depend on their order."""
    bits = int(name[-2:])
    register = "%r5" if bits == 32 else "%rd5"
    dtype = np.dtype(f"{'i' if '.s' in name else 'u'}{bits // 8}")
    rng = np.random.default_rng(3)
    given = rng.integers(0, 256, 300 * dtype.itemsize).astype(np.uint8).view(dtype)
    for form in (f"red.relaxed.gpu.global.{name}", f"red.{name}", f"red.global.{name}"):
        body = (
            f"{load_addresses(2, [0, dtype.itemsize])}\n"
            f"  ld.global.b{bits} {register}, [%rd1];\n  {form} [%rd0], {register};"
        )
        module = emulator.load(entry(body, 2))
        got = np.array([dtype.type(12345)])
        want = got.copy()
        for value in given:
            want = ATOMICS[name](want, value).astype(dtype)
        launch(module, [got, given], grid=(30, 1, 1), block=(10, 1, 1), threads=2)
        assert got == want, form


def test_atomics_give_the_old_value() -> None:
    body = f"""{load_addresses(2, [8, 4])}
  mov.u32 %r4, 5; mov.u32 %r5, 77;
  atom.global.add.u32 %r6, [%rd1], %r4;
  atom.global.exch.b32 %r7, [%rd1], %r5;
  st.global.v2.u32 [%rd0], {{%r6, %r7}};
  atom.global.cas.b32 %r8, [%rd1], 77, %r0;
  atom.global.cas.b32 %r8, [%rd1], 77, 99;"""
    module = emulator.load(entry(body, 2))
    words, got = np.arange(32, dtype=np.uint32) * 100, np.zeros((32, 2), np.uint32)
    launch(module, [got, words])
    start = np.arange(32) * 100
    assert np.array_equal(got, np.stack([start, start + 5], 1))
    assert np.array_equal(words, np.arange(32))
    counter = np.zeros(1, np.uint64)
    tickets = np.zeros(600, np.uint64)
    body = f"{load_addresses(2, [8, 0])}\n  atom.global.add.u64 %rd5, [%rd1], 1;\n  st.global.u64 [%rd0], %rd5;"
    launch(emulator.load(entry(body, 2)), [tickets, counter], grid=(6, 1, 1), block=(100, 1, 1), threads=2)
    assert sorted(tickets.tolist()) == list(range(600)) and counter[0] == 600


def test_atomics_in_shared_memory() -> None:
    body = f"""  .shared .align 8 .b8 total[8];
{load_addresses(1, [0])}
  setp.ne.u32 %p1, %r3, 0;
  @!%p1 st.shared.u32 [total], 0;
  bar.sync 0;
  red.shared.add.u32 [total], %r3;
  bar.sync 0;
  ld.shared.u32 %r5, [total];
  mad.wide.u32 %rd1, %r1, 4, %rd0;
  @!%p1 st.global.u32 [%rd1], %r5;"""
    module = emulator.load(entry(body, 1))
    got = np.zeros(3, np.uint32)
    launch(module, [got], grid=(3, 1, 1), block=(100, 1, 1), checked=True)
    assert got.tolist() == [4950] * 3


DYNAMIC = HEADER + ".extern .shared .align 16 .b8 dynamic[];"
COPY = """  ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
  mov.u32 %r3, %tid.x;
  mad.wide.u32 %rd1, %r3, 16, %rd1;
  mad.wide.u32 %rd0, %r3, 16, %rd0;
  mov.u64 %rd2, dynamic;
  mad.wide.u32 %rd2, %r3, 16, %rd2;
  cp.async.cg.shared.global [%rd2], [%rd1], 16;
  cp.async.commit_group;
  cp.async.ca.shared.global [%rd2+512], [%rd1+512], 16, %r5;
  cp.async.commit_group;
"""
COPY_BACK = """
  xor.b32 %r4, %r3, 1;
  mov.u64 %rd3, dynamic;
  mad.wide.u32 %rd3, %r4, 16, %rd3;
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3];
  st.global.v4.u32 [%rd0], {%r10, %r11, %r12, %r13};
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3+512];
  st.global.v4.u32 [%rd0+512], {%r10, %r11, %r12, %r13};"""


def copy_kernel(waits: str) -> emulator.Module:
    """Returns a kernel that copies two halves, each with 32 groups of 16 bytes, through dynamic shared memory; `waits`
    is the PTX that waits for the copies. In the second half, it reads only %r5 bytes of each group."""
    text = entry(f"  mov.u32 %r5, 8;\n{COPY}{waits}{COPY_BACK}", 2)
    return emulator.load(text.replace(HEADER, DYNAMIC))


def test_asynchronous_copies() -> None:
    given = np.random.default_rng(4).integers(1, 256, 1024).astype(np.uint8)
    want = given.reshape(2, 16, 2, 16)[:, :, ::-1].copy()
    want[1, :, :, 8:] = 0  # bytes that are not read become zero
    for waits in ("cp.async.wait_all;\n  bar.sync 0;", "cp.async.wait_group 0;\n  bar.sync 0;"):
        got = np.zeros(1024, np.uint8)
        launch(copy_kernel(waits), [got, given], shared_bytes=1024, checked=True)
        assert np.array_equal(got, want.reshape(-1))


def test_asynchronous_copies_arrive_late() -> None:
    given = np.random.default_rng(4).integers(1, 256, 1024).astype(np.uint8)
    got = np.zeros(1024, np.uint8)
    launch(copy_kernel("cp.async.wait_group 1;\n  bar.sync 0;"), [got, given], shared_bytes=1024)
    assert got[:512].any() and not got[512:].any()
    with pytest.raises(emulator.KernelFault, match=r"data race: 'cp\.async'"):
        launch(copy_kernel("bar.sync 0;"), [got, given], shared_bytes=1024, checked=True)
    with pytest.raises(emulator.KernelFault, match=r"data race|which the block has not written"):
        launch(copy_kernel("cp.async.wait_all;"), [got, given], shared_bytes=1024, checked=True, order="ascending")


@pytest.mark.parametrize("through", ["", "mov.b32 %r2, %r1;"])
def test_bits_of_floats_are_stored_by_a_move(through: str) -> None:
    """If an instruction writes a float to a register and a store writes only a part of this register, ptxas stores the
    number as an integer. The emulator refuses such a store, unless a mov of bits precedes it."""
    store = f"st.global.b8 [%rd1], %r{2 if through else 1};"
    text = entry(f"  cvt.rn.f32.u32 %r1, %r0;\n  {through}\n  {store}", 0)
    if through:
        emulator.load(text)
    else:
        with pytest.raises(ReproError, match=r"'st\.global\.b8' of %r1, which is wider and given by"):
            emulator.load(text)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("ld.global.f32 %r1, [%rd1];", "st.global.b8 [%rd1], %r1;"),
        ("ld.global.v2.f32 {%r1, %r2}, [%rd1];", "st.global.b8 [%rd1], %r1;"),
        ("ld.global.v4.f32 {%r1, %r2, %r3, %r4}, [%rd1];", "st.global.v2.b16 [%rd1], {%r5, %r4};"),
        ("ld.shared.v2.f64 {%rd2, %rd3}, [%rd1];", "st.shared.b32 [%rd1], %rd3;"),
        ("fma.rn.f32x2 %rd2, %rd1, %rd1, %rd1;", "st.global.b32 [%rd1], %rd2;"),
        ("cvt.rn.f16x2.f32 %r1, %r2, %r2;", "st.global.b8 [%rd1], %r1;"),
        ("mov.f32 %r1, %r2;", "st.global.b8 [%rd1], %r1;"),
    ],
)
def test_stores_of_parts_of_floats_are_refused(given: str, stored: str) -> None:
    """Covers each way in which an instruction on floats writes a register: alone, in a vector, and packed."""
    with pytest.raises(ReproError, match=r"which is wider and given by .*: expected a mov of bits between them"):
        emulator.load(entry(f"  {given}\n  {stored}", 0))
