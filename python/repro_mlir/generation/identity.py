# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a language model that generates is named by, whoever runs it and for however many requests at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro_mlir.generation.sampling import sampling_program
from repro_mlir.numerics.hashing import state_hash

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ModelIdentity:
    """The names of what gives the tokens of a request, in hexadecimal.

    Attributes:
      weights: the hash (H3) of the model's parameters and buffers, in the order of the program.
      program: the identity (H2) of the program that reads one token of one request.
      choice: the identity (H2) of the program that chooses a token (R3).
      capacity: how many tokens a request has at most; the shapes of the program follow from it.
      vocabulary: how many tokens there are.
    """

    weights: str
    program: str
    choice: str
    capacity: int
    vocabulary: int


def identity_of(model: torch.nn.Module, capacity: int) -> ModelIdentity:
    """The identity of a model, which no slots, chunks, targets or threads of a `Generator` have a part in.

    Args:
      model, capacity: as for `Generator`.
    Raises:
      ReproError: as `Generator`.
    """
    from repro_mlir.frontends.torch.cached_attention import capture_one_request

    token, caches = capture_one_request(model, capacity)
    (logits,) = token.outputs
    vocabulary = logits.shape[-1]
    weights = state_hash(
        (value, kind.element) for kind, value in zip(token.state, token.initial, strict=True) if kind.name not in caches
    )
    return ModelIdentity(weights, token.hash, sampling_program(vocabulary).hash, capacity, vocabulary)
