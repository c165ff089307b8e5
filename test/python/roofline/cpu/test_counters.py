# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the counters of the processor and the operating system that are shown with the measured times of launches."""

from __future__ import annotations

import os
import platform
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repro_mlir import Program
from repro_mlir.compilation import cpu
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.roofline import measure, predict, read_code
from repro_mlir.roofline.cpu.counters import EVENTS, Counters, threads_of_process
from repro_mlir.roofline.report import as_json, lines_of
from support.predicted import MACHINE, product


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "product.mlir").write_text(product(64))
    return Program.load(tmp_path / "product.mlir")


def test_each_event_is_counted_or_refused_with_a_reason() -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    with Counters({threading.get_native_id()}) as counters:
        assert {*counters.names} | {*counters.refused} == {*EVENTS}
        assert not {*counters.names} & {*counters.refused} and all(counters.refused.values())
        assert len(counters.descriptors) == len(counters.names)
        values = [int.from_bytes(os.read(each, 8), "little") for each in counters.descriptors]
        assert counters.added(values) == dict(zip(counters.names, values, strict=True))
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_threads_add_up_and_one_that_is_not_counted_takes_its_event_away() -> None:
    with Counters({threading.get_native_id()}) as counters:
        counters.names, counters._threads = ("cycles", "instructions"), 2
        assert counters.added([1, 2, 30, 40]) == {"cycles": 3, "instructions": 70}
        assert counters.added([1, None, 30, 40]) == {"instructions": 70}
        assert counters.refused["cycles"] == "another program has the counter"


def test_a_thread_that_has_ended_and_a_machine_without_the_call_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    # The operating system ends a thread slightly after `join` has returned.
    end = time.monotonic() + 60
    while thread.native_id in threads_of_process() and time.monotonic() < end:
        time.sleep(0.01)
    assert thread.native_id not in threads_of_process()
    with Counters({threading.get_native_id(), thread.native_id}) as counters:
        assert not counters.names and {*counters.refused} == {*EVENTS}
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with Counters({threading.get_native_id()}) as counters:
        assert counters.refused["cycles"] == "the system call number of perf_event_open is unknown for vax"


def test_a_launch_counts_as_far_as_its_descriptor_can_be_read(program: Program) -> None:
    executable = CpuBackend(cached_compile(program.data), 1)
    inputs, outputs = (
        [np.ones(kind.shape, kind.dtype) for kind in kinds] for kinds in (executable.inputs, executable.outputs)
    )
    with Path("/dev/zero").open("rb") as zeros:
        found = executable.profile([], inputs, outputs, [zeros.fileno(), -1])
    assert [counts for _, _, counts in found] == [(0, None)] * len(executable.launches)
    assert all(counts == () for _, _, counts in executable.profile([], inputs, outputs))


def test_the_steps_that_are_measured_are_not_counted(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading counters takes time between launches, so counters are read in five more steps, after the measured
    steps."""
    read: list[bool] = []
    profile = CpuBackend.profile

    def recorded(backend: CpuBackend, *given: Any) -> Any:
        read.append(bool(given[3]))
        return profile(backend, *given)

    monkeypatch.setattr(CpuBackend, "profile", recorded)
    machine = replace(MACHINE, level=cpu.runnable_levels()[0])
    ledger = measure(program, predict(read_code(program, machine), machine), seconds=0.01)
    assert read == [False] * ledger.steps + [True] * (5 if ledger.entries[0].counts else 0)


def test_the_ledger_contains_the_counts(program: Program) -> None:
    machine = replace(MACHINE, level=cpu.runnable_levels()[0])
    prediction = predict(read_code(program, machine), machine)
    ledger = measure(program, prediction, seconds=0.01)
    with Counters({threading.get_native_id()}) as counters:
        expected = {*counters.names}
    assert {*ledger.not_counted} == {*EVENTS} - expected
    found = as_json(prediction, ledger)
    assert found["not_counted"] == dict(ledger.not_counted)
    for entry, shown in zip(ledger.entries, found["launches"], strict=True):
        assert {*entry.counts} == expected and shown["counts"] == dict(entry.counts)
        if "processor_nanoseconds" in expected:
            # The counter has the time of one thread, including the time to read the counter.
            assert 0 < entry.counts["processor_nanoseconds"] < 1e9
    (line,) = (line for line in lines_of(prediction, ledger, 3) if line.startswith("counted"))
    assert all(name.replace("_", " ").replace("l1", "L1") in line for name in EVENTS)
