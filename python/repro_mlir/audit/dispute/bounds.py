# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How much a dispute between parties that answer takes: logarithmic in steps and operators (docs/disputes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from repro_mlir.audit.operators import OperatorGraph

_QUESTION = 256
"""Bytes of a question and of what its answer has beside lists of hashes."""

_HASH = 67
"""Bytes of a hash in a list: 64 digits, quotes, comma."""

_FIRST_ALONE = 2
"""Questions that the first party alone is asked: the program and the producers."""

_CLAIM = 64
"""Bytes of a claim beside its hashes, and of the number by which it was asked for."""


@dataclass(frozen=True)
class Bound:
    """What a referee and one party send each other at most.

    Attributes:
      questions: see `Traffic.questions`.
      bytes: see `Traffic.narrowing`.
    """

    questions: int
    bytes: int


def bound(graph: OperatorGraph, records: int, index: int, header: int, *, first: bool, version: int) -> Bound:
    """The bound of a dispute that ends at an operator, for one party.

    With n records, m operators and an operator that takes i values from p operators, there are

        7 + ceil(log2 n) + ceil(log2 m)         questions, and to the first party 2 + i more;
        256 * questions + 67 * hashes + header  bytes, and of the first party 64 * p more.

    The hashes are those of two commitments (in version 2 also the program's identity and signature, and of a step in
    microbatches that of each), of the operator's claim, and from the first party those of p claims with ceil(log2 m)
    more for each, to prove it.

    Args:
      graph: the operators of the program.
      records: of the shorter run.
      index: of the operator.
      header: bytes of the header.
      first: whether the party is the one that is asked for the program and the operator's inputs.
      version: of the receipts.
    """
    program, operator = graph.program, graph.operators[index]
    levels = _log2(len(graph.operators))
    questions = _common_questions(graph, records)
    named = 0 if version == 1 else 2 + len(graph.microbatches)
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
    """The questions of a dispute about any operator of the programs of a run, for either party; a prover answers no
    more."""
    return max(_common_questions(graph, records) + _FIRST_ALONE + most_inputs(graph) for graph in graphs)


def question_bytes(graphs: Sequence[OperatorGraph]) -> int:
    """The bytes of a question about a run of these programs: a prover reads no more."""
    return _QUESTION + _CLAIM * max(most_inputs(graph) for graph in graphs)


@lru_cache(maxsize=8)
def most_inputs(graph: OperatorGraph) -> int:
    """The values that an operator takes at most, or a microbatch gives."""
    gives = (len(values) for values in graph.microbatches)
    return max((*(len(operator.inputs) for operator in graph.operators), *gives), default=0)


def _common_questions(graph: OperatorGraph, records: int) -> int:
    return 7 + _log2(records) + _log2(len(graph.operators))


def _log2(count: int) -> int:
    """The logarithm, rounded up."""
    return max(count - 1, 0).bit_length()
