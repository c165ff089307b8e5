# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests what the compiler reports about its code: how often basic blocks run, and which bytes kernels read and
write."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from repro_mlir.base.errors import CompileError
from repro_mlir.compilation import cpu
from repro_mlir.compilation.cache import cached_analysis
from repro_mlir.compilation.cpu import Analysis
from repro_mlir.program.canonical import to_bytes
from repro_mlir.roofline.cpu.assembly import Block, read_assembly
from repro_mlir.roofline.cpu.kernel_descriptions import read_kernels
from repro_mlir.runner.plan import read_plan
from repro_mlir.sandbox import analyze_native
from support.accumulated import HOPPER, Product
from support.predicted import doubled, planes, product, program_of, streamed

LANES = {"zmm": 16, "ymm": 8, "xmm": 4}
SCATTER = """
func.func @main(%u: tensor<9x4xf32>, %i: tensor<9x1xi64>, %x: tensor<5x4xf32>) -> tensor<5x4xf32>
    attributes {repro.num_state = 0 : i64} {
  %r = repro.scatter add ins(%u, %i : tensor<9x4xf32>, tensor<9x1xi64>) outs(%x : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}
"""


def multiply_adds(instruction: str) -> int:
    """Returns the number of f32 multiply-adds that an instruction computes."""
    if re.match(r"vfn?m\w+ps\b", instruction):
        return LANES[re.findall(r"%([xyz]mm)", instruction)[-1]]
    if found := re.match(r"fmla\s+v\d+\.(\d)s", instruction):
        return int(found.group(1))
    return int(re.match(r"(vfn?m\w+ss|fmadd)\b", instruction) is not None)


