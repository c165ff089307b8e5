# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Shows how ptxas compiles the matrix products: registers, spills and instructions of the main loop.

    python tools/gpu/sass_statistics.py [--arch sm_90 ...] [--shape 4096x4096x4096 ...] [--layout nn nt tn]
        [--digits 2 3] [--tensor-cores] [--blocks mxfp4 nvfp4]

Needs the extra "cuda" (ptxas and nvdisasm), but no device. The main loop is the innermost loop with the most fused
multiply-adds: an FFMA counts as one, an FFMA2 (sm_100) as two. Exits with 1 if a main loop has fewer than 0.9
multiply-adds per instruction, or a kernel spills.

With --digits, the products are exact (K4) with this number of digits, and the IMMA of the main loop are counted. Each
has 16 x 8 x 32 multiply-adds of bytes and keeps the tensor core busy for many cycles, so half an IMMA per instruction
is good. With --tensor-cores, the products have f16 operands and the accumulator class (M4) of the architecture, and
HMMA are counted. With --blocks, the products are contractions in blocks (Q4), and IMMA are counted; an IMMA for nvfp4
has 16 x 8 x 16 multiply-adds, which sm_75 does not support. In addition, each block needs at least three f32
instructions per result.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from repro_mlir.compilation import gpu as device_code
from repro_mlir.compilation.assembler import find_assembler
from repro_mlir.runner.certificates import TENSOR_CORES, Unit, unit_of

PROGRAM = """
func.func @main(%a: tensor<{a}x{t}>, %b: tensor<{b}x{t}>, %c: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.fold #repro.{order}
    maps [affine_map<(i, j, k) -> ({am})>, affine_map<(i, j, k) -> ({bm})>, affine_map<(i, j, k) -> (i, j)>]
    iterators [parallel, parallel, reduction] ins(%a, %b : tensor<{a}x{t}>, tensor<{b}x{t}>)
    outs(%c : tensor<{m}x{n}xf32>) {{
  ^bb0(%x: {t}, %y: {t}, %s: f32):
    {extend}
    %f = math.fma {factors}, %s : f32
    repro.yield %f : f32
  }} -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}
"""
BLOCKS = """
func.func @main(%x: tensor<{m}x{k}x{t}>, %sx: tensor<{m}x{blocks}x{s}>, %y: tensor<{n}x{k}x{t}>,
    %sy: tensor<{n}x{blocks}x{s}>, %c: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.block_contraction fused block = {block} rows = [1, 1]{bits}
    ins(%x, %sx, %y, %sy : tensor<{m}x{k}x{t}>, tensor<{m}x{blocks}x{s}>, tensor<{n}x{k}x{t}>, tensor<{n}x{blocks}x{s}>)
    outs(%c : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}
"""
FORMATS = {
    "mxfp4": ("f4E2M1FN", "f8E8M0FNU", 32),
    "nvfp4": ("f4E2M1FN", "f8E4M3FN", 16),
    "mxfp6_e2m3": ("f6E2M3FN", "f8E8M0FNU", 32),
    "mxfp6_e3m2": ("f6E3M2FN", "f8E8M0FNU", 32),
    "mxint8": ("i8", "f8E8M0FNU", 32),
}
"""Element, scale and block size for each format."""
EXTEND = "%xw = arith.extf %x : f16 to f32\n    %yw = arith.extf %y : f16 to f32"


def matmul(m: int, n: int, k: int, layout: str, digits: int = 0, unit: Unit | None = None) -> str:
    """Returns the program of C += A B; `layout` has "t" for each transposed operand.

    The product is exact if `digits` is not 0. If `unit` is given, the product has f16 operands and uses the accumulator
    of `unit`.
    """
    order = f"exact<digits = {digits}>" if digits else "order<chunk = 512, lanes = 1, run = 0, totals = sequential>"
    if unit:
        floor = -108 - unit.fraction
        order = f"fdpa<terms = {unit.terms}, fraction = {unit.fraction}, round = rz_f32, floor = {floor}>"
    a, am = (f"{m}x{k}", "i, k") if layout[0] == "n" else (f"{k}x{m}", "k, i")
    b, bm = (f"{k}x{n}", "k, j") if layout[1] == "n" else (f"{n}x{k}", "j, k")
    element, extend, factors = ("f16", EXTEND, "%xw, %yw") if unit else ("f32", "", "%x, %y")
    return PROGRAM.format(m=m, n=n, a=a, b=b, am=am, bm=bm, order=order, t=element, extend=extend, factors=factors)


