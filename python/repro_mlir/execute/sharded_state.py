# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A state that is sharded among ranks (T3): tensors that only the end of a step reads, as in ZeRO-1, and tensors of
which each microbatch has its own part (B5)."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.base.numerics.tensors import make_canonical, start_of
from repro_mlir.distributed.agreement import Report, require_agreement
from repro_mlir.distributed.failures import describe
from repro_mlir.distributed.gathering import exchange_parts
from repro_mlir.distributed.ranks import Agreed, Ranks
from repro_mlir.execute.agreed_state import AgreedState
from repro_mlir.execute.arguments import Arguments
from repro_mlir.execute.divided_tensor import DividedTensor
from repro_mlir.execute.executable import check_threads, compile
from repro_mlir.execute.segments import run_steps
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.program.partition import Broadcast, Call, RankProgram, assign_owners


def microbatches_of(program: MicrobatchProgram, ranks: Ranks) -> list[range]:
    """Returns the microbatches of each rank."""
    leaves, accumulate = program.microbatches.leaves, program.microbatches.accumulate
    return [range(own.start * accumulate, own.stop * accumulate) for own in ranks.leaves(leaves)]


def divides_own(program: MicrobatchProgram, ranks: Ranks) -> bool:
    """Returns whether each microbatch's own state (B5) exists only on the rank that computes the microbatch. This is
    not the case if other ranks check microbatches, or if measured shares move microbatches between ranks."""
    return bool(program.own) and ranks.size > 1 and ranks.check_share == 0 and ranks.shares != "measured"


class ShardedUpdate:
    """The end of a step (after the gradients are summed), divided among the ranks: each rank computes the tensors that
    it owns.

    With a sharded optimizer, each rank owns some of the sums, and some of the states that are not `replicated` and that
    only the end of the step reads: the optimizer's state, and averages of parameters.

    Attributes:
      plan: the part of this rank.
      segments: the compiled segments of `plan`.
      divided: the states of which each rank has only the part of its own microbatches, by position.
      threads: see `Executable`.
      arguments: converts and checks arguments of the whole end of the step.
    """

    def __init__(
        self,
        program: MicrobatchProgram,
        target: str,
        threads: int | None,
        ranks: Ranks,
        replicated: Collection[str] = (),
    ) -> None:
        finish, count = program.finish, len(program.state)
        self.arguments = Arguments(finish)
        unread = program.part.examined.unread
        whole = self.arguments.kept | {i for i, kind in enumerate(program.state) if kind.name in replicated}
        positions: list[int] = []
        if ranks.shard_optimizer:
            positions += (i for i in range(count) if i in unread and i not in whole)
            positions += range(count, count + len(program.sums))
        self.plan: RankProgram = assign_owners(finish, ranks.size, ranks.rank, positions)
        self.segments = [compile(each, target, threads) for each in self.plan.segments]
        self.threads = check_threads(threads)
        self.divided: dict[int, DividedTensor] = {}
        if divides_own(program, ranks):
            rows = tuple(microbatches_of(program, ranks))
            given = enumerate(program.own, count + len(program.sums))
            read = {number for step in self.plan.steps if isinstance(step, Call) for number in step.operands}
            self.divided = {
                i: DividedTensor(program.state[i], rows)
                for number, i in given
                if self.plan.results[i] == number and not read & {i, number}
            }

    @property
    def owners_of_sums(self) -> dict[int, int]:
        """Maps the position of a sum to the rank that owns it; no other rank needs that sum."""
        owners = enumerate(self.plan.owners[len(self.plan.program.state) :])
        return {i: owner for i, owner in owners if owner is not None}


