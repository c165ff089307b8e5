# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles training steps in microbatches (B1) to (B3) for a target, and runs them on one or several ranks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.base.numerics.tensors import TensorType, require_count, require_same, start_of
from repro_mlir.base.tensors.arrays import as_arrays
from repro_mlir.distributed.agreement import Report, require_agreement
from repro_mlir.distributed.checking import Checks, checker_of, digest_of, require_right
from repro_mlir.distributed.failures import describe
from repro_mlir.distributed.ranks import Agreed, Ranks
from repro_mlir.distributed.reduction import combine, lengths
from repro_mlir.distributed.sums import SumLayout, Sums
from repro_mlir.distributed.tree import fold, maximal_nodes, split
from repro_mlir.execute.agreed_state import AgreedState, ReplicatedState
from repro_mlir.execute.executable import Executable, Kept, compile, step_errors
from repro_mlir.execute.microbatch_calls import MicrobatchCalls
from repro_mlir.execute.payloads import chosen_payload, pack, unpack
from repro_mlir.execute.sharded_state import ShardedState, ShardedUpdate, divides_own, microbatches_of
from repro_mlir.program.microbatches import MicrobatchProgram, StepProgram, sum_program
from repro_mlir.program.payload import packed_bytes


def compile_step(
    program: StepProgram,
    target: str,
    threads: int | None,
    ranks: Ranks | None = None,
    replicated: Collection[str] = (),
) -> Executable | MicrobatchExecutable:
    """Compiles a training step like `compile`. If the step has microbatches, `ranks` share them, and every rank keeps
    whole copies of the state tensors named in `replicated`."""
    if isinstance(program, MicrobatchProgram):
        return MicrobatchExecutable(program, target, threads, ranks, replicated)
    return compile(program, target, threads)


class MicrobatchExecutable(ConstantAttributes):
    """A compiled training step in microbatches, with the interface of `Executable`.

    Attributes:
      program: the step.
      target, threads: see `Executable`.
      ranks: the ranks that share the step; None if this process runs all of it.
      layout: the positions of the sums in memory.
      part: the program of a microbatch, which returns sums, or the inputs of `decode`.
      decode: the program that computes sums from the payloads that ranks send instead of sums; None if ranks send sums.
    """

    program: MicrobatchProgram
    target: str
    threads: int
    ranks: Ranks | None
    layout: SumLayout
    part: Executable
    decode: Executable | None

    def __init__(
        self,
        program: MicrobatchProgram,
        target: str,
        threads: int | None,
        ranks: Ranks | None = None,
        replicated: Collection[str] = (),
    ) -> None:
        self.program = program
        self.target = target
        self.ranks = ranks
        rank, size = (0, 1) if ranks is None else (ranks.rank, ranks.size)
        self._finish: Executable | ShardedUpdate
        if ranks is not None and (ranks.shard_optimizer or divides_own(program, ranks)):
            self._finish = ShardedUpdate(program, target, threads, ranks, replicated)
            self.layout = SumLayout(program.sums, size, self._finish.owners_of_sums or None)
        else:
            self._finish = compile(program.finish, target, threads)
            self.layout = SumLayout(program.sums, size)
        payload = None if ranks is None else chosen_payload(program, ranks, self.layout)
        self.part = compile(program.part if payload is None else payload.encode, target, threads)
        self.decode = None if payload is None else compile(payload.decode, target, threads)
        self.threads = self.part.threads
        own, sums = program.part.outputs[len(program.sums) :], program.sums
        written = sums if self.decode is None else self.decode.program.inputs
        require_same("output of a microbatch", self.part.program.outputs, [*written, *own])
        if self.decode is not None:
            require_same("sum", self.decode.program.outputs, sums)
        self._sums: dict[tuple[str, int], Executable] = {
            (element, size): compile(sum_program(element, size), target, threads)
            for element in self.layout.slices
            for size in {self.layout.length(element), *lengths(self.layout, element, rank)}
        }

    @property
    def resident(self) -> bool:
        """Whether the state that `keep` returns is in the memory of a device, separate from the caller's arrays."""
        return self.ranks is None and isinstance(self._finish, Executable) and self._finish.resident

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runs one step on a state that is updated in place, like `Executable.__call__`; outputs are NumPy arrays."""
        return {kind.name: state[kind.name] for kind in self.program.state}, self._run(state, inputs).outputs

    def commit(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], tuple[bytes, ...]]:
        """Runs one step like `__call__`; returns its outputs, and the hash of each microbatch's results (C8)."""
        kept = self._run(state, inputs, commits=True)
        return kept.outputs, kept.microbatches

    def _run(self, state: Mapping[str, Any], inputs: Sequence[Any], *, commits: bool = False) -> KeptMicrobatches:
        kept = self.keep(state)
        kept.commits = commits
        kept.step(*inputs)
        kept.fetch()
        return kept

    def keep(self, state: Mapping[str, Any]) -> KeptMicrobatches:
        """Returns a state on which many steps run, like `Executable.keep`."""
        kept: Kept | AgreedState
        if isinstance(self._finish, ShardedUpdate):
            assert self.ranks is not None
            kept = ShardedState(self._finish, self.ranks, state)
        else:
            kept = self._finish.keep(state) if self.ranks is None else ReplicatedState(self._finish, state)
        return KeptMicrobatches(self, kept, [state[kind.name] for kind in self.program.state])

    @property
    def divided(self) -> Collection[int]:
        """(T3) The positions of the states that are divided: each rank has the part of its own microbatches."""
        return self._finish.divided if isinstance(self._finish, ShardedUpdate) else ()

    def add(self, element: str, left: np.ndarray, right: np.ndarray) -> None:
        """(B2) Adds `right` to `left` in place. Each array contains all sums with the element type `element`, or one
        bucket of them."""
        executable = self._sums[element, len(left)]
        if executable.takes_addresses:
            executable.write_at([start_of(left), start_of(right)])
        else:
            executable.write([left], [right], [])


