# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prover: answers a referee's questions about its run (docs/disputes.md has the forms)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from ..hashing import tensor_bytes
from ..operators.commitments import OperatorTree, commit_operators
from ..receipts import merkle
from .runs import Run

PROTOCOL = 1

Message = dict[str, Any]


class QuestionError(ValueError):
    """A question that has no answer."""


class Prover:
    """Answers questions about a run. The last step that was asked about is kept at hand."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._tree: tuple[int, OperatorTree] | None = None
        self._answers: dict[str, Callable[..., Message]] = {
            "opening": self._opening,
            "program": self._program,
            "link": self._link,
            "step": self._step,
            "operators": self._operators,
            "nodes": self._nodes,
            "operator": self._operator,
            "producers": self._producers,
            "tensor": self._tensor,
        }

    def answer(self, question: Message) -> Message:
        """The answer to one question. QuestionError for one that is none."""
        arguments = {key: value for key, value in question.items() if key != "ask"}
        find = self._answers.get(str(question.get("ask")))
        if find is None:
            raise QuestionError(f"expected a question of {', '.join(self._answers)}, got {question.get('ask')!r}")
        try:
            return find(**arguments)
        except (TypeError, IndexError, KeyError) as error:
            raise QuestionError(f"question {question.get('ask')!r}: {error}") from None

    def _opening(self) -> Message:
        run = self.run
        return {
            "protocol": PROTOCOL,
            "header": run.header.decode("ascii"),
            "steps": run.steps,
            "link": run.link(run.steps).hex(),
        }

    def _program(self) -> Message:
        return {"text": self.run.graph.program.text}

    def _link(self, step: int) -> Message:
        return {"link": self.run.link(self._checked(step, 0)).hex()}

    def _step(self, step: int) -> Message:
        commitment = self.run.commitment(self._checked(step, 0))
        return {
            "before": self.run.link(step - 1).hex() if step else "",
            "cursor": commitment.cursor,
            "state": _hex(commitment.state),
            "inputs": _hex(commitment.inputs),
            "outputs": _hex(commitment.outputs),
        }

    def _operators(self, step: int) -> Message:
        return {"top": self.tree(step).levels[-1][0].hex()}

    def _nodes(self, step: int, level: int, index: int) -> Message:
        below = self.tree(step).levels[level - 1]
        return {"left": below[2 * index].hex(), "right": below[2 * index + 1].hex()}

    def _operator(self, step: int, index: int) -> Message:
        claim = self.tree(step).claims[index]
        return {"inputs": _hex(claim.inputs), "outputs": _hex(claim.outputs)}

    def _producers(self, step: int, indices: list[int]) -> Message:
        tree = self.tree(step)
        paths = [_hex(merkle.prove(tree.leaves, index)) for index in indices]
        return {"claims": [self._operator(step, i) | {"path": path} for i, path in zip(indices, paths, strict=True)]}

    def _tensor(self, step: int, index: int, role: str, position: int) -> Message:
        operator = self.run.graph.operators[index]
        value = (operator.inputs if role == "input" else operator.outputs)[position]
        array = self.value(step, value)
        return {"data": base64.b64encode(tensor_bytes(array, value.kind.element)).decode("ascii")}

    def tree(self, step: int) -> OperatorTree:
        """The operators of a step; runs it."""
        if self._tree is None or self._tree[0] != step:
            arrays = self.run.arrays(self._checked(step, 1))
            self._tree = step, commit_operators(self.run.graph, self.run.tracer(step), arrays)
        return self._tree[1]

    def value(self, step: int, value: Any) -> np.ndarray:
        """A value of a step; runs it as far as that."""
        arrays = self.run.arrays(self._checked(step, 1))
        if value.producer is None:
            return arrays[value.position]
        for operator, values in self.run.tracer(step).run(arrays):
            if operator.index == value.producer:
                return values[value.position]
        raise KeyError(value.name)

    def _checked(self, step: int, first: int) -> int:
        if not isinstance(step, int) or not first <= step <= self.run.steps:
            raise IndexError(f"expected a step from {first} to {self.run.steps}, got {step!r}")
        return step


def _hex(digests: Any) -> list[str]:
    return [digest.hex() for digest in digests]
