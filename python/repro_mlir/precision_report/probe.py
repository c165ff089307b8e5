# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rewrites a step so that it also returns the operands and results of its contractions. The rewritten step is called a
probe."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir import ir
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.precision.apply import formats_of, requests
from repro_mlir.precision.formats import F32, Format
from repro_mlir.precision.recipe import Recipe
from repro_mlir.precision.roles import describe, shape_of
from repro_mlir.precision_report.statistics import OperandStatistics, block_statistics, number_statistics
from repro_mlir.program import Program
from repro_mlir.program.canonical import read_module, write_module

_VALUE = "probe"
_OF_BLOCKS = "repro.block_contraction"

MEASURED = ("fprop", "dgrad", "wgrad", "product")
"""The roles that are measured."""


@dataclass(frozen=True)
class ProbedOperand:
    """The names of the outputs of a probe that contain the values of an operand.

    Attributes:
      name: the name of the operand, as a recipe spells it.
      format: the format of the operand; `forward` is resolved to the format of the forward pass.
      before, after: the names of the outputs with the values before and after quantization.
      blocks: the names of the outputs with codes, scales and, if there is one, the tensor-wide scale; empty without
        blocks.
    """

    name: str
    format: Format
    before: str
    after: str
    blocks: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """A key that is equal for two operands if they are the same tensor in the same format."""
        return (self.before, self.after, *self.blocks)

    def statistics(self, outputs: Mapping[str, np.ndarray]) -> OperandStatistics:
        """Computes the statistics of the operand from the outputs of the probe."""
        before, after = outputs[self.before], outputs[self.after]
        if not self.blocks:
            return number_statistics(self.format, before, after)
        codes, scales, *tensor = (outputs[name] for name in self.blocks)
        return block_statistics(self.format, before, codes, scales, tensor[0] if tensor else None, after)


@dataclass(frozen=True)
class ProbedContraction:
    """A contraction whose values a probe returns.

    Attributes:
      number: the index of the contraction in the program.
      result: the name of the probe's output that contains the result of the contraction.
      operands: the operands that do not stay in f32. An operand after a Hadamard transform without blocks is missing,
        because its values cannot be traced back.
    """

    number: int
    result: str
    operands: tuple[ProbedOperand, ...]


@dataclass(frozen=True)
class Probe:
    """A probe: a step that also returns the operands and results of its contractions.

    Attributes:
      program: the step; its state and leading outputs are those of the original step.
      contractions: the contractions of the roles `MEASURED`, in program order.
    """

    program: Program
    contractions: tuple[ProbedContraction, ...]


def probe_of(plain: Program, program: Program | None = None, recipe: Recipe | None = None) -> Probe:
    """Returns the probe of a step.

    Args:
      plain: the step in f32.
      program: the same step in the precision of a recipe; by default `plain`.
      recipe: the recipe of `program`; None for f32.
    Raises:
      ReproError: the two steps have different contractions.
    """
    with ir.Context():
        # The roles are those of the step in f32, because a Hadamard transform before a contraction without a layer
        # hides the role of the contraction.
        module = read_module(plain.data)
        described = describe(module, shape_of(plain, None))
        asked = requests(described, recipe or Recipe("f32", {}))
        names = [(each.role, each.operands) for each in described]
        formats = formats_of(described, asked)
        orders = [_block_order(each.operation) for each in described]
    program = plain if program is None else program
    outputs: dict[Any, str] = {}

    def name_of(value: Any) -> str:
        return outputs.setdefault(value, f"{_VALUE}.{len(outputs)}")

    with ir.Context():
        module = read_module(program.data)
        folds = [*_contractions(module)]
        if len(folds) != len(names):
            raise ReproError("the step under a recipe has other contractions than the step in f32")
        contractions = []
        for number, ((role, operand_names), fold) in enumerate(zip(names, folds, strict=True)):
            if role not in MEASURED:
                continue
            precision = asked[number]
            is_of_blocks = fold.name == _OF_BLOCKS
            # (Q9) If the scales are factors of the products, the contraction is followed by a multiplication by the two
            # tensor-wide scales.
            is_multiplied = (
                precision is not None
                and precision.block_step == "scaled"
                and all(each.scale and each.scale.has_tensor for each in formats[number])
            )
            result = _moved_result(fold, is_multiplied, orders[number]) if is_of_blocks else fold.results[0]
            rounded = _rounded(result, "f32" if precision is None else precision.result or "f32")
            factors = [fold.operands[0], fold.operands[2]] if is_of_blocks else _factors(fold)
            operands = []
            for name, format, value in zip(operand_names, formats[number], factors, strict=True):
                if is_of_blocks:
                    values: list[Any] | None = _values_of_codes(value, format)
                else:
                    values = None if format == F32 else _quantized_values(value, format)
                if values is not None:
                    before, after, *blocks = map(name_of, values)
                    operands.append(ProbedOperand(name, format, before, after, tuple(blocks)))
            contractions.append(ProbedContraction(number, name_of(rounded), tuple(operands)))
        added = _returning(program, module, {name: value for value, name in outputs.items()})
    return Probe(added, tuple(contractions))


