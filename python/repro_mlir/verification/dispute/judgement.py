# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Recomputes the one operator on which two parties disagree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.files import tensor_record
from repro_mlir.base.limits import VARIABLE
from repro_mlir.base.progress import working
from repro_mlir.sandbox import interpret
from repro_mlir.verification.dispute import quotas
from repro_mlir.verification.dispute.party import Misconduct, Party
from repro_mlir.verification.dispute.verdict import Evidence, Verdict
from repro_mlir.verification.elements import ElementDifference, first_difference
from repro_mlir.verification.operators import Extraction, Operator, OperatorGraph
from repro_mlir.verification.operators.commitments import OperatorClaim
from repro_mlir.verification.operators.extraction import extract
from repro_mlir.verification.operators.tracing import value_hash


def judge_operator(
    graph: OperatorGraph,
    record: int,
    step: int,
    index: int,
    parties: tuple[Party, Party],
    claims: tuple[OperatorClaim, OperatorClaim],
    tops: tuple[bytes, bytes],
    arguments: Sequence[bytes],
) -> Verdict:
    """Returns the verdict on an operator, the first one about which the claims of the parties differ.

    Args:
      record, step: the number of the record in the chain, and the number of its step.
      claims: each party's claim about the operator, to which the party is committed by its Merkle tree.
      tops: the top node of each party's Merkle tree; both trees have the same claims for all operators before `index`.
      arguments: the hashes of the step's arguments, on which both parties agree.
    """
    operator = graph.operators[index]
    try:
        right = _right_inputs(graph, record, operator, parties[0], tops[0], arguments)
    except Misconduct as fault:
        return Verdict("conduct", (parties[0].name,), {parties[0].name: str(fault)}, step, str(operator), operator)
    wrong = {}
    for party, claim in zip(parties, claims, strict=True):
        for value, said, due in zip(operator.inputs, claim.inputs, right, strict=True):
            if said != due:
                wrong[party.name] = f"{operator} of step {step} takes another {value.name} than the step has"
                break
    if wrong:
        return Verdict("operator", tuple(wrong), wrong, step, str(operator), operator)
    # The inputs are right in both claims, so the claims differ in the operator's outputs.
    _check_size(operator, step)
    try:
        arrays = [
            parties[0].tensor(record, index, "input", i, value, digest)
            for i, (value, digest) in enumerate(zip(operator.inputs, right, strict=True))
        ]
    except Misconduct as fault:
        return Verdict("conduct", (parties[0].name,), {parties[0].name: str(fault)}, step, str(operator), operator)
    try:
        alone = extract(graph, index, index + 1)
        outputs = _recomputed(alone, arrays)
    except StepFailed as error:
        wrong = {party.name: f"{operator} of step {step} has no result: {error}" for party in parties}
        return Verdict("operator", tuple(wrong), wrong, step, str(operator), operator)
    except ReproError as error:
        raise ReproError(f"no verdict: {operator} of step {step}: {error}") from None
    digests = tuple(value_hash(value, array) for value, array in zip(operator.outputs, outputs, strict=True))
    values: dict[str, ElementDifference] = {}
    for party, claim in zip(parties, claims, strict=True):
        if claim.outputs == digests:
            continue
        place = next(i for i, (a, b) in enumerate(zip(claim.outputs, digests, strict=True)) if a != b)
        wrong[party.name] = f"{operator.outputs[place].name} of step {step} is not the result of {operator.name}"
        shown = _shown(party, record, operator, place, claim, outputs[place])
        if isinstance(shown, str):
            wrong[party.name] += f"; {shown}"
        else:
            values[party.name] = shown
    evidence = Evidence(alone, tuple(arrays))
    return Verdict("operator", tuple(wrong), wrong, step, str(operator), operator, values, evidence)


def _check_size(operator: Operator, step: int) -> None:
    size, most = sum(value.kind.nbytes for value in (*operator.inputs, *operator.outputs)), quotas.operator_bytes()
    if size > most:
        raise ReproError(
            f"no verdict: {operator} of step {step} has operands and results of {size:,} bytes, "
            f"expected at most {most:,} (see {VARIABLE} in docs/verification/security.md)"
        )


def _recomputed(alone: Extraction, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of an operator. Raises StepFailed if a check of the operator fails (E1), and ReproError if
    the computation exceeds a limit."""
    program = alone.program
    with working("computing the operator in dispute"):
        data = interpret(program.data, tensor_record.encode(arrays, program.inputs))
    return tensor_record.decode(data, program.outputs, "an output")


def _right_inputs(
    graph: OperatorGraph, record: int, operator: Operator, party: Party, top: bytes, arguments: Sequence[bytes]
) -> list[bytes]:
    """Returns the hashes that an operator's inputs must have: those of arguments and of earlier operators' outputs."""
    indices = sorted({value.producer for value in operator.inputs if value.producer is not None})
    claims = dict(zip(indices, party.producers(record, graph, indices, top), strict=True))
    return [
        arguments[value.position] if value.producer is None else claims[value.producer].outputs[value.position]
        for value in operator.inputs
    ]


def _shown(
    party: Party, record: int, operator: Operator, place: int, claim: OperatorClaim, right: np.ndarray
) -> ElementDifference | str:
    """Returns the first element in which a party's output differs from the referee's tensor `right`, or the reason why
    there is no such element."""
    value = operator.outputs[place]
    try:
        array = party.tensor(record, operator.index, "output", place, value, claim.outputs[place])
    except Misconduct as fault:
        return f"it does not show its tensor ({fault})"
    found = first_difference(array, right, value.kind)
    return found if found is not None else "its hash does not belong to a tensor"
