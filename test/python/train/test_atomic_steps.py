# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Steps are atomic: if a step is interrupted at any point, either state, counts and receipt all advance or none
does."""

import concurrent.futures.thread
import errno
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.files import storage
from repro_mlir.base.signals import deferred_signals

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

STEPS = 150


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Makes SIGINT raise KeyboardInterrupt. If the tests run in the background, the shell may have set SIGINT to be
    ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def new_trainer(target: str = "cpu", **options) -> repro_mlir.Trainer:
    layers = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 3)
    model = repro_mlir.initialize(torch.nn.Sequential(*layers), 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loss_fn = torch.nn.functional.cross_entropy
    return repro_mlir.Trainer(model, loss_fn, optimizer, target=target, threads=1, **options)


def batch(step: int) -> tuple:
    x = torch.arange(32, dtype=torch.float32).reshape(4, 8).add(step).mul(0.37).sin()
    return x, torch.tensor([step % 3, 1, 2, 0])


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Returns the hash of the last state of an uninterrupted run, and the last link of its receipt's chain."""
    path = tmp_path_factory.mktemp("whole") / "run"
    with new_trainer(receipt=path) as trainer:
        for step in range(STEPS):
            trainer.step(*batch(step))
    seal = repro_mlir.Receipt(path).seal
    assert seal is not None
    return trainer.state_hash(), seal.chain.hex()


class Alarms:
    """Sends signals at random times, as if the user pressed Ctrl-C; they raise KeyboardInterrupt only while `armed` is
    true."""

    def __init__(self, longest: float) -> None:
        self.armed = False
        self.raised = 0
        self._longest = longest
        self._draw = random.Random(1)

    def __enter__(self) -> "Alarms":
        self._former = signal.signal(signal.SIGALRM, self._handle)
        self._wind()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)

    def _wind(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._draw.uniform(1e-5, self._longest))

    def _handle(self, number: int, frame: object) -> None:
        self._wind()
        if self.armed:
            # Until the test has caught this exception, other signals must not raise an exception.
            self.armed = False
            self.raised += 1
            raise KeyboardInterrupt


def test_interrupted_at_hundreds_of_moments() -> None:
    trainer, whole = new_trainer(), new_trainer()
    trainer.step(*batch(0))
    times = []
    for step in range(1, 20):
        begin = time.perf_counter()
        trainer.step(*batch(step))
        times.append(time.perf_counter() - begin)
    with Alarms(2 * min(times)) as alarms:
        while alarms.raised < 300 and trainer.steps < 3000:
            # The next batch is chosen by `steps`, as in a notebook, because it is not known whether an interrupted step
            # took effect.
            try:
                alarms.armed = True
                trainer.step(*batch(trainer.steps))
                alarms.armed = False
            except KeyboardInterrupt:
                pass
    while whole.steps < trainer.steps:
        whole.step(*batch(whole.steps))
    assert alarms.raised >= 300 and trainer.cursor == trainer.steps and trainer.state_hash() == whole.state_hash()


class Interrupted(BaseException):
    """An exception that no code except the tests catches."""


@contextmanager
def raising_at(moment: int, files: tuple[str, ...]) -> Iterator[list[int]]:
    """Raises `Interrupted` once, before the line with the number `moment` in the order of execution. Counts, from 1,
    only lines of `files`."""
    left = [moment]

    def trace(frame, event, argument):
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        yield left
    finally:
        sys.settrace(None)


