# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The generator: which random numbers are drawn next."""

from __future__ import annotations

import numbers
import os
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Self

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.philox import Place, signed_seed

_FORK = b"repro-random-fork-v1\0"
_WORD = 2**32
_KEYS = ("seed", "site", "step")

_LOCK = threading.Lock()
"""Held while a generator changes. It is not an attribute, so that generators can be copied and pickled."""

if hasattr(os, "register_at_fork"):
    # A child process must not inherit the lock from a thread that it does not have.
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)

CAPTURING: ContextVar[bool] = ContextVar("capturing", default=False)
"""Whether a step is being captured. A drawn number would then be a constant of the program, so draws are errors."""


class Generator:
    """A source of random numbers, which consists of three integers: seed, step and site (R1).

    Each draw takes the next site, and `next_step` begins the next step at site 0. So a loop that calls `next_step`
    once per iteration draws what a compiled training step draws with the same seed, step number and order of draws. A
    generator belongs to no device and does not keep the numbers that it has drawn.

    Threads may share a generator: each draw has a site of its own, in the order in which the threads happen to draw.
    Threads that draw from generators of their own (`fork`, `split`) draw the same numbers in every run.
    """

    def __init__(self, seed: int = 0, *, step: int = 0, site: int = 0) -> None:
        """Creates a generator.

        Args:
          seed: an integer from -2^63 to 2^64 - 1; a negative seed means the seed plus 2^64.
          step: the step, below 2^32.
          site: the site of the first draw, below 2^32.
        Raises:
          ReproError: an argument is out of its range.
        """
        self._seed = signed_seed(seed) % 2**64
        self._step = _word("step", step)
        self._site = _word("site", site)

    @property
    def seed(self) -> int:
        """The seed, from 0 to 2^64 - 1."""
        return self._seed

    @property
    def step(self) -> int:
        """The step from which numbers are drawn; assigning it begins that step at site 0."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        word = _word("step", step)
        with _LOCK:
            self._step, self._site = word, 0

    @property
    def site(self) -> int:
        """The site of the next draw, 2^32 after the last one."""
        return self._site

    def next_step(self) -> None:
        """Begins the next step. Raises ReproError after step 2^32 - 1."""
        with _LOCK:
            self._step, self._site = _word("step", self._step + 1), 0

    def manual_seed(self, seed: int) -> Self:
        """Sets the seed, begins step 0 at site 0, and returns the generator."""
        number = signed_seed(seed) % 2**64
        with _LOCK:
            self._seed, self._step, self._site = number, 0, 0
        return self

    def get_state(self) -> dict[str, int]:
        """Returns the state for `set_state`: the integers `seed`, `site` and `step`, which JSON and checkpoints can
        contain."""
        with _LOCK:
            return {"seed": self._seed, "site": self._site, "step": self._step}

    def set_state(self, state: Mapping[str, int]) -> Self:
        """Sets the state that `get_state` returned, and returns the generator.

        Raises:
          ReproError: `state` is not such a state; the generator is then unchanged.
        """
        if not isinstance(state, Mapping) or sorted(map(str, state)) != [*_KEYS]:
            raise ReproError(f"expected a state with the keys {', '.join(_KEYS)}, as get_state returns, got {state!r}")
        seed, step = signed_seed(state["seed"]) % 2**64, _word("step", state["step"])
        # A generator whose last site has been drawn has a site of 2^32.
        site = _word("site", state["site"], _WORD)
        with _LOCK:
            self._seed, self._step, self._site = seed, step, site
        return self

    def fork(self, name: str | int) -> Generator:
        """(R4) Returns a generator whose seed depends on that of this generator and on a name, at site 0 of the same
        step. This generator is unchanged.

        Modules or workers that draw from forks with different names draw independent numbers, whatever the order of
        their draws.

        Args:
          name: a string, such as the name of a module, or an integer from 0 to 2^64 - 1, such as the number of a
            worker.
        Raises:
          ReproError: the name is neither.
        """
        if isinstance(name, str):
            encoded = b"\1" + name.encode("utf-8", "surrogatepass")
        elif isinstance(name, numbers.Integral) and not isinstance(name, bool) and 0 <= int(name) < 2**64:
            encoded = b"\0" + int(name).to_bytes(8, "little")
        else:
            raise ReproError(f"expected a string or a whole number from 0 to 2^64 - 1 as name of a fork, got {name!r}")
        digest = blake3_of(_FORK, self._seed.to_bytes(8, "little"), encoded)
        return Generator(int.from_bytes(digest[:8], "little"), step=self._step)

    def split(self, count: int) -> list[Generator]:
        """Returns the forks 0 to count - 1 of the generator."""
        if not isinstance(count, numbers.Integral) or isinstance(count, bool) or not 0 <= int(count) <= 2**20:
            raise ReproError(f"expected a number of generators from 0 to 2^20, got {count!r}")
        return [self.fork(i) for i in range(int(count))]

    def take(self, site: int | None = None) -> Place:
        """Returns the place of a draw: the next site, which is then taken, or the given site, which leaves the next
        site as it is.

        Raises:
          ReproError: the site is out of its range, all sites of the step are taken, or a step is being captured.
        """
        if CAPTURING.get():
            raise ReproError(
                "expected random functions of the framework, such as torch.randn, in a captured step, got a draw from "
                "a repro_mlir.random.Generator, whose numbers would be the same in every step"
            )
        given = None if site is None else _word("site", site)
        with _LOCK:
            if given is not None:
                return Place(self._seed, given, self._step)
            if self._site == _WORD:
                raise ReproError("expected at most 2^32 draws in a step; call next_step before the next draw")
            self._site += 1
            return Place(self._seed, self._site - 1, self._step)

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, step={self._step}, site={self._site})"


def _word(what: str, value: object, most: int = _WORD - 1) -> int:
    """Returns a step or a site as an int."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and 0 <= int(value) <= most:
        return int(value)
    raise ReproError(f"expected a {what} from 0 to {most}, got {value!r}")
