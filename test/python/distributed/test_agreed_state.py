# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that ranks check the state before and after each step and replace it as a whole."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch
from loopback_runs import Run, captured, hash_of, run
from repro_mlir.base.errors import ReproError
from repro_mlir.execute.agreed_state import ReplicatedState
from repro_mlir.execute.microbatch_calls import MicrobatchCalls
from repro_mlir.execute.microbatches import MicrobatchExecutable


def small() -> Run:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = torch.randn(12, 6), torch.arange(12) % 3
    return captured(model, torch.nn.functional.cross_entropy, optimizer, batch, microbatches=3)


def halve(rank: int, step: int, state: dict[str, np.ndarray], _: Any) -> None:
    if step == 1:
        state["0.weight"] *= np.float32(0.5)


@pytest.mark.parametrize("targets", [("cpu",), ("reference", "ptx-emulator")])
def test_ranks_continue_from_the_state_that_all_have_written(targets: tuple[str, ...]) -> None:
    given = small()
    state = given.program.initial_state()
    kept = MicrobatchExecutable(given.program, "cpu", 1).keep(state)
    for step in range(3):
        halve(0, step, state, ())
        kept.step(*given.inputs)
    found, _ = run(given, 2, targets=targets, steps=3, between=halve)
    assert found == [hash_of(given, state)] * 2


def test_a_bit_that_is_flipped_while_microbatches_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given, write = small(), MicrobatchCalls.write
    states: dict[int, dict[str, np.ndarray]] = {}

    def flipped(self: MicrobatchCalls, *arguments: Any) -> None:
        write(self, *arguments)
        if threading.current_thread().name == "rank 1":
            states[1]["0.weight"].view(np.uint32)[0, 0] ^= 1

    monkeypatch.setattr(MicrobatchCalls, "write", flipped)
    found, _ = run(given, 3, steps=1, between=lambda rank, step, state, _: states.update({rank: state}))
    assert all("ranks disagree: 1 of 3 have another state than most" in str(each) for each in found)


def test_a_state_that_is_taken_in_part_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = small()
    finish = repro_mlir.compile(given.program.finish)
    state, wanted = given.program.initial_state(), given.program.initial_state()
    inputs = [np.ones(kind.shape, kind.dtype) for kind in given.program.finish.inputs]
    finish.write([*wanted.values()], inputs, [np.empty(kind.shape, kind.dtype) for kind in finish.program.outputs])
    agreed = ReplicatedState(finish, state)
    assert agreed.hash().hex() == hash_of(given, state)
    found, failure = agreed.attempt(inputs)
    assert failure is None and found.hex() == hash_of(given, wanted)
    assert agreed.completed == 0 and hash_of(given, state) == hash_of(given, given.program.initial_state())

    copyto, calls = np.copyto, []

    def cut(*arrays: np.ndarray) -> None:
        calls.append(arrays)
        if len(calls) == 3:
            raise KeyboardInterrupt
        copyto(*arrays)

    monkeypatch.setattr(np, "copyto", cut)
    with pytest.raises(KeyboardInterrupt):
        agreed.accept(found)
    monkeypatch.undo()
    assert agreed.completed == 1 and hash_of(given, state) != found.hex()
    agreed.finish()
    assert hash_of(given, state) == found.hex() == agreed.hash().hex()
    # This rank's state is complete, so `finish` must not overwrite any of it, such as this changed element.
    state["0.weight"][0, 0] = 7
    agreed.finish()
    assert state["0.weight"][0, 0] == 7 and agreed.hash().hex() == hash_of(given, state)


def test_an_invalid_state_is_refused() -> None:
    given = small()
    finish = repro_mlir.compile(given.program.finish)
    state = given.program.initial_state()
    weight = state["0.weight"]
    for wrong, message in (
        (np.asfortranarray(weight), "expected a contiguous array"),
        (np.frombuffer(bytearray(weight.nbytes + 1), np.float32, weight.size, 1).reshape(weight.shape), "aligned"),
    ):
        with pytest.raises(ReproError, match=rf"state 0.weight: .*{message}"):
            ReplicatedState(finish, {**state, "0.weight": wrong})
