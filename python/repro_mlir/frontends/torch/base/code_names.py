# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Collects the names that Python code reads, from its bytecode."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Names:
    """The names in a code object and in the functions nested in it.

    Attributes:
      variables: globals and builtins.
      attributes: attributes, and constant strings that may be attribute names, as in `getattr(x, "scale")`.
      imports: pairs of an imported module's name and the level of the import, which is 0 for an absolute name.
    """

    variables: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[tuple[str, int]]


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> Names:
    """Returns the names in `code` and in the functions nested in it."""
    variables, attributes, imports = set[str](), set[str](), set[tuple[str, int]]()
    level = 0
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            variables.add(name)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            attributes.add(name)
        elif instruction.opname == "IMPORT_NAME":
            imports.add((name, level))
            attributes.update(name.split("."))
        elif instruction.opname == "LOAD_CONST" and type(name) is int:
            level = name
    for constant in code.co_consts:
        attributes.update(_words(constant))
        if isinstance(constant, types.CodeType):
            inner = names_of(constant)
            variables |= inner.variables
            attributes |= inner.attributes
            imports |= inner.imports
    return Names(frozenset(variables), frozenset(attributes), frozenset(imports))


def _words(constant: Any) -> Iterator[str]:
    """Yields those strings in a constant that getattr, attrgetter or a class pattern could use as attribute names."""
    if isinstance(constant, str):
        words = constant.split(".")
        if all(word.isidentifier() for word in words):
            yield from words
    elif isinstance(constant, tuple | frozenset):
        for each in constant:
            yield from _words(each)


def dotted_names(code: types.CodeType) -> Iterator[tuple[tuple[str, ...], int | None]]:
    """Yields the variables that `code` reads, each with the attributes that it reads of the variable, such as
    ("np", "random", "rand"), and with the line."""
    names: tuple[str, ...] = ()
    line = None
    for instruction in dis.get_instructions(code):
        if names and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names += (instruction.argval,)
            continue
        if names:
            yield names, line
        name = instruction.argval
        # From Python 3.13 on, one instruction may load two variables.
        name = name[-1] if isinstance(name, tuple) and name else name
        names = (name,) if instruction.opname.startswith(_LOADS) and isinstance(name, str) else ()
        line = instruction.positions.lineno if instruction.positions is not None else None
    if names:
        yield names, line


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF")


def line_of(code: types.CodeType, name: str) -> int | None:
    """Returns the first line of `code`, or of a function nested in it, that assigns `name`, or else that uses it; None
    if no line does."""
    found = [each for each in dis.get_instructions(code) if each.argval == name and each.positions is not None]
    for instruction in sorted(found, key=lambda each: not each.opname.startswith("STORE_")):
        assert instruction.positions is not None
        return instruction.positions.lineno
    inner = (line_of(each, name) for each in code.co_consts if isinstance(each, types.CodeType))
    return next((line for line in inner if line is not None), None)
