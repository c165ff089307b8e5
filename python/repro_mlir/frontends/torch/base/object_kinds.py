# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Classifies Python objects by the parts that can change. A step must not read an object that fits no class here."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import io
import logging
import random
import re
import threading
import types
import typing
import uuid
from collections import deque
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch


class _Named(NamedTuple):
    each: int


_ATOMS = (
    *(str, bytes, int, float, complex, bool, type(None), type(...), type(NotImplemented), range),
    *(decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, re.Match),
    *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone),
    *(types.CodeType, types.GenericAlias, types.UnionType, typing.TypeVar),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType, type(_Named.__dict__["each"])),
)
CONTAINERS: tuple[type, ...] = (
    *(list, tuple, set, frozenset, dict, deque, types.MappingProxyType),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
"""Containers whose elements can be read without changing the container."""

HELD = (bytearray, array.array, memoryview)
"""Types of byte buffers that can be compared by content, in addition to tensors and arrays."""

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
"""Random number generators. A step that draws from a generator changes the generator's state and is therefore
refused."""

_CHANGING = (np.flatiter, np.nditer, np.random.BitGenerator)
"""Classes of the packages in `_KNOWN_PACKAGES` with state that a step can read."""

LOCKS = (type(threading.Lock()), type(threading.RLock()))
# If a class of these packages is written in C, a step reads no state of its objects, or other code checks this state.
_KNOWN_PACKAGES = ("torch", "numpy", "repro_mlir", "_abc", "typing")
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


def is_atom(value: Any) -> bool:
    """Whether a value is an immutable object other than a container."""
    kind = type(value)
    return kind in _ATOMS or issubclass(kind, np.generic | np.dtype | torch.dtype | torch.device | PurePath)


def is_plain(value: Any) -> bool:
    """Whether a value is an atom (`is_atom`), a dict of atoms, or a list or tuple of plain values. These containers are
    compared by their elements."""
    if isinstance(value, dict):
        return all(map(is_atom, value.values()))
    return all(map(is_plain, value)) if isinstance(value, list | tuple) else is_atom(value)


def is_annotation(value: Any) -> bool:
    """Whether a value is an immutable annotation of the module typing, such as `Optional[int]`."""
    return type(value).__module__ == "typing" and issubclass(type(value), typing._Final)


def is_value(value: Any) -> bool:
    """Whether a value is an instance of a class in `_ATOMS` or of a subclass; instances of subclasses can change."""
    return issubclass(type(value), _ATOMS)


def is_log(value: Any) -> bool:
    """Whether a value is an object of Python's logging, such as a logger or a handler."""
    return issubclass(type(value), logging.Filterer | logging.Manager | logging.PlaceHolder)


def is_opaque(value: Any) -> bool:
    """Whether changes of a value need no check: a step can only act on it, as on a lock or a write-only file, or its
    class is a C class of `_KNOWN_PACKAGES`, or it is a function of numpy.random."""
    kind = type(value)
    if kind.__name__ == "cython_function_or_method":
        # NumPy's functions of this type are those of numpy.random, whose generators are checked.
        return value.__module__ == "numpy.random"
    if kind in LOCKS or kind.__name__ in ("instancemethod", "_lru_list_elem"):
        return True
    if issubclass(kind, io.IOBase):
        return not value.closed and value.writable() and not value.readable()
    if issubclass(kind, _CHANGING):
        return False
    return not is_python_object(value) and (kind.__module__ or "").split(".")[0] in _KNOWN_PACKAGES


def is_python_object(value: Any) -> bool:
    """Whether the class of a value is written in Python, so that `__dict__` and the slots contain its whole state."""
    base = next(each for each in type(value).__mro__ if not is_extended(each))
    return base is object or base is types.SimpleNamespace


def is_extended(kind: type) -> bool:
    """Whether a class is written in Python, so that its instances may have attributes."""
    return bool(kind.__flags__ & _HEAP_TYPE) and not kind.__flags__ & _IMMUTABLE_TYPE
