# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs core plans whose kernels are Thumb code: each core is a Cortex-M4 in Unicorn with memories of its own."""

from __future__ import annotations

import mmap
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import core_plan
import numpy as np
import unicorn
from core_plan import Acquire, Check, Copy, CorePlan, Kernel, Place, Program, Release, Run, Send, Wait
from thumb import count_instructions, processor, sections, symbols
from unicorn import arm_const

CODE, DATA, STACK, END = 0x0000_0000, 0x2000_0000, 0x3000_0000, 0x1000_0000
STACK_BYTES = 4096
_PAGE = 4096
_WORD = 8
_MOST_PRODUCTS = 511
"""(K4) This many products of bytes fit into an accumulator of 24 bits."""
_POISON = 0xA5
_SCRIPT = """
/* The array of the core multiplies at the address of its routine, which only returns. */
SECTIONS {
  .code %d : { *(.text*) *(.rodata*) . = ALIGN(4); repro_multiply_bytes = . + 1; LONG(0x47704770) }
  /DISCARD/ : { *(.ARM.exidx*) *(.ARM.attributes) *(.comment) *(.note*) }
}
"""
_ROUTINE_BYTES = 6
"""The most bytes of the routine of the array, with the padding before it."""


class CheckFailed(Exception):
    """(E1) A check has failed; the argument is its message."""


_Image = tuple[bytes, dict[int, int], int]


def link(plan: CorePlan, kernels: Sequence[int], folder: Path) -> _Image:
    """Links an image of the code that these kernels need. Returns the image, the address of each kernel, and the
    address of the routine of the array."""
    folder.mkdir(parents=True, exist_ok=True)
    script, linked = folder / "code.ld", folder / "code.elf"
    script.write_text(_SCRIPT % CODE)
    made = []
    for number, data in enumerate(plan.objects):
        made.append(folder / f"{number}.o")
        made[-1].write_bytes(data)
    entries = {kernel: f"repro_entry_{plan.kernels[kernel].name}" for kernel in kernels}
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "ld.lld",
        "--gc-sections",
        "-T",
        script,
        "-e",
        next(iter(entries.values())),
    ]
    for name in entries.values():
        command += ["-u", name]
    subprocess.run([*command, *made, "-o", linked], check=True)
    elf = linked.read_bytes()
    (image,) = (data for name, _, _, data, _ in sections(elf) if name == ".code")
    addresses = {name: value for name, value, _, section in symbols(elf) if section}
    return image, {kernel: addresses[name] for kernel, name in entries.items()}, addresses["repro_multiply_bytes"] - 1


