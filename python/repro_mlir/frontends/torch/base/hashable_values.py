# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hashable representations of Python values; two are equal if a step cannot distinguish the values."""

import random
import types
import weakref
from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
import torch

from repro_mlir.frontends.torch.base.torch_internals import FakeTensor


class Same:
    """A wrapper that compares its object by identity, and keeps the object alive, so that the id cannot be reused."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def hashable(value: Any, outer: tuple[object, ...] = ()) -> Hashable:
    """Returns a key of a value. Numbers, strings and containers of them have equal keys if a step cannot distinguish
    them.

    Other objects compare by identity. `outer` lists the containers around the value, so that the recursion ends for a
    container that contains itself.
    """
    kind = type(value)
    if issubclass(kind, bool | int | str | bytes | complex | types.NoneType | torch.dtype | torch.Size):
        return type(value), value
    if issubclass(kind, float):
        # hex() distinguishes -0.0 from 0.0 and makes all NaNs equal.
        return float, value.hex()
    if any(value is each for each in outer):
        return Same(value)
    inner = partial(hashable, outer=(*outer, value))
    if issubclass(kind, tuple | list | deque):
        return type(value), tuple(map(inner, value))
    if issubclass(kind, set | frozenset):
        return type(value), frozenset(map(inner, value))
    if issubclass(kind, dict):
        return type(value), tuple((inner(key), inner(item)) for key, item in value.items())
    if issubclass(kind, np.generic):
        return type(value), value.tobytes()
    if issubclass(kind, random.Random):
        # SystemRandom reads from the operating system and has no state.
        return Same(value), None if isinstance(value, random.SystemRandom) else value.getstate()
    if issubclass(kind, np.random.Generator):
        return Same(value), repr(value.bit_generator.state)
    if issubclass(kind, FakeTensor | weakref.ref):
        # A module may keep fake tensors of a trace, and a recurrent module keeps weak references to its weights. Every
        # trace replaces these objects, so only their classes are compared.
        return type(value).__name__
    return Same(value)