class ShardedState(AgreedState):
    """A state of which each rank has the replicated tensors and the tensors that it owns.

    Initially, and after `fetch`, the arrays of every rank contain the whole state.
    """

    def __init__(self, update: ShardedUpdate, ranks: Ranks, state: Mapping[str, Any]) -> None:
        self._update = update
        self._ranks = ranks
        self._state = state
        plan, kinds = update.plan, update.plan.program.state
        self._arrays = update.arguments.kept_states(state)
        self._own = [i for i in range(len(kinds)) if plan.owners[i] in (None, ranks.rank)]
        self._foreign = [i for i in range(len(kinds)) if i not in self._own or i in update.divided]
        # np.empty_like does not touch the pages of the new array, so the parts that this rank never writes take no
        # memory.
        self._copies = {i: np.empty_like(self._arrays[i]) for i in self._own}
        pairs = [(self._here(i, self._arrays[i]), self._here(i, self._copies[i])) for i in self._own]
        super().__init__(plan.program.outputs, pairs)
        self._is_whole = True
        # (H1) The digests of all tensors, including those of other ranks, and the digests after the last attempt.
        self._digests: list[bytes] = []
        self._tried: list[bytes] = []
        self._memory = self._assign_memory()

    def _here(self, i: int, array: np.ndarray) -> np.ndarray:
        """Returns the part of a tensor that this rank has: the whole tensor, or the rows of its own microbatches."""
        if i not in self._update.divided:
            return array
        rows = self._update.divided[i].rows[self._ranks.rank]
        return array[rows.start : rows.stop]

    def _is_alone(self, i: int) -> bool:
        """Returns whether each element of a tensor is on only one rank: one rank has the whole tensor, or each rank has
        its own part."""
        return self._update.plan.owners[i] is not None or i in self._update.divided

    @property
    def is_divided(self) -> bool:
        """Whether a rank lacks a part of the state."""
        return not self._is_whole and any(map(self._is_alone, range(len(self._arrays))))

    @property
    def foreign(self) -> frozenset[str]:
        """The names of the tensors whose values only other ranks have, wholly or in part."""
        kinds = self._update.plan.program.state
        return frozenset() if self._is_whole else frozenset(kinds[i].name for i in self._foreign)

    def _assign_memory(self) -> dict[int, np.ndarray]:
        """Returns, by number, a buffer for each value that a step computes or receives. New states and outputs get
        their final buffers."""
        plan = self._update.plan
        count = len(plan.program.state) + len(plan.program.inputs)
        wanted = [*((plan.results[i], self._copies[i]) for i in self._own)]
        wanted += zip(plan.results[len(plan.program.state) :], self._outputs.values(), strict=True)
        memory: dict[int, np.ndarray] = {}
        for number, array in wanted:
            if number >= count:
                memory.setdefault(number, array)
        for step in plan.steps:
            if isinstance(step, Broadcast):
                whole = memory.setdefault(step.whole, np.empty(step.kind.shape, step.kind.dtype))
                if step.part is not None and step.part >= count:
                    memory.setdefault(step.part, whole)
            elif isinstance(step, Call):
                for number, kind in zip(step.results, plan.segments[step.segment].outputs, strict=True):
                    memory.setdefault(number, np.empty(kind.shape, kind.dtype))
        return memory

    def hash(self) -> bytes:
        self.finish()
        changed = self._look()
        if changed:
            names = ", ".join(changed[:3])
            raise ReproError(
                f"state {names}, which only rank {self._ranks.rank} holds, was written between steps: call sync() on "
                "all ranks before writing"
            )
        return bytes.fromhex(combine_digests(self._digests))

    def digests(self) -> tuple[bytes, ...]:
        """(H1) Returns the digests of all tensors. For a tensor that only one rank has, this is the digest after the
        last step, even if the user has written to the tensor since."""
        self.finish()
        # The result of `_look` is ignored here: if the user has written to a tensor that only one rank has, the next
        # step fails on all ranks.
        self._look()
        return tuple(self._digests)

    def _look(self) -> list[str]:
        """Updates digests and copies from the arrays. Returns the names of the tensors that the user has written
        although only this rank has their values."""
        kinds = self._update.plan.program.state
        if self._is_whole:
            self._update.arguments.kept_states(self._state)
            self._digests = [self._digest(i, array) for i, array in enumerate(self._arrays)]
            for array, copy in self._pairs:
                np.copyto(copy, array)
            return []
        changed = [i for i, pair in zip(self._own, self._pairs, strict=True) if not (pair[0] == pair[1]).all()]
        for i in changed:
            if not self._is_alone(i):
                make_canonical(self._arrays[i], kinds[i].element)
                np.copyto(self._copies[i], self._arrays[i])
                self._digests[i] = self._digest(i, self._arrays[i])
        return [kinds[i].name for i in changed if self._is_alone(i)]

    def _digest(self, i: int, array: np.ndarray) -> bytes:
        element = self._update.plan.program.state[i].element
        # Hash with all processors, unless this rank has only one thread: the other processors are then left to other
        # ranks.
        return tensor_digest(array, element, alone=self._update.threads > 1)

    def attempt(self, inputs: Sequence[np.ndarray]) -> tuple[bytes, BaseException | None]:
        plan, rank = self._update.plan, self._ranks.rank
        values = dict(enumerate([*self._arrays, *inputs]))
        known: dict[int, bytes] = {}

        def hash_computed() -> None:
            for i in self._own:
                if values.get(plan.results[i]) is self._copies[i]:
                    known[i] = self._digest(i, self._copies[i])

        failure = run_steps(plan, self._ranks, values, self._call, self._memory, hash_computed)
        tried = [bytes(32)] * len(self._arrays)
        told = [bytes(tensor.size(rank)) for tensor in self._update.divided.values()]
        if failure is None:
            self._collect(values)
            for i in self._own:
                if i not in self._update.divided:
                    tried[i] = known[i] if i in known else self._digest(i, self._copies[i])
            divided = self._update.divided.items()
            told = [tensor.told(rank, self._here(i, self._copies[i])) for i, tensor in divided]
        self._exchange_digests(tried, told)
        if failure is not None:
            return bytes(32), failure
        self._tried = tried
        return bytes.fromhex(combine_digests(tried)), None

    def _exchange_digests(self, tried: list[bytes], told: Sequence[bytes]) -> None:
        """Exchanges the digests of owned and divided tensors, so that every rank has those of all tensors.

        Args:
          tried: the digests of the new state that this rank has computed; the others are filled in.
          told: this rank's messages about its parts of divided tensors, see `DividedTensor`.
        """
        plan, divided = self._update.plan, self._update.divided
        owners = plan.owners[: len(tried)]
        owned = [[i for i, owner in enumerate(owners) if owner == peer] for peer in range(plan.size)]
        own = b"".join([*(tried[i] for i in owned[plan.rank]), *told])
        sizes = [[32] * len(owned[peer]) + [each.size(peer) for each in divided.values()] for peer in range(plan.size)]
        parts: list[list[bytes]] = []
        for peer, data in enumerate(self._ranks.gather(own, [*map(sum, sizes)])):
            ends = [*itertools.accumulate(sizes[peer], initial=0)]
            found = [data[begin:end] for begin, end in itertools.pairwise(ends)]
            for i, digest in zip(owned[peer], found, strict=False):
                tried[i] = digest
            parts.append(found[len(owned[peer]) :])
        for (i, tensor), of_ranks in zip(divided.items(), zip(*parts, strict=True), strict=True):
            tried[i] = tensor.digest(of_ranks)

    def _call(self, step: Call, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        segment = self._update.segments[step.segment]
        count = len(segment.program.state)
        results = {number: self._memory[number] for number in step.results}
        operands = [values[number] for number in step.operands]
        segment.write(operands[:count], operands[count:], [*results.values()])
        return results

    def _collect(self, values: Mapping[int, np.ndarray]) -> None:
        """Copies the results that are not in their final buffers yet: results that are arguments, and values that
        several results share."""
        plan = self._update.plan
        kinds = [*plan.program.state, *plan.program.outputs]
        targets = {**self._copies, **dict(enumerate(self._outputs.values(), len(plan.program.state)))}
        for i, target in targets.items():
            value = values[plan.results[i]]
            if not np.may_share_memory(value, target):
                here = self._here(i, target)
                here[...] = self._here(i, value)
                make_canonical(here, kinds[i].element)

    def _copy_back(self) -> None:
        super()._copy_back()
        self._digests = self._tried
        if self._is_whole:
            for i in self._foreign:
                for array in self._elsewhere(i):
                    _release(array)
        self._is_whole = False

    def _elsewhere(self, i: int) -> list[np.ndarray]:
        """Returns the parts of a tensor that only other ranks have."""
        array = self._arrays[i]
        if i not in self._update.divided:
            return [array]
        rows = self._update.divided[i].rows[self._ranks.rank]
        return [array[: rows.start], array[rows.stop :]]

    def fetch(self) -> None:
        """Copies the whole state to every rank; all ranks call this method together.

        Raises:
          ReproError: another rank makes a different call; the user has written to tensors that this rank owns; a
            received value is not the result of the last step.
          RankLost: another rank is gone.
        """
        if not self.is_divided:
            return
        state, failure = bytes(32), None
        try:
            state = self.hash()
        except ReproError as error:
            failure = error
        plan, ranks = self._update.plan, self._ranks
        identity = blake3_of(b"fetch", bytes.fromhex(plan.program.hash))
        try:
            with ranks.step():
                require_agreement(ranks, Report(identity, bytes(32), state, failure=describe(failure)))
                owned = [each for each in zip(self._arrays, plan.owners, strict=False) if each[1] is not None]
                parts: list[list[np.ndarray | None]] = [
                    [array if r == owner else None for r in range(plan.size)] for array, owner in owned
                ]
                for i, tensor in self._update.divided.items():
                    parts.append([self._arrays[i][rows.start : rows.stop] for rows in tensor.rows])
                exchange_parts(ranks, parts, None)
        except Agreed as error:
            raise failure or error.__cause__ or error from None
        for i in self._foreign:
            if self._digest(i, self._arrays[i]) != self._digests[i]:
                kind = plan.program.state[i]
                owner = plan.owners[i]
                who = "other ranks" if owner is None else f"rank {owner}"
                raise ReproError(f"state {kind.name} of {who} does not have the hash that it had after the last step")
        self._is_whole = True

    def load(self) -> None:
        self._is_whole = True

    def _note(self, hash: bytes) -> None:
        pass


def _release(array: np.ndarray) -> None:
    """Returns the whole pages of an array to the operating system. Their values are lost, but their addresses stay
    valid."""
    page = mmap.PAGESIZE
    start, stop = -(-start_of(array) // page) * page, (start_of(array) + array.nbytes) // page * page
    if sys.platform == "linux" and start < stop:
        # A failure is ignored: memory that the system does not accept back, such as locked pages, stays in use.
        _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)


_LIBC = ctypes.CDLL(None)
