# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What one of several ranks computes of a program: rules (T1) to (T3) of docs/numerics.md."""

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
    """Which elements of a tensor each rank has.

    Attributes:
      dimension: which one is cut.
      blocks: it consists of that many blocks of equal extent, each of which is cut alike.
      offsets: of each block, rank r has the elements from offsets[r] to offsets[r + 1].
    """

    dimension: int
    blocks: int
    offsets: tuple[int, ...]

    def shape(self, whole: Sequence[int], rank: int) -> tuple[int, ...]:
        """The shape of the part of a rank."""
        extent = self.blocks * (self.offsets[rank + 1] - self.offsets[rank])
        return (*whole[: self.dimension], extent, *whole[self.dimension + 1 :])

    def copy_part(self, whole: np.ndarray, rank: int) -> np.ndarray:
        """A contiguous copy of the part that a rank has of a tensor."""
        return self.part(np.ascontiguousarray(whole), rank).reshape(self.shape(whole.shape, rank)).copy()

    def part(self, whole: np.ndarray, rank: int) -> np.ndarray:
        """The part that a rank has of a contiguous tensor, where it lies: [outer, blocks, size, inner]."""
        outer, inner = whole.shape[: self.dimension], whole.shape[self.dimension + 1 :]
        view = whole.reshape(math.prod(outer), self.blocks, self.offsets[-1], math.prod(inner))
        return view[:, :, self.offsets[rank] : self.offsets[rank + 1]]


@dataclass(frozen=True)
class Call:
    """Runs a segment on values, and gives others.

    Attributes:
      segment: its number.
      operands: the values that it takes, its states first.
      results: the values that its outputs are.
    """

    segment: int
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Gather:
    """Makes a whole tensor of the parts of all ranks (T2).

    Attributes:
      part, whole: values.
      cut: which part each rank has.
      shape: of the whole tensor.
    """

    part: int
    whole: int
    cut: Cut
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    """Gives all ranks what one has (T2), (T3).

    Attributes:
      part: the value on the owner; None on the others.
      whole: the value on all ranks.
      owner: the rank that has it.
      stage: broadcasts of one stage are one exchange, on every rank, whatever it computes in between.
      kind: of the tensor, without a name.
    """

    part: int | None
    whole: int
    owner: int
    stage: int
    kind: TensorType


@dataclass(frozen=True)
class RankProgram:
    """What a rank computes of a program.

    Attributes:
      program: the whole program.
      rank, size: which rank of how many.
      cuts: of each state tensor and each input, of which the rank takes its part; None: it takes the whole.
      owners: of each of them the rank that alone has it; None: every rank has it, or its part.
      segments: what it computes between two exchanges. Their states are states that the program does not change.
      steps: what it does, in this order. A value is known by its number: first the arguments of the program.
      results: the values that are the new states and the outputs.
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
        """What is equal on ranks that compute parts of one program."""
        return blake3_of(b"repro-partition-v1", bytes.fromhex(self.program.hash), repr((self.size, self.cuts)).encode())


LEAST = 1 << 20
"""Products of a contraction that is worth dividing."""


def partition(
    program: Program, size: int, rank: int, cut: Mapping[str, int] | None = None, least: int = LEAST
) -> RankProgram:
    """What rank `rank` of `size` ranks computes of a program.

    Args:
      cut: the dimension along which each state tensor or input with this name is cut, and no other one is. None: the
        compiler chooses states that do not change, factors of contractions of at least `least` products.
    Raises:
      ReproError: a name that there is not, a dimension that a tensor does not have, a state that changes.
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
    """What rank `rank` of `size` ranks computes of a program where each of some tensors is on one rank alone (T3).

    Args:
      positions: of states that change and inputs, numbered together.
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
            results = tuple(map(number, list(op.results)[num_state:]))
            steps.append(Call(called, operands, results))
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
    """A segment as a program."""
    with ir.Location.unknown():
        module = ir.Module.create()
    main = function.operation.clone()
    main.attributes["sym_name"] = ir.StringAttr.get("main")
    del main.attributes["sym_visibility"]
    module.body.append(main)
    return write_module(module)


def _attributes(ir: Any, main: Any, count: int) -> list[Any]:
    """Those of each argument."""
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
