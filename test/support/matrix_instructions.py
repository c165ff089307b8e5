# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs mma.sync on the emulator: a kernel for each instruction, which computes one product of matrices per warp."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
from repro_mlir.execute import emulator

CLASSES = {
    "sm_70": "volta",
    "sm_72": "volta",
    "sm_75": "turing",
    "sm_80": "ampere",
    "sm_86": "ampere",
    "sm_87": "ampere",
    "sm_89": "ada",
    "sm_90": "hopper",
    "sm_100": "blackwell",
    "sm_103": "blackwell",
    "sm_120": "blackwell",
}
"""(M3) The accumulator class of each architecture. Tests compare this table with those of the compiler and the runner.
"""

LANE = np.arange(32)
GROUP, INNER = LANE // 4, LANE % 4


NAMES = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}
"""Element types whose names in PTX differ from those in programs."""

EIGHTS = {"ada": "ada", "hopper": "hopper_mma", "blackwell": "blackwell_mma"}
"""(M3) The accumulator class of mma.sync on f8, for each class of mma.sync on 16-bit and tf32 elements; for sm_120 it
is unknown."""

WIDTHS = {"e4m3": 8, "e5m2": 8, "tf32": 32}
"""The number of bits of an element in a register, for element types that do not have 16."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    """The PTX instruction mma.sync.aligned.m16n8k<depth>.row.col.<result>.<element>.<other>.<result>.

    Attributes:
      element: the element type of A.
      other: the element type of B; "" if it equals that of A.
      result: the element type of C and D.
    """

    element: str
    depth: int
    other: str = ""
    result: str = "f32"

    @property
    def elements(self) -> tuple[str, str]:
        """The element types of A and B."""
        return self.element, self.other or self.element

    @property
    def opcode(self) -> str:
        """The name of the PTX instruction."""
        x, y = self.elements
        return f"mma.sync.aligned.m16n8k{self.depth}.row.col.{self.result}.{x}.{y}.{self.result}"

    @property
    def packed(self) -> int:
        """The number of elements in a register of 32 bits."""
        return 32 // WIDTHS.get(self.element, 16)

    def __str__(self) -> str:
        x, y = self.elements
        return f"{x}-{y}-{self.result}-k{self.depth}"


INSTRUCTIONS = [
    Instruction("f16", 8),
    Instruction("f16", 16),
    Instruction("bf16", 8),
    Instruction("bf16", 16),
    Instruction("tf32", 4),
    Instruction("tf32", 8),
    *(Instruction("f16", depth, result="f16") for depth in (8, 16)),
    *(Instruction(x, 32, y, result) for result in ("f32", "f16") for x in ("e4m3", "e5m2") for y in ("e4m3", "e5m2")),
]


def _registers(lines: np.ndarray, of: Instruction, first: int) -> list[np.ndarray]:
    """Returns the registers for 8 rows of A, or 8 columns of B, from `first` on. Each register is an array [count, 32]
    of its values in the 32 threads. There is one register for each 4 * packed elements of K.

    `lines` has the bits of the elements [count, rows or columns, K]. The PTX ISA has figures of the layout.
    """
    found = []
    for start in range(0, of.depth, 4 * of.packed):
        word = np.zeros((len(lines), 32), np.uint32)
        for i in range(of.packed):
            element = lines[:, first + GROUP, start + INNER * of.packed + i].astype(np.uint32)
            word |= element << np.uint32(32 // of.packed * i)
        found.append(word)
    return found


def multiply(
    of: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, target: str, **options: object
) -> np.ndarray:
    """Returns the bits of c + a @ b as uint32, given the bits of a [count, 16, K], b [count, K, 8] and c [count, 16,
    8].

    `options` are the options of `emulator.Module.launch`.
    """
    count = len(a)
    columns = np.ascontiguousarray(np.swapaxes(b, 1, 2))
    upper, lower = _registers(a, of, 0), _registers(a, of, 8)
    left = [word for pair in zip(upper, lower, strict=True) for word in pair]
    places = [(GROUP + 8 * (i // 2), 2 * INNER + i % 2) for i in range(4)]
    addend = [c[:, row, column].astype(np.uint32) for row, column in places]
    if of.result == "f16":
        addend = [addend[i] | addend[i + 1] << np.uint32(16) for i in (0, 2)]
    words = len(addend)
    sources = [*left, *_registers(columns, of, 0), *addend]
    cut = [len(left), len(sources) - words]
    names = [f"%r{20 + i}" for i in range(len(sources))]
    lists = [[f"%r{10 + i}" for i in range(words)], names[: cut[0]], names[cut[0] : cut[1]], names[cut[1] :]]
    lines = [
        f".version 8.0\n.target {target}\n.address_size 64",
        ".visible .entry multiply(.param .u64 p0, .param .u64 p1)\n{",
        "  .reg .b32 %r<40>;\n  .reg .b64 %rd<4>;",
        "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %tid.x;\n  mad.lo.s32 %r0, %r1, 32, %r2;",
        f"  ld.param.u64 %rd0, [p0];\n  mad.wide.u32 %rd0, %r0, {4 * len(sources)}, %rd0;",
        f"  ld.param.u64 %rd1, [p1];\n  mad.wide.u32 %rd1, %r0, {4 * words}, %rd1;",
        *(f"  ld.global.b32 {name}, [%rd0+{4 * i}];" for i, name in enumerate(names)),
        f"  {of.opcode} {', '.join('{' + ', '.join(each) + '}' for each in lists)};",
        *(f"  st.global.b32 [%rd1+{4 * i}], %r{10 + i};" for i in range(words)),
        "  ret;\n}\n",
    ]
    memory = emulator.Memory()
    given = memory.allocate(count * 128 * len(sources), "sources").view(np.uint32)
    got = memory.allocate(count * 128 * words, "results").view(np.uint32)
    given[:] = np.stack(sources, axis=-1).reshape(-1)
    addresses = [memory.arrays[name].ctypes.data for name in ("sources", "results")]
    module = emulator.load("\n".join(lines))
    module.launch(
        "multiply",
        (count, 1, 1),
        (32, 1, 1),
        0,
        struct.pack("<2Q", *addresses),
        memory,
        **options,  # type: ignore[arg-type]
    )
    result = np.zeros((count, 16, 8), np.uint32)
    found = got.reshape(count, 32, words)
    if of.result == "f16":
        found = np.stack([found & np.uint32(0xFFFF), found >> np.uint32(16)], axis=-1).reshape(count, 32, 4)
    for i, (row, column) in enumerate(places):
        result[:, row, column] = found[..., i]
    return result
