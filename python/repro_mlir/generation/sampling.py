# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R3) Chooses the next token from the model's logits; a separate program makes the choice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.execute.executable import compile
from repro_mlir.program import Program, program_of


@dataclass(frozen=True)
class Sampling:
    """How the tokens of a request are chosen.

    Attributes:
      temperature: the divisor of the logits; 0 chooses the token with the greatest logit.
      top_k: restricts the choice to the `top_k` tokens of greatest logits; None: no restriction.
      top_p: restricts the choice to the fewest tokens of greatest logits whose probabilities add up to `top_p`.
      seed: the seed of the request's random numbers, -2^63 to 2^64 - 1.
    Raises:
      ReproError: the temperature is below 0 or too large for f32, top_k is below 1, top_p is not above 0 and at most 1,
        or the seed is out of range.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (_is_real(self.temperature) and 0 <= self.temperature <= _GREATEST_TEMPERATURE):
            raise ReproError(
                f"expected a temperature from 0 to {_GREATEST_TEMPERATURE}, the greatest f32, got {self.temperature!r}"
            )
        if not (_is_real(self.top_p) and 0 < self.top_p <= 1):
            raise ReproError(f"expected top_p above 0 and at most 1, got {self.top_p!r}")
        if self.top_k is not None and not (type(self.top_k) is int and self.top_k >= 1):
            raise ReproError(f"expected a top_k of at least 1, got {self.top_k!r}")
        signed_seed(self.seed)


_GREATEST_TEMPERATURE = float(np.finfo(np.float32).max)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class Sampler:
    """Runs the program that chooses tokens, compiled for a target."""

    def __init__(self, vocabulary: int, target: str, threads: int | None) -> None:
        self._vocabulary = vocabulary
        self._executable = compile(sampling_program(vocabulary), target, threads)

    @float_environment()
    def choose(self, logits: np.ndarray, sampling: Sampling, position: int) -> int:
        """Chooses and returns the token at a position of a request.

        Args:
          logits: f32 [vocabulary], as the model returns them for the preceding token.
          sampling: how the token is chosen.
          position: the number of preceding tokens of the request.
        """
        if sampling.temperature == 0:
            return int(np.argmax(logits))
        top_k = min(sampling.top_k or self._vocabulary, self._vocabulary)
        seed = signed_seed(sampling.seed)
        temperature, top_p = np.float32(sampling.temperature), np.float32(sampling.top_p)
        _, outputs = self._executable({}, logits, temperature, top_k, top_p, seed, position)
        (token,) = outputs.values()
        return int(token)


@cache
def sampling_program(vocabulary: int) -> Program:
    """(R3) Returns the program that chooses one of `vocabulary` tokens.

    Its inputs are the logits f32 [vocabulary], temperature f32, top_k i64, top_p f32, seed i64 and step i64, which is
    the token's position; its output is the token, i64.
    """
    from repro_mlir.frontends.torch.generation.sampling import capture_sampling

    return program_of(capture_sampling(vocabulary))
