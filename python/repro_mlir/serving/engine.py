# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""One thread that owns the generator, and answers that grow on the side of asyncio."""

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
"""Tokens for an answer with the hashes of their logits, and why no more will come."""


class Full(Exception):
    """As many questions are being answered, or wait for it, as there may be."""


class EngineFailed(Exception):
    """The engine has ended, by an error of its own or because the server does."""


class Answer:
    """The tokens of an answer as they come. Used on the loop that asked, but for what the engine keeps.

    What waits to be read is bounded by the tokens of the question.
    """

    def __init__(self, question: Question, loop: asyncio.AbstractEventLoop) -> None:
        self.question = question
        self.loop = loop
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._changed = asyncio.Event()
        self._failure: Exception | None = None

    async def next(self) -> tuple[int, bytes]:
        """The next token and the hash (H1) of the logits that it was chosen from.

        Raises:
          EngineFailed: no more will come.
          ReproError: a question that the generator does not take.
        """
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    def give(self, tokens: list[tuple[int, bytes]], failure: Exception | None) -> None:
        """Called on the loop."""
        self._waiting.extend(tokens)
        self._failure = self._failure or failure
        self._changed.set()


class Engine:
    """Steps a generator while there are questions.

    Attributes:
      failure: what ended it, if not `close`.
    """

    def __init__(self, generator: Generator, most: int, when_failed: Callable[[], None] = lambda: None) -> None:
        """
        Args:
          generator: is used by nobody else.
          most: how many questions are worked on or wait at a time.
          when_failed: is called by the thread of the engine after an error ended it.
        """
        self.failure: BaseException | None = None
        self._generator = generator
        self._most = most
        self._when_failed = when_failed
        self._condition = threading.Condition()
        # Guarded by the condition: what the thread has not seen yet, and who holds a place.
        self._new: list[Answer] = []
        self._cancelled: list[Answer] = []
        self._places = 0
        self._closed = False
        # Of the thread alone.
        self._entering: deque[Answer] = deque()
        self._requests: dict[Answer, Request] = {}
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def ends(self) -> bool:
        """Whether no more questions are taken."""
        return self._closed

    def reserve(self) -> None:
        """Takes a place, for `ask` or `release`. Full where there is none, EngineFailed after the end."""
        with self._condition:
            if self._closed:
                raise EngineFailed
            if self._places >= self._most:
                raise Full
            self._places += 1

    def release(self) -> None:
        """Gives a place back that was not used."""
        with self._condition:
            self._places -= 1

    def ask(self, question: Question) -> Answer:
        """The answer to a question. It takes over the place of who asks, until it has ended.

        Raises:
          EngineFailed: after the end.
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
        """Ends an answer that nobody reads any more; one that has ended stays as it is."""
        with self._condition:
            self._cancelled.append(answer)
            self._condition.notify()

    def close(self, seconds: float) -> bool:
        """Ends the thread after its step; whether it has ended within some seconds."""
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
        """Waits for work, hands what is new to the generator, takes back what was cancelled; whether to go on."""
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
                # Hashed at once: the logits of a whole answer would fill the memory.
                digest = tensor_digest(request.logits[-1], "f32", alone=False)
                request.logits.clear()
                given.append((answer, [(request.tokens[-1], digest)], None))
            if request.finished:
                del self._requests[answer]
                self.release()
        self._deliver(given)

    def _deliver(self, given: list[_Given]) -> None:
        """Hands tokens over to the loops of their answers, one call for all of a loop."""
        loops: dict[asyncio.AbstractEventLoop, list[_Given]] = {}
        for each in given:
            loops.setdefault(each[0].loop, []).append(each)
        for loop, those in loops.items():
            try:
                loop.call_soon_threadsafe(_give, those)
            except RuntimeError:
                # The loop is closed: nobody waits for these.
                continue


def _give(given: list[_Given]) -> None:
    for answer, tokens, failure in given:
        answer.give(tokens, failure)
