# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Progress on streams that are not terminals: a line after each interval, without control characters."""

import io
import threading
import time

import pytest
from repro_mlir.base import progress


@pytest.fixture(autouse=True)
def interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 0.02)


class Stream(io.StringIO):
    """A stream that sets an event at each line."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def flush(self) -> None:
        self.written.set()

    def wait(self) -> None:
        """Waits for the next line."""
        self.written.clear()
        assert self.written.wait(10)


def test_a_line_after_each_interval() -> None:
    stream = Stream()
    with progress.Progress(4, "training", stream) as bar:
        bar.advance("loss 2.5000")
        stream.wait()
        bar.advance("loss 1.5000")
        stream.wait()
        stream.wait()
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 3 and all(line.isprintable() for line in lines)
    assert lines[0].startswith("training 1/4  ") and "  loss 2.5000  after 0 s" in lines[0]
    assert lines[-1].startswith("training 2/4  ") and " s left  " in lines[-1]


def test_the_line_names_the_phase() -> None:
    stream = Stream()
    with progress.Progress(4, "training", stream), progress.working("capturing", stream):
        with progress.working("importing", stream):
            stream.wait()
        stream.wait()
    lines = stream.getvalue().splitlines()
    # One block writes lines, not each of the three.
    assert all(line.startswith("training 0/4  after 0 s  ") for line in lines)
    assert lines[0].endswith("  importing ...") and lines[-1].endswith("  capturing ...")


def test_a_phase_without_progress() -> None:
    stream = Stream()
    with progress.working("compiling for x86-64-v3", stream):
        stream.wait()
    assert stream.getvalue().splitlines()[0] == "compiling for x86-64-v3 ...  after 0 s"


def test_nothing_where_the_work_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 10.0)
    stream = Stream()
    begin = time.monotonic()
    with progress.Progress(1, "training", stream) as bar, progress.working("capturing", stream):
        bar.advance()
    assert stream.getvalue() == "" and time.monotonic() - begin < 5


def test_a_silent_rank() -> None:
    stream, terminal = Stream(), Terminal()
    with progress.Progress(1, "training", stream, silent=True), progress.Progress(1, "training", terminal, silent=True):
        time.sleep(0.1)
    assert stream.getvalue() == terminal.getvalue() == ""


def test_lines_end_with_the_block() -> None:
    before = threading.active_count()
    for error in (KeyboardInterrupt, StopIteration, ValueError):
        with pytest.raises(error), progress.Progress(1, "training", Stream()):
            raise error
        with pytest.raises(error), progress.working("x", Stream()):
            raise error
    assert threading.active_count() == before
    assert not progress._phases and not progress._bars and not progress._outermost.locked()


def test_a_stream_that_is_closed() -> None:
    stream = Stream()
    with progress.Progress(1, "training", stream) as bar:
        stream.close()
        time.sleep(0.1)
        bar.advance()
    with progress.Progress(1, "training", None) as bar:
        bar.advance()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_phase_replaces_the_bar_on_a_terminal() -> None:
    stream = Terminal()
    with progress.Progress(4, "training", stream), progress.working("capturing", stream):
        with progress.working("importing", stream):
            pass
    shown = stream.getvalue().split("\r\x1b[K")
    assert "0/4" in shown[1] and shown[2:4] == ["capturing ...", "importing ..."]
