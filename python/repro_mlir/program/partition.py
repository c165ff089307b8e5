# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Partitions a program over several ranks: rules (T1) to (T3) of docs/reference/numerics.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.canonical import from_bytes, write_module
from repro_mlir.program.importing import run_prepared_passes
from repro_mlir.program.program import Program, read_signature


@dataclass(frozen=True)
class Cut:
    """The partition of a tensor over the ranks.

    Attributes:
      dimension: the partitioned dimension.
      blocks: the number of blocks of equal extent in the dimension; each block is partitioned in the same way.
      offsets: rank r has the elements offsets[r] to offsets[r + 1] - 1 of each block.
    """

    dimension: int
    blocks: int
    offsets: tuple[int, ...]

    def shape(self, whole: Sequence[int], rank: int) -> tuple[int, ...]:
        """Returns the shape of the shard of a rank."""
        extent = self.blocks * (self.offsets[rank + 1] - self.offsets[rank])
        return (*whole[: self.dimension], extent, *whole[self.dimension + 1 :])

    def copy_part(self, whole: np.ndarray, rank: int) -> np.ndarray:
        """Returns a contiguous copy of a rank's shard of a tensor."""
        return self.part(np.ascontiguousarray(whole), rank).reshape(self.shape(whole.shape, rank)).copy()

    def part(self, whole: np.ndarray, rank: int) -> np.ndarray:
        """Returns a rank's shard of a contiguous tensor as a view [outer, blocks, size, inner]: the cut dimension
        becomes `blocks` and `size`, and the dimensions before and after it are merged."""
        outer, inner = whole.shape[: self.dimension], whole.shape[self.dimension + 1 :]
        view = whole.reshape(math.prod(outer), self.blocks, self.offsets[-1], math.prod(inner))
        return view[:, :, self.offsets[rank] : self.offsets[rank + 1]]


@dataclass(frozen=True)
class Call:
    """An element of `RankProgram.steps` that runs a segment on values.

    Attributes:
      segment: the index of the segment.
      operands: the values of its arguments, state first.
      results: the values that its outputs define.
    """

    segment: int
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Gather:
    """An element of `RankProgram.steps` that gathers a whole tensor from the shards of all ranks (T2).

    Attributes:
      part, whole: the values of the shard and of the whole tensor.
      cut: the partition of the tensor.
      shape: the shape of the whole tensor.
    """

    part: int
    whole: int
    cut: Cut
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    """An element of `RankProgram.steps` that broadcasts a tensor of one rank to all ranks (T2), (T3).

    Attributes:
      part: the value on the owner; None on the other ranks.
      whole: the value on all ranks.
      owner: the rank that has the tensor.
      stage: broadcasts with the same stage form one exchange on every rank, even if computations lie between them.
      kind: the type of the tensor, without a name.
    """

    part: int | None
    whole: int
    owner: int
    stage: int
    kind: TensorType


@dataclass(frozen=True)
class RankProgram:
    """The part of a program that one rank computes.

    Attributes:
      program: the whole program.
      rank, size: the rank and the number of ranks.
      cuts: the partition of each state tensor and each input; None if the rank has the whole tensor.
      owners: for each state tensor and each input, the only rank that has it; None if every rank has it or a shard.
      segments: the programs that run between exchanges. Their state tensors are states that the whole program does not
        change.
      steps: the steps in order. Values are numbered, starting with the arguments of the program.
      results: the values of the new state and the outputs.
    """

    program: Program
    rank: int
    size: int
    cuts: tuple[Cut | None, ...]
    owners: tuple[int | None, ...]
    segments: tuple[Program, ...]
    steps: tuple[Call | Gather | Broadcast, ...]
    results: tuple[int, ...]

    @property
    def digest(self) -> bytes:
        """A digest that is equal on all ranks that compute parts of the same partitioned program."""
        return blake3_of(b"repro-partition-v1", bytes.fromhex(self.program.hash), repr((self.size, self.cuts)).encode())


LEAST = 1 << 20
"""The minimum number of products for which the compiler partitions a contraction."""


