# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Generates tokens for several requests at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.base.signals import deferred_signals
from repro_mlir.execute.executable import Kept, compile
from repro_mlir.generation.sampling import Sampler, Sampling
from repro_mlir.precision.cache_format import cache_format
from repro_mlir.program import Program

if TYPE_CHECKING:
    import torch

    from repro_mlir.precision.formats import Format


@dataclass(eq=False)
class Request:
    """A request, as `Generator.submit` returns it.

    Attributes:
      prompt: the tokens of the prompt.
      tokens: the tokens generated so far.
      finished: whether the request is complete.
      logits: for each of `tokens`, the logits f32 [vocabulary] from which it was chosen; empty unless they were
        requested.
    """

    prompt: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    finished: bool = False
    logits: list[np.ndarray] = field(default_factory=list, repr=False)
    _sampling: Sampling = field(default_factory=Sampling, repr=False)
    _most: int = field(default=0, repr=False)
    _stop: frozenset[int] = field(default=frozenset(), repr=False)
    _keeps_logits: bool = field(default=False, repr=False)
    _read: int = field(default=0, repr=False)
    """The number of prompt tokens in the cache, until the first token is chosen."""


@dataclass(frozen=True)
class _Programs:
    """The programs that read the first `reach` positions of the cache: `prompt` reads a chunk of a prompt, `token`
    reads one token in each slot."""

    reach: int
    prompt: Kept
    token: Kept


_STEP, _LEAST_REACH = 4, 256
"""The factor from the reach of a program to the next larger one, and the lower bound of a reach. The reach is the
number of positions of the cache that a program reads."""


