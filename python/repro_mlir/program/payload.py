# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Minimizes the bytes that ranks exchange per microbatch (T2). The program of a microbatch is split at values that
determine the sums (B1) and take fewer bytes than the sums, such as the codes and scales of compressed gradients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.canonical import from_bytes, write_module
from repro_mlir.program.importing import run_prepared_passes
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.program.program import Program, read_signature
from repro_mlir.program.signatures import set_arguments, set_results, signed_results

_DECODING = frozenset(
    {
        "arith.constant",
        "linalg.generic",
        "repro.dequantize",
        "repro.scatter",
        "tensor.collapse_shape",
        "tensor.empty",
        "tensor.expand_shape",
        "tensor.extract",
        "tensor.extract_slice",
        "tensor.insert_slice",
    }
)
"""The operations that `Payload.decode` may contain; every rank executes them for all microbatches. Folds and sorts stay
in `Payload.encode`, which ranks execute only for their own microbatches."""


@dataclass(frozen=True)
class Payload:
    """The program of a microbatch, split in two programs.

    Attributes:
      encode: `MicrobatchProgram.part` with the payload tensors as results instead of the sums.
      decode: the program that computes the sums from the payload tensors.
    """

    encode: Program
    decode: Program

    @property
    def kinds(self) -> tuple[TensorType, ...]:
        """The payload tensors."""
        return self.decode.inputs

    @property
    def nbytes(self) -> int:
        """The size of the payload in bytes, with elements of less than a byte packed."""
        return _size(self.decode)


def packed_bytes(element: str, shape: Iterable[int]) -> int:
    """Returns the size in bytes of a tensor with packed elements."""
    return -(-math.prod(shape) * ELEMENTS[element].width // 8)


def payload_of(program: MicrobatchProgram, limit: float = math.inf) -> Payload | None:
    """Returns the program of a microbatch, split in two. The payload between its parts consists, for each sum, of the
    values that determine the sum and take the fewest bytes; this may be the sum itself. Returns None unless the payload
    takes less than `limit` bytes."""
    count, text = len(program.sums), from_bytes(program.part.data)

    def encode(module: Any) -> str:
        main = module.body.operations[0]
        results = signed_results(main)
        set_results(main, [(value, _no_attributes()) for value in _cut(main, count)] + results[count:])
        return "canonical"

    def decode(module: Any) -> str:
        main = module.body.operations[0]
        block = main.regions[0].blocks[0]
        cut, results = _cut(main, count), signed_results(main)[:count]
        arguments = [block.add_argument(value.type, value.location) for value in cut]
        for value, argument in zip(cut, arguments, strict=True):
            value.replace_all_uses_with(argument)
        given = dict(zip(cut, arguments, strict=True))
        set_results(main, [(given.get(value, value), attributes) for value, attributes in results])
        for op in [*block.operations][-2::-1]:
            if not any([*result.uses] for result in op.results):
                op.operation.erase()
        set_arguments(main, [(argument, _no_attributes()) for argument in arguments], 0)
        return "canonical"

    def program_of(rewrite: Callable[[Any], str]) -> Program:
        found = read_signature(run_prepared_passes(text, rewrite, "payload", write_module))
        return dataclasses.replace(found, untrusted=program.part.untrusted)

    decoding = program_of(decode)
    if _size(decoding) >= limit:
        return None
    return Payload(dataclasses.replace(program_of(encode), inputs=program.part.inputs), decoding)


def _size(decode: Program) -> int:
    return sum(packed_bytes(kind.element, kind.shape) for kind in decode.inputs)


def _no_attributes() -> Any:
    from repro_mlir import ir

    return ir.DictAttr.get({})


def _cut(main: Any, count: int) -> list[Any]:
    """Returns the payload values from which the first `count` results are computed. The result of an operation in
    `_DECODING` is replaced by the payload values of its operands if these have fewer bytes."""
    block = main.regions[0].blocks[0]
    *operations, ends = block.operations
    found: dict[Any, dict[Any, None]] = {argument: {argument: None} for argument in block.arguments}
    for op in operations:
        given = {each: None for value in _operands(op, block) for each in found[value]}
        size = sum(map(_bytes, given)) if op.operation.name in _DECODING else math.inf
        for result in op.results:
            found[result] = given if size < _bytes(result) else {result: None}
    return [*dict.fromkeys(each for value in [*ends.operands][:count] for each in found[value])]


def _operands(op: Any, block: Any) -> list[Any]:
    """Returns the values of `block` that an operation reads, including reads in its regions."""
    from repro_mlir import ir

    found = dict.fromkeys(op.operands)

    def look(inner: Any) -> Any:
        for value in inner.operands:
            owner = value.owner
            if (owner if isinstance(value, ir.BlockArgument) else owner.operation.block) == block:
                found[value] = None
        return ir.WalkResult.ADVANCE

    op.operation.walk(look)
    return [*found]


def _bytes(value: Any) -> float:
    """Returns the size in bytes of a tensor; infinity for a value of another type, which cannot be sent."""
    from repro_mlir import ir

    if not isinstance(value.type, ir.RankedTensorType):
        return math.inf
    kind = ir.RankedTensorType(value.type)
    return packed_bytes(str(kind.element_type), kind.shape)
