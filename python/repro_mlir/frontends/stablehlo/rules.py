# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rules that replace operations before StableHLO's own lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from jaxlib.mlir import ir

from repro_mlir.frontends.stablehlo.calls import Calls, collect
from repro_mlir.frontends.stablehlo.errors import error_at


class Unsupported(Exception):
    """Raised for an operation in a variant that no rule supports; the message describes the variant."""


class Rule(Protocol):
    """Writes a replacement at the insertion point and location of an operation; returns a value for each result.

    Returns None to leave the operation to StableHLO's own lowering; raises Unsupported if that lowering does not
    support the operation either.
    """

    def __call__(self, operation: ir.Operation, calls: Calls, /) -> Sequence[ir.Value] | None: ...


_rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the rule for operations with these names."""

    def add(function: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, function))
        return function

    return add


def apply(module: ir.Module, calls: Calls) -> None:
    """Applies the rules, including to operations that rules create, until no rule applies.

    Raises:
      CaptureError: an operation in a variant that is not supported.
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
