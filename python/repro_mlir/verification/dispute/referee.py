# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The referee, which narrows a dispute down to one operator and recomputes it (docs/verification/disputes.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.base.printing import count_of
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.dispute import quotas
from repro_mlir.verification.dispute.channels import Channel
from repro_mlir.verification.dispute.judgement import judge_operator
from repro_mlir.verification.dispute.messages import Message
from repro_mlir.verification.dispute.party import Misconduct, Opening, Party, Published
from repro_mlir.verification.dispute.terms import Due, Terms
from repro_mlir.verification.dispute.verdict import Verdict
from repro_mlir.verification.operators import OperatorGraph
from repro_mlir.verification.receipts.commitments import Commitment
from repro_mlir.verification.receipts.comparison import first_different_field
from repro_mlir.verification.receipts.form import NUMERICS

_T = TypeVar("_T")

NAMES = ("A", "B")


class Ended(Exception):
    """Raised to end a dispute at once with a verdict."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.outcome)
        self.verdict = verdict


def settle(
    first: Channel,
    second: Channel,
    *,
    terms: Terms | None = None,
    program: StepProgram | None = None,
    timeout: float = quotas.ANSWER_SECONDS,
    total: float = quotas.TOTAL_SECONDS,
    published: tuple[Published | None, Published | None] = (None, None),
) -> Verdict:
    """Settles a dispute between prover A, on channel `first`, and prover B, on channel `second`.

    Args:
      terms: the run on which the parties agreed beforehand; their answers must match it. By default, the fields in
        which both headers agree.
      program: the program of both runs, if the referee already has it; else a party sends it.
      timeout: the seconds that a party has for each answer.
      total: the seconds that a party has for all its answers.
      published: for each party, what it published before the dispute; its answers must agree with that.
    Returns:
      the verdict, which never declares an honest party wrong, whatever the other party does.
    Raises:
      ReproError: for terms or a program that no dispute can be about, or a fault of the referee itself; the message
        names the party whose answer caused the fault, if that is certain.
    """
    parties = (
        Party("A", first, timeout, total, published[0]),
        Party("B", second, timeout, total, published[1]),
    )
    try:
        verdict = _Referee(parties, terms, program).run()
    except Ended as ended:
        verdict = ended.verdict
    except ReproError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[: quotas.REASON_CHARACTERS]
        raise ReproError(f"no verdict: the referee failed ({reason})") from error
    finally:
        for party in parties:
            party.close()
    return replace(verdict, traffic={party.name: party.traffic for party in parties})


@dataclass
class _Referee:
    """The state of one dispute; `step` is the number of the step in dispute, once it is known."""

    parties: tuple[Party, Party]
    terms: Terms | None
    program: StepProgram | None
    step: int | None = None

    def both(self, ask: Callable[[int, Party], _T]) -> tuple[_T, _T]:
        """Asks both parties; if a party commits misconduct, ends the dispute with a verdict against that party only."""
        answers: list[_T] = []
        faults: dict[str, str] = {}
        for i, party in enumerate(self.parties):
            try:
                answers.append(ask(i, party))
            except Misconduct as fault:
                faults[party.name] = str(fault)
        if faults:
            raise Ended(Verdict("conduct", tuple(faults), faults, self.step))
        return answers[0], answers[1]

    def run(self) -> Verdict:
        """Narrows the dispute down to one operator and returns the verdict. Raises `Ended` if a verdict is certain
        earlier."""
        openings = self.both(lambda _, party: party.opening())
        self._compare_headers(openings)
        self._compare_lengths(openings)
        found = self._first_different_record(openings)
        if found is None:
            # The number of steps matters only if all common records agree.
            self.both(lambda i, party: party.check_steps(openings[i]))
            return _agreement(openings)
        record, links, before = found
        claims = self.both(lambda i, party: party.record(record, links[i], openings[i], before))
        # Both parties stated the same link before this record, so both have the same commitment of the previous record.
        previous = self.both(lambda i, party: party.record(record - 1, before, openings[i]))[0]
        # A record need not be a step; the record before it states the number of steps so far.
        step = self.step = (previous.steps or 0) + 1
        due = self._due(record, claims, previous.cursor)
        self._judge_kinds(step, claims, previous, due, openings)
        identity = claims[0].program
        assert identity is not None
        program = self._program(identity.hex())
        self.both(lambda i, party: party.check_tensors(openings[i], step, claims[i], program))
        self._judge_data(program, step, claims, previous.cursor, due)
        return self._narrow(OperatorGraph(program), record, step, claims, (*previous.state, *claims[0].inputs))

    # --- The run ---

    def _compare_headers(self, openings: tuple[Opening, Opening]) -> None:
        different = first_different_field(openings[0].header, openings[1].header)
        wrong: dict[str, str] = {}
        if self.terms is not None:
            for opening, party in zip(openings, self.parties, strict=True):
                mine = self.terms.first_breach(opening.header)
                if mine is not None:
                    different = mine if different is None or different[0] == mine[0] else different
                    wrong[party.name] = f"{mine[0]} is {mine[1]}, the terms say {mine[2]}"
        if different is None:
            self._check_numerics(openings[0].header)
            return
        path, mine_value, other = different
        reasons = wrong or {"A": f"{path} is {mine_value}", "B": f"{path} is {other}"}
        raise Ended(Verdict("header", tuple(wrong), reasons, subject=path))

    def _check_numerics(self, header: Message) -> None:
        if header["numerics"] != NUMERICS:
            raise ReproError(
                f"the runs are of numerics {header['numerics']}, and this release computes numerics {NUMERICS}: "
                "settle the dispute with a release of their version"
            )

    def _compare_lengths(self, openings: tuple[Opening, Opening]) -> None:
        due = self.terms.steps if self.terms is not None else None
        if due is None:
            return
        wrong = {
            party.name: f"{opening.steps} steps, the terms say {due}"
            for opening, party in zip(openings, self.parties, strict=True)
            if opening.steps != due
        }
        if wrong:
            raise Ended(Verdict("length", tuple(wrong), wrong, subject="the number of steps"))

    def _program(self, identity: str) -> StepProgram:
        if self.program is not None and self.program.hash == identity:
            return self.program
        refused: ReproError | None = None
        for party in self.parties:
            try:
                return party.program(identity)
            except Misconduct as fault:
                raise Ended(Verdict("conduct", (party.name,), {party.name: str(fault)}, self.step)) from None
            except ReproError as error:
                # The other party may have a shorter text of the same program, which the referee can read.
                refused = refused or error
        assert refused is not None
        raise refused

    def _first_different_record(
        self, openings: tuple[Opening, Opening]
    ) -> tuple[int, tuple[bytes, bytes], bytes] | None:
        """Returns the first record whose links differ, both links after it, and the common link before it; None if all
        links agree."""
        last = min(opening.records for opening in openings)
        agreed = openings[0].link0
        if last == 0:
            return None
        links = self.both(lambda i, party: openings[i].link if openings[i].records == last else party.link(last))
        if links[0] == links[1]:
            return None
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            now = self._links(middle)
            if now[0] == now[1]:
                low, agreed = middle, now[0]
            else:
                high, links = middle, now
        return high, links, agreed

    def _links(self, record: int) -> tuple[bytes, bytes]:
        return self.both(lambda _, party: party.link(record))

    # --- Data ---

    def _due(
        self, record: int, claims: tuple[Commitment, Commitment], taken_before: int
    ) -> tuple[Due | None, Due | None]:
        """Returns the agreed data for the record of each party; None if unknown. The data differ if one party has
        skipped batches."""
        terms = self.terms
        if terms is None:
            return None, None
        first, second = (
            terms.record(record, claim) if 0 <= claim.cursor - taken_before <= quotas.SKIPPED_BATCHES else None
            for claim in claims
        )
        return first, second

    def _judge_kinds(
        self,
        step: int,
        claims: tuple[Commitment, Commitment],
        previous: Commitment,
        due: tuple[Due | None, Due | None],
        openings: tuple[Opening, Opening],
    ) -> None:
        """Ends the dispute if the record is a state change for at least one party, or if the programs of the parties'
        steps differ."""
        wrong = {}
        for party, claim, right in zip(self.parties, claims, due, strict=True):
            changes = claim.program is None
            if claim.steps != step - changes:
                wrong[party.name] = f"counts {claim.steps} steps, expected {step - changes}"
            elif changes and claim.cursor < previous.cursor:
                wrong[party.name] = f"counts {claim.cursor} batches after step {step - 1}, expected {previous.cursor}"
            elif right is not None and changes != (right.state is not None):
                wrong[party.name] = f"{_kind(claim, step)}, the terms say {_kind(right, step)}"
            elif right is not None and claim.program != right.program:
                wrong[party.name] = f"{_kind(claim, step)}, the terms say {_kind(right, step)}"
            elif right is not None and claim.signature != right.signature:
                wrong[party.name] = f"{_kind(claim, step)} with {_signed(claim)}, the terms say {_signed(right)}"
            elif right is not None and right.state is not None and claim.state != right.state:
                wrong[party.name] = f"{_kind(claim, step)} to another state than the terms say"
        is_change = any(claim.program is None for claim in claims)
        if wrong:
            subject = "a change of the state" if is_change else f"what step {step} began with"
            raise Ended(Verdict("data", tuple(wrong), wrong, step - is_change, subject, is_change=is_change))
        same = claims[0].program == claims[1].program
        if same and claims[0].program is not None and claims[0].signature == claims[1].signature:
            return
        subject = "a change of the state" if is_change else "the program"
        kinds = [_kind(claim, step) for claim in claims]
        if same and claims[0].program is not None:
            subject = "names and types of the program's inputs and outputs"
            kinds = [f"{told} with {_signed(claim)}" for told, claim in zip(kinds, claims, strict=True)]
        elif same:
            pairs = zip(openings[0].state, claims[0].state, claims[1].state, strict=True)
            name = next((f"state {kind.name}" for kind, a, b in pairs if a != b), "the count of batches")
            kinds = [f"{told}: {name} is another than the other party's" for told in kinds]
        reasons = {
            party.name: f"{told}; no terms say which is right" for party, told in zip(self.parties, kinds, strict=True)
        }
        raise Ended(Verdict("data", (), reasons, step - is_change, subject, is_change=is_change))

    def _judge_data(
        self,
        program: StepProgram,
        step: int,
        claims: tuple[Commitment, Commitment],
        taken_before: int,
        due: tuple[Due | None, Due | None],
    ) -> None:
        names = [kind.name for kind in program.inputs]
        wrong = {}
        subject = ""
        for party, claim, right in zip(self.parties, claims, due, strict=True):
            if claim.cursor <= taken_before:
                wrong[party.name] = f"step {step} takes no batch"
                subject = subject or "the count of batches"
                continue
            if self.terms is None:
                continue
            if claim.cursor - taken_before > quotas.SKIPPED_BATCHES:
                wrong[party.name] = f"step {step} skips more than {quotas.SKIPPED_BATCHES:,} batches"
                subject = subject or "the count of batches"
                continue
            if right is None:
                continue
            if len(right.inputs) != len(names):
                raise ReproError(f"expected {len(names)} inputs of step {step} in the terms, got {len(right.inputs)}")
            for name, taken, agreed in zip(names, claim.inputs, right.inputs, strict=True):
                if taken != agreed:
                    wrong[party.name] = f"{name} of step {step} has {_told(taken)}, the terms say {_told(agreed)}"
                    subject = subject or name
                    break
        if wrong:
            raise Ended(Verdict("data", tuple(wrong), wrong, step, subject))
        names.append("the count of batches")
        said = [[*claim.inputs, claim.cursor] for claim in claims]
        for name, *pair in zip(names, *said, strict=True):
            if pair[0] != pair[1]:
                reasons = {
                    party.name: f"{name} of step {step} is {_told(value)}; no terms say which is right"
                    for party, value in zip(self.parties, pair, strict=True)
                }
                raise Ended(Verdict("data", (), reasons, step, name))

    # --- Operators ---

    def _narrow(
        self,
        graph: OperatorGraph,
        record: int,
        step: int,
        claims: tuple[Commitment, Commitment],
        arguments: tuple[bytes, ...],
    ) -> Verdict:
        if not graph.operators:
            return self._compare_results(graph, record, step, claims, arguments, b"")
        tops = self.both(lambda _, party: party.operators(record))
        if tops[0] == tops[1]:
            return self._compare_results(graph, record, step, claims, arguments, tops[0])
        widths = [len(graph.operators)]
        while widths[-1] > 1:
            widths.append((widths[-1] + 1) // 2)
        index, nodes = 0, tops
        for level in range(len(widths) - 1, 0, -1):
            if 2 * index + 1 == widths[level - 1]:
                # A last node without a sibling is its own parent.
                index *= 2
                continue
            below = self._below(record, level, index, nodes)
            side = 0 if below[0][0] != below[1][0] else 1
            nodes = below[0][side], below[1][side]
            index = 2 * index + side
        found = self.both(lambda i, party: party.operator(record, graph, index, nodes[i]))
        return judge_operator(graph, record, step, index, self.parties, found, tops, arguments)

    def _below(
        self, record: int, level: int, index: int, nodes: tuple[bytes, bytes]
    ) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        return self.both(lambda i, party: party.nodes(record, level, index, nodes[i]))

    def _compare_results(
        self,
        graph: OperatorGraph,
        record: int,
        step: int,
        claims: tuple[Commitment, Commitment],
        arguments: tuple[bytes, ...],
        top: bytes,
    ) -> Verdict:
        """Judges commitments that differ although both parties agree on the operators: a commitment that contradicts
        the operators is wrong."""
        program = graph.program
        names = [
            *(f"state {kind.name}" for kind in program.state),
            *(f"output {kind.name}" for kind in program.outputs),
        ]
        values = [*([value] for value in graph.results), *graph.microbatches]
        names += [f"microbatch {number}" for number in range(len(graph.microbatches))]
        said = [(*claim.state, *claim.outputs, *claim.microbatches) for claim in claims]
        place = next(i for i, (a, b) in enumerate(zip(*said, strict=True)) if a != b)
        producers = sorted({value.producer for value in values[place] if value.producer is not None})
        given = self.both(lambda _, party: party.producers(record, graph, producers, top))[0]
        known = dict(zip(producers, given, strict=True))
        found = [
            arguments[value.position] if value.producer is None else known[value.producer].outputs[value.position]
            for value in values[place]
        ]
        right = found[0] if place < len(graph.results) else bytes.fromhex(combine_digests(found))
        wrong = {
            party.name: f"{names[place]} of step {step} is not the result of its operators"
            for party, hashes in zip(self.parties, said, strict=True)
            if hashes[place] != right
        }
        operator = graph.operators[producers[-1]] if producers else None
        return Verdict("commitment", tuple(wrong), wrong, step, names[place], operator)


def _agreement(openings: tuple[Opening, Opening]) -> Verdict:
    if openings[0].records == openings[1].records:
        return Verdict("agreement", (), {})
    fewer, more = sorted(opening.steps for opening in openings)
    longer = max(zip(openings, NAMES, strict=True), key=lambda pair: pair[0].records)
    subject = f"the first {count_of(fewer, 'step')} agree; {longer[1]} has more"
    if fewer == more:
        # The runs agree in all records that both have, and the longer one only has changes after them.
        subject = f"only {longer[1]} changes the state after step {fewer}, which is the last one of both"
    reasons = {
        name: f"{count_of(opening.steps, 'step')}, {count_of(opening.records - opening.steps, 'change')} of the state"
        for name, opening in zip(NAMES, openings, strict=True)
    }
    return Verdict("length", (), reasons, subject=subject)


def _kind(of: Commitment | Due, step: int) -> str:
    """Describes a record, which is step number `step` or a state change after the step before."""
    return (
        f"step {step} runs {of.program.hex()}"
        if of.program is not None
        else f"the user changes the state after step {step - 1}"
    )


def _signed(of: Commitment | Due) -> str:
    return f"signature {_told(of.signature)}"


def _told(value: Any) -> str:
    return value.hex()[:16] + "..." if isinstance(value, bytes) else str(value)
