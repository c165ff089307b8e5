# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Interprets the pickles of files that torch.save wrote, without calling anything that a pickle names.

A pickle is a program for a stack machine. `interpret` is such a machine for the instructions that build numbers,
strings, containers and tensors. The names of functions and classes become the enum `_Known`, and every other name is an
error, so that the machine does not import modules. pickletools of the standard library splits the bytes into
instructions, and does not execute them.
"""

from __future__ import annotations

import enum
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign

MOST_BYTES = 16 << 20
"""The maximum size of a pickle in bytes; the pickle of 1,000 tensors has about 100,000."""

_MOST_DIMENSIONS = 64


@dataclass(frozen=True)
class Storage:
    """A storage, which is a member of the zip file.

    Attributes:
      key: the name of the member.
      dtype: the name of the element type in PyTorch; None if the type is that of the tensor.
    """

    key: str
    dtype: str | None


@dataclass(frozen=True)
class PickledTensor:
    """A tensor, which is a part of a storage; offset and strides are in elements."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Known(enum.Enum):
    DICT = enum.auto()
    SET = enum.auto()
    TUPLE = enum.auto()
    TENSOR = enum.auto()
    TENSOR_OF_TYPE = enum.auto()
    PARAMETER = enum.auto()
    NAMED = enum.auto()
    BYTES = enum.auto()


@dataclass(frozen=True)
class _Type:
    """The name of an element type, or the class of storages of this type."""

    name: str | None


_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64", "UntypedStorage": None,
}  # fmt: skip
_DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex128", "complex64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
)  # fmt: skip
_GLOBALS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Known.DICT,
    ("builtins", "dict"): _Known.DICT,
    ("builtins", "set"): _Known.SET,
    ("__builtin__", "set"): _Known.SET,
    ("_codecs", "encode"): _Known.BYTES,
    ("torch", "Size"): _Known.TUPLE,
    ("torch", "device"): _Known.NAMED,
    ("torch._utils", "_rebuild_tensor_v2"): _Known.TENSOR,
    ("torch._utils", "_rebuild_tensor_v3"): _Known.TENSOR_OF_TYPE,
    ("torch._utils", "_rebuild_parameter"): _Known.PARAMETER,
    **{("torch", name): _Type(dtype) for name, dtype in _STORAGES.items()},
    ("torch.storage", "UntypedStorage"): _Type(None),
    **{("torch", name): _Type(name) for name in _DTYPES},
}
_MARK = object()


class _Refused(ValueError):
    """Raised when a pickle contains an object or an instruction that is not allowed."""


def interpret(data: bytes, where: str) -> Any:
    """Returns the object of a pickle: None, numbers, strings, bytes, lists, tuples, dicts, sets and `PickledTensor`s.

    An object can occur in several places, and in itself.

    Args:
      data: the pickle, at most `MOST_BYTES`.
      where: names the pickle in messages.
    Raises:
      ReproError: the pickle is damaged, or contains other objects.
    """
    try:
        return _Machine(data).run()
    except _Refused as error:
        raise ReproError(
            f"{where}: expected tensors, numbers, strings and containers, got {foreign(str(error))}; the pickle was "
            "not executed: save only a state_dict"
        ) from None
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError, RecursionError) as error:
        raise ReproError(f"{where}: expected a pickle, got damaged data ({foreign(str(error))})") from None


