# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Before and after each step, checks that all ranks of a run agree."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.distributed.failures import FORM, pack_failure, unpack_failure
from repro_mlir.distributed.ranks import Agreed, Ranks

_FORM = struct.Struct(f"<{'32s' * 7}{FORM}")


@dataclass(frozen=True)
class Report:
    """The report of one rank about a step. All ranks compare their reports.

    Attributes:
      program: the identity of the step (B4).
      leaves: a digest of the assignment of leaves to ranks.
      state: the hash of the rank's state (H3).
      inputs: a digest of the inputs of the step.
      integers: a digest of the integers of the rank's microbatches (B3); zeros for a rank without a microbatch.
      nodes: the digest that this rank has computed for its own nodes of the tree (B2), if another rank checks them; see
        `Checks`.
      checked: the digest that this rank has computed for those nodes of another rank that it checks.
      failure: the message of the error because of which the rank has no result; empty if it has a result.
    """

    program: bytes
    leaves: bytes
    state: bytes = bytes(32)
    inputs: bytes = bytes(32)
    integers: bytes = bytes(32)
    nodes: bytes = bytes(32)
    checked: bytes = bytes(32)
    failure: str = ""

    def to_bytes(self) -> bytes:
        """Serializes the report in a fixed number of bytes."""
        digests = self.program, self.leaves, self.state, self.inputs, self.integers, self.nodes, self.checked
        return _FORM.pack(*digests, *pack_failure(self.failure))

    @classmethod
    def of_bytes(cls, data: bytes) -> Report:
        """Parses bytes that `to_bytes` has returned."""
        program, leaves, state, inputs, integers, nodes, checked, length, message = _FORM.unpack(data)
        return cls(program, leaves, state, inputs, integers, nodes, checked, unpack_failure(length, message))


def require_agreement(ranks: Ranks, report: Report) -> list[Report]:
    """Exchanges the reports of all ranks, and returns them if they agree. `nodes` and `checked` are not compared here
    but by `require_right`.

    Raises:
      Agreed: the ranks do not agree. The cause is a StepFailed if a rank has failed or integers differ between
        microbatches, and a ReproError that names the ranks if another part of the reports differs.
      RankLost: another rank is gone.
    """
    reports = [Report.of_bytes(data) for data in ranks.gather(report.to_bytes())]
    try:
        _check(reports, ranks.rank)
    except ReproError as error:
        raise Agreed from error
    return reports


def _check(reports: Sequence[Report], own: int) -> None:
    _require_equal(reports, lambda each: each.program, "run another program, or make another call,")
    _require_equal(reports, lambda each: each.leaves, "have other shares, or options of their ranks,")
    _require_equal(reports, lambda each: each.state, "have another state")
    _require_equal(reports, lambda each: each.inputs, "have another batch, or other hyper-parameters,")
    for rank, each in enumerate(reports):
        if each.failure:
            raise StepFailed(each.failure if rank == own else f"rank {rank}: {each.failure}")
    if len({each.integers for each in reports if any(each.integers)}) > 1:
        raise StepFailed("(B3) integers of the state differ between microbatches of several ranks")


def _require_equal(reports: Sequence[Report], value: Callable[[Report], object], what: str) -> None:
    counts = Counter(map(value, reports)).most_common()
    if len(counts) == 1:
        return
    if counts[0][1] * 2 > len(reports):
        wrong = [str(rank) for rank, each in enumerate(reports) if value(each) != counts[0][0]]
        raise ReproError(f"ranks disagree: {', '.join(wrong)} of {len(reports)} {what} than most")
    groups = [" and ".join(str(r) for r, each in enumerate(reports) if value(each) == found) for found, _ in counts]
    raise ReproError(f"ranks disagree: ranks {' / '.join(groups)} each {what} than the others")
