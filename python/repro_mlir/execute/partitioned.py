# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles programs that are partitioned among ranks (T1), (T2), and runs their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.base.numerics.tensors import TensorType, canonical_of, make_canonical
from repro_mlir.base.tensors.arrays import as_array, as_given
from repro_mlir.base.tensors.frameworks import tensor_module_of
from repro_mlir.base.threads import check_threads
from repro_mlir.distributed.agreement import Report, require_agreement
from repro_mlir.distributed.failures import describe
from repro_mlir.distributed.ranks import Agreed, Ranks
from repro_mlir.execute.arguments import Arguments, check_names
from repro_mlir.execute.executable import Compiled, Executable, check_target, compile, step_errors
from repro_mlir.execute.segments import Values, run_steps
from repro_mlir.program import Program
from repro_mlir.program.partition import LEAST, Call, RankProgram, partition


class PartitionedExecutable(Compiled):
    """A program of which each rank computes a part. This class runs such programs as `Executable` runs whole ones.

    Every rank makes the same calls with equal inputs, and gets the whole outputs. With `parts` and `keep`, a rank needs
    memory only for its own parts of the states that are cut.

    Attributes:
      program: the whole program.
      plan: the part of this rank.
      target, threads: see `Executable`; they may differ between ranks.
      ranks: the ranks that run the program.
      arguments: converts and checks arguments of the program.
      segments: the compiled segments of `plan`.
    """

    program: Program
    target: str
    threads: int
    ranks: Ranks
    arguments: Arguments
    plan: RankProgram
    segments: tuple[Executable, ...]

    def __init__(
        self,
        program: Program,
        target: str,
        threads: int | None,
        ranks: Ranks,
        cut: Mapping[str, int] | None = None,
        least: int = LEAST,
    ) -> None:
        """Compiles this rank's segments. Raises ReproError as `compile` and `partition` do."""
        check_target(target)
        self.program = program
        self.target = target
        self.threads = check_threads(threads)
        self.ranks = ranks
        self.arguments = Arguments(program)
        self.plan = partition(program, ranks.size, ranks.rank, cut, least)
        self.segments = tuple(compile(each, target, self.threads) for each in self.plan.segments)

    def parts(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what this rank needs of a whole state, by name: a copy of its part of each cut array, and each uncut
        array itself.

        Raises:
          ReproError: a wrong name, shape or element type.
        """
        parts = self._parts(self._named(state))
        return {kind.name: part for kind, part in zip(self.program.state, parts, strict=True)}

    def _parts(self, values: Sequence[Any]) -> list[Any]:
        return [
            value if cut is None else cut.copy_part(as_array(value, kind, "state"), self.plan.rank)
            for kind, value, cut in zip(self.program.state, values, self.plan.cuts, strict=False)
        ]

    def keep(self, parts: Mapping[str, Any]) -> KeptParts:
        """Returns a state on which many steps run, like `Executable.keep`, from the parts that `parts` returned. Steps
        update in place the states that change."""
        return KeptParts(self, self._named(parts), b"")

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runs one step on a whole state that is updated in place, like `Executable.__call__`.

        Raises:
          ReproError: see `Executable.__call__`; or the ranks' programs, states or inputs differ.
          StepFailed: a check failed on any rank; the state is unchanged on all.
          RankLost: another rank is gone.
        """
        kinds = self.program.state
        arrays = self.arguments.states(state)
        self.arguments.make_canonical(arrays)
        digests = [tensor_digest(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)]
        # (V4) The array of a state that stays unchanged must not be written, so its NaNs become canonical in a copy.
        given = [
            canonical_of(array, kind.element) if self.plan.results[i] == i else array
            for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True))
        ]
        outputs = KeptParts(self, self._parts(given), blake3_of(*digests)).step(*inputs)
        framework = next(filter(None, map(tensor_module_of, (*state.values(), *inputs))), None)
        given_back = {kind.name: as_given(outputs[kind.name], kind, framework) for kind in self.program.outputs}
        return {kind.name: state[kind.name] for kind in kinds}, given_back

    def _named(self, state: Mapping[str, Any]) -> list[Any]:
        check_names(self.program.state, state)
        return [state[kind.name] for kind in self.program.state]


