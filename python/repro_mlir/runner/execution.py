# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Loads device code, allocates its buffers and runs steps."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.runner.certificates import IMAGES, TENSOR_CORES, certificate_for, certified_images, without_tensor_cores
from repro_mlir.runner.device import Device, Graph, ImageRejected, LoadedModule
from repro_mlir.runner.driver import DriverError
from repro_mlir.runner.plan import Plan, write_plan

ALIGNMENT = 256
_WORD = np.dtype(np.int64)


@dataclass(frozen=True)
class TargetCode:
    """The compiled code of a program for one architecture. The name of the architecture ends with TENSOR_CORES if the
    code uses tensor cores."""

    architecture: str
    cubin: bytes | None
    ptx: bytes
    plan: Plan
    constants: bytes

    @property
    def digest(self) -> str:
        """The SHA-256 digest of PTX, plan and constants, as 64 hexadecimal digits."""
        parts = (self.ptx, write_plan(self.plan), self.constants)
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def choose_architecture(names: Sequence[str], capability: tuple[int, int], what: str) -> str:
    """Returns the best of `names` for a GPU of this compute capability; prefers code with tensor cores.

    PTX for an architecture runs on all later architectures. If the architecture's name ends in `a` or `f`, the PTX is
    used on that architecture only.

    Raises:
      ReproError: the GPU runs none of them.
    """
    number = 10 * capability[0] + capability[1]

    def version(name: str) -> int:
        digits = without_tensor_cores(name).removeprefix("sm_").rstrip("af")
        return int(digits) if digits.isdecimal() else 0

    def is_specific(name: str) -> bool:
        return without_tensor_cores(name)[-1:] in ("a", "f")

    fitting = [
        name for name in names if version(name) == number or (0 < version(name) < number and not is_specific(name))
    ]
    if not fitting:
        raise ReproError(f"{what} has code for {', '.join(names) or 'no GPU'}, which this GPU (sm_{number}) cannot run")
    return max(fitting, key=lambda name: (version(name), is_specific(name), name.endswith(TENSOR_CORES)))


def choose_runnable(names: Sequence[str], device: Device, what: str) -> str:
    """Like `choose_architecture`, but accepts code with tensor cores only if the device has a certificate for it.

    Raises:
      ReproError: the device can run none of them. If only a certificate is missing, the message says so.
    """
    left = list(names)
    refused: str | None = None
    while True:
        try:
            chosen = choose_architecture(left, device.capability, what)
        except ReproError as error:
            if refused is None:
                raise
            raise ReproError(f"{refused}; {error}" if left else refused) from None
        try:
            if chosen.endswith(TENSOR_CORES):
                certificate_for(device, chosen)
            return chosen
        except ReproError as error:
            refused = refused or str(error)
            left.remove(chosen)