FILES = ("trainer.py", "executable.py", "bound_state.py", "binding.py", "recorder.py", "writer.py", "storage.py")


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.diagonal(target=["cpu"])
def test_an_exception_before_every_line(target: str, tmp_path: Path) -> None:
    """Raises an exception before each executed line of a step in turn (on the reference interpreter, before each
    seventh line). The run must end with the receipt of an uninterrupted run."""
    stride = 1 if target == "cpu" else 7
    moment = 0
    with new_trainer(target, receipt=tmp_path / "interrupted") as trainer:
        trainer.step(*batch(0))
        while True:
            before = trainer.steps
            with raising_at(moment + 1, FILES) as left:
                try:
                    trainer.step(*batch(before))
                except Interrupted:
                    pass
            if left[0] > 0:
                break
            while trainer.steps == before:
                trainer.step(*batch(before))
            moment += stride
    with new_trainer(target, receipt=tmp_path / "whole") as whole:
        while whole.steps < trainer.steps:
            whole.step(*batch(whole.steps))
    assert moment > 100 and trainer.state_hash() == whole.state_hash()
    for name in ("steps.jsonl", "inputs.bin", "seal.json"):
        assert (tmp_path / "interrupted" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_second_signal_while_a_step_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the recording of an interrupted step is interrupted, too, the step is not recorded. The state may already be
    that after the step."""
    from repro_mlir.verification.receipts import recorder

    trainer = new_trainer(receipt=tmp_path / "run")
    trainer.step(*batch(0))

    def interrupt(*_: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(recorder, "commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            trainer.step(*batch(1))
    assert trainer.steps == 2
    for use in (lambda: trainer.step(*batch(2)), trainer.close):
        with pytest.raises(
            repro_mlir.ReproError, match="step 2 was interrupted before it was recorded: resume the receipt"
        ):
            use()
    assert not (tmp_path / "run" / "seal.json").exists()


@pytest.mark.parametrize("moment", ["create", "ReceiptWriter"])
def test_a_signal_while_the_receipt_is_made(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.verification.receipts import writer

    made = getattr(writer, moment)

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        result = made(*arguments, **keywords)
        os.kill(os.getpid(), signal.SIGINT)
        return result

    trainer = new_trainer(receipt=tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(writer, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.step(*batch(0))
    assert trainer.steps == 0
    trainer.step(*batch(0))
    trainer.close()
    assert repro_mlir.verify(tmp_path / "run", threads=1).steps == 1


def test_disk_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]) -> None:
    trainer = new_trainer(receipt=tmp_path / "run")
    full = [False]
    append = storage.AppendOnly.append

    def failing(self: storage.AppendOnly, record: bytes) -> None:
        if full[0]:
            append(self, record[: len(record) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, record)

    monkeypatch.setattr(storage.AppendOnly, "append", failing)
    for step in range(STEPS):
        full[0] = step % 97 == 5
        if full[0]:
            with pytest.raises(repro_mlir.ReproError, match=r"cannot write .*No space left"):
                trainer.step(*batch(step))
            with pytest.raises(repro_mlir.ReproError, match=r"cannot write .*No space left"):
                trainer.step(*batch(step + 1))
            assert trainer.steps == step + 1
        else:
            trainer.step(*batch(step))
    trainer.close()
    seal = repro_mlir.Receipt(tmp_path / "run").seal
    assert seal is not None and (seal.state_hash, seal.chain.hex()) == expected


def test_memory_runs_out(monkeypatch: pytest.MonkeyPatch, expected: tuple[str, str]) -> None:
    trainer = new_trainer()
    increment = torch.autograd.graph.increment_version

    def failing(tensors: object) -> None:
        if trainer.steps % 50 == 7:
            monkeypatch.setattr(torch.autograd.graph, "increment_version", increment)
            raise MemoryError
        increment(tensors)

    for _ in range(STEPS):
        monkeypatch.setattr(torch.autograd.graph, "increment_version", failing)
        before = trainer.steps
        try:
            trainer.step(*batch(before))
        except MemoryError:
            assert trainer.steps == before + 1
    assert trainer.state_hash() == expected[0]


def test_a_handler_that_closes_the_receipt(tmp_path: Path) -> None:
    """A handler of SIGTERM closes the receipt. The receipt must be right, whenever the signal arrives."""
    for delay in (1e-5, 1e-4, 3e-4, 1e-3):
        path = tmp_path / str(delay)
        trainer = new_trainer(receipt=path)
        trainer.step(*batch(0))

        def handle(number: int, frame: object, trainer: repro_mlir.Trainer = trainer) -> None:
            trainer.close()
            raise SystemExit

        former = signal.signal(signal.SIGALRM, handle)
        try:
            with pytest.raises(SystemExit):
                signal.setitimer(signal.ITIMER_REAL, delay)
                while True:
                    trainer.step(*batch(trainer.steps))
        finally:
            signal.signal(signal.SIGALRM, former)
        seal = repro_mlir.Receipt(path).seal
        assert seal is not None and seal.steps == trainer.steps and seal.state_hash == trainer.state_hash()
        assert repro_mlir.verify(path).steps == trainer.steps


@pytest.mark.timeout(60)
def test_a_handler_that_closes_the_receipt_while_it_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives while the thread pool of the hashes holds its lock, so closing the receipt must not need this
    lock."""
    trainer = new_trainer(receipt=tmp_path / "run")
    trainer.step(*batch(0))
    begin = concurrent.futures.thread._WorkItem.__init__

    def interrupted(*arguments: Any) -> None:
        monkeypatch.setattr(concurrent.futures.thread._WorkItem, "__init__", begin)
        signal.raise_signal(signal.SIGTERM)
        begin(*arguments)

    def handle(number: int, frame: object) -> None:
        trainer.close()
        raise SystemExit

    former = signal.signal(signal.SIGTERM, handle)
    try:
        monkeypatch.setattr(concurrent.futures.thread._WorkItem, "__init__", interrupted)
        with pytest.raises(SystemExit):
            trainer.step(*batch(1))
    finally:
        signal.signal(signal.SIGTERM, former)
    assert repro_mlir.verify(tmp_path / "run").steps == trainer.steps


def test_two_threads() -> None:
    alone, shared = new_trainer(), new_trainer()
    x = batch(0)
    for _ in range(40):
        alone.step(*x)
    threads = [threading.Thread(target=lambda: [shared.step(*x) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.steps == 40 and shared.state_hash() == alone.state_hash()


def test_a_device_step_is_not_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.execute.ptx import Emulation

    whole, trainer = new_trainer("ptx-emulator"), new_trainer("ptx-emulator")
    run = Emulation.run

    def interrupted(self: Emulation, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)
        run(self, **options)

    for step in range(3):
        whole.step(*batch(step))
    trainer.step(*batch(0))
    for step in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(Emulation, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                trainer.step(*batch(step))
        assert trainer.steps == step + 1
    assert trainer.state_hash() == whole.state_hash()
    # A second signal makes the trainer stop waiting for the device, so the trainer cannot know the state on the device.
    monkeypatch.setattr(Emulation, "run", lambda self, **_: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
    saved = trainer.state_dict()
    with pytest.raises(repro_mlir.ReproError, match="a step was interrupted, and the state is lost"):
        trainer.step(*batch(3))
    with pytest.raises(repro_mlir.ReproError, match="a step was interrupted, and the state is lost"):
        trainer.state_hash()
    monkeypatch.setattr(Emulation, "run", run)
    trainer.load_state_dict(saved)
    assert trainer.step(*batch(3)) == whole.step(*batch(3))
    # After the loss of the state, reading the model's tensors is an error, too.
    weight = next(trainer._model.parameters())
    with monkeypatch.context() as patch:
        patch.setattr(Emulation, "run", lambda self, **_: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
        with pytest.raises(repro_mlir.ReproError, match="a step was interrupted, and the state is lost"):
            trainer.step(*batch(4))
    with pytest.raises(repro_mlir.ReproError, match="a step was interrupted, and the state is lost"):
        weight.detach()
    with pytest.raises(repro_mlir.ReproError, match="expected a state of Trainer"):
        trainer.load_state_dict({})
    with pytest.raises(repro_mlir.ReproError, match="a step was interrupted, and the state is lost"):
        weight.detach()
    trainer.load_state_dict(saved)
    assert type(weight) is torch.nn.Parameter
    trainer.step(*batch(3))
    assert trainer.state_hash() == whole.state_hash()


def test_signals_are_deferred() -> None:
    seen: list[str] = []
    former = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append("handled"))
    try:
        with deferred_signals():
            signal.raise_signal(signal.SIGUSR1)
            seen.append("block")
        assert seen == ["block", "handled"]
        with pytest.raises(KeyboardInterrupt):
            with deferred_signals():
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                seen.append("never")
        assert seen == ["block", "handled"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_outputs_do_not_depend_on_inputs_that_are_state() -> None:
    """If a batch shares memory with the state, the step reads the values that the batch had before the step changed the
    state."""
    results = []
    for separate in (False, True):
        model = repro_mlir.initialize(torch.nn.Linear(3, 3), 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        trainer = repro_mlir.Trainer(model, torch.nn.functional.mse_loss, optimizer, threads=1)
        x = model.weight.detach()
        for _ in range(3):
            trainer.step(x.clone() if separate else x, torch.zeros(3, 3))
        results.append(trainer.state_hash())
    assert results[0] == results[1]
