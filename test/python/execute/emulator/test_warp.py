# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests instructions that exchange values between the threads of a warp, and barriers."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import entry, launch, load_addresses
from repro_mlir.execute import emulator

ORDERS: list[str | int] = ["lockstep", "ascending", "descending", 5]
RNG = np.random.default_rng(6)


def run(lines: str, results: int, sources: list[np.ndarray], order: str | int = "lockstep") -> np.ndarray:
    """Runs `lines` in one warp with the sources in %r20, %r21, ... Returns the values of %r10, %r11, ... in each
    thread."""
    body = [load_addresses(1 + len(sources), [4 * results, *[4] * len(sources)])]
    body += [f"  ld.global.b32 %r{20 + i}, [%rd{1 + i}];" for i in range(len(sources))]
    body.append(lines)
    body += [f"  st.global.b32 [%rd0+{4 * i}], %r{10 + i};" for i in range(results)]
    got = np.zeros((32, results), np.uint32)
    module = emulator.load(entry("\n".join(body), 1 + len(sources)))
    launch(module, [got, *(source.astype(np.uint32) for source in sources)], order=order)
    return got


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle(mode: str, order: str | int) -> None:
    """Compares `shfl` with its pseudocode in the PTX ISA."""
    for clamp, mask in [(31, 0), (0, 0), (31, 16), (7, 24), (0, 24), (15, 0)]:
        values = RNG.integers(0, 2**32, 32, np.uint32)
        distances = RNG.integers(0, 40, 32, np.uint32)
        c = mask << 8 | clamp
        got = run(
            f"  shfl.sync.{mode}.b32 %r10|%p1, %r20, %r21, {c}, -1;\n  selp.u32 %r11, 1, 0, %p1;",
            2,
            [values, distances],
            order,
        )
        for lane in range(32):
            b = int(distances[lane]) & 31
            most = (lane & mask) | (clamp & ~mask)
            least = lane & mask
            if mode == "up":
                j = lane - b
                valid = j >= most
            elif mode == "down":
                j = lane + b
                valid = j <= most
            elif mode == "bfly":
                j = lane ^ b
                valid = j <= most
            else:
                j = least | (b & ~mask)
                valid = j <= most
            assert got[lane].tolist() == [values[j if valid else lane], int(valid)], (mode, clamp, mask, lane)


@pytest.mark.parametrize("order", ORDERS)
def test_votes(order: str | int) -> None:
    bits = RNG.integers(0, 2, 32)
    for given in (bits, np.ones(32), np.zeros(32)):
        got = run(
            """  setp.ne.u32 %p1, %r20, 0;
  vote.sync.ballot.b32 %r10, %p1, -1;
  vote.sync.all.pred %p2, %p1, -1; selp.u32 %r11, 1, 0, %p2;
  vote.sync.any.pred %p2, %p1, -1; selp.u32 %r12, 1, 0, %p2;
  vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r13, 1, 0, %p2;
  vote.sync.ballot.b32 %r14, !%p1, -1;""",
            5,
            [given],
            order,
        )
        ballot = sum(int(bit) << lane for lane, bit in enumerate(given))
        count = int(given.sum())
        assert np.all(got == [ballot, count == 32, count > 0, count in (0, 32), ballot ^ 0xFFFFFFFF])


def test_votes_of_a_part() -> None:
    """The halves of a warp vote separately: the member mask of each excludes the other half."""
    got = run(
        """  mov.u32 %r1, %laneid; setp.lt.u32 %p2, %r1, 16;
  selp.b32 %r2, 0x0000ffff, 0xffff0000, %p2;
  setp.ne.u32 %p1, %r20, 0;
  vote.sync.ballot.b32 %r10, %p1, %r2;
  @%p2 bra $low;
  activemask.b32 %r11;
  bra $join;
$low:
  activemask.b32 %r11;
$join:""",
        2,
        [np.ones(32)],
    )
    assert got[:, 0].tolist() == [0xFFFF] * 16 + [0xFFFF0000] * 16
    assert got[:, 1].tolist() == [0xFFFF] * 16 + [0xFFFF0000] * 16