def partition(
    program: Program, size: int, rank: int, cut: Mapping[str, int] | None = None, least: int = LEAST
) -> RankProgram:
    """Returns the part of a program that rank `rank` of `size` ranks computes.

    Args:
      size: the number of ranks.
      cut: maps the names of the partitioned state tensors and inputs to the partitioned dimension. None: the compiler
        partitions unchanged state tensors that are factors of contractions with at least `least` products.
      least: see `cut`.
    Raises:
      ReproError: a name does not exist, a tensor does not have the dimension, or the program changes the state tensor.
    """
    kinds = [*program.state, *program.inputs]
    options = f"ranks={size} rank={rank} least={least}"
    if cut is None:
        options += " chooses=true"
    elif cut:
        names = [kind.name for kind in kinds]
        for name in cut:
            if names.count(name) != 1:
                raise ReproError(f"(T1) expected the name of a state tensor or an input, got {name!r}")
        for name, dimension in cut.items():
            if type(dimension) is not int:
                raise ReproError(f"(T1) {name}: expected a dimension as a whole number, got {dimension!r}")
        positions = [names.index(name) for name in cut]
        options += f" arguments={','.join(map(str, positions))} dimensions={','.join(map(str, cut.values()))}"
    return _planned(program, size, rank, f"repro-partition{{{options}}}")


def assign_owners(program: Program, size: int, rank: int, positions: Sequence[int]) -> RankProgram:
    """Returns the part of a program that one rank computes if each of the tensors at `positions` exists on one rank
    only (T3).

    Args:
      size: the number of ranks.
      positions: the argument positions (state, then inputs) of the tensors, which are changed state tensors or inputs.
    """
    options = f"ranks={size} rank={rank}"
    if positions:
        options += f" arguments={','.join(map(str, positions))}"
    return _planned(program, size, rank, f"repro-assign-owners{{{options}}}")


def _planned(program: Program, size: int, rank: int, divide: str) -> RankProgram:
    passes = f"{divide},repro-outline-segments"
    return run_prepared_passes(
        from_bytes(program.data), lambda _: passes, "partition", lambda module: _read_plan(module, program, size, rank)
    )


def _read_plan(module: Any, program: Program, size: int, rank: int) -> RankProgram:
    from repro_mlir import ir

    main, *functions = module.body.operations
    block = main.regions[0].blocks[0]
    numbers: dict[Any, int] = {}

    def number(value: Any) -> int:
        return numbers.setdefault(value, len(numbers))

    for argument in block.arguments:
        number(argument)
    segments = {ir.StringAttr(each.attributes["sym_name"]).value: i for i, each in enumerate(functions)}
    steps: list[Call | Gather | Broadcast] = []
    for op in block.operations:
        operands = tuple(map(number, op.operands))
        if op.operation.name == "func.call":
            called = segments[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
            num_state = ir.IntegerAttr(functions[called].attributes["repro.num_state"]).value
            steps.append(Call(called, operands, tuple(map(number, list(op.results)[num_state:]))))
        elif op.operation.name == "repro.all_gather":
            dimension, blocks = (ir.IntegerAttr(op.attributes[key]).value for key in ("dimension", "blocks"))
            offsets = [0]
            for extent in ir.DenseI64ArrayAttr(op.attributes["sizes"]):
                offsets.append(offsets[-1] + extent)
            shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
            whole = number(op.results[0])
            steps.append(Gather(operands[0], whole, Cut(dimension, blocks, tuple(offsets)), shape))
        elif op.operation.name == "repro.broadcast":
            owner, stage = (ir.IntegerAttr(op.attributes[key]).value for key in ("owner", "stage"))
            type = ir.RankedTensorType(op.results[0].type)
            kind = TensorType("", str(type.element_type), tuple(type.shape))
            steps.append(Broadcast(operands[0] if operands else None, number(op.results[0]), owner, stage, kind))
        else:
            returned = operands
    programs = tuple(
        dataclasses.replace(read_signature(_standalone(ir, each)), untrusted=program.untrusted) for each in functions
    )
    arguments = _attributes(ir, main, len(block.arguments))
    cuts, owners = tuple(_cut(ir, each) for each in arguments), tuple(_owner(ir, each) for each in arguments)
    return RankProgram(program, rank, size, cuts, owners, programs, tuple(steps), returned)


def _standalone(ir: Any, function: Any) -> bytes:
    """Returns a segment as a stored program."""
    with ir.Location.unknown():
        module = ir.Module.create()
    main = function.operation.clone()
    main.attributes["sym_name"] = ir.StringAttr.get("main")
    del main.attributes["sym_visibility"]
    module.body.append(main)
    return write_module(module)


def _attributes(ir: Any, main: Any, count: int) -> list[Any]:
    if "arg_attrs" not in main.attributes:
        return [{}] * count
    return [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]


def _cut(ir: Any, attributes: Any) -> Cut | None:
    if "repro.cut" not in attributes:
        return None
    dimension, blocks, *offsets = ir.DenseI64ArrayAttr(attributes["repro.cut"])
    return Cut(dimension, blocks, tuple(offsets))


def _owner(ir: Any, attributes: Any) -> int | None:
    return ir.IntegerAttr(attributes["repro.owner"]).value if "repro.owner" in attributes else None
