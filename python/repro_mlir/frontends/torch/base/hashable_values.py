# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hashable forms of Python values, which are equal where a step cannot tell the values apart."""

import random
import types
import weakref
from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor


class Same:
    """Equal to itself alone; keeps the object, so that no other one takes its place."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def hashable(value: Any, outer: tuple[object, ...] = ()) -> Hashable:
    """Equal for values that a step cannot tell apart, as far as they are numbers, strings and containers of them.

    `outer` are the containers around the value: one that contains itself has an end.
    """
    kind = type(value)
    if issubclass(kind, bool | int | str | bytes | complex | types.NoneType | torch.dtype | torch.Size):
        return type(value), value
    if issubclass(kind, float):
        # Tells -0.0 from 0.0; a NaN is one.
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
        # The system's numbers have no state.
        return Same(value), None if isinstance(value, random.SystemRandom) else value.getstate()
    if issubclass(kind, np.random.Generator):
        return Same(value), repr(value.bit_generator.state)
    if issubclass(kind, FakeTensor | weakref.ref):
        # What a module keeps of a trace, or a recurrent one of its weights: another one each time.
        return type(value).__name__
    return Same(value)
