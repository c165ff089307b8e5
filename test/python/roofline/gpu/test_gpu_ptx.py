# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that PTX is divided into basic blocks, and that its instructions have the costs of the machine code into which
they are assembled."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from repro_mlir.compilation import gpu
from repro_mlir.compilation.assembler import assemble, find_assembler
from repro_mlir.roofline.gpu.instructions import cost_of
from repro_mlir.roofline.gpu.occupancy import registers_of
from repro_mlir.roofline.gpu.ptx import Instruction, most_live_registers, read_kernels
from support.predicted import product

TEXT = """
.visible .entry one(
\t.param .u64 one_param_0
)
{
\t.reg .b32 \t%r<9>;

\tld.param.b64 \t%rd1, [one_param_0];
\tmov.b32 \t%r1, 0;
$L__BB0_1:
\tadd.s32 \t%r1, %r1, 1;
\tsetp.lt.s32 \t%p1, %r1, 9;
\t@%p1 bra \t$L__BB0_1;
\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
\t\t{%r2, %r3, %r4, %r5},
\t\t{%r6, %r7, %r8, %r9},
\t\t{%r10, %r11},
\t\t{%r2, %r3, %r4, %r5};
\tst.global.v2.b32 \t[%rd1+8], {%r2, %r1};
\tret;

}
"""


def test_blocks() -> None:
    (blocks,) = read_kernels(TEXT).values()
    assert [[each.name for each in block.instructions] for block in blocks] == [
        ["ld", "mov"], ["add", "setp", "bra"], ["mma", "st", "ret"],
    ]  # fmt: skip
    assert [block.is_loop for block in blocks] == [False, True, False]
    mma, store, _ = blocks[2].instructions
    assert (mma.line, mma.results) == (14, ("%r2", "%r3", "%r4", "%r5"))
    assert mma.sources == ("%r6", "%r7", "%r8", "%r9", "%r10", "%r11", "%r2", "%r3", "%r4", "%r5")
    assert (store.line, store.results, store.sources) == (19, (), ("%rd1", "%r2", "%r1"))
    # Live registers: an address (two), a counter, and the operands of the matrix instruction (ten).
    assert most_live_registers(blocks) == 2 + 1 + 10
    cost = cost_of(mma)
    assert (cost.kind, cost.units) == ("matrix f16 m16n8k16", {"matrix f16": 2.0 * 16 * 8 * 16})


@pytest.mark.parametrize(
    ("opcode", "kind", "issued", "units"),
    [
        ("fma.rn.f32", "f32 fma", 1, {"f32": 1}),
        ("sub.rn.f32", "f32 add", 1, {"f32": 1}),
        ("fma.rn.f32x2", "f32 fma", 1, {"f32": 2}),
        ("fma.rn.f64", "f64", 1, {"f64": 1}),
        ("add.s64", "integer", 2, {"integer": 2}),
        ("mul.wide.u32", "integer", 1, {"integer": 1}),
        ("mad.lo.s64", "integer", 4, {"integer": 4}),
        ("setp.nan.f32", "integer", 1, {"integer": 1}),
        ("selp.f64", "integer", 2, {"integer": 2}),
        ("or.pred", "integer", 1, {"integer": 1}),
        ("ex2.approx.ftz.f32", "special", 1, {"special": 1}),
        ("sqrt.rn.f32", "special", 9, {"special": 1, "f32": 4, "integer": 2}),
        ("cvt.rn.f32.f64", "conversion", 1, {"wide_conversion": 1}),
        ("cvt.rn.bf16.f32", "conversion", 1, {"conversion": 1}),
        ("cvt.u64.u32", "other", 0, {}),
        ("cvta.to.global.u64", "other", 0, {}),
        ("ld.param.b64", "other", 1, {}),
        ("ld.global.nc.v4.b32", "global load", 1, {}),
        ("st.shared.v4.b32", "shared store", 1, {}),
        ("atom.global.max.u64", "global atomic", 1, {}),
        ("shfl.sync.down.b32", "shuffle", 1, {"load_store": 1}),
        ("bar.sync", "barrier", 1, {}),
        ("bra.uni", "control", 1, {}),
    ],
)
def test_costs(opcode: str, kind: str, issued: float, units: dict[str, float]) -> None:
    cost = cost_of(Instruction(1, opcode, "%r1, %r2, %r3", ("%r1",), ("%r2", "%r3")))
    assert (cost.kind, cost.issued, cost.units) == (kind, issued, units)


def test_a_move_is_a_name_or_reads_a_number_of_the_thread() -> None:
    assert [cost_of(Instruction(1, "mov.u32", text, (), ())).issued for text in ("%r1, %tid.x", "%r1, %r2")] == [1, 0]


@pytest.mark.skipif(find_assembler() is None, reason="ptxas is not installed")
def test_registers_of_ptxas_and_the_estimate(tmp_path: Path) -> None:
    """The register counts of a cubin equal those that ptxas prints, and the estimates from PTX are close to them."""
    text = gpu.compile(product(256), "sm_90").ptx
    found = registers_of(assemble(text, "sm_90"))
    (tmp_path / "k.ptx").write_text(text)
    command = [str(find_assembler()), "-v", "--fmad=false", "-arch=sm_90", "k.ptx", "-o", "k.cubin"]
    report = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    printed = re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", report, re.S)
    assert found == {name: int(number) for name, number in printed}
    for name, blocks in read_kernels(text).items():
        assert abs(most_live_registers(blocks) - found[name]) <= 0.25 * found[name] + 8


@pytest.mark.parametrize("data", [b"", b"\x7fELF", bytes(64), b"\xff" * 200])
def test_bytes_that_are_not_a_cubin_have_no_registers(data: bytes) -> None:
    assert registers_of(data) == {}