class Core:
    """A core of the machine, with the image of the kernels of its program."""

    def __init__(self, plan: CorePlan, program: Program, image: _Image) -> None:
        self._plan = plan
        self._program = program
        self._image, self._addresses, self._array = image
        pages = -(-program.bytes // _PAGE) * _PAGE
        self._pages = mmap.mmap(-1, pages)
        # The memory ends with a page, as far as its alignment allows; an access after it is an error.
        start = (pages - program.bytes) // 64 * 64
        self._base = DATA + start
        self.memory = np.frombuffer(self._pages, np.uint8)[start : start + program.bytes]
        self._cpu = self._processor()
        self.instructions: dict[int, int] = {}
        """The instructions of a run of each kernel that `count` has run."""

    def _processor(self) -> unicorn.Uc:
        cpu = processor()
        code = -(-self._plan.machine["core"]["code_bytes"]["value"] // _PAGE) * _PAGE
        assert len(self._image) - _ROUTINE_BYTES <= self._program.code <= code
        cpu.mem_map(CODE, code, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        cpu.mem_write(CODE, self._image)
        data = np.frombuffer(self._pages, np.uint8)
        cpu.mem_map_ptr(DATA, data.size, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE, data.ctypes.data)
        cpu.mem_map(STACK, STACK_BYTES, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        cpu.mem_map(END, _PAGE)
        cpu.hook_add(unicorn.UC_HOOK_CODE, self._multiply, begin=self._array, end=self._array)
        return cpu

    def _multiply(self, cpu: unicorn.Uc, *_: object) -> None:
        """Multiplies like the array of the core: the arguments are those of lib/Simulator/MacArray.h, as i64."""
        registers = [cpu.reg_read(getattr(arm_const, f"UC_ARM_REG_R{i}")) for i in range(4)]
        data = np.array(registers, "<u4").tobytes() + cpu.mem_read(cpu.reg_read(arm_const.UC_ARM_REG_SP), 8 * _WORD)
        x, x_row, x_depth, y, y_depth, y_column, sums, rows, columns, depth = np.frombuffer(data, "<i8").tolist()
        matrix = self._plan.machine["matrix"]
        assert rows <= matrix["rows"]["value"] and columns <= matrix["columns"]["value"] and depth <= _MOST_PRODUCTS

        def factor(address: int, shape: tuple[int, int], strides: tuple[int, int]) -> np.ndarray:
            last = address + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
            assert self._base <= min(address, last) and max(address, last) < self._base + self.memory.size
            bytes = self.memory[address - self._base :].view(np.int8)
            return np.lib.stride_tricks.as_strided(bytes, shape, strides).astype(np.int32)

        product = factor(x, (rows, depth), (x_row, x_depth)) @ factor(y, (depth, columns), (y_depth, y_column))
        assert sums % 4 == 0 and self._base <= sums <= self._base + self.memory.size - product.nbytes
        self.memory[sums - self._base :][: product.nbytes].view(np.int32)[:] = product.reshape(-1)

    def reset(self) -> None:
        self.memory[:] = _POISON
        self.memory[self._program.error : self._program.error + _WORD] = 0

    def words(self, offset: int, count: int) -> np.ndarray:
        return self.memory[offset : offset + _WORD * count].view(np.int64)

    def run(self, run: Run, counts: bool) -> None:
        """Calls a kernel by the contract of kernel functions, with all of its work items."""
        cpu = self._cpu
        kernel = self._plan.kernels[run.kernel]
        if counts and run.kernel not in self.instructions:
            cpu = self._processor()
            counted = count_instructions(cpu)
        # The stack has the work items, the buffers follow.
        buffers = np.array([self._base + offset for offset in run.offsets], "<u4").tobytes()
        frame = -(-(16 + len(buffers)) // 8) * 8
        top = STACK + STACK_BYTES - frame
        cpu.mem_write(top, np.array([0, kernel.items], "<i8").tobytes() + buffers)
        registers = {
            arm_const.UC_ARM_REG_R0: top + 16,
            arm_const.UC_ARM_REG_R1: self._base + self._program.scratch[0],
            arm_const.UC_ARM_REG_R2: self._base + self._program.error,
            arm_const.UC_ARM_REG_SP: top,
            arm_const.UC_ARM_REG_LR: END | 1,
        }
        for register, value in registers.items():
            cpu.reg_write(register, value)
        cpu.emu_start(self._addresses[run.kernel] | 1, END)
        assert cpu.reg_read(arm_const.UC_ARM_REG_SP) == top
        if cpu is not self._cpu:
            self.instructions[run.kernel] = counted()


@dataclass
class _Program:
    """The progress of a program."""

    program: Program
    core: Core
    next: int = 0
    has_failed: bool = False
    counters: dict[int, int] = field(default_factory=dict)
    transfers: list[Copy | Send] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)


class ThumbMachine:
    """A machine of many cores that runs the steps of a plan, in an order that the plan allows.

    Attributes:
      states, outputs: the tensors in DRAM, which the caller sets.
      runs: the operations of each core in the order in which the last step executed them.
    """

    def __init__(self, data: bytes, folder: Path, counts: bool = False) -> None:
        self.plan = core_plan.read(data)
        assert self.plan.level == "thumbv7em"
        self._counts = counts
        self._images: dict[tuple[int, ...], _Image] = {}
        self.cores: dict[core_plan.Core, Core] = {}
        for program in self.plan.programs:
            kernels = tuple(sorted(self.plan.kernels_of(program)))
            if kernels not in self._images:
                made = link(self.plan, kernels, folder / str(len(self._images))) if kernels else (b"", {}, 0)
                # The plan states the most bytes that the padding of sections can take.
                padding = 4 * (2 * len(kernels) + 32)
                assert program.code - padding <= len(made[0]) - _ROUTINE_BYTES <= program.code
                self._images[kernels] = made
            self.cores[program.core] = Core(self.plan, program, self._images[kernels])
        self.states: list[np.ndarray] = []
        self.outputs: list[np.ndarray] = []
        self.runs: dict[core_plan.Core, list[int]] = {}

    def step(self, inputs: list[np.ndarray], seed: int) -> None:
        """Runs a step, which changes `states` and `outputs`.

        Args:
          seed: determines the order.
        Raises:
          CheckFailed: a check has failed.
        """
        order = random.Random(seed)
        memories = [[_bytes(array) for array in group] for group in (self.states, inputs, self.outputs)]
        arena = np.full(max(self.plan.arena, 1), _POISON, np.uint8)
        constants = np.frombuffer(self.plan.constants, np.uint8)
        self._dram = [*memories, [arena], [constants]]
        self._programs = {program.core: _Program(program, self.cores[program.core]) for program in self.plan.programs}
        self.runs = {core: [] for core in self._programs}
        for core in self.cores.values():
            core.reset()
        self._failed: list[int] = []
        while able := [each for each in self._programs.values() if each.pending or self._is_ready(each)]:
            each = order.choice(able)
            # A transfer may end at any moment between its start and its wait.
            while each.pending and (not self._is_ready(each) or order.random() < 0.3):
                self._transfer(each, each.pending.pop(order.randrange(len(each.pending))))
            for _ in range(order.randrange(1, 64)):
                if not self._is_ready(each):
                    break
                self._execute(each)
        if not self._failed:
            blocked = [each.program.core for each in self._programs.values() if not self._has_ended(each)]
            assert not blocked, f"deadlock of cores {blocked}"
            for each in self._programs.values():
                self._check(each.core.words(each.program.error, 1))
        if self._failed:
            raise CheckFailed(self.plan.messages[min(self._failed) - 1])

    def _check(self, words: np.ndarray) -> bool:
        found = [int(word) for word in words if word]
        self._failed += found
        return bool(found)

    def _has_ended(self, each: _Program) -> bool:
        return each.next == len(each.program.operations)

    def _is_ready(self, each: _Program) -> bool:
        if each.has_failed or self._has_ended(each):
            return False
        operation = each.program.operations[each.next]
        return not isinstance(operation, Acquire) or each.counters.get(operation.counter, 0) >= operation.count

    def _execute(self, each: _Program) -> None:
        operation = each.program.operations[each.next]
        self.runs[each.program.core].append(each.next)
        each.next += 1
        if isinstance(operation, Run):
            each.core.run(operation, self._counts)
        elif isinstance(operation, Copy | Send):
            each.pending.append(len(each.transfers))
            each.transfers.append(operation)
        elif isinstance(operation, Wait):
            if operation.transfer in each.pending:
                each.pending.remove(operation.transfer)
                self._transfer(each, operation.transfer)
        elif isinstance(operation, Release):
            self._add(operation.cores, operation.counter)
        elif isinstance(operation, Check):
            each.has_failed = self._check(each.core.words(operation.offset, operation.words))

    def _add(self, cores: Sequence[core_plan.Core], counter: int) -> None:
        for core in cores:
            counters = self._programs[core].counters
            counters[counter] = counters.get(counter, 0) + 1

    def _transfer(self, each: _Program, number: int) -> None:
        transfer = each.transfers[number]
        if isinstance(transfer, Send):
            data = each.core.memory[transfer.source : transfer.source + transfer.bytes]
            for core in transfer.cores:
                self.cores[core].memory[transfer.target : transfer.target + transfer.bytes] = data
            self._add(transfer.cores, transfer.counter)
            return
        source = self._elements(each.core, transfer.source, transfer.source_strides, transfer)
        self._elements(each.core, transfer.target, transfer.target_strides, transfer)[...] = source

    def _elements(self, core: Core, place: Place, strides: Sequence[int], copy: Copy) -> np.ndarray:
        if place.memory == core_plan.LOCAL:
            memory = core.memory
        elif place.memory == core_plan.REMOTE:
            memory = self.cores[self.plan.programs[place.index].core].memory
        else:
            memory = self._dram[place.memory][place.index]
        return np.lib.stride_tricks.as_strided(
            memory[place.offset :], (*copy.extents, copy.element_bytes), (*strides, 1), writeable=memory.flags.writeable
        )


def _bytes(array: np.ndarray) -> np.ndarray:
    assert array.flags.c_contiguous
    return array.reshape(-1).view(np.uint8)


def instructions(machine: ThumbMachine) -> list[tuple[Kernel, int]]:
    """Returns the kernels that cores have counted, with the instructions of one run."""
    found: dict[int, int] = {}
    for core in machine.cores.values():
        found.update(core.instructions)
    return [(machine.plan.kernels[number], count) for number, count in sorted(found.items())]