@pytest.mark.parametrize("order", ORDERS)
def test_match_and_reduce(order: str | int) -> None:
    values = RNG.integers(0, 4, 32).astype(np.uint32)
    got = run(
        "  match.any.sync.b32 %r10, %r20, -1;\n  cvt.u64.u32 %rd9, %r20;\n  match.any.sync.b64 %r11, %rd9, -1;",
        2,
        [values],
        order,
    )
    for lane in range(32):
        want = sum(1 << other for other in range(32) if values[other] == values[lane])
        assert got[lane].tolist() == [want, want]
    for given, equal in ((values, False), (np.full(32, 9), True)):
        got = run("  match.all.sync.b32 %r10|%p1, %r20, -1;\n  selp.u32 %r11, 1, 0, %p1;", 2, [given], order)
        assert np.all(got == [0xFFFFFFFF if equal else 0, equal])
    values = RNG.integers(0, 2**32, 32, np.uint32)
    kinds = ["add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"]
    lines = "\n".join(f"  redux.sync.{kind} %r{10 + i}, %r20, -1;" for i, kind in enumerate(kinds))
    signed = values.view(np.int32)
    want = [
        int(values.sum(dtype=np.uint64)) & 0xFFFFFFFF,
        int(values.sum(dtype=np.uint64)) & 0xFFFFFFFF,
        int(values.min()),
        int(values.max()),
        int(signed.min()) & 0xFFFFFFFF,
        int(signed.max()) & 0xFFFFFFFF,
        int(np.bitwise_and.reduce(values)),
        int(np.bitwise_or.reduce(values)),
        int(np.bitwise_xor.reduce(values)),
    ]
    assert np.all(run(lines, len(kinds), [values], order) == want)


REVERSE = f"""  .shared .align 4 .b8 buffer[1024];
{load_addresses(1, [4])}
  mov.u64 %rd1, buffer;
  mad.wide.u32 %rd2, %r3, 4, %rd1;
  st.shared.u32 [%rd2], %r0;
  BARRIER
  sub.u32 %r4, %r2, %r3; sub.u32 %r4, %r4, 1;
  mad.wide.u32 %rd3, %r4, 4, %rd1;
  ld.shared.u32 %r5, [%rd3];
  st.global.u32 [%rd0], %r5;"""


@pytest.mark.parametrize(
    "barrier", ["bar.sync 0;", "barrier.sync 0;", "bar.sync 1, 200;", "barrier.cta.sync.aligned 2;"]
)
def test_barriers(barrier: str) -> None:
    module = emulator.load(entry(REVERSE.replace("BARRIER", barrier), 1))
    got = np.zeros(600, np.uint32)
    launch(module, [got], grid=(3, 1, 1), block=(200, 1, 1), order=ORDERS, checked=True)
    assert np.array_equal(got.reshape(3, 200), np.arange(600).reshape(3, 200)[:, ::-1])


def test_barrier_of_a_warp() -> None:
    module = emulator.load(entry(REVERSE.replace("BARRIER", "bar.warp.sync -1;"), 1))
    got = np.zeros(96, np.uint32)
    launch(module, [got], grid=(3, 1, 1), order=ORDERS, checked=True)
    assert np.array_equal(got.reshape(3, 32), np.arange(96).reshape(3, 32)[:, ::-1])


