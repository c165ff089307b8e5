# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The emulator refuses invalid text, launches and accesses, with a message that says where the error is."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from kernels import HEADER, entry, launch, load_addresses
from repro_mlir.execute import emulator


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("add.ftz.f32 %r1, %r2, %r3;", "unknown opcode 'add.ftz.f32'"),
        ("add.f32 %r1, %r2, %r3;", "unknown opcode 'add.f32'"),
        ("add.rn.sat.f32 %r1, %r2, %r3;", "unknown opcode"),
        ("div.full.f32 %r1, %r2, %r3;", "unknown opcode"),
        ("div.approx.f32 %r1, %r2, %r3;", "unknown opcode"),
        ("sqrt.approx.f32 %r1, %r2;", "unknown opcode"),
        ("ex2.approx.f32 %r1, %r2;", "unknown opcode"),
        ("rsqrt.approx.f32 %r1, %r2;", "unknown opcode"),
        ("mad.rn.f32 %r1, %r2, %r3, %r4;", "unknown opcode"),
        ("cvt.rz.f32.f64 %r1, %rd1;", "unknown opcode"),
        ("cvt.sat.u8.u32 %rs1, %r1;", "unknown opcode"),
        ("atom.global.add.f32 %r1, [%rd1], %r2;", "unknown opcode"),
        ("red.global.add.f64 [%rd1], %rd2;", "unknown opcode"),
        ("extend.u8.b16 %rd1, %rs1;", "unknown opcode"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r2}, {%r3}, {%r4};", "expected 2"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%r1}, {%r2}, {%r3}, {%r4};", "unknown opcode"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%r1}, {%r2}, {%r3}, {%r4};", "unknown opcode"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%r1}, {%r2}, {%r3}, {%r4};", "expected 4"),
        ("mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "unknown opcode"),
        ("mma.sync.aligned.m16n8k8.row.col.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r4};", "unknown opcode"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "unknown opcode"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "expected 4"),
        ("wgmma.fence.sync.aligned;", "unknown opcode"),
        ("bar.arrive 0, 32;", "unknown opcode"),
        ("add.s32 %r1, %r2;", "with 2 operands, expected 3"),
        ("add.s32 %r1, %r2, %rd3;", "on %rd3, which has 64 bits"),
        ("add.s32 %r1, %r2, %p1;", "on %p1, which has a predicate"),
        ("add.s32 %r1, %r2, %r99;", "unknown register '%r99'"),
        ("add.s32 %r1, %r2, 0f3F800000;", "expected no floating-point number"),
        ("add.rn.f32 %r1, %r2, 1;", "expected a floating-point number"),
        ("add.s32 %r1, %r2, 0x100000000;", "does not fit 32 bits"),
        ("add.s32 %tid.x, %r2, %r3;", "expected a register that can be written"),
        ("mov.u32 %r1, %clock;", "unknown register '%clock'"),
        ("ld.global.u32 %rs1, [%rd1];", "which has 16 bits"),
        ("ld.global.u32 %r1, [%rs1];", "expected an address of 32 or 64 bits"),
        ("ld.global.u32 %r1, [nowhere];", "unknown variable 'nowhere'"),
        ("ld.param.u32 %r1, [nowhere];", "no parameter 'nowhere'"),
        ("ld.param.u64 %rd1, [p0+4];", "beyond parameter 'p0' of 8 bytes"),
        ("ld.global.v4.u32 {%r1, %r2}, [%rd1];", "with 2 registers, expected 4"),
        ("bra $nowhere;", "no label '$nowhere'"),
        ("call (%r1), helper, (%r2);", "call of 'helper', which is not a function"),
        ("@%r1 bra $x;", "expected a predicate register after @"),
        ("bar.sync %r1;", "expected the constant number of a barrier"),
        ("add.s32 %r1, %r2, %r3", "expected ';'"),
        ("mov.b64 {%r1, %r2, %r3}, %rd1;", "unknown form of 'mov.b64'"),
        (".reg .b8 %x;", "unknown register type '.b8'"),
        (".shared .b8 x[4] = {1, 2, 3, 4, 5};", "has 4 bytes, but 5 initial ones"),
        (".bogus;", "unknown directive '.bogus'"),
    ],
)
def test_text_is_refused(line: str, message: str) -> None:
    text = entry(f"  {line}", 1)
    with pytest.raises(emulator.PtxError, match=re.escape(message)) as caught:
        emulator.load(text)
    number = int(re.search(r"PTX line (\d+)", str(caught.value))[1])
    # The error can name a later line: the next one for a missing semicolon, the last one for an unknown label.
    assert number >= text.split(line)[0].count("\n") + 1


