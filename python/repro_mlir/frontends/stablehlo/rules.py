# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rules by operation: what is written in its place before StableHLO's own lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from jaxlib.mlir import ir

from repro_mlir.frontends.stablehlo.calls import Calls, collect
from repro_mlir.frontends.stablehlo.errors import error_at


class Unsupported(Exception):
    """An operation in a form that no rule takes; the message says which form."""


class Rule(Protocol):
    """Writes, at the insertion point and location of an operation, what gives a value for each of its results.

    None: the operation stays. Unsupported: it cannot stay either.
    """

    def __call__(self, operation: ir.Operation, calls: Calls, /) -> Sequence[ir.Value] | None: ...


_rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Makes a function the rule of the operations of these names."""

    def add(function: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, function))
        return function

    return add


def apply(module: ir.Module, calls: Calls) -> None:
    """Applies the rules, also to what they write, until none does.

    Raises:
      CaptureError: an operation in a form that is not supported.
    """
    is_changed = True
    while is_changed:
        is_changed = False
        for operation in collect(module, _rules, is_outermost=True):
            with ir.InsertionPoint(operation), operation.location:
                try:
                    values = _rules[operation.name](operation, calls)
                except Unsupported as error:
                    raise error_at(operation.location, f"operation {operation.name} {error}") from None
            if values is not None:
                is_changed = True
                for old, new in zip(operation.results, values, strict=True):
                    old.replace_all_uses_with(new)
                operation.erase()