@pytest.mark.parametrize("size", [32, 64, 160])
@pytest.mark.parametrize("level", [level for level in cpu.levels() if level != "x86-64-v2"])
@pytest.mark.diagonal
def test_a_product_has_its_multiply_adds(level: str, size: int) -> None:
    """Covers all CPU levels, including those that this machine cannot run."""
    (blocks,) = read_assembly(cpu.analyze(product(size), level).assembly).values()
    counted = sum(block.runs * sum(map(multiply_adds, block.instructions)) for block in blocks)
    assert counted == size**3


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_a_block_before_a_loop_runs_as_often_as_the_loop_begins(level: str) -> None:
    """The block directly before a loop must not be counted as part of the loop, even if the code has no preheader."""
    assembly = cpu.analyze(product(160), level).assembly
    assert ".preheader" not in assembly
    for blocks in read_assembly(assembly).values():
        for before, block in pairwise(blocks):
            assert block.loop != 1 or before.runs < block.runs


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_lines_that_no_run_led_to(level: str) -> None:
    """Almost all cache lines are scattered if planes of 4 KiB are read out of order, and almost none if data is read in
    order. A written line counts twice."""
    lines = 32 * 48 * 64
    for text, scattered in ((planes(32, 48), lines), (streamed(16 * lines), 0)):
        (blocks,) = read_assembly(cpu.analyze(text, level).assembly).values()
        assert sum(block.missed for block in blocks) == pytest.approx(3 * lines, rel=0.02)
        assert sum(block.scattered for block in blocks) == pytest.approx(scattered, abs=lines // 50)


def test_the_lines_of_many_accesses_are_those_of_the_first() -> None:
    """The analysis follows only 1/32 of the accesses of this program and scales the numbers up."""
    lines = 1 << 20
    (blocks,) = read_assembly(cpu.analyze(streamed(16 * lines), "x86-64-v3").assembly).values()
    assert sum(block.missed for block in blocks) == pytest.approx(3 * lines, rel=0.02)


def test_a_loop_that_reads_nothing_is_not_run() -> None:
    """The analysis must not run the loop: its 2^40 iterations would take a quarter of an hour."""
    text = """
func.func @main(%x: tensor<1099511627776xi8>) -> tensor<i32> attributes {repro.num_state = 0 : i64} {
  %zeros = arith.constant dense<0> : tensor<i32>
  %r = repro.fold #repro.sequential maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<1099511627776xi8>) outs(%zeros : tensor<i32>) {
  ^bb0(%a: i8, %s: i32):
    %one = arith.constant 12345 : i32
    %square = arith.muli %s, %s : i32
    %mixed = arith.xori %square, %one : i32
    repro.yield %mixed : i32
  } -> tensor<i32>
  return %r : tensor<i32>
}
"""
    (blocks,) = read_assembly(cpu.analyze(text, "x86-64-v3").assembly).values()
    assert max(block.runs for block in blocks) == 1 << 40


def test_much_scratch_memory_is_refused() -> None:
    """The analysis runs kernels in this process and must allocate their scratch memory, so it refuses kernels that need
    too much."""
    rows = 1 << 30
    text = SCATTER.replace("9x", f"{rows}x")
    message = f"a kernel has {8 * rows + 64} bytes of scratch memory, expected at most {1 << 30}"
    with pytest.raises(CompileError, match=message):
        cpu.analyze(text, "x86-64-v3")


@pytest.mark.exhaustive
def test_long_loops_are_refused() -> None:
    """The analysis of a sort runs its loops to count iterations. Loops that would take too long are refused."""
    shape = "1000x1048576xf32"
    text = f"""
func.func @main(%x: tensor<{shape}>) -> tensor<{shape}> attributes {{repro.num_state = 0 : i64}} {{
  %e = tensor.empty() : tensor<{shape}>
  %r = repro.sort ascending dimension = 1 ins(%x : tensor<{shape}>) outs(%e : tensor<{shape}>) -> tensor<{shape}>
  return %r : tensor<{shape}>
}}
"""
    with pytest.raises(CompileError, match=f"the loops of kernel_0 run more than {1 << 32} times"):
        cpu.analyze(text, "x86-64-v3")


@pytest.mark.parametrize("level", cpu.levels())
def test_instructions_of_other_processors_are_counted(level: str) -> None:
    """Kernels for (M4) use special instructions of a level, and keep results in scratch memory."""
    program = Product(HOPPER, {"m": 5, "n": 40, "k": 70}).program()
    blocks = [block for found in read_assembly(cpu.analyze(program, level).assembly).values() for block in found]
    assert sum(block.runs * len(block.instructions) for block in blocks) > 5 * 40 * 70


def test_a_loop_that_ends_by_scratch_memory() -> None:
    """The scatter follows lists in scratch memory. If the analysis filled this memory with zeros, the loop would not
    end."""
    found = cpu.analyze(SCATTER, "x86-64-v3")
    assert read_assembly(found.assembly)
    assert any(line.split()[1:4] == ["read:144", "read:72", "read|write:80"] for line in found.kernels.splitlines())


def test_operands_are_those_of_the_launches() -> None:
    analysis = cpu.analyze(doubled(1000), "x86-64-v3")
    found = read_plan(analysis.plan, "cpu", "the program")
    (line,) = analysis.kernels.splitlines()
    operands, operation, _ = line.split("\t")
    assert (operands, operation) == (f"{found.kernels[0].name} read:4000 write:4000", "addf")
    assert len(found.launches[0].arguments) == len(operands.split()) - 1


PLACES = """
#sum = loc("blocks.0.\\09mix")
#line = loc("model.py":12:3)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32 loc(#sum)
    %2 = math.absf %1 : f32 loc(#line)
    linalg.yield %2 : f32
  } -> tensor<4x8xf32> loc(#line)
  return %0 : tensor<4x8xf32>
}
"""


def test_kernels_say_what_they_compute_and_for_which_lines() -> None:
    """Names come from whoever wrote the program: a tab in a name must not look like the end of a field."""
    (found,) = read_kernels(cpu.analyze(to_bytes(PLACES), "x86-64-v3").kernels).values()
    assert (found.operation, found.source) == ("addf, absf", "blocks.0. mix, model.py:12, -:11")


def test_a_contraction_is_named() -> None:
    found = read_kernels(cpu.analyze(product(32), "x86-64-v3").kernels).values()
    assert "contraction" in {each.operation for each in found}


def test_a_child_process_tells_the_same() -> None:
    """Programs that are not trusted are analysed in a child process, with the same result."""
    program = program_of(product(32))
    expected = cpu.analyze(program.data, "x86-64-v3")
    assert Analysis.from_bytes(analyze_native(program.data, "x86-64-v3")) == expected
    assert cached_analysis(program.data, "x86-64-v3", untrusted=True) == expected


def test_errors_are_those_of_compile() -> None:
    with pytest.raises(CompileError, match="expected one of x86-64-v2"):
        cpu.analyze(product(32), "x86-64-v9")
    with pytest.raises(CompileError):
        cpu.analyze("func.func @main() {", "x86-64-v3")


X86 = """
\t.text
kernel_0:                               # @kernel_0
# %bb.0:                                # %runs.1.
\tpushq\t%rbp
\tcallq\tmemcpy@PLT
\tjmp\t.LBB0_3
.LBB0_2:
\tmovl\t$1, %eax                        # imm = 0x1
.LBB0_3:                                # %runs.40.
                                        # =>This Inner Loop Header: Depth=1
\tvaddps\t(%rax,%rcx,4), %ymm0, %ymm1    # a comment
\tjne\t.LBB0_3
# %bb.4:                                # %runs.0.
\tretq
.Lfunc_end0:
\t.size\tkernel_0, .Lfunc_end0-kernel_0
"""
AARCH64 = """
kernel_1:                               // @kernel_1
// %bb.0:                               // %runs.2.
\tadd\tx0, x0, #8                       // =8
.LBB0_1:                                // %runs.6.
\tb.ne\t.LBB0_1
.Lfunc_end0:
"""


def test_assembly_is_read() -> None:
    (blocks,) = read_assembly(X86).values()
    loop = Block(40, 1, ["vaddps\t(%rax,%rcx,4), %ymm0, %ymm1", "jne\t.LBB0_3"])
    # A block that code generation has added has no comment about its runs; it runs as often as the block before it.
    assert [vars(block) for block in blocks] == [
        vars(Block(1, 0, ["pushq\t%rbp", "jmp\t.LBB0_3"])),
        vars(Block(1, 0, ["movl\t$1, %eax"])),
        vars(loop),
    ]
    (blocks,) = read_assembly(AARCH64).values()
    assert [vars(block) for block in blocks] == [
        vars(Block(2, 0, ["add\tx0, x0, #8"])),
        vars(Block(6, 1, ["b.ne\t.LBB0_1"])),
    ]