def test_other_text_is_refused() -> None:
    for text, message in [
        ("", "expected a .target"),
        ("hello", "unknown directive 'hello'"),
        (".target sm_75\n.address_size 32", "expected .address_size 64"),
        (entry("", 0)[:-3], "expected"),
        (HEADER + ".extern .global .b8 x[];", "expected no external variable"),
        (HEADER + ".global .b8 x[4] = {y};", "expected a number as initial value"),
        (entry("$a:\n$a:", 0), "label '$a' occurs twice"),
    ]:
        with pytest.raises(emulator.PtxError, match=re.escape(message)):
            emulator.load(text)
    with pytest.raises(emulator.PtxError, match="does not run level 'x'"):
        emulator.load(entry("", 0), level="x")


def test_launches_are_refused() -> None:
    text = entry("", 1)
    module = emulator.load(text)
    memory = emulator.Memory()

    def refuse(
        message: str, name: str = "kernel", grid=(1, 1, 1), block=(1, 1, 1), shared=0, size=8, of=module
    ) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(emulator.LaunchError, match=re.escape(message)):
            of.launch(name, grid, block, shared, bytes(size), memory)

    refuse("no kernel 'other' in this module, expected one of kernel", name="other")
    refuse("expected 8 bytes of parameters, got 16", size=16)
    refuse("expected a block of 1 to 1024 threads, got (1025, 1, 1)", block=(1025, 1, 1))
    refuse("expected a block of 1 to 1024 threads, got (64, 32, 1)", block=(64, 32, 1))
    refuse("expected a block of 1 to 1024 threads, got (0, 1, 1)", block=(0, 1, 1))
    refuse("expected a grid from (1, 1, 1)", grid=(1, 70000, 1))
    refuse("expected at most 232448 bytes of shared memory", shared=1 << 20)
    limited = emulator.load(text.replace(")\n{", ")\n.maxntid 64\n{"))
    refuse("expected at most (64, 1, 1) threads (.maxntid), got (65, 1, 1)", block=(65, 1, 1), of=limited)
    fixed = emulator.load(text.replace(")\n{", ")\n.reqntid 64, 2\n{"))
    refuse("expected a block of (64, 2, 1) (.reqntid), got (64, 1, 1)", block=(64, 1, 1), of=fixed)


def fault(kind: str, body: str, message: str, block: int = 64, **options: object) -> None:
    """Runs a kernel on two arrays of 64 words. It must fault with this kind and message, which names a line and a
    thread."""
    module = emulator.load(entry(body, 2))
    arrays = [np.zeros(64, np.uint32), np.zeros(64, np.uint32)]
    with pytest.raises(emulator.KernelFault, match=message) as caught:
        launch(module, arrays, block=(block, 1, 1), **options)  # type: ignore[arg-type]
    assert caught.value.kind == kind
    assert re.match(r"kernel 'kernel', PTX line \d+, block \(\d+, 0, 0\), thread \(\d+, 0, 0\): ", str(caught.value))


ADDRESS = load_addresses(2, [4, 4])


