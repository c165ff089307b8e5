# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A GPU: its properties, its memory, code loaded on it, and its stream."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.runner.driver import (
    INVALID_IMAGE,
    INVALID_PTX,
    NO_BINARY_FOR_GPU,
    OUT_OF_MEMORY,
    UNSUPPORTED_PTX_VERSION,
    Driver,
    DriverError,
    NoDevice,
)

_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _PROCESSORS, _CLOCK_RATE = 75, 76, 16, 13
_MAX_DYNAMIC_SHARED = 8
_STATIC_SHARED_LIMIT = 48 * 1024
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
_LOG_BYTES = 8192
_NON_BLOCKING = 1
_CAPTURE_THREAD_LOCAL = 1
_REJECTED = {INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION}


class ImageRejected(ReproError):
    """Raised when the driver rejects code: it is for another architecture, for a newer PTX version, or damaged."""


class Device:
    """A GPU. It has a stream of its own, and uses the primary context, which other libraries in this process share."""

    def __init__(self, ordinal: int = 0) -> None:
        """
        Args:
          ordinal: the number of the GPU in the driver's list.
        Raises:
          NoDevice: there is no driver or no GPU.
          ReproError: the driver cannot be loaded, or there is no GPU with this number.
          DriverError: a call of the driver failed.
        """
        self.driver = driver = Driver()
        count = c_int()
        driver.cuDeviceGetCount(byref(count))
        if count.value == 0:
            raise NoDevice("the CUDA driver finds no GPU: check CUDA_VISIBLE_DEVICES")
        if not 0 <= ordinal < count.value:
            raise ReproError(f"expected a GPU from 0 to {count.value - 1}, got {ordinal}")
        handle = c_int()
        driver.cuDeviceGet(byref(handle), ordinal)
        self._handle = handle.value
        self.ordinal = ordinal
        self.capability = self._attribute(_CAPABILITY_MAJOR), self._attribute(_CAPABILITY_MINOR)
        self._stream: Any = None
        context = c_void_p()
        driver.cuDevicePrimaryCtxRetain(byref(context), self._handle)
        driver.cuCtxSetCurrent(context)
        stream = c_void_p()
        driver.cuStreamCreate(byref(stream), _NON_BLOCKING)
        self._stream = stream

    def close(self) -> None:
        """Releases the stream and the context."""
        if self._stream is not None:
            self.driver.cuStreamDestroy_v2(self._stream)
            self.driver.cuDevicePrimaryCtxRelease_v2(self._handle)
            self._stream = None

    def _attribute(self, attribute: int) -> int:
        value = c_int()
        self.driver.cuDeviceGetAttribute(byref(value), attribute, self._handle)
        return value.value

    @property
    def name(self) -> str:
        """The name of the GPU model."""
        text = ctypes.create_string_buffer(256)
        self.driver.cuDeviceGetName(text, len(text), self._handle)
        return text.value.decode()

    @property
    def architecture(self) -> str:
        """The name that the compiler has for the architecture, such as "sm_90"."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def memory_bytes(self) -> int:
        """The size of the GPU's memory in bytes."""
        size = c_size_t()
        self.driver.cuDeviceTotalMem_v2(byref(size), self._handle)
        return size.value

    @property
    def processors(self) -> int:
        """The number of streaming multiprocessors."""
        return self._attribute(_PROCESSORS)

    @property
    def clock_rate(self) -> int:
        """The highest clock rate in kHz."""
        return self._attribute(_CLOCK_RATE)

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes, aligned to 256, and returns their address. Raises ReproError if there is not enough
        memory."""
        pointer = c_uint64()
        try:
            self.driver.cuMemAlloc_v2(byref(pointer), max(size, 1))
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            raise ReproError(f"out of memory: no {size:,} bytes free of {self.memory_bytes:,} on {self.name}") from None
        return pointer.value

    def free(self, pointer: int) -> None:
        """Frees memory that `allocate` has returned."""
        self.driver.cuMemFree_v2(pointer)

    def write(self, pointer: int, array: np.ndarray) -> None:
        """Copies a C-contiguous array to the device; the array must not change before `synchronize` returns."""
        if array.nbytes:
            self.driver.cuMemcpyHtoDAsync_v2(pointer, array.ctypes.data, array.nbytes, self._stream)

    def read(self, pointer: int, array: np.ndarray) -> None:
        """Copies from the device to a C-contiguous array; the contents are valid after `synchronize` has returned."""
        if array.nbytes:
            self.driver.cuMemcpyDtoHAsync_v2(array.ctypes.data, pointer, array.nbytes, self._stream)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copies `size` bytes within the device's memory."""
        if size:
            self.driver.cuMemcpyDtoDAsync_v2(target, source, size, self._stream)

    def clear(self, pointer: int, size: int) -> None:
        """Fills `size` bytes with zeros."""
        if size:
            self.driver.cuMemsetD8Async(pointer, 0, size, self._stream)

    def synchronize_all(self) -> None:
        """Waits for all work of this process on the device, such as writes of another library to a buffer."""
        self.driver.cuCtxSynchronize()

    def synchronize(self) -> None:
        """Waits for all work on this object's stream. Raises DriverError if any of it has failed."""
        self.driver.cuStreamSynchronize(self._stream)

    def load(self, image: bytes, what: str) -> LoadedModule:
        """Loads a cubin or PTX. The driver assembles PTX to machine code.

        Args:
          image: the contents.
          what: what the image is, for messages.
        Raises:
          ImageRejected: the driver rejects the image.
        """
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        text = ctypes.create_string_buffer(image)
        module = c_void_p()
        try:
            self.driver.cuModuleLoadDataEx(byref(module), ctypes.cast(text, c_void_p), 2, options, values)
        except DriverError as error:
            if error.code not in _REJECTED:
                raise
            lines = log.value.decode(errors="replace").split("\n")
            reason = "; ".join(line.strip() for line in lines if line.strip())[:300]
            raise ImageRejected(
                f"{self.name} ({self.architecture}) does not take {what}: {error}{f': {reason}' if reason else ''}"
            ) from None
        return LoadedModule(self, module)

    def launch(
        self, function: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, arguments: list[int]
    ) -> None:
        """Launches a kernel whose parameters are 64-bit addresses."""
        values = (c_uint64 * len(arguments))(*arguments)
        start, size = ctypes.addressof(values), ctypes.sizeof(c_uint64)
        pointers = (c_void_p * len(arguments))(*(start + size * i for i in range(len(arguments))))
        self.driver.cuLaunchKernel(function, *grid, *block, shared, self._stream, pointers, None)

    def record(self, work: Callable[[], None]) -> Graph:
        """Calls `work`, and returns a graph of the operations that `work` enqueues on the stream. The operations do not
        run."""
        driver = self.driver
        driver.cuStreamBeginCapture_v2(self._stream, _CAPTURE_THREAD_LOCAL)
        graph = c_void_p()
        try:
            work()
        except BaseException:
            # Ends the capture. If this fails too, the first exception is the one to report.
            with contextlib.suppress(DriverError):
                driver.cuStreamEndCapture(self._stream, byref(graph))
            raise
        driver.cuStreamEndCapture(self._stream, byref(graph))
        return Graph(self, graph)

    def event(self) -> Any:
        """Returns an event that marks the end of all work enqueued so far."""
        event = c_void_p()
        self.driver.cuEventCreate(byref(event), 0)
        self.driver.cuEventRecord(event, self._stream)
        return event

    def elapsed(self, start: Any, end: Any) -> float:
        """Waits for the event `end`, frees both events and returns the seconds between them."""
        milliseconds = c_float()
        self.driver.cuEventSynchronize(end)
        self.driver.cuEventElapsedTime(byref(milliseconds), start, end)
        self.driver.cuEventDestroy_v2(start)
        self.driver.cuEventDestroy_v2(end)
        return milliseconds.value * 1e-3