def blocks(m: int, n: int, k: int, name: str) -> str:
    """Returns the program of C += X Y^T, where X and Y are codes of a block format."""
    element, scale, block = FORMATS[name]
    bits = " fraction_bits = 12" if element == "i8" else ""
    return BLOCKS.format(m=m, n=n, k=k, t=element, s=scale, block=block, blocks=-(-k // block), bits=bits)


class Statistics(NamedTuple):
    """Statistics of the machine code that ptxas has made of one matrix product."""

    registers: int
    spills: int  # bytes of spilled registers
    instructions: int  # in the main loop
    multiply_adds: int  # in the main loop's instructions
    least_share: float = 0.9

    @property
    def share(self) -> float:
        """The number of multiply-adds per instruction of the main loop."""
        return self.multiply_adds / max(self.instructions, 1)

    @property
    def is_good(self) -> bool:
        """Whether the main loop has enough multiply-adds per instruction and no register is spilled."""
        return self.share >= self.least_share and self.spills == 0


def main_loop(sass: str, wanted: str = "FFMA") -> tuple[int, int]:
    """Finds the innermost loop with the most instructions `wanted` (FFMA, IMMA or HMMA). Returns the numbers of its
    instructions and of its multiply-adds."""
    instruction = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\b(.*?);")
    best = (0, 0)
    for function in re.split(r"^\.text\.", sass, flags=re.M)[1:]:
        labels: dict[str, int] = {}
        code: list[tuple[str, str]] = []
        for line in function.splitlines():
            if label := re.match(r"^\s*(\.L_x_\w+):", line):
                labels[label[1]] = len(code)
            elif found := instruction.match(line):
                code.append((found[1], found[2]))
        loops = []
        for end, (opcode, operands) in enumerate(code):
            target = re.search(r"\.L_x_\w+", operands) if opcode.startswith("BRA") else None
            if target and labels.get(target[0], end + 1) <= end:
                loops.append((labels[target[0]], end))
        for begin, end in loops:
            if any(begin <= other and last <= end and (other, last) != (begin, end) for other, last in loops):
                continue
            body = [name for name, _ in code[begin : end + 1] if name != "NOP"]
            fused = sum(2 if name.startswith("FFMA2") else 1 for name in body if name.startswith(wanted))
            if fused > best[1]:
                best = (len(body), fused)
    return best


def measure(assembler: str, program: str, arch: str) -> Statistics:
    """Compiles and assembles a program, and returns the statistics of its kernel."""
    wanted, least = "FFMA", 0.9
    if "#repro.exact" in program:
        wanted, least = "IMMA", 0.5
    if "repro.block_contraction" in program:
        wanted, least = "IMMA", 0.05
    if "#repro.fdpa" in program:
        wanted, least = "HMMA", 0.25
    code = device_code.compile(program, arch + (TENSOR_CORES if wanted == "HMMA" else ""))
    nvdisasm = str(Path(assembler).with_name("nvdisasm"))
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(code.ptx)
        command = [assembler, "-v", "--fmad=false", f"-arch={arch}", source, "-o", cubin]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        sass = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    registers = max((int(x) for x in re.findall(r"Used (\d+) registers", report)), default=0)
    spills = sum(int(x) for x in re.findall(r"(\d+) bytes spill (?:stores|loads)", report))
    size, fused = main_loop(sass, wanted)
    return Statistics(registers, spills, size, fused, least)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", nargs="+", default=device_code.architectures(), choices=device_code.architectures())
    parser.add_argument("--shape", nargs="+", default=["4096x4096x4096"], help="MxNxK")
    parser.add_argument("--layout", nargs="+", default=["nn", "nt", "tn"])
    parser.add_argument("--digits", nargs="+", type=int, default=[0], choices=[2, 3])
    parser.add_argument("--tensor-cores", action="store_true", help="of f16 in the accumulator of the class")
    parser.add_argument("--blocks", nargs="+", default=[], choices=FORMATS, help="formats of contractions in blocks")
    options = parser.parse_args()
    assembler = find_assembler()
    if assembler is None:
        raise SystemExit("expected ptxas: pip install 'repro-mlir[cuda]'")
    failed = False
    print(
        f"{'arch':8}{'shape':18}{'layout':12}{'digits':8}{'registers':>10}{'spills':>8}{'loop':>7}{'fma':>7}{'share':>8}"
    )
    layouts = options.blocks or options.layout
    for arch, shape, layout, digits in itertools.product(options.arch, options.shape, layouts, options.digits):
        m, n, k = (int(x) for x in shape.split("x"))
        unit = unit_of(arch) if options.tensor_cores else None
        program = blocks(m, n, k, layout) if options.blocks else matmul(m, n, k, layout, digits, unit)
        found = measure(assembler, program, arch)
        failed |= not found.is_good
        print(
            f"{arch:8}{shape:18}{layout:12}{digits or '-':<8}{found.registers:>10}{found.spills:>8}"
            f"{found.instructions:>7}{found.multiply_adds:>7}{found.share:>8.2f}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
