# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The referee recomputes the disputed operator in a child process with limits. If the operator exceeds them, there is
no verdict."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.errors import StepFailed
from repro_mlir.cli import dispute as command
from repro_mlir.cli import main as cli
from repro_mlir.program import read_signature
from repro_mlir.program.canonical import to_bytes
from repro_mlir.sandbox import interpret
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, Verdict, settle
from repro_mlir.verification.operators import Operator, OperatorGraph, Tracer
from support.builder import Builder, order
from support.dispute_runs import flipped

pytestmark = pytest.mark.timeout(300)


class Flipping(Tracer):
    """The tracer of a cheat, which flips one bit of the last result of a step."""

    def run(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...]]]:
        for operator, values in super().run(arrays):
            if values and operator.results == self.graph.results:
                yield operator, tuple(flipped(value, 3) for value in values)
            else:
                yield operator, values


def runs(text: str, *initial: np.ndarray) -> tuple[RecordedRun, RecordedRun]:
    """Returns an honest and a wrong run of one step of a program without inputs, both in compiled code."""
    program = dataclasses.replace(read_signature(to_bytes(text)), initial=initial)
    graph = OperatorGraph(program)
    tracers = Tracer(graph, "cpu", 1), Flipping(graph, "cpu", 1)
    honest, cheat = (
        RecordedRun(program, [[]], lambda _, arrays, t=t: t.results(arrays), tracer=lambda _, t=t: t, graph=graph)
        for t in tracers
    )
    return honest, cheat


def fold(terms: int) -> tuple[RecordedRun, RecordedRun]:
    """Returns an honest and a wrong run of a sequential fold of `terms` terms. Compiled code computes the fold fast;
    the interpreter is slow."""
    b = Builder()
    state = b.argument((), "f32")
    ones = b.constant("dense<1.0>", (terms,), "f32")
    body = "%r0 = arith.addf %a0, %x0 : f32"
    (total,) = b.fold(order(terms, 1), "r", [(ones, "d0")], [(state, "")], body)
    return runs(b.program(total, states=1), np.array(0, np.float32))


def dispute(pair: Sequence[RecordedRun]) -> Verdict:
    return settle(*(LocalChannel(Prover(run)) for run in pair), program=pair[0].graph.program)


def test_an_operator_in_bounds() -> None:
    pair = fold(2000)
    verdict = dispute(pair)
    assert (verdict.outcome, verdict.wrong) == ("operator", ("B",)) and verdict.values["B"].count == 1
    assert dispute(pair[::-1]).wrong == ("A",)


@pytest.mark.exhaustive
def test_an_operator_that_takes_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator that takes too long makes no party lose; the command reports that there is no verdict."""
    pair = fold(4_000_000)
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "operator_seconds=1")
    for each in (pair, pair[::-1]):
        start = time.monotonic()
        with pytest.raises(ReproError, match=r"no verdict: .*repro.fold.* of step 1: .*recomputed within 1 s \(see"):
            dispute(each)
        assert time.monotonic() - start < 60
    channels = {name: LocalChannel(Prover(run)) for name, run in zip("AB", pair, strict=True)}
    monkeypatch.setattr(command, "_channel", lambda party, *_: channels[party])
    assert cli.main(["dispute", "A", "B", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("repro: error: no verdict: "), captured.err


def sum_of(elements: int) -> tuple[RecordedRun, RecordedRun]:
    """Returns an honest and a wrong run of one addition of `elements` elements."""
    b = Builder()
    state = b.argument((elements,), "f32")
    text = b.program(b.elementwise("%r0 = arith.addf %x0, %x0 : f32", state, element="f32"), states=1)
    return runs(text, np.ones(elements, np.float32))


def test_an_operator_of_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The referee refuses an operator because of the sizes of its operands and results, before it requests any of
    them."""
    pair = sum_of(1 << 18)
    assert dispute(pair).wrong == ("B",)
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "memory_bytes=8388604")
    size = "2,097,152 bytes, expected at most 2,097,151"
    message = rf"no verdict: .* has operands and results of {size} \(see REPRO_MLIR_LIMITS"
    with pytest.raises(ReproError, match=message):
        dispute(pair)


def test_an_operator_that_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With this limit, the child has less memory than its libraries and the operator need."""
    pair = sum_of(1 << 22)
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "memory_bytes=200M")
    with pytest.raises(ReproError, match=r"no verdict: .* more than 0.19\S* GiB of memory|the child process ended"):
        dispute(pair)


def test_a_check_that_fails() -> None:
    """(E1) If the recomputed operator fails a check, the error says so. The error for an exceeded limit has another
    text."""
    b = Builder()
    (number,) = b.scalar_arguments(1)
    table = b.constant("dense<[1.0, 2.0]>", (2,), "f32")
    place = b.op(f"arith.index_cast {number.name} : i64 to index", None, "index")
    data = to_bytes(b.program(b.from_elements((), b.extract(table, place))))
    assert interpret(data, np.int64(1).tobytes()) == np.float32(2).tobytes()
    with pytest.raises(StepFailed, match="index"):
        interpret(data, np.int64(2).tobytes())
    with pytest.raises(ReproError) as error:
        interpret(data, b"")
    assert not isinstance(error.value, StepFailed)
