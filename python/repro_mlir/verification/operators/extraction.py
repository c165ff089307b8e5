# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Extracts a part of a program as a separate canonical program.

The operators a to b - 1 become a program whose inputs are their operands from outside the part, and whose outputs are
all their results. No lowering of a canonical program may change a bit, so any target computes these values exactly as
it does in the whole program. Scalars are passed as tensors of rank 0, `index` values as i64.
"""

from __future__ import annotations

from collections.abc import Sequence

from repro_mlir.base.errors import ReproError
from repro_mlir.program import Program
from repro_mlir.reference.program import ValueType
from repro_mlir.verification.operators.building import BlockBuilder, type_of
from repro_mlir.verification.operators.graph import Extraction, OperatorGraph, Value


def extract(graph: OperatorGraph, begin: int, end: int) -> Extraction:
    """Extracts the operators `begin` to `end` - 1. Raises ReproError if the range is not within the program."""
    operators = graph.operators
    if not 0 <= begin < end <= len(operators):
        raise ReproError(f"expected a range of operators within 0 .. {len(operators)}, got {begin} .. {end}")
    part = operators[begin:end]
    inside = {value for operator in part for value in operator.results}
    outside = dict.fromkeys(value for operator in part for value in operator.operands if value not in inside)
    inputs = tuple(value for value in outside if not value.inline)
    # A constant is an output only if it is the only operator of the part.
    outputs = tuple(value for operator in part for value in operator.outputs if not operator.inline or len(part) == 1)
    data = _write(graph, [value for value in outside if value.inline], inputs, range(begin, end), outputs)
    kinds = tuple(value.kind for value in inputs), tuple(value.kind for value in outputs)
    return Extraction(Program(data, (), *kinds, 0, (), untrusted=graph.program.untrusted), inputs, outputs)


def _write(
    graph: OperatorGraph, inline: Sequence[Value], inputs: Sequence[Value], part: range, outputs: Sequence[Value]
) -> bytes:
    block = BlockBuilder([type_of(value.kind) for value in inputs])
    renamed: dict[int, int] = {}
    for value, argument in zip(inputs, block.arguments, strict=True):
        renamed[graph.number_of(value)] = _from_tensor(block, value, argument)
    # The operators keep their order, so that each one is cloned before its users.
    for index in [*dict.fromkeys(value.producer for value in inline), *part]:
        assert index is not None
        block.clone(graph.operations[index], renamed)
    return block.program([_to_tensor(block, value, renamed[graph.number_of(value)]) for value in outputs])


def _from_tensor(block: BlockBuilder, value: Value, tensor: int) -> int:
    if not value.scalar:
        return tensor
    (scalar,) = block.write("tensor.extract", [tensor], [ValueType(type_of(value.kind).element, None)])
    return scalar if value.element != "index" else block.write("arith.index_cast", [scalar], [value.type])[0]


def _to_tensor(block: BlockBuilder, value: Value, number: int) -> int:
    if not value.scalar:
        return number
    kind = type_of(value.kind)
    if value.element == "index":
        (number,) = block.write("arith.index_cast", [number], [ValueType(kind.element, None)])
    return block.write("tensor.from_elements", [number], [kind])[0]
