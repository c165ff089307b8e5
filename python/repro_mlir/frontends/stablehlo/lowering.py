# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers StableHLO to imported linalg text (docs/contributors/architecture.md) with jaxlib's passes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from repro_mlir.frontends.base.newer_mlir import for_llvm_22
from repro_mlir.frontends.stablehlo import (  # noqa: F401  # their rules
    convolutions,
    emit,
    functions,
    linear_algebra,
    normalization,
    ordering,
    random,
    reductions,
    scatter,
    slices,
    windows,
)
from repro_mlir.frontends.stablehlo.calls import Calls, collect
from repro_mlir.frontends.stablehlo.calls import functions as functions_of
from repro_mlir.frontends.stablehlo.context import new_context
from repro_mlir.frontends.stablehlo.control import inline
from repro_mlir.frontends.stablehlo.errors import NODE, CaptureError, error_at, node_of, place_of
from repro_mlir.frontends.stablehlo.rules import apply

# No canonicalization: its folders would use the host's libm for functions that the import has not yet replaced (S5).
_EXPAND = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
_LOWER = "builtin.module(stablehlo-legalize-to-linalg)"
_IMPORTED = {"arith", "builtin", "func", "linalg", "math", "repro", "tensor"}
"""Dialects that the import accepts."""
_CONTROL = {f"stablehlo.{name}" for name in ("case", "if", "return", "while")}
"""Control flow that `repro-unroll-loops` removes or reports as an error."""


def lower(source: str, num_state: int, arguments: Sequence[str], results: Sequence[str]) -> str:
    """Lowers a module with a function main to MLIR text in generic form.

    Args:
      source: StableHLO, with locations.
      num_state: the number of leading arguments and results that are state.
      arguments, results: the `repro.name` per argument and per result.
    Returns:
      a module with one `func.func @main`, in syntax that LLVM 22 parses.
    Raises:
      CaptureError: an operation or a type is not supported.
    """
    context = new_context()
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse(source)
        except ir.MLIRError as error:
            raise CaptureError(f"expected a StableHLO module: {_first_line(error)}") from None
        inline(module)
        _require_types(module)
        _drop_empty(module)
        calls = Calls(module)
        apply(module, calls)
        _run(module, _EXPAND)
        apply(module, calls)
        _run(module, _LOWER)
        calls.write()
        _read_scalars(module)
        _require_imported(module)
        _keep_lines(module)
        _name(module, num_state, arguments, results)
        text = str(module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))
    return for_llvm_22(_without_argument_locations(text))


def _run(module: ir.Module, pipeline: str) -> None:
    try:
        PassManager.parse(pipeline).run(module.operation)
    except ir.MLIRError as error:
        for diagnostic in error.error_diagnostics:
            raise error_at(diagnostic.location, diagnostic.message.splitlines()[0]) from None
        raise CaptureError(f"StableHLO lowering failed: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _require_types(module: ir.Module) -> None:
    for operation in collect(module):
        for result in operation.results:
            kind = result.type
            element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
            if isinstance(element, ir.ComplexType):
                raise error_at(operation.location, f"operation {operation.name} of complex numbers is not supported")
            if isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape:
                raise error_at(operation.location, f"operation {operation.name} with a dynamic shape is not supported")


def _drop_empty(module: ir.Module) -> None:
    """Replaces tensors without elements by constants, because slices of them would start past the end of a tensor."""
    # Reversed, so that nested operations come before the operation that contains them.
    for operation in reversed(collect(module)):
        kinds = [each.type for each in operation.results]
        if kinds and all(isinstance(kind, ir.RankedTensorType) and 0 in kind.shape for kind in kinds):
            if operation.name != "stablehlo.constant":
                with ir.InsertionPoint(operation), operation.location:
                    for result in operation.results:
                        empty = emit.splat(emit.shape_of(result), emit.element_of(result), 0)
                        result.replace_all_uses_with(empty)
                operation.erase()


def _read_scalars(module: ir.Module) -> None:
    """Removes the scalar tensors that StableHLO creates in bodies: uses the scalar instead of extracting it again."""
    made = {operation.results[0]: operation for operation in collect(module, ("tensor.from_elements",))}
    for operation in collect(module, ("tensor.extract",)):
        source = made.get(operation.operands[0])
        if source is not None and len(operation.operands) == 1:
            operation.results[0].replace_all_uses_with(source.operands[0])
            operation.erase()
    for operation in made.values():
        if not list(operation.results[0].uses):
            operation.erase()


def _require_imported(module: ir.Module) -> None:
    for operation in collect(module):
        if operation.name.split(".")[0] not in _IMPORTED and operation.name not in _CONTROL:
            raise error_at(operation.location, f"operation {operation.name} is not supported")


def _keep_lines(module: ir.Module) -> None:
    """Reduces each location to the user's source line, or to the node if the line is unknown."""
    known: dict[str, ir.Location] = {}
    for operation in collect(module):
        text = str(operation.location)
        if text not in known:
            place = place_of(text)
            known[text] = ir.Location.unknown() if place is None else ir.Location.file(*place)
            if place is None and (node := node_of(text)) is not None:
                known[text] = ir.Location.name(f"{NODE}{node}")
        operation.location = known[text]


_ALIAS = re.compile(r"#loc\d*")
_BEGIN = " loc("
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')


def _without_argument_locations(text: str) -> str:
    """Removes the locations of block arguments, which no pass reads, and the aliases that only they use."""
    lines = [
        _without_locations(line) if line.lstrip().startswith("^bb") else line for line in text.splitlines(keepends=True)
    ]
    used = {alias for line in lines if not line.startswith("#loc") for alias in _ALIAS.findall(line)}
    return "".join(line for line in lines if not line.startswith("#loc") or line.split(" ")[0] in used)


def _without_locations(line: str) -> str:
    while (begin := line.find(_BEGIN)) >= 0:
        depth, end = 1, begin + len(_BEGIN)
        while depth:
            token = _TOKEN.search(line, end)
            assert token is not None
            end = token.end()
            depth += {"(": 1, ")": -1}.get(token[0], 0)
        line = line[:begin] + line[end:]
    return line


def _name(module: ir.Module, num_state: int, arguments: Sequence[str], results: Sequence[str]) -> None:
    (main,) = functions_of(module)
    for name in list(module.operation.attributes):
        if name != "sym_name":
            del module.operation.attributes[name]

    def names(values: Sequence[str]) -> ir.ArrayAttr:
        return ir.ArrayAttr.get([ir.DictAttr.get({"repro.name": ir.StringAttr.get(value)}) for value in values])

    main.attributes["arg_attrs"] = names(arguments)
    main.attributes["res_attrs"] = names(results)
    main.attributes["repro.num_state"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), num_state)