class KeptMicrobatches:
    """A state on which many steps in microbatches run, one after the other, with the interface of `Kept`.

    Attributes:
      commits: whether the next steps hash the results of each microbatch.
      microbatches: the hash of each microbatch's results in the last step (C8); empty if `commits` was False.
    """

    def __init__(self, executable: MicrobatchExecutable, kept: Kept | AgreedState, state: Sequence[Any]) -> None:
        self._executable = executable
        self._kept = kept
        kinds = executable.program.state
        self._state = as_arrays(state, kinds, "state")
        self._calls = MicrobatchCalls(executable.program, executable.part, self._state)
        # (B5) The new values of the state tensors of which each microbatch has its own part: one array per tensor, for
        # all microbatches.
        self._own = [np.empty(kinds[i].shape, kinds[i].dtype) for i in executable.program.own]
        # Sums that are no longer in use; later sums reuse their memory.
        self._free: list[Sums] = []
        # The inputs of `decode` by microbatch, if ranks send these inputs instead of sums.
        self._payloads: dict[int, Sums] = {}
        self.commits = False
        self.microbatches: tuple[bytes, ...] = ()
        self._committed: dict[int, bytes] = {}

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the last step by name."""
        return self._kept.outputs

    @property
    def completed(self) -> int:
        """See `Kept.completed`."""
        return self._kept.completed

    @property
    def ahead(self) -> bool:
        """See `Kept.ahead`."""
        return self._kept.ahead

    @property
    def foreign(self) -> frozenset[str]:
        """The names of the state tensors whose values only other ranks have, until all ranks call `fetch` (T3)."""
        return self._kept.foreign if isinstance(self._kept, ShardedState) else frozenset()

    @property
    def is_divided(self) -> bool:
        """Whether `fetch` would change the arrays of any rank; the answer is the same on all ranks."""
        return isinstance(self._kept, ShardedState) and self._kept.is_divided

    @property
    def digests(self) -> Callable[[], tuple[bytes, ...]] | None:
        """A function that returns the digests (H1) of all state tensors; None if every rank has the whole state."""
        return self._kept.digests if isinstance(self._kept, ShardedState) else None

    def step(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Runs one step like `Kept.step`, on the inputs of a whole batch.

        Raises:
          ReproError, StepFailed: see `Kept.step`, for any microbatch; integers differ between microbatches; ranks
            disagree.
          RankLost: another rank is gone.
        """
        return self.run(self.read_inputs(inputs))

    def read_inputs(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Returns checked arrays for `run`, which share the memory of the inputs. Raises ReproError if an input is
        wrong."""
        kinds = self._executable.program.inputs
        require_count(kinds, inputs)
        return as_arrays(inputs, kinds, "input")

    def run(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Runs one step like `step`, on arrays that `read_inputs` has returned."""
        with step_errors(self._executable.target):
            return self._run(arrays)

    def _run(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        program, ranks = self._executable.program, self._executable.ranks
        shared = [array for i, array in enumerate(arrays) if i not in program.cut]
        if self._kept.ahead:
            # Microbatches read the caller's arrays, so these must be up to date.
            self._kept.fetch()
        leaves = range(program.microbatches.leaves)
        self._committed = {}
        if isinstance(self._kept, Kept):
            self._calls.begin(arrays)
            sums = self._fold(leaves)
            self._kept.step(*sums.tensors, *self._own, *shared)
        else:
            assert ranks is not None
            try:
                with ranks.step():
                    sums = self._combined(ranks, self._kept, leaves, arrays)
                    hash_after = self._attempt(ranks, self._kept, [*sums.tensors, *self._own, *shared])
            except Agreed as error:
                assert error.__cause__ is not None
                raise error.__cause__ from None
            self._kept.accept(hash_after)
        self.microbatches = tuple(digest for _, digest in sorted(self._committed.items()))
        self._free.append(sums)
        return self._kept.outputs

    def _combined(self, ranks: Ranks, state: AgreedState, leaves: range, arrays: Sequence[np.ndarray]) -> Sums:
        """Returns the sums over all ranks, after all ranks have agreed on the program, the state, the inputs and the
        checked nodes."""
        own = ranks.leaves(len(leaves))[ranks.rank]
        nodes: dict[range, Sums] = {}
        seconds = math.nan
        kinds = self._executable.program.inputs
        digests = [tensor_digest(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]
        report, failure = self._report(ranks, inputs=blake3_of(*digests)), None
        checks = Checks(((),) * ranks.size)
        try:
            seed = state.hash() + report.inputs if ranks.check_share else b""
            checks = Checks.drawn(ranks, len(leaves), seed)
            self._calls.begin(arrays)
            found: dict[range, bytes] = {}
            start = time.perf_counter()
            nodes = {node: self._fold(node, checks.nodes[ranks.rank], found) for node in maximal_nodes(leaves, own)}
            seconds = (time.perf_counter() - start) / len(own) if own else math.nan
            if nodes:
                report = replace(report, integers=self._integers_of([*nodes.values()]))
            checked = self._nodes_digest(checks.nodes[(ranks.rank - 1) % ranks.size])
            report = replace(report, nodes=digest_of(checks.nodes[ranks.rank], found), checked=checked)
        except BaseException as error:
            failure = error
        try:
            # The state is hashed after the microbatches have run, so that the hash covers the state that they have
            # read.
            report = replace(report, state=state.hash())
        except ReproError as error:
            failure = failure or error
        reports = self._agree(ranks, report, failure)
        said = [each.nodes for each in reports]
        due = [reports[checker_of(ranks, rank)].checked for rank in range(ranks.size)]
        require_right(ranks, checks, said, due, self._nodes_digest)
        if self.commits:
            self._gather_committed(ranks)
        if self._executable.decode is not None:
            self._gather_payloads(ranks)
            sums = self._join(leaves, nodes)
        else:
            layout = self._executable.layout
            sums = combine(ranks, len(leaves), nodes, layout, self._new, self._executable.add)
            self._free += [each for each in nodes.values() if each is not sums]
        self._gather_own(ranks)
        ranks.measure(seconds)
        return sums

    def _join(self, leaves: range, nodes: Mapping[range, Sums]) -> Sums:
        """(B2) Returns the sums of a node, from the nodes of this rank and the payloads of other ranks."""
        if leaves in nodes:
            return nodes[leaves]
        if len(leaves) == 1:
            return self._leaf(leaves.start, self._decoded)
        left, right = split(leaves)
        sums = self._join(left, nodes)
        return self._added(sums, self._join(right, nodes))

    def _attempt(self, ranks: Ranks, state: AgreedState, inputs: Sequence[np.ndarray]) -> bytes:
        """Attempts the end of the step; returns the hash of the new state after all ranks have agreed on it."""
        found, failure = state.attempt(inputs)
        self._agree(ranks, replace(self._report(ranks), state=found), failure)
        return found

    def _agree(self, ranks: Ranks, report: Report, failure: BaseException | None) -> list[Report]:
        """Sends this rank's report, with the failure if there is one, to the other ranks, which wait for it. Returns
        the reports of all ranks (`require_agreement`)."""
        try:
            return require_agreement(ranks, replace(report, failure=describe(failure)))
        except Agreed as error:
            raise Agreed from failure or error.__cause__

    def _report(self, ranks: Ranks, inputs: bytes = bytes(32)) -> Report:
        """Returns this rank's report without a hash of the state."""
        program = self._executable.program
        leaves = [leaf for own in ranks.leaves(program.microbatches.leaves) for leaf in (own.start, own.stop)]
        options = np.float64(ranks.check_share).tobytes(), bytes([ranks.shard_optimizer, ranks.shares == "measured"])
        shares = blake3_of(np.array(leaves, np.int64).tobytes(), *options)
        return Report(bytes.fromhex(program.hash), shares, inputs=inputs)

    def _integers_of(self, nodes: Sequence[Sums]) -> bytes:
        """(B3) Returns a digest of the integer results. Raises StepFailed unless they are equal in all nodes."""
        first, *others = nodes
        for each in others:
            self._require_equal_integers(first, each)
        return blake3_of(b"integers", *(first.tensors[i].tobytes() for i in self._executable.layout.integers))

    def _require_equal_integers(self, left: Sums, right: Sums) -> None:
        for i in self._executable.layout.integers:
            if left.tensors[i].tobytes() != right.tensors[i].tobytes():
                raise StepFailed("(B3) integers of the state differ between microbatches, expected equal ones")

    def _fold(
        self,
        leaves: range,
        checked: Sequence[range] = (),
        digests: dict[range, bytes] | None = None,
    ) -> Sums:
        """(B2) Returns the sums of a node. If `checked` contains this node or leaves of it, adds their digests to
        `digests`."""
        wanted = {*checked}

        def note(node: range, sums: Sums) -> Sums:
            if digests is not None and node in wanted:
                program = self._executable.program
                accumulate = program.microbatches.accumulate
                numbers = range(node.start * accumulate, node.stop * accumulate)
                # (C8) The digest covers the hashes of the microbatches too, if the step commits to them.
                committed = (self._committed[number] for number in numbers if self.commits)
                kinds = program.part.outputs[len(program.sums) :]
                own = (_digest(self._own_of(number), kinds) for number in numbers if kinds)
                digests[node] = blake3_of(_digest(sums.tensors, program.sums), *own, *committed)
            return sums

        def leaf(number: int) -> Sums:
            return note(range(number, number + 1), self._leaf(number, self._part))

        return note(leaves, fold(leaves, leaf, self._added))

    def _nodes_digest(self, nodes: Sequence[range]) -> bytes:
        """Computes nodes, in order to check them, and returns a digest of their values."""
        digests: dict[range, bytes] = {}
        # Nodes of several leaves come last in `nodes` but are computed first, because this also adds the digests of
        # their leaves to `digests`.
        for node in reversed(nodes):
            if node not in digests:
                self._free.append(self._fold(node, nodes, digests))
        return digest_of(nodes, digests)

    def _gather_payloads(self, ranks: Ranks) -> None:
        """Exchanges the inputs of `decode`, so that every rank has those of all microbatches."""
        decode = self._executable.decode
        assert decode is not None
        kinds, numbers = decode.program.inputs, microbatches_of(self._executable.program, ranks)
        size = sum(packed_bytes(kind.element, kind.shape) for kind in kinds)
        own = [pack(self._payloads[number].tensors, kinds) for number in numbers[ranks.rank]]
        peers = [peer for peer in range(ranks.size) if peer != ranks.rank]
        coming = [(peer, number, np.empty(size, np.uint8)) for peer in peers for number in numbers[peer]]
        ranks.transport.exchange(
            [(peer, data) for peer in peers for data in own], [(peer, data) for peer, _, data in coming]
        )
        for _, number, data in coming:
            self._payloads[number] = Sums(unpack(data, kinds), {})

    def _gather_own(self, ranks: Ranks) -> None:
        """(B5) Exchanges the microbatches' own state, so that every rank has all of it, except for divided tensors."""
        program, divided = self._executable.program, self._executable.divided
        numbers = microbatches_of(program, ranks)
        whole = [array for i, array in zip(program.own, self._own, strict=True) if i not in divided]

        def parts(rank: int) -> list[np.ndarray]:
            rows = slice(numbers[rank].start, numbers[rank].stop)
            found = [array[rows].reshape(-1).view(np.uint8) for array in whole]
            return [part for part in found if len(part)]

        peers = [peer for peer in range(ranks.size) if peer != ranks.rank]
        sends = [(peer, part) for peer in peers for part in parts(ranks.rank)]
        ranks.transport.exchange(sends, [(peer, part) for peer in peers for part in parts(peer)])

    def _gather_committed(self, ranks: Ranks) -> None:
        """(C8) Exchanges the hashes of the microbatches, so that every rank has all of them."""
        numbers = microbatches_of(self._executable.program, ranks)
        own = b"".join(self._committed[number] for number in numbers[ranks.rank])
        for each, data in zip(numbers, ranks.gather(own, [32 * len(each) for each in numbers]), strict=True):
            self._committed |= {number: data[32 * i : 32 * (i + 1)] for i, number in enumerate(each)}

    def digest_of(self, number: int, *inputs: Any) -> bytes:
        """(C8) Returns the hash of one microbatch's results, for inputs of a whole batch; the state does not change.

        Raises:
          ReproError, StepFailed: see `step`, for this microbatch.
        """
        arrays = self.read_inputs(inputs)
        with step_errors(self._executable.target):
            self._calls.begin(arrays)
            sums = self._part(number)
        self._free.append(sums)
        return self._digest_of_part(number, sums)

    def _digest_of_part(self, number: int, sums: Sums) -> bytes:
        return _digest([*sums.tensors, *self._own_of(number)], self._executable.program.part.outputs)

    def _own_of(self, number: int) -> list[np.ndarray]:
        """(B5) Returns views of microbatch `number`'s own part of the new state tensors."""
        return [array[number : number + 1].reshape(array.shape[1:]) for array in self._own]

    def _leaf(self, number: int, give: Callable[[int], Sums]) -> Sums:
        """(B2) Returns the sums of a leaf; `give` computes the sums of a microbatch."""
        accumulate = self._executable.program.microbatches.accumulate
        first, *others = range(number * accumulate, (number + 1) * accumulate)
        sums = give(first)
        for each in others:
            sums = self._added(sums, give(each))
        return sums

    def _new(self) -> Sums:
        return self._free.pop() if self._free else self._executable.layout.new()

    def _part(self, number: int) -> Sums:
        decode, own = self._executable.decode, self._own_of(number)
        if decode is None:
            sums = self._new()
            self._calls.write(number, sums, own)
        else:
            if number not in self._payloads:
                kinds = decode.program.inputs
                self._payloads[number] = Sums([np.empty(kind.shape, kind.dtype) for kind in kinds], {})
            self._calls.write(number, self._payloads[number], own)
            sums = self._decoded(number)
        if self.commits:
            self._committed[number] = self._digest_of_part(number, sums)
        return sums

    def _decoded(self, number: int) -> Sums:
        """Computes the sums of microbatch `number` from its payload."""
        decode, sums, payload = self._executable.decode, self._new(), self._payloads[number]
        assert decode is not None
        if decode.takes_addresses:
            decode.write_at([*payload.addresses, *sums.addresses])
        else:
            decode.write([], payload.tensors, sums.tensors)
        return sums

    def _added(self, left: Sums, right: Sums) -> Sums:
        """(B2) Adds `right` to `left` in place, frees `right` and returns `left`."""
        self._require_equal_integers(left, right)
        for element, flat in left.flat.items():
            self._executable.add(element, flat, right.flat[element])
        self._free.append(right)
        return left

    def finish(self) -> None:
        """See `Kept.finish`."""
        self._kept.finish()

    def fetch(self) -> None:
        """See `Kept.fetch`."""
        self._kept.fetch()

    def load(self) -> None:
        """See `Kept.load`."""
        self._kept.load()


def _digest(arrays: Sequence[np.ndarray], kinds: Sequence[TensorType]) -> bytes:
    """Returns the hash (H3) of tensors."""
    digests = [tensor_digest(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]
    return bytes.fromhex(combine_digests(digests))