def values_of(kind: TensorType, array: np.ndarray) -> np.ndarray:
    """Returns an output of a probe as numbers: bf16 and f16 as f32, f32 and f64 unchanged, codes and scales as
    uint8."""
    if kind.element in ("f32", "f64"):
        return array
    if kind.element in ("bf16", "f16"):
        element = element_type(kind.element)
        return from_bits(array.view(f"u{array.dtype.itemsize}"), element).astype(np.float32)
    return array.view(np.uint8)


def _contractions(module: Any) -> Iterator[Any]:
    """Yields the contractions that `describe` returns for the step in f32, including those that a recipe has rewritten
    as contractions in blocks (Q4)."""
    from repro_mlir._mlir_libs import _repro

    for function in module.body.operations:
        for each in function.regions[0].blocks[0].operations:
            if each.operation.name == _OF_BLOCKS or _repro.multiplied_types(each.operation):
                yield each.operation


def _block_order(fold: Any) -> list[int]:
    """(Q4) Returns, for each result dimension of a contraction in blocks, the index of this dimension in the result of
    the f32 contraction. The result dimensions are the batch dimensions, the rows of the left factor and the rows of the
    right factor."""
    maps = [
        [each.position for each in ir.AffineMapAttr(attribute).value.results if isinstance(each, ir.AffineDimExpr)]
        for attribute in ir.ArrayAttr(fold.attributes["indexing_maps"])
    ]
    left, right = (maps[number] for number in _factor_inputs(fold))
    batch = [dim for dim in left if dim in right]
    rows = [dim for dim in left if dim not in right] + [dim for dim in right if dim not in left]
    return [maps[-1].index(dim) for dim in (*batch, *rows) if dim in maps[-1]]


def _moved_result(contraction: Any, is_multiplied: bool, order: Sequence[int]) -> Any:
    """Follows the result of a contraction in blocks through the reshape and the transpose to the layout of the f32
    step, and returns the last of these values.

    `is_multiplied` says whether a multiplication of the result comes before the reshape.
    """
    value = contraction.results[0]
    if is_multiplied:
        value = next(iter(value.uses)).owner.operation.results[0]
    while ir.RankedTensorType(value.type).rank != len(order):
        value = next(iter(value.uses)).owner.operation.results[0]
    return value if list(order) == sorted(order) else next(iter(value.uses)).owner.operation.results[0]


def _rounded(value: Any, format: str) -> Any:
    """Follows a result through its rounding to `format` and returns the rounded value. The rounding is one operation
    for tf32, and two (truncate and extend) for bf16 and f16."""
    for _ in range({"f32": 0, "tf32": 1}.get(format, 2)):
        users = [use.owner for use in value.uses]
        if len(users) != 1 or users[0].operation.name != "linalg.generic":
            break
        value = users[0].operation.results[0]
    return value


def _factors(fold: Any) -> list[Any]:
    """Returns the two tensors that a contraction multiplies, in the order of the multiplication."""
    return [fold.operands[number] for number in _factor_inputs(fold)]