@pytest.mark.parametrize("order", ["lockstep", "ascending"])
def test_out_of_bounds(order: str) -> None:
    fails = functools.partial(fault, "out of bounds", order=order)
    fails(f"{ADDRESS}\n  ld.global.u32 %r5, [%rd0+4];", r"thread \(63, 0, 0\): 'ld.global.u32' of 4 bytes")
    fails(f"{ADDRESS}\n  st.global.u32 [%rd0+-8], %r5;", r"thread \(0, 0, 0\)")
    fails(f"{ADDRESS}\n  red.global.add.u32 [%rd0+4], %r5;", r"thread \(63, 0, 0\)")
    fails("  mov.u64 %rd1, 0;\n  ld.u32 %r5, [%rd1];", "at 0x0")
    shared = (
        "  .shared .align 4 .b8 buffer[256];\n  mov.u32 %r1, %tid.x;\n"
        "  mov.u64 %rd1, buffer;\n  mad.wide.u32 %rd1, %r1, 4, %rd1;"
    )
    fails(f"{shared}\n  st.shared.u32 [%rd1+4], %r1;", "at byte 256 of 256 bytes of shared")
    fails(f"{shared}\n  st.shared.u32 [%rd1+-4], %r1;", "at byte -4 of 256 bytes of shared")
    fails(f"{shared}\n  st.global.u32 [%rd1], %r1;", "'st.global.u32' of 4 bytes at 0x0")
    local = "  .local .align 4 .b8 depot[8];\n  mov.u64 %rd1, depot;"
    fails(f"{local}\n  ld.local.u32 %r1, [%rd1+8];", "at byte 8 of 8 bytes of local")
    fails("  mov.u32 %r1, 2;\n$l: .branchtargets $a, $a;\n  brx.idx %r1, $l;\n$a:", "target 2 of 2")


def test_constants_are_read_only() -> None:
    text = entry("  mov.u64 %rd1, table;\n  st.global.u32 [%rd1], %r1;", 0)
    text = text.replace(".visible", ".const .align 4 .b8 table[4];\n.visible", 1)
    with pytest.raises(emulator.KernelFault, match="'table' of 4 bytes, which is read-only"):
        launch(emulator.load(text), [])


def test_a_removed_buffer_is_out_of_bounds() -> None:
    module = emulator.load(entry("  ld.param.u64 %rd1, [p0];\n  ld.global.u32 %r1, [%rd1];", 1))
    memory, array = emulator.Memory(), np.zeros(4, np.uint32)
    address = memory.add(array, "x")
    with pytest.raises(ValueError, match="overlaps"):
        memory.add(array[1:], "y")
    module.launch("kernel", (1, 1, 1), (1, 1, 1), 0, address.to_bytes(8, "little"), memory)
    memory.remove("x")
    with pytest.raises(emulator.KernelFault, match="there is no buffer"):
        module.launch("kernel", (1, 1, 1), (1, 1, 1), 0, address.to_bytes(8, "little"), memory)


def test_misaligned() -> None:
    fault("misaligned", f"{ADDRESS}\n  ld.global.u32 %r5, [%rd0+2];", r"thread \(0, 0, 0\): 'ld.global.u32' of 4 bytes")
    fault("misaligned", f"{ADDRESS}\n  ld.global.v2.u32 {{%r5, %r6}}, [%rd0];", "of 8 bytes", block=8)


SHARED = f"""  .shared .align 4 .b8 buffer[512];
{ADDRESS}
  mov.u64 %rd2, buffer; mad.wide.u32 %rd3, %r3, 4, %rd2;
  xor.b32 %r4, %r3, 33; mad.wide.u32 %rd4, %r4, 4, %rd2;
"""


@pytest.mark.parametrize("order", ["lockstep", "ascending", "descending", 4])
def test_races(order: str | int) -> None:
    fails = functools.partial(fault, "race", checked=True, order=order)
    fails(f"{SHARED}  st.shared.u32 [buffer], %r3;", "shared memory at byte 0, which thread .* wrote")
    fails(
        f"{SHARED}  st.shared.u32 [%rd3], %r3;\n  bar.sync 0;\n"
        "  ld.shared.u32 %r5, [%rd4];\n  st.shared.u32 [%rd3], %r5;",
        "which thread .* (read|wrote) with no barrier between",
    )
    fails(f"{ADDRESS}\n  ld.param.u64 %rd5, [p0];\n  st.global.u32 [%rd5], %r3;", "buffer 'a0'.* wrote")
    fails(
        "  ld.param.u64 %rd5, [p0];\n  mov.u32 %r1, %ctaid.x;\n  st.global.u32 [%rd5], %r1;",
        r"which thread \(0, 0, 0\) of block number \d wrote",
        block=1,
        grid=(2, 1, 1),
    )
    fails(
        "  ld.param.u64 %rd5, [p0];\n  ld.global.u32 %r1, [%rd5];\n  red.global.add.u32 [%rd5], 1;",
        "which .* (read|wrote)",
    )


