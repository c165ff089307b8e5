# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The emulator's counts: warp instructions, memory sectors, cycles of shared memory, and bytes of each buffer."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from kernels import entry, load_addresses
from repro_mlir.execute import emulator


def count(
    text: str, arrays: list[np.ndarray], block: int = 64, grid: int = 4, blocks: tuple[int, ...] = (1,),
    most: int = 1 << 20,
) -> tuple[emulator.Counts, dict[str, int]]:  # fmt: skip
    """Runs a kernel. Returns the emulator's counts and, for each opcode that occurs once in the text, its line
    number."""
    memory = emulator.Memory()
    addresses = [memory.add(array, f"p{i}") for i, array in enumerate(arrays)]
    parameters = struct.pack(f"<{len(arrays)}Q", *addresses)
    module = emulator.load(text)
    found = module.count("kernel", (grid, 1, 1), (block, 1, 1), 0, parameters, memory, blocks, most)
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for part in line.split(";"):
            lines[part.split()[0] if part.split() else ""] = number
    return found, lines


def aligned(elements: int, dtype: str = "u4") -> np.ndarray:
    memory = emulator.Memory()
    return memory.allocate(elements * np.dtype(dtype).itemsize, "x").view(dtype)


def test_loops_and_guards() -> None:
    """Warp 0 runs the loop 5 times; warp 1 skips it. An instruction whose guard is false for all threads is also
    counted."""
    body = """
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra end;
  mov.u32 %r3, 0;
again:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 5;
  @%p2 bra again;
end:
  setp.gt.u32 %p3, %r1, 99;
  @%p3 mul.lo.u32 %r4, %r1, 3;"""
    found, lines = count(entry(body, 1), [aligned(1)])
    assert found.lines[lines["add.u32"]].runs == 5
    assert found.lines[lines["setp.lt.u32"]].runs == 5
    assert found.lines[lines["setp.gt.u32"]].runs == 2
    assert found.lines[lines["@%p3"]].runs == 2
    twice, _ = count(entry(body, 1), [aligned(1)], blocks=(0, 3))
    assert twice.lines[lines["add.u32"]].runs == 10


@pytest.mark.parametrize(("stride", "sectors"), [(0, 1), (1, 4), (2, 8), (8, 32), (9, 32)])
def test_sectors(stride: int, sectors: int) -> None:
    """32 threads read 4 bytes each, at addresses that are 4 * `stride` bytes apart. Each thread reads twice; the second
    read requests no new sectors."""
    body = f"""
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
  mov.u32 %r1, %tid.x;
  mul.lo.u32 %r2, %r1, {4 * stride};
  cvt.u64.u32 %rd3, %r2;
  add.u64 %rd1, %rd1, %rd3;
  ld.global.u32 %r3, [%rd1];
  ld.global.nc.u32 %r4, [%rd1];
  st.global.u32 [%rd2], %r4;"""
    found, lines = count(entry(body, 2), [aligned(32 * 9), aligned(1)], block=32)
    first, second = (found.lines[lines[name]] for name in ("ld.global.u32", "ld.global.nc.u32"))
    assert (first.runs, first.sectors, first.new_sectors) == (1, sectors, sectors)
    assert (second.sectors, second.new_sectors) == (sectors, 0)
    assert found.buffers["p0"] == emulator.BufferCount(0, 31 * 4 * stride + 4, sectors, True, False)
    assert found.buffers["p1"] == emulator.BufferCount(0, 4, 1, False, True)


@pytest.mark.parametrize(
    ("width", "stride", "wavefronts"), [(1, 0, 1), (1, 1, 1), (1, 2, 2), (1, 32, 32), (1, 33, 1), (2, 2, 2), (4, 4, 4)]
)
def test_shared_memory(width: int, stride: int, wavefronts: int) -> None:
    """32 threads read `width` words each, at addresses that are `stride` words apart."""
    words = ", ".join(f"%r{5 + i}" for i in range(width))
    vector = f".v{width}.u32 {{{words}}}" if width > 1 else f".u32 {words}"
    body = f"""  .shared .align 16 .b8 buffer[8192];
  mov.u32 %r1, %tid.x;
  mul.lo.u32 %r2, %r1, {4 * stride};
  mov.u32 %r3, buffer;
  add.u32 %r3, %r3, %r2;
  ld.shared{vector}, [%r3];"""
    found, lines = count(entry(body, 1), [aligned(1)], block=32)
    assert found.lines[lines[f"ld.shared{vector.split()[0]}"]].wavefronts == wavefronts


def test_an_endless_loop_and_wrong_blocks() -> None:
    endless = entry("again:\n  bra again;", 1)
    with pytest.raises(emulator.KernelFault, match="runs more instructions than are counted") as caught:
        count(endless, [aligned(1)], most=1000)
    assert caught.value.kind == "unfinished"
    with pytest.raises(emulator.LaunchError, match="expected a block of the 4 of the grid, got 4"):
        count(entry("", 1), [aligned(1)], blocks=(4,))
    beyond = entry(load_addresses(1, [4]) + "\n  ld.global.u32 %r4, [%rd0];", 1)
    with pytest.raises(emulator.KernelFault, match="of buffer 'p0' of 4 bytes"):
        count(beyond, [aligned(1)])
