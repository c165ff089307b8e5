# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""In-place changes of the arguments and results of a program's function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Signed = tuple[Any, Any]
"""A value and its attributes, such as `repro.name`."""


def signed_arguments(main: Any) -> list[Signed]:
    """Returns the arguments of a function with their attributes. Arguments that were added only to the function's block
    are not included."""
    from repro_mlir import ir

    count = len(ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs)
    return _signed(main, list(main.regions[0].blocks[0].arguments)[:count], "arg_attrs")


def signed_results(main: Any) -> list[Signed]:
    """Returns the results of a function with their attributes."""
    operations = main.regions[0].blocks[0].operations
    return _signed(main, list(operations[len(operations) - 1].operands), "res_attrs")


def named(value: Any, name: str) -> Signed:
    """Returns `value` with its name as its only attribute."""
    from repro_mlir import ir

    return value, ir.DictAttr.get({"repro.name": ir.StringAttr.get(name)})


def set_results(main: Any, results: Sequence[Signed]) -> None:
    """Replaces the results of a function by other values of its block."""
    from repro_mlir import ir

    operations = main.regions[0].blocks[0].operations
    ends = operations[len(operations) - 1]
    values = [value for value, _ in results]
    with ir.InsertionPoint(ends):
        ir.Operation.create("func.return", operands=values, loc=ends.location)
    ends.operation.erase()
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    main.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(kind.inputs, [value.type for value in values])
    )
    main.attributes["res_attrs"] = ir.ArrayAttr.get([attributes for _, attributes in results])


def set_arguments(main: Any, arguments: Sequence[Signed], num_state: int) -> None:
    """Replaces the arguments of a function: creates a new operation for the function and erases the old one.

    Args:
      main: the function.
      arguments: arguments of its block in their new order; omitted arguments must be unused.
      num_state: the number of leading arguments and results that are state.
    """
    from repro_mlir import ir

    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    types = [value.type for value, _ in arguments]
    given = {name: main.attributes[name] for name in main.attributes} | {
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, kind.results)),
        "repro.num_state": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), num_state),
        "arg_attrs": ir.ArrayAttr.get([attributes for _, attributes in arguments]),
    }
    with ir.InsertionPoint(main):
        new = ir.Operation.create("func.func", regions=1, attributes=given, loc=main.location)
    body = new.regions[0].blocks.append(*types, arg_locs=[value.location for value, _ in arguments])
    for (old, _), argument in zip(arguments, body.arguments, strict=True):
        old.replace_all_uses_with(argument)
    for op in list(main.regions[0].blocks[0].operations):
        body.append(op)
    main.operation.erase()


def _signed(main: Any, values: list[Any], key: str) -> list[Signed]:
    from repro_mlir import ir

    attributes = list(main.attributes[key]) if key in main.attributes else [ir.DictAttr.get({})] * len(values)
    return list(zip(values, attributes, strict=True))
