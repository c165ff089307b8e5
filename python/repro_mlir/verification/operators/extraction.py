# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Extracts a part of a program as a separate canonical program.

The operators a to b - 1 become a program whose inputs are their operands from outside the part, and whose outputs are
all their results. No lowering of a canonical program may change a bit, so any target computes these values exactly as
it does in the whole program. Scalars are passed as tensors of rank 0, `index` values as i64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro_mlir import ir
from repro_mlir.base.errors import ReproError
from repro_mlir.program import Program
from repro_mlir.program.canonical import read_module, write_module
from repro_mlir.verification.operators.cloning import clone, operations_of
from repro_mlir.verification.operators.graph import Extraction, OperatorGraph, Value


class Extractor:
    """Extracts parts of one program."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._graph = graph
        self._context = ir.Context()
        with self._context:
            self._module = read_module(graph.program.data)
            block = self._module.body.operations[0].regions[0].blocks[0]
            self._arguments = list(block.arguments)
            self._operations = operations_of(self._module)

    def single(self, index: int) -> Extraction:
        """Extracts one operator."""
        return self.extract(index, index + 1)

    def extract(self, begin: int, end: int) -> Extraction:
        """Extracts the operators `begin` to `end` - 1. Raises ReproError if the range is not within the program."""
        operators = self._graph.operators
        if not 0 <= begin < end <= len(operators):
            raise ReproError(f"expected a range of operators within 0 .. {len(operators)}, got {begin} .. {end}")
        part = operators[begin:end]
        inside = {value for operator in part for value in operator.results}
        outside = dict.fromkeys(value for operator in part for value in operator.operands if value not in inside)
        inputs = tuple(value for value in outside if not value.inline)
        # A constant is an output only if it is the only operator of the part.
        outputs = tuple(
            value for operator in part for value in operator.outputs if not operator.inline or len(part) == 1
        )
        data = self._write([value for value in outside if value.inline], inputs, range(begin, end), outputs)
        kinds = tuple(value.kind for value in inputs), tuple(value.kind for value in outputs)
        program = Program(data, (), *kinds, 0, (), untrusted=self._graph.program.untrusted)
        return Extraction(program, inputs, outputs)

    def _old(self, value: Value) -> ir.Value:
        if value.producer is None:
            return self._arguments[value.position]
        return self._operations[value.producer].results[value.position]

    def _write(self, inline: Sequence[Value], inputs: Sequence[Value], part: range, outputs: Sequence[Value]) -> bytes:
        with self._context, ir.Location.unknown():
            module = ir.Module.create()
            types = [self._tensor_type(value) for value in inputs], [self._tensor_type(value) for value in outputs]
            attributes = {
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(*types)),
                "repro.num_state": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
            }
            with ir.InsertionPoint(module.body):
                main = ir.Operation.create("func.func", regions=1, attributes=attributes)
            block = main.regions[0].blocks.append(*types[0])
            with ir.InsertionPoint(block):
                renamed: dict[ir.Value, ir.Value] = {}
                for value, argument in zip(inputs, block.arguments, strict=True):
                    renamed[self._old(value)] = self._from_tensor(value, argument)
                # The operators keep their order, so that each one is cloned before its users.
                for index in [*dict.fromkeys(value.producer for value in inline), *part]:
                    assert index is not None
                    clone(self._operations[index], renamed)
                returned = [self._to_tensor(value, renamed[self._old(value)]) for value in outputs]
                ir.Operation.create("func.return", operands=returned)
            return write_module(module)

    def _tensor_type(self, value: Value) -> Any:
        old = self._old(value).type
        if not value.scalar:
            return old
        return ir.RankedTensorType.get([], ir.IntegerType.get_signless(64) if value.element == "index" else old)

    def _from_tensor(self, value: Value, tensor: ir.Value) -> ir.Value:
        if not value.scalar:
            return tensor
        held = tensor.type.element_type
        scalar = ir.Operation.create("tensor.extract", operands=[tensor], results=[held]).result
        if value.element != "index":
            return scalar
        return ir.Operation.create("arith.index_cast", operands=[scalar], results=[self._old(value).type]).result

    def _to_tensor(self, value: Value, new: ir.Value) -> ir.Value:
        if not value.scalar:
            return new
        kind = self._tensor_type(value)
        if value.element == "index":
            new = ir.Operation.create("arith.index_cast", operands=[new], results=[kind.element_type]).result
        return ir.Operation.create("tensor.from_elements", operands=[new], results=[kind]).result
