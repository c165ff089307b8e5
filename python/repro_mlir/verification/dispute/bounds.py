# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Bounds on the traffic of a dispute in which both parties answer: logarithmic in steps and operators
(docs/verification/disputes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from repro_mlir.verification.operators import OperatorGraph

_QUESTION = 256
"""The maximum number of bytes of a question and its answer together, without the lists of hashes in the answer."""

_HASH = 67
"""The number of bytes of a hash in a list: 64 digits, quotes and a comma."""

_FIRST_ALONE = 2
"""The number of questions that only the first party receives: those for the program and the producers."""

_CLAIM = 64
"""The maximum number of bytes of a claim (without its hashes) plus those of the operator's index in the question."""


@dataclass(frozen=True)
class Bound:
    """The maximum traffic between a referee and one party.

    Attributes:
      questions: see `Traffic.questions`.
      bytes: see `Traffic.narrowing`.
    """

    questions: int
    bytes: int


def bound(graph: OperatorGraph, records: int, index: int, header: int, *, first: bool) -> Bound:
    """Returns the bound for one party, in a dispute that ends at an operator.

    With n records, m operators and an operator that has i operands from p producers, there are

        7 + ceil(log2 n) + ceil(log2 m)         questions, plus 2 + i for the first party;
        256 * questions + 67 * hashes + header  bytes, plus 64 * p for the first party.

    The hashes are those of two commitments (each with the program's identity and signature, and one hash per microbatch
    of a step in microbatches) and of the operator's claim. The first party adds those of p claims, each with ceil(log2
    m) hashes that prove the claim.

    Args:
      graph: the operators of the program.
      records: the number of records of the shorter run.
      index: the index of the operator.
      header: the number of bytes of the header.
      first: whether this party receives the questions for the program and the operator's inputs.
    """
    program, operator = graph.program, graph.operators[index]
    levels = _log2(len(graph.operators))
    questions = _common_questions(graph, records)
    named = 2 + len(graph.microbatches)
    hashes = 2 * (len(program.state) + len(program.inputs) + len(program.outputs) + named)
    hashes += len(operator.inputs) + len(operator.outputs)
    claims = 0
    if first:
        questions += _FIRST_ALONE + len(operator.inputs)
        producers = {value.producer for value in operator.inputs if value.producer is not None}
        claims = len(producers)
        for producer in producers:
            given = graph.operators[producer]
            hashes += len(given.inputs) + len(given.outputs) + levels
    return Bound(questions, _QUESTION * questions + _HASH * hashes + _CLAIM * claims + header)


def most_questions(graphs: Sequence[OperatorGraph], records: int) -> int:
    """Returns the maximum number of questions to one party in a dispute about any operator of a run's programs; a
    prover refuses further questions."""
    return max(_common_questions(graph, records) + _FIRST_ALONE + most_inputs(graph) for graph in graphs)


def question_bytes(graphs: Sequence[OperatorGraph]) -> int:
    """Returns the maximum number of bytes of a question about a run of these programs; a prover refuses longer
    questions."""
    return _QUESTION + _CLAIM * max(most_inputs(graph) for graph in graphs)


@lru_cache(maxsize=8)
def most_inputs(graph: OperatorGraph) -> int:
    """Returns the larger of two numbers: the most operands of an operator, and the most results of a microbatch."""
    gives = (len(values) for values in graph.microbatches)
    return max((*(len(operator.inputs) for operator in graph.operators), *gives), default=0)


def _common_questions(graph: OperatorGraph, records: int) -> int:
    return 7 + _log2(records) + _log2(len(graph.operators))


def _log2(count: int) -> int:
    """Returns the base-2 logarithm, rounded up."""
    return max(count - 1, 0).bit_length()