class KeptParts:
    """One rank's parts of a state, kept while steps run one after the other. `Kept` (executable.py) does the same for a
    whole state."""

    def __init__(self, executable: PartitionedExecutable, state: Sequence[Any], digest: bytes) -> None:
        self._executable = executable
        self._digest = digest
        plan = executable.plan
        self._state = [
            as_array(value, kind, "state")
            for value, kind in zip(state, part_types(plan)[: len(plan.program.state)], strict=True)
        ]
        self._changed = [i for i in range(len(self._state)) if plan.results[i] != i]
        for i in self._changed:
            if not self._state[i].flags.writeable:
                raise ReproError(f"state {plan.program.state[i]}: expected a writable array")
        calls = [step for step in plan.steps if isinstance(step, Call)]
        self._kept = {
            step.segment: executable.segments[step.segment].keep(
                {
                    kind.name: self._state[value]
                    for kind, value in zip(plan.segments[step.segment].state, step.operands, strict=False)
                }
            )
            for step in calls
        }

    def step(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Runs one step on whole inputs.

        Returns:
          the whole outputs by name.
        Raises:
          ReproError, StepFailed, RankLost: see `PartitionedExecutable.__call__`.
        """
        executable = self._executable
        with step_errors(executable.target):
            arrays = executable.arguments.inputs(inputs)
            try:
                with executable.ranks.step():
                    results = self._run(arrays)
            except Agreed as error:
                assert error.__cause__ is not None
                raise error.__cause__ from None
        count = len(self._state)
        for i in self._changed:
            self._state[i][...] = results[i]
        return {kind.name: array for kind, array in zip(executable.program.outputs, results[count:], strict=True)}

    def _run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the new states and the outputs, after all ranks have agreed on them."""
        plan = self._executable.plan
        kinds = plan.program.inputs
        digests = [tensor_digest(array, kind.element) for array, kind in zip(inputs, kinds, strict=True)]
        self._agree(self._state_digest(), blake3_of(*digests), None)
        values: dict[int, np.ndarray] = dict(enumerate(self._state))
        for i, array in enumerate(inputs, len(self._state)):
            cut = plan.cuts[i]
            values[i] = array if cut is None else cut.copy_part(array, plan.rank)
        failure = run_steps(plan, self._executable.ranks, values, self._call)
        count = len(self._state)
        kinds = (*plan.program.state, *plan.program.outputs)
        results = [
            values[number] if i < count and number == i else _result(values[number], kind)
            for i, (number, kind) in enumerate(zip(plan.results, kinds, strict=True))
        ]
        found = [
            tensor_digest(array, kind.element)
            for i, (array, kind) in enumerate(zip(results, kinds, strict=True))
            if i in self._changed or i >= count
        ]
        self._agree(blake3_of(*found), bytes(32), failure)
        return results

    def _call(self, step: Call, values: Values) -> Values:
        num_state = len(self._executable.plan.segments[step.segment].state)
        inputs = [values[number] for number in step.operands[num_state:]]
        outputs = self._kept[step.segment].step(*inputs)
        return dict(zip(step.results, outputs.values(), strict=True))

    def _state_digest(self) -> bytes:
        """Returns a digest of the states that are whole on every rank; unchanged states are hashed only once."""
        plan = self._executable.plan

        def digest(positions: Sequence[int]) -> bytes:
            return blake3_of(*(tensor_digest(self._state[i], plan.program.state[i].element) for i in positions))

        if not self._digest:
            whole = [i for i in range(len(self._state)) if plan.cuts[i] is None and i not in self._changed]
            self._digest = digest(whole)
        return blake3_of(self._digest, digest(self._changed))

    def _agree(self, state: bytes, inputs: bytes, failure: BaseException | None) -> None:
        """Sends this rank's digests, or its failure, to the other ranks; see `require_agreement`."""
        plan = self._executable.plan
        try:
            report = Report(plan.digest, bytes(32), state, inputs, failure=describe(failure))
            require_agreement(self._executable.ranks, report)
        except Agreed as error:
            raise Agreed from failure or error.__cause__


def part_types(plan: RankProgram) -> list[TensorType]:
    """Returns the types of a rank's parts of the states and inputs of a program."""
    kinds = [*plan.program.state, *plan.program.inputs]
    return [
        kind
        if cut is None
        else TensorType(kind.name, kind.element, cut.shape(kind.shape, plan.rank), unsigned=kind.unsigned)
        for kind, cut in zip(kinds, plan.cuts, strict=True)
    ]


def _result(array: np.ndarray, kind: TensorType) -> np.ndarray:
    """Returns a copy for the caller, with the dtype of the result and canonical NaNs (V4)."""
    copy = np.array(array.view(kind.dtype) if array.dtype != kind.dtype else array)
    make_canonical(copy, kind.element)
    return copy
