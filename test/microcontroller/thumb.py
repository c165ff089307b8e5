# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A Cortex-M4 in Unicorn, which runs the steps of a `StepLibrary`."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import unicorn
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.compilation.microcontroller import StepLibrary, struct_layout
from repro_mlir.program import Program
from unicorn import arm_const

FLASH, RAM, END = 0x0800_0000, 0x2000_0000, 0x1000_0000
_PAGE = 4096
_STACK = 16384
_UNUSED = b"\xa5"
# vmsr fpscr, r5; bx r6: Unicorn keeps a value of this register only if an instruction has written it.
_ENTRY = bytes.fromhex("e1ee105a3047")
_RETURN = END + 16
_FLUSHES = 1 << 24

_SCRIPT = """
SECTIONS {
  .flash %d : { *(.text*) *(.rodata*) }
  /DISCARD/ : { *(.ARM.exidx*) *(.ARM.attributes) *(.comment) }
}
"""


def link(library: StepLibrary, folder: Path, address: int = FLASH) -> tuple[bytes, dict[str, int]]:
    """Links the object alone. Returns the bytes of flash, and the addresses of its global symbols."""
    made, script, linked = folder / "step.o", folder / "flash.ld", folder / "step.elf"
    made.write_bytes(library.object)
    script.write_text(_SCRIPT % address)
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-T", script, "-e", f"{library.name}_step"]
    subprocess.run([*command, made, "-o", linked], check=True)
    return _read(linked.read_bytes())


def sections(elf: bytes) -> list[tuple[str, int, int, bytes, int]]:
    """Returns the name, type, address, bytes and linked section of each section of a 32-bit ELF file."""
    (table,), (count, names) = struct.unpack_from("<I", elf, 32), struct.unpack_from("<HH", elf, 48)
    headers = [struct.unpack_from("<10I", elf, table + 40 * i) for i in range(count)]
    text = elf[headers[names][4] :]
    found = []
    for name, kind, _, address, offset, size, linked, *_ in headers:
        data = bytes(size) if kind == 8 else elf[offset : offset + size]
        found.append((text[name : text.index(b"\0", name)].decode(), kind, address, data, linked))
    return found


def symbols(elf: bytes) -> list[tuple[str, int, int, int]]:
    """Returns the name, value, binding and section of each symbol."""
    found = []
    every = sections(elf)
    for _, kind, _, data, linked in every:
        if kind != 2:
            continue
        text = every[linked][3]
        for name, value, _, info, _, section in struct.iter_unpack("<IIIBBH", data):
            found.append((text[name : text.index(b"\0", name)].decode(), value, info >> 4, section))
    return found


def _read(elf: bytes) -> tuple[bytes, dict[str, int]]:
    (flash,) = (data for name, _, _, data, _ in sections(elf) if name == ".flash")
    return flash, {name: value for name, value, binding, _ in symbols(elf) if binding == 1}


def count_instructions(cpu: unicorn.Uc) -> Callable[[], int]:
    """Lets a processor count its instructions from now on; returns a function that returns their number."""
    lengths: dict[int, int] = {}
    total = 0

    def count(cpu: unicorn.Uc, address: int, size: int, _: object) -> None:
        nonlocal total
        if address not in lengths:
            halves = struct.unpack(f"<{size // 2}H", cpu.mem_read(address, size))
            place = found = 0
            while place < len(halves):
                place += 2 if halves[place] >> 11 >= 29 else 1
                found += 1
            lengths[address] = found
        total += lengths[address]

    cpu.hook_add(unicorn.UC_HOOK_BLOCK, count)
    return lambda: total


def processor() -> unicorn.Uc:
    """Returns a Cortex-M4 whose FPU is on, without memory."""
    cpu = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    cpu.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M4)
    cpu.reg_write(arm_const.UC_ARM_REG_FPEXC, 1 << 30)
    return cpu


