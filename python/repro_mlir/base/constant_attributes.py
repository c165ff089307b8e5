# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Objects whose public attributes cannot be reassigned: a new value would be ignored or would give wrong results."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar


def _is_own(cls: type) -> bool:
    """Returns whether a class belongs to this package rather than to a user."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


class ConstantAttributes:
    """A base class of public classes.

    The public attributes that a class annotates in its body can be assigned once, by the constructor. Any other public
    name of the class, such as that of a method, of a property without a setter or of a constructor parameter, cannot be
    assigned at all. Attributes that a user's subclass adds are not affected.
    """

    _constants: ClassVar[frozenset[str]] = frozenset()
    _once: ClassVar[frozenset[str]] = frozenset()
    _instead: ClassVar[dict[str, str]] = {}
    """Maps an attribute's name to the end of the error message, which recommends an alternative to the assignment."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not _is_own(cls):
            return
        settable = {name for name, value in vars(cls).items() if isinstance(value, property) and value.fset}
        named = {*inspect.signature(cls).parameters, *vars(cls), *cls.__annotations__} - settable
        cls._constants |= {name for name in named if not name.startswith("_")}
        cls._once |= {name for name in cls.__annotations__ if not name.startswith("_")}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._constants and (name not in self._once or name in self.__dict__):
            kind = next(filter(_is_own, type(self).__mro__))
            instead = self._instead.get(name, f"make another {kind.__name__}")
            raise AttributeError(f"{kind.__name__}.{name} cannot be assigned: {instead}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._constants:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")
        object.__delattr__(self, name)