class _Machine:
    """The state of the machine: the stack, and the objects to which the pickle refers by number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        # Calls may copy as many items as the pickle has bytes, so that repeated copies of an object do not add up.
        self._copies = len(data)

    def run(self) -> Any:
        for instruction, argument, _ in pickletools.genops(self._data):
            name = instruction.name
            if name == "STOP":
                (result,) = self._stack
                return result
            if name in _PUSHED:
                self._stack.append(argument)
            elif name in _CONSTANTS:
                self._stack.append(_CONSTANTS[name]())
            elif name in _ACTIONS:
                _ACTIONS[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise _Refused(f"the instruction {name} of pickles")
        raise ValueError("no end")

    def pop(self, *kinds: type) -> Any:
        value = self._stack.pop()
        if value is _MARK or (kinds and type(value) not in kinds):
            raise ValueError("an operand of another type")
        return value

    def top(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise ValueError("an operand of another type")
        return self._stack[-1]

    def marked(self) -> list[Any]:
        """Removes and returns the values after the last mark, and removes the mark."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.push((*reversed(values),))

    def put(self, number: int | None) -> None:
        self._memo[len(self._memo) if number is None else int(number)] = self._stack[-1]

    def get(self, number: int) -> None:
        self.push(self._memo[int(number)])

    def set_items(self, pairs: list[Any]) -> None:
        if len(pairs) % 2:
            raise ValueError("a key without a value")
        target = self.top(dict)
        for i in range(0, len(pairs), 2):
            target[_key(pairs[i])] = pairs[i + 1]

    def global_name(self, text: str) -> None:
        module, _, name = text.partition(" ")
        self._push_known(module, name)

    def stack_global(self) -> None:
        name, module = self.pop(str), self.pop(str)
        self._push_known(module, name)

    def _push_known(self, module: str, name: str) -> None:
        if (module, name) not in _GLOBALS:
            raise _Refused(f"{module}.{name}")
        self.push(_GLOBALS[module, name])

    def persistent(self) -> None:
        kind, storage, key, _, _ = self.pop(tuple)
        if kind != "storage" or type(storage) is not _Type or type(key) is not str:
            raise _Refused("a reference to another object than a storage")
        self.push(Storage(key, storage.name))

    def call(self) -> None:
        arguments, function = self.pop(tuple), self.pop()
        if function is _Known.TENSOR:
            storage, offset, shape, strides = arguments[:4]
            _refuse_lazy(arguments[6:])
            self.push(_tensor(storage, storage.dtype, offset, shape, strides))
        elif function is _Known.TENSOR_OF_TYPE:
            storage, offset, shape, strides, _, _, dtype = arguments[:7]
            if type(dtype) is not _Type:
                raise ValueError("a tensor whose type is not an element type")
            _refuse_lazy(arguments[7:])
            self.push(_tensor(storage, dtype.name, offset, shape, strides))
        elif function is _Known.PARAMETER and type(arguments[0]) is PickledTensor:
            self.push(arguments[0])
        elif function is _Known.DICT and not arguments:
            self.push({})
        elif function is _Known.TUPLE and type(arguments[0]) is tuple:
            self.push(arguments[0])
        elif function is _Known.SET and type(arguments[0]) is list:
            self.push({_key(each) for each in self.counted(arguments[0])})
        elif function is _Known.BYTES and type(arguments[0]) is str and arguments[1:] == ("latin1",):
            self.push(self.counted(arguments[0]).encode("latin1"))
        elif function is _Known.NAMED and type(arguments[0]) is str and all(type(i) is int for i in arguments[1:]):
            self.push(":".join((self.counted(arguments[0]), *(str(i) for i in arguments[1:2]))))
        else:
            raise _Refused("a call")

    def counted(self, value: Any) -> Any:
        """Returns a list or string of which a call makes a copy."""
        self._copies -= len(value)
        if self._copies < 0:
            raise _Refused("repeated copies of an object")
        return value

    def build(self) -> None:
        """Ignores the attributes of a dict, such as `_metadata` of a state_dict."""
        self.pop()
        self.top(dict)

    def add_items(self) -> None:
        values = self.marked()
        self.top(set).update(map(_key, values))

    def append(self, values: list[Any]) -> None:
        self.top(list).extend(values)


def _key(value: Any) -> Any:
    """Returns the key of a dict or the item of a set, whose hash and text take a time in proportion to its size."""
    parts = value if type(value) is tuple and len(value) <= 16 else (value,)
    for each in parts:
        if type(each) not in (str, int, float, bool, bytes, type(None)) or (type(each) is int and abs(each) >= 2**64):
            raise _Refused("a key of a dict that is neither a number nor a string")
    return value


def _tensor(storage: Any, dtype: Any, offset: Any, shape: Any, strides: Any) -> PickledTensor:
    extents = (shape, strides)
    if any(type(each) is not tuple or len(each) > _MOST_DIMENSIONS for each in extents):
        raise ValueError(f"a tensor without shape or strides, or of more than {_MOST_DIMENSIONS} dimensions")
    if type(storage) is not Storage or type(dtype) is not str or type(offset) is not int:
        raise ValueError("a tensor without storage, type or offset")
    if any(type(one) is not int for each in extents for one in each):
        raise ValueError("a tensor whose shape or strides are not integers")
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0 or max((offset, *shape, *strides)) >= 2**62:
        raise ValueError("a tensor of impossible shape")
    return PickledTensor(storage, dtype, offset, shape, strides)


def _refuse_lazy(rest: tuple[Any, ...]) -> None:
    """Raises _Refused for a tensor whose elements are conjugates or negatives of those in its storage."""
    if rest and rest[0]:
        raise _Refused("a tensor with the conjugate or the negative bit: save resolve_conj() or resolve_neg() of it")


_PUSHED = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    }
)
"""The instructions that push their argument."""

_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "MARK": lambda: _MARK,
}
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "POP": lambda machine, _: machine.pop() and None,
    "TUPLE": lambda machine, _: machine.push((*machine.marked(),)),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "LIST": lambda machine, _: machine.push(machine.marked()),
    "APPEND": lambda machine, _: machine.append([machine.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.marked()),
    "SETITEM": lambda machine, _: machine.set_items([*reversed([machine.pop(), machine.pop()])]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.marked()),
    "ADDITEMS": lambda machine, _: machine.add_items(),
    "PUT": lambda machine, number: machine.put(number),
    "BINPUT": lambda machine, number: machine.put(number),
    "LONG_BINPUT": lambda machine, number: machine.put(number),
    "MEMOIZE": lambda machine, _: machine.put(None),
    "GET": lambda machine, number: machine.get(number),
    "BINGET": lambda machine, number: machine.get(number),
    "LONG_BINGET": lambda machine, number: machine.get(number),
    "GLOBAL": lambda machine, text: machine.global_name(text),
    "STACK_GLOBAL": lambda machine, _: machine.stack_global(),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "BINPERSID": lambda machine, _: machine.persistent(),
}