class Thumb:
    """A processor with the linked code of one library.

    Attributes:
      instructions: the number of instructions of the last step, if the processor counts them.
      stack: the bytes of stack of the last step.
    """

    def __init__(self, library: StepLibrary, program: Program, folder: Path, counts: bool = False) -> None:
        self.library = library
        self.program = program
        flash, self.symbols = link(library, folder)
        self.instructions = self.stack = 0
        self._cpu = processor()
        self._cpu.mem_map(FLASH, _pages(len(flash)), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        self._cpu.mem_write(FLASH, flash)
        self._cpu.mem_map(END, _PAGE)
        groups = (program.state, program.inputs, program.outputs)
        sizes = [struct_layout(tensors)[1] for tensors in groups] + [library.memory]
        # An unmapped page follows each structure, so an access past its last page is an error.
        self._addresses, address = [], RAM
        for size in sizes:
            self._cpu.mem_map(address, _pages(size), unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
            # The structure ends with the page, as far as its alignment allows.
            self._addresses.append(address + (_pages(size) - size) // 8 * 8)
            address += _pages(size) + _PAGE
        self._cpu.mem_map(address, _STACK)
        self._stack = address + _STACK
        self._parameters = [at for at, size in zip(self._addresses, sizes, strict=True) if size]
        self._counted = count_instructions(self._cpu) if counts else lambda: 0
        self._cpu.mem_write(END, _ENTRY)

    def read(self, group: int) -> list[np.ndarray]:
        """Returns the tensors of the state (0), the inputs (1) or the outputs (2)."""
        tensors = self._tensors(group)
        values = []
        for tensor, offset in zip(tensors, struct_layout(tensors)[0], strict=True):
            data = self._cpu.mem_read(self._addresses[group] + offset, tensor.nbytes)
            values.append(np.frombuffer(bytes(data), tensor.dtype).reshape(tensor.shape))
        return values

    def write(self, group: int, values: Sequence[np.ndarray]) -> None:
        """Writes the tensors of the state (0) or the inputs (1)."""
        tensors = self._tensors(group)
        for tensor, offset, value in zip(tensors, struct_layout(tensors)[0], values, strict=True):
            self._cpu.mem_write(self._addresses[group] + offset, np.ascontiguousarray(value, tensor.dtype).tobytes())

    def _tensors(self, group: int) -> tuple[TensorType, ...]:
        return (self.program.state, self.program.inputs, self.program.outputs)[group]

    def step(self, initial: bool = False) -> int:
        """Runs one step, on the state in RAM or on the initial state in flash; returns its result."""
        before = self._counted()
        registers = [getattr(arm_const, f"UC_ARM_REG_R{i}") for i in range(4)]
        for register, value in zip(registers, self._parameters, strict=False):
            self._cpu.reg_write(register, value)
        if initial:
            self._cpu.reg_write(registers[0], self.symbols[f"{self.library.name}_initial"])
        self._cpu.reg_write(arm_const.UC_ARM_REG_SP, self._stack)
        # The caller's FPU flushes subnormal numbers to zero; a step must neither obey nor change that (V2).
        self._cpu.reg_write(arm_const.UC_ARM_REG_R5, _FLUSHES)
        self._cpu.reg_write(arm_const.UC_ARM_REG_R6, self.symbols[f"{self.library.name}_step"] | 1)
        self._cpu.reg_write(arm_const.UC_ARM_REG_LR, _RETURN | 1)
        self._cpu.mem_write(self._stack - _STACK, _UNUSED * _STACK)
        self._cpu.emu_start(END | 1, _RETURN)
        assert self._cpu.reg_read(arm_const.UC_ARM_REG_SP) == self._stack
        assert self._cpu.reg_read(arm_const.UC_ARM_REG_FPSCR) & _FLUSHES
        used = bytes(self._cpu.mem_read(self._stack - _STACK, _STACK))
        self.stack = len(used.lstrip(_UNUSED))
        self.instructions = self._counted() - before
        return self._cpu.reg_read(arm_const.UC_ARM_REG_R0)


class Function:
    """A function of a linked program, which takes an array of f32, on a processor of its own.

    Attributes:
      instructions, stack: the number of instructions and the bytes of stack of the last call.
    """

    SCRIPT = f"""
    SECTIONS {{
      .flash {FLASH} : {{ *(.text*) *(.rodata*) }}
      .ram {RAM} : {{ *(.data*) *(.bss*) *(COMMON) }}
      /DISCARD/ : {{ *(.ARM.exidx*) *(.ARM.attributes) *(.comment) }}
    }}
    """

    def __init__(self, elf: bytes, name: str) -> None:
        self._entry = {symbol: value for symbol, value, _, _ in symbols(elf)}[name] | 1
        self.instructions = self.stack = 0
        self._cpu = processor()
        for base, section in ((FLASH, ".flash"), (RAM, ".ram")):
            self._cpu.mem_map(base, 1 << 16)
            for found, _, _, data, _ in sections(elf):
                if found == section:
                    self._cpu.mem_write(base, data)
        self._cpu.mem_map(END, _PAGE)
        self._counted = count_instructions(self._cpu)

    def call(self, x: np.ndarray) -> int:
        """Calls the function with an array, and returns its result."""
        address = RAM + 0x8000
        self._cpu.mem_write(address, np.ascontiguousarray(x, np.float32).tobytes())
        top = RAM + 0x10000
        self._cpu.mem_write(top - _STACK, _UNUSED * _STACK)
        for register, value in (("R0", address), ("SP", top), ("LR", _RETURN | 1)):
            self._cpu.reg_write(getattr(arm_const, f"UC_ARM_REG_{register}"), value)
        before = self._counted()
        self._cpu.emu_start(self._entry, _RETURN)
        self.instructions = self._counted() - before
        self.stack = len(bytes(self._cpu.mem_read(top - _STACK, _STACK)).lstrip(_UNUSED))
        return self._cpu.reg_read(arm_const.UC_ARM_REG_R0)


def _pages(size: int) -> int:
    return -(-max(size, 1) // _PAGE) * _PAGE
