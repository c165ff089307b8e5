# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a language model that generates is named by, whoever runs it and for however many requests at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro_mlir.generation.sampling import sampling_program
from repro_mlir.numerics.hashing import state_hash
from repro_mlir.precision.cache_format import cache_format, format_text

if TYPE_CHECKING:
    import torch

    from repro_mlir.precision.formats import Format


@dataclass(frozen=True)
class ModelIdentity:
    """The names of what gives the tokens of a request, in hexadecimal.

    Attributes:
      weights: the hash (H3) of the model's parameters and buffers, in the order of the program.
      program: the identity (H2) of the program that reads one token of one request.
      choice: the identity (H2) of the program that chooses a token (R3).
      capacity: how many tokens a request has at most; the shapes of the program follow from it.
      vocabulary: how many tokens there are.
      cache: (K7) the format of keys and values in JSON, which the program has too; None: f32.
    """

    weights: str
    program: str
    choice: str
    capacity: int
    vocabulary: int
    cache: str | None = None


def identity_of(
    model: torch.nn.Module, capacity: int, cache: Format | str | Mapping[str, Any] | None = None
) -> ModelIdentity:
    """The identity of a model, which no slots, chunks, targets or threads of a `Generator` have a part in.

    Args:
      model, capacity, cache: as for `Generator`.
    Raises:
      ReproError: as `Generator`.
    """
    from repro_mlir.frontends.torch.cached_attention import capture_one_request

    format = None if cache is None else cache_format(cache)
    token, caches = capture_one_request(model, capacity, format)
    (logits,) = token.outputs
    vocabulary = logits.shape[-1]
    weights = state_hash(
        (value, kind.element) for kind, value in zip(token.state, token.initial, strict=True) if kind.name not in caches
    )
    choice = sampling_program(vocabulary).hash
    return ModelIdentity(
        weights, token.hash, choice, capacity, vocabulary, None if format is None else format_text(format)
    )