SHAPES = {"m8n8k16": (8, 8, 16), "m16n8k16": (16, 8, 16), "m16n8k32": (16, 8, 32)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("a_kind", "b_kind"), [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")])
@pytest.mark.parametrize("order", ["lockstep", 8])
@pytest.mark.diagonal
def test_matrix_multiply(shape: str, a_kind: str, b_kind: str, order: str | int) -> None:
    """The bytes of mma.sync's operands are in the threads' registers as the figures of the PTX ISA show. The figures
    give the row and the column of each byte."""
    m, n, k = SHAPES[shape]
    a = RNG.integers(-128, 128, (m, k)).astype(np.int8).view(np.int8 if a_kind == "s8" else np.uint8)
    b = RNG.integers(-128, 128, (k, n)).astype(np.int8).view(np.int8 if b_kind == "s8" else np.uint8)
    c = RNG.integers(-(2**20), 2**20, (m, n)).astype(np.int32)
    lane = np.arange(32)
    group, inner = lane // 4, lane % 4

    def pack(matrix: np.ndarray, rows: list[np.ndarray], columns: list[np.ndarray]) -> np.ndarray:
        elements = [matrix[row, column].astype(np.uint8) for row, column in zip(rows, columns, strict=True)]
        return np.ascontiguousarray(np.stack(elements, 1)).view(np.uint32)[:, 0]

    a_registers, b_registers = [], []
    for half in range(k // 16):
        steps = [16 * half + 4 * inner + i for i in range(4)]
        a_registers += [pack(a, [group + 8 * tall] * 4, steps) for tall in range(m // 8)]
        b_registers.append(pack(b, steps, [group] * 4))
    c_registers = [c[group + 8 * tall, 2 * inner + i].view(np.uint32) for tall in range(m // 8) for i in range(2)]
    sources = [*a_registers, *b_registers, *c_registers]
    names = [f"%r{20 + i}" for i in range(len(sources))]
    cut = [len(a_registers), len(a_registers) + len(b_registers)]
    parts = [names[: cut[0]], names[cut[0] : cut[1]], names[cut[1] :]]
    results = [f"%r{10 + i}" for i in range(len(c_registers))]
    lists = ", ".join("{" + ", ".join(part) + "}" for part in [results, *parts])
    got = run(f"  mma.sync.aligned.{shape}.row.col.s32.{a_kind}.{b_kind}.s32 {lists};", len(results), sources, order)
    want = a.astype(np.int64) @ b.astype(np.int64) + c
    for index in range(len(results)):
        row, column = group + 8 * (index // 2), 2 * inner + index % 2
        assert np.array_equal(got[:, index].view(np.int32), want[row, column])


def test_saturating_matrix_multiply() -> None:
    ones, most = np.full(32, 0x01010101), np.full(32, 2**31 - 8)
    for flag, want in ((".satfinite", 2**31 - 1), ("", (2**31 + 8) % 2**32)):
        got = run(
            f"  mma.sync.aligned.m8n8k16.row.col{flag}.s32.s8.s8.s32"
            " {%r10, %r11}, {%r20}, {%r20}, {%r21, %r21};",
            2,
            [ones, most],
        )
        assert np.all(got == want)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_load_matrix(count: int, transposed: bool) -> None:
    matrices = RNG.integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    registers = ", ".join(f"%r{10 + i}" for i in range(count))
    body = f"""  .shared .align 16 .b8 buffer[512];
{load_addresses(2, [4 * count, 16])}
  ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd1];
  mov.u64 %rd5, buffer; mad.wide.u32 %rd5, %r0, 16, %rd5;
  st.shared.v4.b32 [%rd5], {{%r20, %r21, %r22, %r23}};
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x{count}{".trans" * transposed}.shared.b16 {{{registers}}}, [%rd5];
""" + "\n".join(f"  st.global.b32 [%rd0+{4 * i}], %r{10 + i};" for i in range(count))
    got = np.zeros((32, count), np.uint32)
    launch(emulator.load(entry(body, 2)), [got, matrices], checked=True)
    for lane in range(32):
        for index in range(count):
            matrix = matrices[index].T if transposed else matrices[index]
            low, high = (int(matrix[lane // 4, lane % 4 * 2 + i]) for i in range(2))
            assert got[lane, index] == low | high << 16