class LoadedModule:
    """A loaded module."""

    def __init__(self, device: Device, module: Any) -> None:
        self._device = device
        self._module = module

    def function(self, name: str, shared: int) -> Any:
        """Returns a kernel by name, which can be launched with at most `shared` bytes of dynamic shared memory."""
        driver = self._device.driver
        function = c_void_p()
        driver.cuModuleGetFunction(byref(function), self._module, name.encode())
        if shared > _STATIC_SHARED_LIMIT:
            driver.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared)
        if driver.has("cuFuncLoad"):
            # Loads the code now: if the driver loaded the code lazily at the first launch, loading could fail during a
            # graph capture. Drivers without cuFuncLoad have loaded it above (CUDA C++ Programming Guide 12.2, Lazy
            # Loading).
            driver.cuFuncLoad(function)
        return function

    def unload(self) -> None:
        """Unloads the code from the device. Its kernels become invalid."""
        self._device.driver.cuModuleUnload(self._module)


class Graph:
    """A captured CUDA graph, which one call launches."""

    def __init__(self, device: Device, graph: Any) -> None:
        self._device = device
        self._graph = graph
        executable = c_void_p()
        device.driver.cuGraphInstantiateWithFlags(byref(executable), graph, 0)
        self._executable = executable

    def launch(self) -> None:
        """Launches the graph, which runs after all work that has been enqueued before."""
        self._device.driver.cuGraphLaunch(self._executable, self._device._stream)

    def free(self) -> None:
        """Frees the graph."""
        self._device.driver.cuGraphExecDestroy(self._executable)
        self._device.driver.cuGraphDestroy(self._graph)