class Execution:
    """Code that is loaded on a device, its buffers (in one allocation), and a CUDA graph of a whole step.

    Attributes:
      device: the GPU.
      plan: the launch plan.
      image: the loaded image, "cubin" or "PTX".
      allocated: the size of the allocation in bytes.
    """

    def __init__(
        self,
        device: Device,
        code: TargetCode,
        bound: Mapping[tuple[str, int], int] | None = None,
        *,
        use_cubin: bool = True,
        certifying: bool = False,
    ) -> None:
        """
        Args:
          device: the GPU.
          code: code for the GPU, see `choose_architecture`.
          bound: the device addresses of buffers that the caller owns; a key is a space such as "state" and the number
            of the buffer in it.
          use_cubin: whether to try the cubin before the PTX; the bits of the results are the same.
          certifying: whether code with tensor cores may run without a certificate, as it does in the test that precedes
            a certificate.
        Raises:
          ReproError: the driver accepts none of the code, a certificate is missing, or memory is insufficient.
        """
        self.device = device
        self.plan = plan = code.plan
        self._graph: Graph | None = None
        images = IMAGES if certifying else certified_images(device, code.architecture, code.ptx)
        self._code, self.image = _load(device, code, use_cubin and "cubin" in images)
        if self.image not in images:
            raise ReproError(f"the certificate of {device.name}: expected {self.image}, got {' and '.join(images)}")
        self._functions = [self._code.function(kernel.name, kernel.shared) for kernel in plan.kernels]
        bound = bound or {}
        sizes = {("error", 0): _WORD.itemsize} | plan.sizes()
        offsets: dict[tuple[str, int], int] = {}
        self.allocated = 0
        for key, size in sizes.items():
            if key not in bound:
                offsets[key] = self.allocated
                self.allocated += -(-size // ALIGNMENT) * ALIGNMENT
        self._base = device.allocate(self.allocated)
        self._addresses = {key: self._base + offset for key, offset in offsets.items()} | dict(bound)
        self._error = np.zeros(1, _WORD)
        device.write(self._addresses["constant", 0], np.frombuffer(code.constants, np.uint8))
        device.synchronize()

    def __enter__(self) -> Execution:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After some errors, every call of the driver fails, so errors of close() must not hide the first one.
        with contextlib.suppress(*([DriverError] if kind else [])):
            self.close()

    def close(self) -> None:
        """Frees the memory, the graph and the code. A second call does nothing."""
        if not self._addresses:
            return
        # Cleared before the memory is freed, so that no address of freed memory can be read.
        self._addresses = {}
        if self._graph is not None:
            self._graph.free()
        self._graph = None
        self.device.free(self._base)
        self._code.unload()

    def address(self, space: str, index: int) -> int:
        """Returns the device address of a state, input or output. Raises ReproError if the memory is freed."""
        self.check_open()
        return self._addresses[space, index]

    def check_open(self) -> None:
        """Raises ReproError if the memory is freed."""
        if not self._addresses:
            raise ReproError("expected an open session, got one whose memory is freed")

    def write(self, space: str, index: int, array: np.ndarray) -> None:
        """Copies a C-contiguous array to a state or input, see `Device.write`. Raises ReproError if the size
        differs."""
        kind = self.plan.tensors(space)[index]
        if array.nbytes != kind.nbytes:
            raise ReproError(f"{space} {kind.name}: expected {kind.nbytes} bytes, got {array.nbytes}")
        self.device.write(self.address(space, index), array)

    def read(self, space: str, index: int) -> np.ndarray:
        """Returns a copy of a state or output."""
        kind = self.plan.tensors(space)[index]
        array = np.empty(kind.shape, kind.dtype)
        self.device.read(self.address(space, index), array)
        self.device.synchronize()
        return array

    def start(self) -> None:
        """Enqueues a step; the first call captures the graph of the step. Raises ReproError if the memory is freed."""
        self.check_open()
        if self._graph is None:
            self._graph = self.device.record(self._enqueue)
        self._graph.launch()

    def finish(self) -> None:
        """Waits for the steps that were started, and checks whether the last one has failed.

        Raises:
          StepFailed: a check of the program failed (E1); the states are unchanged.
        """
        self.device.read(self._addresses["error", 0], self._error)
        self.device.synchronize()
        word = int(self._error[0])
        if word:
            raise StepFailed(self.plan.message(word))

    def _enqueue(self) -> None:
        error = self._addresses["error", 0]
        self.device.clear(error, _WORD.itemsize)
        for launch in self.plan.launches:
            kernel = self.plan.kernels[launch.kernel]
            arguments = [self._addresses[space, index] + offset for space, index, offset in launch.arguments]
            function = self._functions[launch.kernel]
            self.device.launch(function, launch.grid, kernel.block, kernel.shared, [*arguments, error])


def _load(device: Device, code: TargetCode, use_cubin: bool) -> tuple[LoadedModule, str]:
    own = without_tensor_cores(code.architecture).rstrip("af")
    if use_cubin and code.cubin is not None and own == device.architecture:
        try:
            return device.load(code.cubin, f"the cubin for {code.architecture}"), "cubin"
        except ImageRejected:
            # The driver is older than the assembler that made the cubin, but can assemble the PTX itself.
            pass
    return device.load(code.ptx, f"the PTX for {code.architecture}"), "PTX"
