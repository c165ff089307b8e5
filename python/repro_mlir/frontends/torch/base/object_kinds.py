# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Kinds of Python objects, by what of them can change: what is of no kind here cannot be watched."""

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
"""Containers whose elements can be looked at without a change."""

HELD = (bytearray, array.array, memoryview)
"""Holders of bytes that can be compared, in addition to tensors and arrays."""

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
"""Random number generators: a step that draws from one changes it, and is refused for that."""

_CHANGING = (np.flatiter, np.nditer, np.random.BitGenerator, torch.Generator)
"""Objects of the packages below that have a state which a step reads."""

LOCKS = (type(threading.Lock()), type(threading.RLock()))
# The C objects of these packages have no state that a step reads, or state that other code checks.
_KNOWN_PACKAGES = ("torch", "numpy", "repro_mlir", "_abc", "typing")
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


def is_atom(value: Any) -> bool:
    """Whether nothing of a value can change."""
    kind = type(value)
    return kind in _ATOMS or issubclass(kind, np.generic | np.dtype | torch.dtype | torch.device | PurePath)


def is_plain(value: Any) -> bool:
    """Whether a value is an atom, or a container of atoms that is compared by what is in it."""
    if isinstance(value, dict):
        return all(map(is_atom, value.values()))
    return all(map(is_plain, value)) if isinstance(value, list | tuple) else is_atom(value)


def is_annotation(value: Any) -> bool:
    """Whether a value is one of the module typing, such as `Optional[int]`, of which nothing can change."""
    return type(value).__module__ == "typing" and issubclass(type(value), typing._Final)


def is_value(value: Any) -> bool:
    """Whether a value is one of a subclass of a number or string, of which the class and attributes can change."""
    return issubclass(type(value), _ATOMS)


def is_log(value: Any) -> bool:
    """Whether a value is a part of Python's logging, which gives no value to a step."""
    return issubclass(type(value), logging.Filterer | logging.Manager | logging.PlaceHolder)


def is_opaque(value: Any) -> bool:
    """Whether a value is one that a step only acts on: a lock, a file that is only written."""
    kind = type(value)
    if kind in LOCKS or kind.__name__ in ("instancemethod", "_lru_list_elem"):
        return True
    if issubclass(kind, io.IOBase):
        return not value.closed and value.writable() and not value.readable()
    if issubclass(kind, _CHANGING):
        return False
    return not is_python_object(value) and (kind.__module__ or "").split(".")[0] in _KNOWN_PACKAGES


def is_python_object(value: Any) -> bool:
    """Whether all that a value has is in its `__dict__` and its slots: its class is written in Python."""
    base = next(each for each in type(value).__mro__ if not is_extended(each))
    return base is object or base is types.SimpleNamespace


def is_extended(kind: type) -> bool:
    """Whether this is a class written in Python, whose objects may have attributes."""
    return bool(kind.__flags__ & _HEAP_TYPE) and not kind.__flags__ & _IMMUTABLE_TYPE
