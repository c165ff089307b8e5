# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls the CUDA driver through ctypes: declares the entry points that the runner needs, and raises their errors as
exceptions.

The numbers of attributes, options and errors are from cuda.h of CUDA 12 and 13; all entry points exist since CUDA 12.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

from repro_mlir.base.errors import ReproError

LIBRARY_VARIABLE = "REPRO_LIBCUDA"
"""The environment variable with the name of a library to load instead of libcuda.so.1."""

_handle = POINTER(c_void_p)

_SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDeviceTotalMem_v2": [POINTER(c_size_t), c_int],
    "cuDevicePrimaryCtxRetain": [_handle, c_int],
    "cuDevicePrimaryCtxRelease_v2": [c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxSynchronize": [],
    "cuModuleLoadDataEx": [_handle, c_void_p, c_uint, POINTER(c_int), POINTER(c_void_p)],
    "cuModuleUnload": [c_void_p],
    "cuModuleGetFunction": [_handle, c_void_p, c_char_p],
    "cuFuncSetAttribute": [c_void_p, c_int, c_int],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p],
    "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemsetD8Async": [c_uint64, ctypes.c_ubyte, c_size_t, c_void_p],
    "cuStreamCreate": [_handle, c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamSynchronize": [c_void_p],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)],
    "cuStreamBeginCapture_v2": [c_void_p, c_int],
    "cuStreamEndCapture": [c_void_p, _handle],
    "cuGraphInstantiateWithFlags": [_handle, c_void_p, c_ulonglong],
    "cuGraphLaunch": [c_void_p, c_void_p],
    "cuGraphExecDestroy": [c_void_p],
    "cuGraphDestroy": [c_void_p],
    "cuEventCreate": [_handle, c_uint],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p],
    "cuEventDestroy_v2": [c_void_p],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
}

# Optional entry points: some drivers lack them.
_OPTIONAL: dict[str, list[Any]] = {
    # exists since CUDA 12.4
    "cuFuncLoad": [c_void_p],
    # Only in substitutes for the driver, such as lib/StubDriver.
    "reproDriverGetBuild": [c_char_p, c_int],
}

_VERSIONED = re.compile(r"libcuda\.so\.([0-9]{3,}(?:\.[0-9]+)+)")
_MODULE_VERSION = Path("/sys/module/nvidia/version")

OUT_OF_MEMORY = 2
NO_DEVICE = 100
INVALID_IMAGE = 200
NO_BINARY_FOR_GPU = 209
INVALID_PTX = 218
UNSUPPORTED_PTX_VERSION = 222


class NoDevice(ReproError):
    """Raised when this machine has no GPU, or no driver for one."""


class DriverError(ReproError):
    """Raised when a call of the driver fails.

    Attributes:
      function: the name of the entry point.
      code: the error code, a CUresult.
    """

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"the CUDA driver reports {text} ({function})")
        self.function = function
        self.code = code


class Driver:
    """The loaded driver: each entry point is a method that raises DriverError if the call fails."""

    def __init__(self) -> None:
        """Loads and initializes libcuda.so.1, or the library that REPRO_LIBCUDA names.

        Raises:
          NoDevice: the library is missing, or there is no GPU.
          ReproError: the library cannot be loaded or is too old.
          DriverError: the driver cannot be initialized.
        """
        name = os.environ.get(LIBRARY_VARIABLE) or "libcuda.so.1"
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            is_missing = LIBRARY_VARIABLE not in os.environ and str(error).startswith(f"{name}: cannot open")
            raise (NoDevice if is_missing else ReproError)(
                f"expected the CUDA driver {name}, which an NVIDIA driver installs: {error} (the target ptx-emulator "
                "of repro-mlir needs no driver)"
            ) from None
        self._functions: dict[str, Callable[..., int]] = {}
        for function, arguments in (_SIGNATURES | _OPTIONAL).items():
            entry = getattr(library, function, None)
            if entry is None:
                if function in _OPTIONAL:
                    continue
                raise ReproError(f"{name} has no {function}: expected a CUDA driver of version 12 or later")
            entry.argtypes = arguments
            entry.restype = c_int
            self._functions[function] = entry
        try:
            self.cuInit(0)
        except DriverError as error:
            if error.code == NO_DEVICE:
                raise NoDevice("the CUDA driver finds no GPU: check CUDA_VISIBLE_DEVICES") from None
            raise

    def __getattr__(self, function: str) -> Callable[..., None]:
        entry = self._functions[function]

        def call(*arguments: Any) -> None:
            if code := entry(*arguments):
                raise DriverError(function, code, self.describe(code))

        # Stored as an attribute, so that `__getattr__` is not called for this name again.
        setattr(self, function, call)
        return call

    def has(self, function: str) -> bool:
        """Returns whether this driver has an optional entry point."""
        return function in self._functions

    def describe(self, code: int) -> str:
        """Returns the name, the number and the description of a CUresult as text."""
        name, meaning = c_char_p(), c_char_p()
        self._functions["cuGetErrorName"](code, ctypes.byref(name))
        self._functions["cuGetErrorString"](code, ctypes.byref(meaning))
        return f"{(name.value or b'an unknown error').decode()} {code}: {(meaning.value or b'no description').decode()}"

    def identity(self) -> str:
        """Returns `version` and the number of the driver's build, such as "13.0 580.65.06". The build determines the
        PTX compiler and so the machine code.

        Raises:
          ReproError: the build cannot be found.
        """
        return f"{self.version()} {self._build()}"

    def _build(self) -> str:
        if self.has("reproDriverGetBuild"):
            build = ctypes.create_string_buffer(64)
            self.reproDriverGetBuild(build, len(build))
            return build.value.decode()
        # Prefers the build in the library's file name to that of the kernel module, because the library may be newer.
        if named := _VERSIONED.fullmatch(os.path.basename(_file_of(self._functions["cuInit"]))):
            return named[1]
        try:
            found = _MODULE_VERSION.read_text().strip()
        except (OSError, UnicodeDecodeError):
            found = ""
        if not found:
            raise ReproError(
                "a certificate names a build of the driver, and this system does not show which build it has: expected "
                f"a library such as libcuda.so.580.65.06, or the version in {_MODULE_VERSION}"
            )
        return found

    def version(self) -> str:
        """Returns the CUDA version of the driver, such as "13.0"."""
        value = c_int()
        self.cuDriverGetVersion(ctypes.byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("address", c_void_p)]


def _file_of(function: Any) -> str:
    """Returns the resolved path of the shared library that contains a function; an empty string if it is unknown."""
    found = _Symbol()
    is_found = ctypes.CDLL(None).dladdr(ctypes.cast(function, c_void_p), ctypes.byref(found))
    return os.path.realpath(os.fsdecode(found.file)) if is_found and found.file else ""
