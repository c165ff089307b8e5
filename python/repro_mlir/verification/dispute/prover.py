# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prover, which answers a referee's questions about its run (docs/verification/disputes.md defines the messages)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

import numpy as np

from repro_mlir.base.errors import ReceiptWrong, StepFailed
from repro_mlir.base.files import canonical_json
from repro_mlir.base.numerics.hashing import tensor_bytes
from repro_mlir.verification import merkle
from repro_mlir.verification.dispute import bounds, quotas
from repro_mlir.verification.dispute.messages import PROTOCOL, Message, NoMessage, decode_question, encode, refusal
from repro_mlir.verification.dispute.runs import Run
from repro_mlir.verification.operators import Operator, OperatorGraph, Value
from repro_mlir.verification.operators.commitments import OperatorTree, commit_operators


class QuestionError(ValueError):
    """Raised for a question that has no answer."""


class Prover:
    """Answers the questions of one dispute about a run.

    A dispute is about one step and one operator of that step, and the number of its questions is limited
    (docs/verification/disputes.md). A referee thus causes at most one run of the steps up to the step in dispute, and
    one more run of that step for the operator's tensors.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._asked = 0
        self._record_in_dispute: int | None = None
        self._operator_in_dispute: int | None = None
        self._tree: OperatorTree | None = None
        self._values: dict[Value, np.ndarray] | None = None
        self._answers: dict[str, Callable[..., Message]] = {
            "opening": self._opening,
            "program": self._program,
            "link": self._link,
            "record": self._record,
            "operators": self._operators,
            "nodes": self._nodes,
            "operator": self._operator,
            "producers": self._producers,
            "tensor": self._tensor,
        }

    def answer(self, question: bytes) -> bytes:
        """Returns the answer to one question, both as encoded messages.

        The answer is {"error": ...} if the question is malformed, has no answer or exceeds the maximum number of
        questions, or if the run contradicts its receipt. Raises ReproError if the run cannot be repeated on this
        machine.
        """
        try:
            return encode(self.reply(decode_question(question, bounds.question_bytes(self.run.graphs))))
        except (NoMessage, QuestionError, ReceiptWrong, StepFailed) as error:
            return refusal(str(error))

    def reply(self, question: Message) -> Message:
        """Returns the answer to one question. Raises QuestionError if the question has no answer."""
        limit = bounds.most_questions(self.run.graphs, self.run.records)
        if self._asked == limit:
            raise QuestionError(f"expected at most {limit} questions in a dispute")
        self._asked += 1
        return self._answers[question["ask"]](**{key: value for key, value in question.items() if key != "ask"})

    # --- The run ---

    def _opening(self) -> Message:
        run = self.run
        header = canonical_json.load(run.header, "the header")
        counts = {"records": run.records, "steps": run.steps}
        return {"protocol": PROTOCOL, "header": header, "link": run.link(run.records).hex()} | counts

    def _program(self, identity: str) -> Message:
        graph = next((each for each in self.run.graphs if each.step.hash == identity), None)
        if graph is None:
            raise QuestionError(f"the run has no program {identity}")
        return {"data": _base64(graph.step.data)}

    def _link(self, record: int) -> Message:
        return {"link": self.run.link(self._checked(record)).hex()}

    def _record(self, record: int) -> Message:
        commitment = self.run.commitment(self._checked(record))
        answer: Message = {
            "cursor": commitment.cursor,
            "state": _hex(commitment.state),
            "inputs": _hex(commitment.inputs),
            "outputs": _hex(commitment.outputs),
        }
        if commitment.steps is not None:
            answer["steps"] = commitment.steps
        if commitment.program is not None:
            answer["program"] = commitment.program.hex()
        if commitment.signature is not None:
            answer["signature"] = commitment.signature.hex()
        if commitment.microbatches:
            answer["microbatches"] = _hex(commitment.microbatches)
        return answer | ({"before": self.run.link(record - 1).hex()} if record else {})

    def _checked(self, record: int) -> int:
        if record > self.run.records:
            raise QuestionError(f"expected a record of at most {self.run.records}, got {record}")
        return record

    # --- The operators of a step ---

    def _operators(self, record: int) -> Message:
        return {"top": self.tree(record).levels[-1][0].hex()}

    def _nodes(self, record: int, level: int, index: int) -> Message:
        levels = self.tree(record).levels
        if level >= len(levels) or 2 * index + 1 >= len(levels[level - 1]):
            raise QuestionError(f"expected a node with two nodes below it, got node {index} of level {level}")
        left, right = levels[level - 1][2 * index : 2 * index + 2]
        return {"left": left.hex(), "right": right.hex()}

    def _operator(self, record: int, index: int) -> Message:
        tree = self.tree(record)
        self._settle_on_operator(index)
        return self._claim(tree, index)

    def _producers(self, record: int, indices: list[int]) -> Message:
        tree = self.tree(record)
        most = bounds.most_inputs(self._graph_of(record))
        if len(indices) > most:
            raise QuestionError(f"expected at most {most} operators, got {len(indices)}")
        return {
            "claims": [self._claim(tree, index) | {"path": _hex(merkle.path(tree.levels, index))} for index in indices]
        }

    def _claim(self, tree: OperatorTree, index: int) -> Message:
        claim = tree.claims[self._operator_at(index).index]
        return {"inputs": _hex(claim.inputs), "outputs": _hex(claim.outputs)}

    def _tensor(self, record: int, index: int, role: str, position: int) -> Message:
        self._settle_on_record(record)
        operator = self._settle_on_operator(index)
        values = operator.inputs if role == "input" else operator.outputs
        if position >= len(values):
            raise QuestionError(f"{operator}: expected a position below {len(values)} as {role}, got {position}")
        value = values[position]
        if value.kind.nbytes > quotas.OPERATOR_BYTES:
            size, most = value.kind.nbytes, quotas.OPERATOR_BYTES
            raise QuestionError(f"expected a tensor of at most {most:,} bytes, got one of {size:,}")
        array = self._values_of(record, operator)[value]
        return {"data": _base64(tensor_bytes(array, value.kind.element))}

    def tree(self, record: int) -> OperatorTree:
        """Returns the Merkle tree over the operators of the step in dispute; the first call runs the step."""
        self._settle_on_record(record)
        if self._tree is None:
            self._tree = commit_operators(self._graph_of(record), self.run.tracer(record), self.run.arrays(record))
        return self._tree

    def _values_of(self, record: int, operator: Operator) -> dict[Value, np.ndarray]:
        """Returns the operands and results of the operator in dispute; the first call runs the step up to it."""
        if self._values is None:
            arrays = self.run.arrays(record)
            found = dict(zip(self._graph_of(record).arguments, arrays, strict=True))
            wanted = {*operator.inputs, *operator.outputs}
            for each, values in self.run.tracer(record).run(arrays):
                found.update((v, a) for v, a in zip(each.outputs, values, strict=True) if v in wanted)
                if each.index == operator.index:
                    break
            self._values = {value: found[value] for value in wanted}
        return self._values

    def _settle_on_record(self, record: int) -> None:
        if self._record_in_dispute not in (None, self._checked(record)):
            raise QuestionError(f"this dispute is about record {self._record_in_dispute}, not about record {record}")
        self._graph_of(record)
        self._record_in_dispute = record

    def _graph_of(self, record: int) -> OperatorGraph:
        graph = self.run.graph_of(record)
        if graph is None:
            raise QuestionError(f"record {record} is a change of the state, which no operator computed")
        return graph

    def _settle_on_operator(self, index: int) -> Operator:
        operator = self._operator_at(index)
        if self._operator_in_dispute not in (None, index):
            raise QuestionError(f"this dispute is about operator {self._operator_in_dispute}, not about {index}")
        self._operator_in_dispute = index
        return operator

    def _operator_at(self, index: int) -> Operator:
        assert self._record_in_dispute is not None
        operators = self._graph_of(self._record_in_dispute).operators
        if index >= len(operators):
            raise QuestionError(f"expected an operator below {len(operators)}, got {index}")
        return operators[index]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _hex(digests: Sequence[bytes]) -> list[str]:
    return [digest.hex() for digest in digests]