def _reaches(capacity: int) -> list[int]:
    reaches = [capacity]
    while reaches[0] >= _STEP * _LEAST_REACH:
        reaches.insert(0, reaches[0] // _STEP)
    return reaches


class Generator(ConstantAttributes):
    """A language model that generates tokens for several requests at a time (continuous batching).

    (K6) The logits of a request are, bit for bit, those that a full forward pass of the model computes for the tokens
    of this request alone. (K7) If the cache has a block format, the logits are those of a forward pass in which keys
    and values are rounded to this format. The logits do not depend on other requests, on how the prompt is divided into
    chunks, on the target or on the threads. Methods are thread-safe. After an exception in a step, such as an interrupt
    while the model runs, the next step continues from the chosen tokens.

    On a GPU, and on its emulator, the programs for prompts and for tokens each have their own state, including weights:
    switching between the programs copies the whole state to the host and back to the device.

    Attributes:
      vocabulary: the number of tokens in the vocabulary.
      capacity: the maximum number of tokens per request, including the prompt.
      cache_bytes: the memory of keys and values of all slots; f4 codes take half a byte, other codes one byte.
    """

    capacity: int
    vocabulary: int
    cache_bytes: int

    def __init__(
        self,
        model: torch.nn.Module,
        capacity: int,
        *,
        slots: int = 1,
        chunk: int = 32,
        cache: Format | str | Mapping[str, Any] | None = None,
        target: str = "cpu",
        threads: int | None = None,
    ) -> None:
        """Captures and compiles the model for a chunk of a prompt and for one token of each slot. On CPUs, additional
        programs serve requests that are short relative to the capacity.

        Args:
          model: in evaluation mode; `model(tokens, positions)`, both i64 [rows, length], returns logits f32 [rows,
            length, vocabulary]. Its attention is torch.nn.functional.scaled_dot_product_attention, causal, on operands
            [rows, heads, length, size], including calls from PyTorch modules. Its weights are copied.
          capacity: the maximum number of tokens per request.
          slots: the number of requests that are processed at a time.
          chunk: the number of prompt tokens that are read at a time; other requests advance in between.
          cache: (K7) the block format of keys and values: a `repro_mlir.precision.Format`, its JSON, or the name of a
            recipe, whose activation format is used; by default they are f32.
          target, threads: as for `repro_mlir.compile`.
        Raises:
          ReproError: the model cannot generate text, for the reason in the message; a number is below 1; or, in the
            block format, the codes of a token would depend on other tokens.
        """
        from repro_mlir.frontends.torch.generation.cached_attention import capture_generation

        for name, value in (("capacity", capacity), ("slots", slots), ("chunk", chunk)):
            if type(value) is not int or value < 1:
                raise ReproError(f"expected {name} of at least 1, got {value!r}")
        self.capacity = capacity
        self._chunk = min(chunk, capacity)
        # On a GPU, each program has its own copy of the state, so only the programs for the full capacity are compiled.
        reaches = _reaches(capacity) if target.partition(":")[0] == "cpu" else [capacity]
        format = None if cache is None else cache_format(cache)
        captured = capture_generation(model, slots, capacity, self._chunk, reaches, format)
        token = captured[-1][1]
        (logits,) = token.outputs
        self.vocabulary = logits.shape[-1]
        state = {kind.name: np.array(value) for kind, value in zip(token.state, token.initial, strict=True)}
        kept = token.examined.kept
        self.cache_bytes = sum(value.nbytes for i, value in enumerate(state.values()) if i not in kept)

        def keep(program: Program) -> Kept:
            own = {kind.name: state[kind.name] for kind in program.state}
            return compile(program, target, threads).keep(own, exclusive=True)

        self._programs = [
            _Programs(reach, keep(prompt), keep(token))
            for reach, (prompt, token) in zip(reaches, captured, strict=True)
        ]
        self._last: Kept = self._programs[-1].token
        self._sampler = Sampler(self.vocabulary, target, threads)
        self._slots: list[Request | None] = [None] * slots
        self._waiting: deque[Request] = deque()
        self._lock = RLock()

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        sampling: Sampling | Sequence[Sampling] | None = None,
        stop: Collection[int] = (),
    ) -> list[list[int]]:
        """Generates tokens for prompts.

        Args:
          prompts: the tokens of each request, at least one per request.
          max_new_tokens: the maximum number of new tokens per request.
          sampling: how tokens are chosen: one `Sampling` for all requests, or one per request; by default the greatest
            logit.
          stop: tokens that end a request.
        Returns:
          The tokens that follow each prompt, including the stop token.
        Raises:
          ReproError: as for `submit`.
        """
        choices = [sampling] * len(prompts) if sampling is None or isinstance(sampling, Sampling) else list(sampling)
        if len(choices) != len(prompts):
            raise ReproError(f"expected a sampling for each of {len(prompts)} prompts, got {len(choices)}")
        requests = [self._request(p, max_new_tokens, s, stop) for p, s in zip(prompts, choices, strict=True)]
        self._waiting.extend(requests)
        try:
            while not all(request.finished for request in requests):
                self.step()
        finally:
            for request in requests:
                self.cancel(request)
        return [request.tokens for request in requests]

    def submit(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        sampling: Sampling | None = None,
        stop: Collection[int] = (),
        *,
        logits: bool = False,
    ) -> Request:
        """Queues a request until a slot is free; `step` processes it.

        Args:
          prompt, max_new_tokens, sampling, stop: as for `generate`.
          logits: whether the request keeps the logits of its tokens.
        Returns:
          The request, without tokens yet.
        Raises:
          ReproError: the prompt is empty, is too long together with the new tokens, or has tokens that are not integers
            in the vocabulary; a stop token is not in the vocabulary; or another argument is out of range.
        """
        request = self._request(prompt, max_new_tokens, sampling, stop, logits)
        self._waiting.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """Cancels a request, which keeps the tokens that it has so far."""
        with self._lock:
            request.finished = True
            if request in self._waiting:
                self._waiting.remove(request)
            self._slots = [None if each is request else each for each in self._slots]

    def step(self) -> list[Request]:
        """Reads one chunk of a prompt that is not complete, if there is one, and generates a token for each request
        whose prompt is complete.

        Returns:
          The requests that received a token.
        """
        with self._lock:
            with deferred_signals():
                for slot, request in enumerate(self._slots):
                    if request is None and self._waiting:
                        self._slots[slot] = self._waiting.popleft()
            changed = self._read_chunk()
            active = [(slot, each) for slot, each in enumerate(self._slots) if each is not None and each.tokens]
            active = [(slot, each) for slot, each in active if each not in changed]
            if active:
                tokens = np.zeros((len(self._slots), 1), np.int64)
                positions = np.full((len(self._slots), 1), -1, np.int64)
                for slot, request in active:
                    tokens[slot], positions[slot] = request.tokens[-1], len(request.prompt) + len(request.tokens) - 1
                logits = self._run(self._reaching(positions).token, tokens, positions)
                for slot, request in active:
                    self._choose(request, logits[slot, 0])
            return [*changed, *(request for _, request in active)]

    def _read_chunk(self) -> list[Request]:
        """Reads the next chunk of the first prompt that is not complete. Returns a list with the prompt's request if
        the prompt is complete now, else an empty list."""
        for slot, request in enumerate(self._slots):
            if request is None or request.tokens:
                continue
            chunk = request.prompt[request._read : request._read + self._chunk]
            tokens = np.zeros((1, self._chunk), np.int64)
            positions = np.full((1, self._chunk), -1, np.int64)
            tokens[0, : len(chunk)] = chunk
            positions[0, : len(chunk)] = np.arange(request._read, request._read + len(chunk))
            last = len(chunk) - 1
            program = self._reaching(positions).prompt
            logits = self._run(program, tokens, positions, np.array([slot]), np.array([last]))
            if request._read + len(chunk) < len(request.prompt):
                request._read += len(chunk)
                return []
            self._choose(request, logits[0, 0])
            return [request]
        return []

    def _reaching(self, positions: np.ndarray) -> _Programs:
        """Returns the programs with the smallest reach that covers these positions."""
        return next(each for each in self._programs if positions.max() < each.reach)

    def _run(self, kept: Kept, *inputs: np.ndarray) -> np.ndarray:
        if kept.resident and kept is not self._last:
            self._last.fetch()
            kept.load()
        self._last = kept
        (logits,) = kept.step(*inputs).values()
        return logits

    def _choose(self, request: Request, logits: np.ndarray) -> None:
        token = self._sampler.choose(logits, request._sampling, len(request.prompt) + len(request.tokens))
        if request._keeps_logits:
            request.logits[len(request.tokens) :] = [logits.copy()]
        with deferred_signals():
            request.tokens.append(token)
            if len(request.tokens) >= request._most or token in request._stop:
                self.cancel(request)

    def _request(
        self,
        prompt: Sequence[int],
        most: int,
        sampling: Sampling | None,
        stop: Collection[int],
        logits: bool = False,
    ) -> Request:
        tokens = self._known(prompt, "a prompt")
        if not tokens:
            raise ReproError("expected a prompt of at least one token, got none")
        if not (sampling is None or isinstance(sampling, Sampling)):
            raise ReproError(f"expected a Sampling, got {sampling!r}")
        if type(most) is not int or most < 1:
            raise ReproError(f"expected max_new_tokens of at least 1, got {most!r}")
        # The last new token is never read by the model, so it needs no position in the cache.
        if len(tokens) + most - 1 > self.capacity:
            raise ReproError(
                f"a prompt of {len(tokens)} tokens and {most} new ones are more than the capacity of {self.capacity}"
            )
        ends = frozenset(self._known(stop, "stop"))
        return Request(tokens, [], False, [], sampling or Sampling(), most, ends, logits)

    def _known(self, given: Any, name: str) -> tuple[int, ...]:
        """Converts a list, array or tensor of tokens to a tuple; raises ReproError for a token outside the
        vocabulary."""
        try:
            tokens = tuple(given.tolist() if hasattr(given, "tolist") else given)
        except TypeError:
            tokens = (None,)
        for token in tokens:
            if (type(token) is not int and not isinstance(token, np.integer)) or not 0 <= token < self.vocabulary:
                got = type(given).__name__ if token is None else repr(token)
                raise ReproError(f"expected {name} of tokens from 0 to {self.vocabulary - 1}, got {got}")
        return tuple(map(int, tokens))
