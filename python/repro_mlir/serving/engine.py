# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The thread that owns the generator, and the answers that it passes to the thread of asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.generation.generator import Generator, Request
from repro_mlir.serving.receipt import Question

_Given: TypeAlias = "tuple[Answer, list[tuple[int, bytes]], Exception | None]"
"""New tokens of an answer with the hashes of their logits, and the failure that ended the answer, if any."""


class Full(Exception):
    """Raised when the maximum number of questions is already being answered or waiting."""


class EngineFailed(Exception):
    """Raised when the engine has ended, because of an error or because the server is shutting down."""


class Answer:
    """Receives the tokens of an answer as they are generated. Its methods are called only on the event loop on which
    `Engine.ask` was called.

    It keeps all unread tokens: at most as many as the question permits.
    """

    def __init__(self, question: Question, loop: asyncio.AbstractEventLoop) -> None:
        self.question = question
        self.loop = loop
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._changed = asyncio.Event()
        self._failure: Exception | None = None

    async def next(self) -> tuple[int, bytes]:
        """Returns the next token, and the hash (H1) of the logits from which it was chosen.

        Raises:
          EngineFailed: no more tokens will follow.
          ReproError: the generator rejects the question.
        """
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    def give(self, tokens: list[tuple[int, bytes]], failure: Exception | None) -> None:
        """Adds tokens, and the failure that ended the answer, if any. Called on the event loop."""
        self._waiting.extend(tokens)
        self._failure = self._failure or failure
        self._changed.set()


class Engine:
    """Runs the steps of a generator on a thread of its own while there are questions.

    Attributes:
      failure: the error that ended the engine; None after `close`.
    """

    def __init__(self, generator: Generator, most: int, when_failed: Callable[[], None] = lambda: None) -> None:
        """Creates the engine. Its thread is not started yet.

        Args:
          generator: used by this engine only.
          most: the maximum number of questions that are processed or waiting at a time.
          when_failed: called on the engine's thread after an error has ended the engine.
        """
        self.failure: BaseException | None = None
        self._generator = generator
        self._most = most
        self._when_failed = when_failed
        self._condition = threading.Condition()
        # The condition protects these: new and cancelled answers that the thread has not seen yet, and the number of
        # reserved places.
        self._new: list[Answer] = []
        self._cancelled: list[Answer] = []
        self._places = 0
        self._closed = False
        # Used by the engine's thread only.
        self._entering: deque[Answer] = deque()
        self._requests: dict[Answer, Request] = {}
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the engine's thread."""
        self._thread.start()

    @property
    def ends(self) -> bool:
        """Whether the engine accepts no more questions."""
        return self._closed

    def reserve(self) -> None:
        """Reserves a place among the questions, for a later call of `ask` or `release`. Raises Full if there is none,
        EngineFailed if the engine has ended."""
        with self._condition:
            if self._closed:
                raise EngineFailed
            if self._places >= self._most:
                raise Full
            self._places += 1

    def release(self) -> None:
        """Gives back a reserved place for which `ask` was not called."""
        with self._condition:
            self._places -= 1

    def ask(self, question: Question) -> Answer:
        """Submits a question; returns its answer, which will receive the tokens. The answer has the place that the
        caller has reserved, until it ends.

        Raises:
          EngineFailed: the engine has ended.
        """
        answer = Answer(question, asyncio.get_running_loop())
        with self._condition:
            if self._closed:
                self._places -= 1
                raise EngineFailed
            self._new.append(answer)
            self._condition.notify()
        return answer

    def cancel(self, answer: Answer) -> None:
        """Cancels an answer that is no longer read. Does nothing if the answer has ended."""
        with self._condition:
            self._cancelled.append(answer)
            self._condition.notify()

    def close(self, seconds: float) -> bool:
        """Ends the thread after its current step; returns whether it has ended within `seconds`."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._take():
                self._step()
        except BaseException as error:
            self.failure = error
        with self._condition:
            self._closed = True
            left = [*self._requests, *self._entering, *self._new]
        self._deliver([(answer, [], EngineFailed()) for answer in left])
        if self.failure is not None:
            self._when_failed()

    def _take(self) -> bool:
        """Waits until there is work. Submits new questions to the generator and cancels requests of cancelled answers.
        Returns False if the engine has been closed."""
        with self._condition:
            while not (self._closed or self._new or self._cancelled or self._requests):
                self._condition.wait()
            if self._closed:
                return False
            self._entering.extend(self._new)
            cancelled = self._cancelled
            self._new, self._cancelled = [], []
        while self._entering:
            self._enter(self._entering[0])
            self._entering.popleft()
        for answer in cancelled:
            request = self._requests.pop(answer, None)
            if request is not None:
                self._generator.cancel(request)
                self.release()
        return True

    def _enter(self, answer: Answer) -> None:
        asked = answer.question
        try:
            self._requests[answer] = self._generator.submit(
                asked.prompt, asked.most, asked.sampling, asked.stop_tokens, logits=True
            )
        except ReproError as error:
            self._deliver([(answer, [], error)])
            self.release()

    def _step(self) -> None:
        self._generator.step()
        given: list[_Given] = []
        for answer, request in list(self._requests.items()):
            if request.logits:
                # Logits are hashed at once and dropped: those of a whole answer would need too much memory.
                digest = tensor_digest(request.logits[-1], "f32", alone=False)
                request.logits.clear()
                given.append((answer, [(request.tokens[-1], digest)], None))
            if request.finished:
                del self._requests[answer]
                self.release()
        self._deliver(given)

    def _deliver(self, given: list[_Given]) -> None:
        """Passes tokens to the event loops of their answers, with a single call per event loop."""
        loops: dict[asyncio.AbstractEventLoop, list[_Given]] = {}
        for each in given:
            loops.setdefault(each[0].loop, []).append(each)
        for loop, those in loops.items():
            try:
                loop.call_soon_threadsafe(_give, those)
            except RuntimeError:
                # The event loop is closed, so nobody waits for these tokens.
                continue


def _give(given: list[_Given]) -> None:
    for answer, tokens, failure in given:
        answer.give(tokens, failure)
