# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers HLO modules of XLA to imported linalg; an aliased result is the new value of a state parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.stablehlo.calls import collect, functions
from repro_mlir.frontends.stablehlo.context import new_context
from repro_mlir.frontends.stablehlo.errors import NODE, CaptureError
from repro_mlir.frontends.stablehlo.jaxlib_internals import jax_extension
from repro_mlir.frontends.stablehlo.lowering import lower

Place = tuple[str, int, int]
"""File, line and column."""


@dataclass(frozen=True)
class Parameter:
    """The role of one HLO parameter.

    Attributes:
      name: the name of the tensor in the program (the attribute `repro.name`).
      is_state: whether the parameter is state; otherwise it is an input or a constant.
      value: the value of a constant of the program, which is neither state nor input; else None.
    """

    name: str
    is_state: bool = False
    value: np.ndarray | None = None


@dataclass(frozen=True)
class Lowered:
    """A program lowered from HLO.

    Attributes:
      text: MLIR text as `lower` returns it.
      state, inputs, outputs: the tensors, in the order of the parameters and results.
    """

    text: str
    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]


def lower_hlo(
    module: bytes,
    parameters: Sequence[Parameter],
    outputs: Sequence[str],
    place_of_node: Callable[[str], Place | None],
) -> Lowered:
    """Lowers an HLO module whose results are the outputs and the new values of aliased parameters.

    Args:
      module: an HloModuleProto with the names of nodes as its metadata.
      parameters: one entry for each HLO parameter.
      outputs: names of the results that are not new values of parameters.
      place_of_node: returns the user's source line of a node in the framework's graph; KeyError for an unknown node.
    Raises:
      CaptureError: as `lower`; the module's parameters and results do not match the arguments.
    """
    with new_context() as context, ir.Location.unknown():
        parsed = ir.Module.parse(jax_extension.mlir.hlo_to_stablehlo(module), context)
        (main,) = (each for each in functions(parsed) if ir.StringAttr(each.attributes["sym_name"]).value == "main")
        kinds = _arrange(parsed, main, parameters, outputs)
        _place(parsed, place_of_node)
        text = str(parsed.operation.get_asm(enable_debug_info=True))
    state = [each.name for each in parameters if each.is_state]
    inputs = [each.name for each in parameters if not each.is_state and each.value is None]
    lowered = lower(text, len(state), [*state, *inputs], [*state, *outputs])
    names = [*state, *inputs, *outputs]
    tensors = [_typed(name, kind, shape) for name, (kind, shape) in zip(names, kinds, strict=True)]
    ends = len(state), len(state) + len(inputs)
    return Lowered(lowered, *map(tuple, (tensors[: ends[0]], tensors[ends[0] : ends[1]], tensors[ends[1] :])))


def _arrange(
    module: ir.Module, main: ir.Operation, parameters: Sequence[Parameter], outputs: Sequence[str]
) -> list[tuple[str, tuple[int, ...]]]:
    """Moves the state to the front of arguments and results and replaces constant parameters by their values.

    Returns:
      the element type and shape of each state tensor, input and output, in this order.
    """
    block = main.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operation
    old, results = list(block.arguments), list(returned.operands)
    aliases = _aliases(module)
    if len(old) != len(parameters) or len(results) != len(outputs) + len(aliases):
        raise CaptureError(
            f"expected {len(parameters)} parameters and {len(outputs)} results in addition to the state, got "
            f"{len(old)} and {len(results) - len(aliases)}"
        )
    state = [number for number, each in enumerate(parameters) if each.is_state]
    inputs = [number for number, each in enumerate(parameters) if not each.is_state and each.value is None]
    new = [results[aliases[number]] if number in aliases else old[number] for number in state]
    given = [value for number, value in enumerate(results) if number not in aliases.values()]
    kinds = [_kind(value) for value in [*(old[number] for number in [*state, *inputs]), *given]]
    with ir.InsertionPoint(returned):
        ir.Operation.create("func.return", operands=[*new, *given])
    returned.erase()
    for number in [*state, *inputs]:
        old[number].replace_all_uses_with(block.add_argument(old[number].type, ir.Location.unknown()))
    with ir.InsertionPoint.at_block_begin(block):
        for value, parameter in zip(old, parameters, strict=True):
            if parameter.value is not None:
                value.replace_all_uses_with(_constant(value, parameter.value))
    for number in reversed(range(len(old))):
        block.erase_argument(number)
    kind = ir.FunctionType.get(
        [each.type for each in block.arguments],
        [each.type for each in block.operations[len(block.operations) - 1].operands],
    )
    main.attributes["function_type"] = ir.TypeAttr.get(kind)
    for key in ("arg_attrs", "res_attrs"):
        if key in main.attributes:
            del main.attributes[key]
    return kinds


def _aliases(module: ir.Module) -> dict[int, int]:
    """Maps the number of each aliased parameter to the number of the result that is its new value."""
    found: dict[int, int] = {}
    for entry in ir.ArrayAttr(module.operation.attributes["mhlo.input_output_alias"]):
        alias: Any = ir.DictAttr(ir.DictAttr(entry)["alias"])
        (result,) = ir.DenseI64ArrayAttr(ir.DictAttr(entry)["output_index"])
        found[ir.IntegerAttr(alias["parameter_number"]).value] = result
    return found


def _constant(value: ir.Value, array: np.ndarray) -> ir.Value:
    kind = ir.RankedTensorType(value.type)
    bits: Any = np.ascontiguousarray(array)
    # NumPy has no built-in types such as bf16, so arrays of these types are passed as integers with the same bits.
    bits = bits if bits.dtype.isbuiltin else bits.view(f"uint{8 * bits.itemsize}")
    return hlo.constant(ir.DenseElementsAttr.get(bits, type=kind.element_type, shape=kind.shape))


def _kind(value: ir.Value) -> tuple[str, tuple[int, ...]]:
    kind = ir.RankedTensorType(value.type)
    return str(kind.element_type), tuple(kind.shape)


def _typed(name: str, kind: str, shape: tuple[int, ...]) -> TensorType:
    element = kind.removeprefix("u")
    if element not in ELEMENTS:
        raise CaptureError(f"{name} has elements of {kind}, which programs do not support")
    return TensorType(name, element, shape, element != kind)


def _place(module: ir.Module, place_of_node: Callable[[str], Place | None]) -> None:
    """Sets each operation's location to its node, with the user's source line."""
    known: dict[str, ir.Location] = {}
    for operation in collect(module):
        text = str(operation.location)
        if text not in known:
            known[text] = _location(text, place_of_node)
        operation.location = known[text]


def _location(text: str, place_of_node: Callable[[str], Place | None]) -> ir.Location:
    # The first quoted name is the metadata's, or the instruction's if the metadata is missing.
    parts = text.split('"')
    try:
        place = place_of_node(parts[1])
    except (IndexError, KeyError):
        return ir.Location.unknown()
    return ir.Location.name(f"{NODE}{parts[1]}", None if place is None else ir.Location.file(*place))
