# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Shares arrays in device memory with other libraries without copies.

Arrays of other libraries are imported through __cuda_array_interface__ (version 3, as documented by Numba) or DLPack
(dlpack.h of version 0.8 to 1.x). DLPack also has the types that NumPy lacks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType

# The values of these constants are those in dlpack.h.
_CUDA, _CUDA_MANAGED = 2, 13
_UINT = 1


class DeviceArray:
    """A buffer of a session, which other libraries can use. A bf16 or f8 buffer appears as unsigned integers with the
    same bits."""

    def __init__(self, kind: TensorType, address: Callable[[], int], owner: Any) -> None:
        """
        Args:
          kind: the type of the array.
          address: returns the device address; raises ReproError if the memory is freed.
          owner: the object that owns the memory; this array keeps it alive.
        """
        self.kind = kind
        self._address = address
        self._owner = owner

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, in version 3. Its stream is None, because the calls of a session return after their
        work has finished. Raises ReproError if the session is closed."""
        return {
            "shape": self.kind.shape,
            "typestr": self.kind.dtype.str,
            "data": (self._address(), False),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    def __str__(self) -> str:
        return f"{self.kind} on the GPU"


def on_device(value: Any) -> bool:
    """Returns whether the value is an array in GPU memory."""
    if isinstance(value, DeviceArray):
        return True
    if getattr(getattr(value, "device", None), "type", None) == "cpu":
        return False
    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray):
        return int(value.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)
    return _interface(value) is not None


def device_pointer(value: Any, kind: TensorType, what: str, ordinal: int, *, is_written: bool) -> int:
    """Returns the address of another library's contiguous array on GPU number `ordinal`.

    Args:
      what: "state", "input" or "output", for messages.
      is_written: whether a step writes to the array.
    Raises:
      ReproError: `value` is not an array on this GPU, does not have the shape and element type of `kind`, is not
        contiguous, is masked, or is read-only although a step writes to it.
    """
    interface = _interface(value)
    found: tuple[tuple[int, ...], bool, bool, int]
    if interface is not None:
        try:
            dtype = np.dtype(interface["typestr"])
            shape = tuple(int(extent) for extent in interface["shape"])
            strides = interface.get("strides")
            contiguous = strides is None or tuple(strides) == _strides(shape, dtype.itemsize)
            pointer, is_read_only = int(interface["data"][0]), bool(interface["data"][1])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ReproError(f"{what} {kind.name}: expected a __cuda_array_interface__, got {reason}") from None
        if interface.get("mask") is not None:
            raise ReproError(f"{what} {kind.name}: expected an array without a mask")
        if is_written and is_read_only:
            raise ReproError(f"{what} {kind.name}: expected a writable array, got a read-only one")
        found = shape, dtype == kind.dtype, contiguous, pointer
        element = str(dtype)
    elif hasattr(value, "__dlpack_device__"):
        device = tuple(map(int, value.__dlpack_device__()))
        if device not in ((_CUDA, ordinal), (_CUDA_MANAGED, ordinal)):
            raise ReproError(f"{what} {kind.name}: expected an array on GPU {ordinal}, got one on device {device}")
        *found_, element = _from_dlpack(value, kind)
        found = tuple(found_)  # type: ignore[assignment]
    else:
        raise ReproError(f"{what} {kind.name}: expected an array on the GPU, got a {type(value).__name__}")
    shape, fits, contiguous, pointer = found
    if not fits:
        raise ReproError(f"{what} {kind.name}: expected elements of {kind.shown_element} ({kind.dtype}), got {element}")
    if shape != kind.shape:
        raise ReproError(f"{what} {kind.name}: expected shape {list(kind.shape)}, got {list(shape)}")
    if not contiguous:
        raise ReproError(f"{what} {kind.name}: expected a contiguous array, as it is used in place")
    return pointer


def _interface(value: Any) -> dict[str, Any] | None:
    try:
        found = value.__cuda_array_interface__
    except ReproError:
        raise
    except Exception:
        # PyTorch raises AttributeError, TypeError or RuntimeError for a tensor that does not support the interface.
        return None
    return found if isinstance(found, dict) else None


def _strides(shape: tuple[int, ...], unit: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(unit)
        unit *= extent
    return tuple(reversed(strides))


class _Tensor(ctypes.Structure):
    """The struct DLTensor of dlpack.h, which is the first member of DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _from_dlpack(value: Any, kind: TensorType) -> tuple[tuple[int, ...], bool, bool, int, str]:
    """Returns five properties of an array that supports DLPack: its shape, whether its element type is that of `kind`,
    whether it is contiguous, its address, and the name of its element type."""
    # Without max_version, the capsule is one of DLPack 0.x, which starts with the tensor itself. The capsule belongs to
    # this function; its destructor frees the exporter's handle, not the caller's array.
    try:
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ReproError(f"{kind.name}: cannot share memory by DLPack: {error}") from None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else _strides(shape, 1)
    relevant = [(s, e) for s, e, n in zip(strides, _strides(shape, 1), shape, strict=True) if n != 1]
    known = ELEMENTS[kind.element]
    if known.format is not None and known.width < 8:
        # A capsule of DLPack 0.x cannot say whether elements of fewer than 8 bits are padded to a byte.
        raise ReproError(f"{kind.name}: expected the codes of {kind.element} as uint8: DLPack packs its elements")
    code, bits = known.dlpack
    fits = (tensor.code, tensor.bits) == (_UINT if kind.unsigned else code, bits) and tensor.lanes == 1
    element = f"DLPack type {tensor.code} of {tensor.bits} bits"
    return shape, fits, all(s == e for s, e in relevant), int(tensor.data or 0) + tensor.byte_offset, element
