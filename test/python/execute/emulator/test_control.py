# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The emulator runs branches, loops and calls, with its threads in any order."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import entry, launch, load_addresses
from repro_mlir.execute import emulator

ORDERS: list[str | int] = ["lockstep", "ascending", "descending", 1, 2]


@pytest.mark.parametrize("order", ORDERS)
def test_divergent_loop(order: str | int) -> None:
    """Each thread counts the steps of the Collatz sequence of its input, so the threads of a warp leave the loop at
    different times."""
    module = emulator.load(
        entry(
            f"""{load_addresses(2, [4, 4])}
  ld.global.u32 %r5, [%rd1];
  mov.u32 %r6, 0;
$loop:
  setp.le.u32 %p1, %r5, 1;
  @%p1 bra $done;
  and.b32 %r7, %r5, 1;
  setp.eq.u32 %p2, %r7, 0;
  add.u32 %r6, %r6, 1;
  @%p2 bra $even;
  mad.lo.u32 %r5, %r5, 3, 1;
  bra.uni $loop;
$even:
  shr.u32 %r5, %r5, 1;
  bra.uni $loop;
$done:
  st.global.u32 [%rd0], %r6;""",
            2,
        )
    )
    start = np.arange(300, dtype=np.uint32)
    got = np.zeros_like(start)
    launch(module, [got, start], grid=(3, 1, 1), block=(100, 1, 1), order=order, threads=2)

    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            count += 1
        return count

    assert got.tolist() == [steps(value) for value in range(300)]


@pytest.mark.parametrize("order", ORDERS)
def test_early_exit_and_branch_table(order: str | int) -> None:
    module = emulator.load(
        entry(
            f"""{load_addresses(1, [4])}
  setp.ge.u32 %p1, %r0, 40;
  @%p1 bra $skip;
  and.b32 %r5, %r0, 3;
$list: .branchtargets $a, $b, $c, $a;
  brx.idx %r5, $list;
$a:
  mov.u32 %r6, 10;
  bra $join;
$b:
  mov.u32 %r6, 20;
  bra $join;
$c:
  exit;
$join:
  st.global.u32 [%rd0], %r6;
$skip:""",
            1,
        )
    )
    got = np.zeros(64, np.uint32)
    launch(module, [got], block=(64, 1, 1), order=order)
    assert got.tolist() == [(10, 20, 0, 10)[i % 4] if i < 40 else 0 for i in range(64)]


CALLS = """
.func (.param .b32 result) twice(.param .b32 a)
{
  .reg .b32 %r<4>;
  .reg .pred %p<2>;
  ld.param.b32 %r1, [a];
  setp.gt.u32 %p1, %r1, 1000;
  @%p1 bra $big;
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
$big:
  st.param.b32 [result], %r1;
  ret;
}
.func (.param .b32 result) fourfold(.param .b32 a)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [a];
  { .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0;
    call.uni (retval0), twice, (param0); ld.param.b32 %r1, [retval0]; }
  { .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0;
    call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0]; }
  st.param.b32 [result], %r2;
  ret;
}
"""


@pytest.mark.parametrize("order", ORDERS)
def test_calls(order: str | int) -> None:
    text = entry(
        f"""{load_addresses(2, [4, 4])}
  ld.global.u32 %r5, [%rd1];
  {{ .param .b32 param0; st.param.b32 [param0], %r5; .param .b32 retval0;
    call.uni (retval0), fourfold, (param0); ld.param.b32 %r6, [retval0]; }}
  st.global.u32 [%rd0], %r6;""",
        2,
    )
    module = emulator.load(text.replace(".visible", CALLS + ".visible", 1))
    given = np.arange(0, 64 * 30, 30, dtype=np.uint32)
    got = np.zeros_like(given)
    launch(module, [got, given], block=(64, 1, 1), order=order)
    twice = np.where(given > 1000, given, 2 * given)
    assert np.array_equal(got, np.where(twice > 1000, twice, 2 * twice))


def test_recursion_is_an_error() -> None:
    text = CALLS.replace("call.uni (retval0), twice, (param0); ld.param.b32 %r2", "call (retval0), fourfold, (param0)")
    text = text.replace("call (retval0), fourfold, (param0), [retval0]", "call (retval0), fourfold, (param0)")
    kernel = entry(
        "  { .param .b32 param0; .param .b32 retval0; call (retval0), fourfold, (param0); }",
        0,
    )
    with pytest.raises(emulator.PtxError, match="recursive call of 'fourfold'"):
        emulator.load(kernel.replace(".visible", text + ".visible", 1))


def test_every_thread_has_its_own_local_memory() -> None:
    module = emulator.load(
        entry(
            f"""{load_addresses(1, [4])}
  .local .align 8 .b8 depot[16];
  mov.b64 %rd5, depot;
  cvta.local.u64 %rd6, %rd5;
  st.u32 [%rd6+4], %r0;
  add.u64 %rd7, %rd5, 4;
  ld.local.u32 %r5, [%rd7];
  st.local.u32 [depot+8], %r5;
  ld.local.v2.u32 {{%r6, %r7}}, [depot+8];
  ld.u32 %r8, [%rd6+8];
  add.u32 %r8, %r8, %r6;
  st.global.u32 [%rd0], %r8;""",
            1,
        )
    )
    got = np.zeros(96, np.uint32)
    launch(module, [got], block=(96, 1, 1))
    assert got.tolist() == [2 * i for i in range(96)]


def test_module_variables() -> None:
    text = entry(
        f"""{load_addresses(1, [8])}
  and.b32 %r5, %r0, 3;
  mul.wide.u32 %rd5, %r5, 8;
  mov.u64 %rd6, table;
  add.u64 %rd6, %rd6, %rd5;
  ld.global.nc.f64 %rd7, [%rd6];
  ld.const.u16 %rs1, [words+2];
  cvt.u64.u16 %rd8, %rs1;
  xor.b64 %rd7, %rd7, %rd8;
  st.global.b64 [%rd0], %rd7;""",
        1,
    )
    tables = """
.global .align 8 .f64 table[4] = {0d3FF0000000000000, 0d4000000000000000, 0d0000000000000000, 0dBFF0000000000000};
.const .align 2 .b8 words[4] = {1, 2, 0x34, 18};
"""
    module = emulator.load(text.replace(".visible", tables + ".visible", 1))
    got = np.zeros(32, np.uint64)
    launch(module, [got])
    values = np.array([1.0, 2.0, 0.0, -1.0]).view(np.uint64) ^ np.uint64(0x1234)
    assert np.array_equal(got, np.resize(values, 32))


def test_orders_that_differ_are_reported() -> None:
    """Each block stores its number in the same word, so the result depends on the order of the blocks."""
    module = emulator.load(
        entry("  ld.param.u64 %rd0, [p0];\n  mov.u32 %r1, %ctaid.x;\n  st.global.u32 [%rd0], %r1;", 1)
    )
    place = np.zeros(1, np.uint32)
    with pytest.raises(emulator.OrderDependence, match="byte 0 of buffer 'a0' differs"):
        launch(module, [place], grid=(4, 1, 1), order=["ascending", "descending"])
    launch(module, [place], grid=(1, 1, 1), order=["lockstep", "ascending", "descending", 7])