def _factor_inputs(fold: Any) -> list[int]:
    (block,) = fold.regions[0].blocks
    product = next(op for op in block.operations if op.operation.name in ("math.fma", "arith.mulf"))
    factors = []
    for value in list(product.operands)[:2]:
        while not isinstance(value, ir.BlockArgument):
            value = ir.OpResult(value).owner.operands[0]
        factors.append(ir.BlockArgument(value).arg_number)
    return factors


def _values_of_codes(value: Any, format: Format) -> list[Any]:
    """Returns what `_quantized_values` returns, for the codes that a contraction in blocks reads. If the program does
    not dequantize them, adds an operation that does."""
    while (op := ir.OpResult(value).owner).name != "repro.quantize":
        value = op.operands[0]
    source, *tensor = list(op.operands)[: 1 + ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[1]]
    codes, scales = op.results
    readers = (use.owner.operation for use in codes.uses)
    dequantize = next((each for each in readers if each.name == "repro.dequantize"), None)
    # (Q2) A delayed scale is only needed to quantize. Decoding needs only `scales`, so `tensor` is left out.
    if format.scale is None or not format.scale.has_tensor:
        tensor = []
    if dequantize is None:
        attributes = {"format": op.attributes["format"]}
        with op.location, ir.InsertionPoint.after(op):
            dequantize = ir.Operation.create("repro.dequantize", [source.type], [codes, scales, *tensor], attributes)
    return [source, dequantize.results[0], codes, scales, *tensor]


def _quantized_values(value: Any, format: Format) -> list[Any] | None:
    """Returns the values before and after quantization and, for a block format, the codes, the scales and the
    tensor-wide scale, if there is one. None if `value` is not a quantized tensor."""
    while not isinstance(value, ir.BlockArgument):
        op = ir.OpResult(value).owner
        if op.name == "repro.dequantize":
            quantize = ir.OpResult(op.operands[0]).owner
            tensor = list(op.operands)[2:3]
            return [quantize.operands[0], value, op.operands[0], op.operands[1], *tensor]
        if op.name == "linalg.generic":
            (block,) = op.regions[0].blocks
            yielded = block.operations[len(block.operations) - 1].operands[0]
            computed = "" if isinstance(yielded, ir.BlockArgument) else ir.OpResult(yielded).owner.name
            if computed in ("arith.truncf", "arith.bitcast") and not format.has_blocks and format.hadamard is None:
                return [op.operands[0], value]
            if computed not in ("", "arith.extf"):
                return None
        elif op.name not in ("tensor.expand_shape", "tensor.collapse_shape"):
            return None
        value = op.operands[0]
    return None


def _returning(program: Program, module: Any, values: Mapping[str, Any]) -> Program:
    """Returns `program` with the module's `main`, to which these values are added as outputs. Modifies the module."""
    main = module.body.operations[0].operation
    (block,) = main.regions[0].blocks
    last = block.operations[len(block.operations) - 1].operation
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    added = list(values.values())
    with main.location:
        kinds = ir.FunctionType.get(kind.inputs, [*kind.results, *(value.type for value in added)])
        main.attributes["function_type"] = ir.TypeAttr.get(kinds)
        own = list(ir.ArrayAttr(main.attributes["res_attrs"])) if "res_attrs" in main.attributes else []
        own += [ir.DictAttr.get({})] * (len(kind.results) - len(own))
        names = [ir.DictAttr.get({"repro.name": ir.StringAttr.get(name)}) for name in values]
        main.attributes["res_attrs"] = ir.ArrayAttr.get([*own, *names])
        with ir.InsertionPoint(last):
            ir.Operation.create("func.return", operands=[*last.operands, *added], loc=last.location)
        last.erase()
    outputs = [
        TensorType(name, str(ranked.element_type), tuple(ranked.shape))
        for name, ranked in ((name, ir.RankedTensorType(value.type)) for name, value in values.items())
    ]
    return dataclasses.replace(program, data=write_module(module), outputs=(*program.outputs, *outputs))
