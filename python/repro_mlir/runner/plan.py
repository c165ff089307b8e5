# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The launch plan of a compiled program, which says which kernels run on which buffers, and its binary format.

docs/reference/plan.md defines the format, which lib/Runtime/Plan.cpp reads and writes too.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import foreign

PROCESSORS = ("cpu", "gpu")
"""The types of processor that run launches."""

SPACES = ("state", "input", "output", "arena", "constant")
"""The memory spaces of the buffers of a launch."""

_MAGIC = b"reproplan\0\0\0"
_VERSION = 1
_CHECK = 1
# The upper limit of every size, in bytes or elements: what a 48-bit address can reach.
_MOST_BYTES = 1 << 48
_MOST_THREADS = 1024

_T = TypeVar("_T")


@dataclass(frozen=True)
class Kernel:
    """An entry point of the code.

    Attributes:
      items, grain, scratch: on a CPU, the number of independent work items, the smallest number of items for which
        another thread is worth starting, and the bytes of scratch memory per thread.
      block, shared: on a GPU, the numbers of threads of a block in x, y and z, and the bytes of dynamic shared memory.
    """

    name: str
    items: int = 0
    grain: int = 0
    scratch: int = 0
    block: tuple[int, int, int] = (0, 0, 0)
    shared: int = 0


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes:
      kernel: the index of the kernel in `Plan.kernels`.
      check: whether the error word is read before this launch; if a check has failed (E1), the step ends.
      arguments: where each buffer of the kernel begins: the space, such as "arena" or "state", the number in the space,
        and the byte offset.
      grid: on a GPU, the numbers of blocks in x, y and z.
    """

    kernel: int
    check: bool
    arguments: tuple[tuple[str, int, int], ...]
    grid: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Plan:
    """The launches of a step, in order, and the tensors, messages and kernels that they use.

    If a check in a kernel fails (E1), the kernel stores the number of the check's message plus 1 in the error word,
    which is zero before the step.
    """

    processor: str
    arena_size: int
    constant_size: int
    states: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    messages: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]

    def tensors(self, space: str) -> tuple[TensorType, ...]:
        """Returns the tensors of the space "state", "input" or "output"."""
        return {"state": self.states, "input": self.inputs, "output": self.outputs}[space]

    def message(self, word: int) -> str:
        """Returns the message of the failed check that a nonzero error word stands for."""
        known = 1 <= word <= len(self.messages)
        return self.messages[word - 1] if known else f"a check failed, of unknown number {word - 1}"

    def sizes(self) -> dict[tuple[str, int], int]:
        """Returns the sizes in bytes of the plan's memory: the arena, the constants and all states, inputs and outputs.
        A key is a space and a number in it."""
        sizes = {("constant", 0): self.constant_size, ("arena", 0): self.arena_size}
        for space in ("state", "input", "output"):
            sizes |= {(space, i): kind.nbytes for i, kind in enumerate(self.tensors(space))}
        return sizes


def read_plan(data: bytes, processor: str, where: str) -> Plan:
    """Parses the bytes of a plan.

    Args:
      data: bytes from `write_plan` or the compiler.
      processor: the processor that will run the plan, "cpu" or "gpu".
      where: the name of the plan in messages.
    Raises:
      ReproError: the bytes are not a plan, the plan is for another processor, or an index, an offset or a size is out
        of range.
    """
    try:
        plan = _Reader(data).plan()
        _check_plan(plan)
    except (ValueError, struct.error) as error:
        raise ReproError(f"{where}: the launch plan is damaged ({foreign(str(error))})") from None
    if plan.processor != processor:
        raise ReproError(f"{where}: expected a launch plan for a {processor}, got one for a {plan.processor}")
    return plan


def write_plan(plan: Plan) -> bytes:
    """Serializes a plan."""
    is_on_device = plan.processor == "gpu"

    def string(text: str) -> bytes:
        data = text.encode()
        return struct.pack("<I", len(data)) + data

    def many(parts: Sequence[bytes]) -> bytes:
        return struct.pack("<I", len(parts)) + b"".join(parts)

    def tensor(kind: TensorType) -> bytes:
        return string(kind.name) + string(kind.element) + many([struct.pack("<Q", extent) for extent in kind.shape])

    def kernel(kernel: Kernel) -> bytes:
        if is_on_device:
            return string(kernel.name) + struct.pack("<4I", *kernel.block, kernel.shared)
        return string(kernel.name) + struct.pack("<3Q", kernel.items, kernel.grain, kernel.scratch)

    def launch(launch: Launch) -> bytes:
        head = struct.pack("<2I", launch.kernel, _CHECK if launch.check else 0)
        grid = struct.pack("<3I", *launch.grid) if is_on_device else b""
        return head + grid + many([struct.pack("<IIQ", SPACES.index(a[0]), a[1], a[2]) for a in launch.arguments])

    head = struct.pack("<2I2Q", _VERSION, PROCESSORS.index(plan.processor), plan.arena_size, plan.constant_size)
    parts = [
        *(many([tensor(kind) for kind in kinds]) for kinds in (plan.states, plan.inputs, plan.outputs)),
        many([string(message) for message in plan.messages]),
        many([kernel(each) for each in plan.kernels]),
        many([launch(each) for each in plan.launches]),
    ]
    return _MAGIC + head + b"".join(parts)


class _Reader:
    """Parses the bytes of a plan. Its methods raise ValueError or struct.error if the bytes are invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def plan(self) -> Plan:
        if self._data[: len(_MAGIC)] != _MAGIC:
            raise ValueError("expected 'reproplan' at its start")
        self._at = len(_MAGIC)
        version, processor = self._numbers("<2I")
        if version != _VERSION:
            raise ValueError(f"expected version {_VERSION}, got {version}")
        is_on_device = _name(PROCESSORS, processor, "processor") == "gpu"
        arena_size, constant_size = self._numbers("<2Q")
        states, inputs, outputs = (self._list(12, self._tensor) for _ in range(3))
        messages = self._list(4, self._string)
        kernels = self._list(20, self._device_kernel if is_on_device else self._host_kernel)
        launches = self._list(12, lambda: self._launch(is_on_device))
        if self._at != len(self._data):
            raise ValueError(f"expected the end of the plan, got {len(self._data) - self._at} bytes more")
        return Plan(
            PROCESSORS[processor], arena_size, constant_size, states, inputs, outputs, messages, kernels, launches
        )

    def _tensor(self) -> TensorType:
        name, element = self._string(), self._string()
        shape = self._list(8, lambda: self._numbers("<Q")[0])
        if element not in ELEMENTS:
            raise ValueError("unknown element type of a tensor")
        return TensorType(name, element, shape)

    def _host_kernel(self) -> Kernel:
        name = self._string()
        items, grain, scratch = self._numbers("<3Q")
        return Kernel(name, items=items, grain=grain, scratch=scratch)

    def _device_kernel(self) -> Kernel:
        name = self._string()
        x, y, z, shared = self._numbers("<4I")
        return Kernel(name, block=(x, y, z), shared=shared)

    def _launch(self, is_on_device: bool) -> Launch:
        kernel, flags = self._numbers("<2I")
        if flags > _CHECK:
            raise ValueError(f"expected flags of a launch of at most {_CHECK}, got {flags}")
        x, y, z = self._numbers("<3I") if is_on_device else (0, 0, 0)
        return Launch(kernel, bool(flags), self._list(16, self._argument), (x, y, z))

    def _argument(self) -> tuple[str, int, int]:
        space, index, offset = self._numbers("<IIQ")
        return _name(SPACES, space, "space"), index, offset

    def _numbers(self, form: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return numbers

    def _string(self) -> str:
        (length,) = self._numbers("<I")
        if length > len(self._data) - self._at:
            raise ValueError("cut short")
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _list(self, least: int, each: Callable[[], _T]) -> tuple[_T, ...]:
        """Parses a length and that number of elements, each with `each`; an element takes at least `least` bytes."""
        (count,) = self._numbers("<I")
        if count > (len(self._data) - self._at) // least:
            raise ValueError("cut short")
        return tuple(each() for _ in range(count))


def _name(names: Sequence[str], number: int, what: str) -> str:
    if number >= len(names):
        raise ValueError(f"expected a {what} below {len(names)}, got {number}")
    return names[number]


def _check_plan(plan: Plan) -> None:
    """Raises ValueError if an index, an offset or a size is out of range."""
    if max(plan.arena_size, plan.constant_size) > _MOST_BYTES:
        raise ValueError("an arena or constants of more than 2^48 bytes")
    for kind in (*plan.states, *plan.inputs, *plan.outputs):
        if math.prod(extent or 1 for extent in kind.shape) * kind.dtype.itemsize > _MOST_BYTES:
            raise ValueError(f"{kind.name} of more than 2^48 bytes")
    for kernel in plan.kernels:
        if plan.processor == "cpu":
            fits = 1 <= kernel.grain and max(kernel.items, kernel.grain, kernel.scratch) <= _MOST_BYTES
        else:
            fits = min(kernel.block) >= 1 and math.prod(kernel.block) <= _MOST_THREADS
        if not fits:
            raise ValueError(f"kernel {kernel.name} has no work, or more than a processor supports")
    sizes = plan.sizes()
    for number, launch in enumerate(plan.launches):
        if launch.kernel >= len(plan.kernels):
            raise ValueError(f"launch {number}: expected a kernel below {len(plan.kernels)}, got {launch.kernel}")
        if plan.processor == "gpu" and min(launch.grid) < 1:
            raise ValueError(f"launch {number} has a grid without blocks")
        for space, index, offset in launch.arguments:
            # The offset may be the size of the memory: then the buffer is an empty tensor.
            if offset > sizes.get((space, index), -1):
                raise ValueError(f"launch {number} reads at {space} {index}, byte {offset}, which does not exist")