def test_programs_without_a_race() -> None:
    arrays = [np.zeros(64, np.uint32), np.zeros(64, np.uint32)]
    for body in (
        f"{SHARED}  st.shared.u32 [%rd3], %r3;\n  bar.sync 0;\n"
        "  ld.shared.u32 %r5, [%rd4];\n  bar.sync 0;\n  st.shared.u32 [%rd3], %r5;",
        "  ld.param.u64 %rd5, [p0];\n  ld.relaxed.gpu.global.u32 %r1, [%rd5];\n  red.global.add.u32 [%rd5], 1;",
        f"{ADDRESS}\n  ld.global.u32 %r5, [%rd0];\n  add.u32 %r5, %r5, 1;\n"
        "  st.global.u32 [%rd0], %r5;\n  ld.global.u32 %r5, [%rd0];",
    ):
        for order in ("lockstep", "ascending", 9):
            launch(emulator.load(entry(body, 2)), arrays, block=(64, 1, 1), checked=True, order=order)


def test_uninitialized_shared_memory() -> None:
    fault("uninitialized", f"{SHARED}  ld.shared.u32 %r5, [%rd3];", "which the block has not written", checked=True)
    body = f"{SHARED}  setp.eq.u32 %p1, %r1, 0;\n  @%p1 st.shared.u32 [%rd3], %r3;\n  ld.shared.u32 %r5, [%rd3];"
    fault("uninitialized", body, r"block \(1, 0, 0\)", checked=True, grid=(2, 1, 1))


@pytest.mark.parametrize("order", ["lockstep", "ascending", "descending"])
def test_divergence(order: str) -> None:
    low = "  mov.u32 %r1, %tid.x;\n  setp.lt.u32 %p1, %r1, 7;\n"
    fails = functools.partial(fault, "divergence", order=order)
    fails(f"{low}  @%p1 exit;\n  bar.sync 0;", r"thread \(0, 0, 0\) has left the kernel")
    fails(f"{low}  @%p1 bra $a;\n  bar.sync 0;\n$a:\n  bar.sync 0;", "other threads of its warp")
    fails(
        "  mov.u32 %r1, %tid.x;\n  setp.lt.u32 %p1, %r1, 32;\n"
        "  @%p1 bra $a;\n  bar.sync 0;\n  ret;\n$a:\n  bar.sync 1;",
        "waits at barrier [01], but thread .* at barrier [01]",
    )
    fails("  bar.sync 1, 32;", "barrier of 32 threads, expected all 64")
    shuffle = "  shfl.sync.idx.b32 %r2, %r1, 3, 31, -1;"
    fails(f"{low}  @%p1 bra $a;\n{shuffle}\n$a:", "waits at 'shfl.sync.idx.b32'")
    fails(f"{low}  @%p1 exit;\n{shuffle}", "for lane 0, which is not or no longer|other threads of its warp")
    fails("  shfl.sync.idx.b32 %r2, %r1, 3, 31, 1;", "with a member mask that lacks it|reads lane 3")
    fails(
        "  mov.u32 %r1, 40;\n  shfl.sync.bfly.b32 %r2, %r1, 8, 31, 0xff;", "reads lane 8, which takes no part", block=8
    )


def test_trap() -> None:
    fault(
        "trap",
        "  mov.u32 %r1, %tid.x;\n  setp.eq.u32 %p1, %r1, 40;\n  @%p1 trap;",
        r"thread \(40, 0, 0\): reached 'trap'",
    )


@pytest.mark.parametrize("spins", [1, 300_000])
def test_a_fault_in_one_of_many_blocks(spins: int) -> None:
    """The fault of the first block, by number, is reported, whichever host thread runs it.

    In one case, block 0 keeps one of two host threads busy, so that the other thread runs later blocks before earlier
    ones.
    """
    spin = f"""
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $go;
  mov.u32 %r2, 0;
$spin:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, {spins};
  @%p1 bra $spin;
$go:"""
    body = f"{load_addresses(2, [4, 4])}{spin}\n  setp.ge.u32 %p1, %r1, 500;\n  @%p1 trap;"
    module = emulator.load(entry(body, 2))
    with pytest.raises(emulator.KernelFault, match=r"block \(500, 0, 0\)"):
        launch(module, [np.zeros(1), np.zeros(1)], grid=(2000, 1, 1), threads=2)
