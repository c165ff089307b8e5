# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The identity of a language model that generates text, which does not depend on the machine or on the number of
requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.base.output_paths import refuse_inside_receipt
from repro_mlir.generation.sampling import sampling_program
from repro_mlir.precision.cache_format import cache_format, format_text
from repro_mlir.program import Program

if TYPE_CHECKING:
    import torch

    from repro_mlir.precision.formats import Format


@dataclass(frozen=True)
class ModelIdentity:
    """The hashes that determine the tokens of a request, in hexadecimal.

    Attributes:
      weights: the hash (H3) of the model's parameters and buffers, in the order of the program.
      program: the identity (H2) of the program that reads one token of one request.
      choice: the identity (H2) of the program that chooses a token (R3).
      capacity: the maximum number of tokens per request, which determines the shapes of the program.
      vocabulary: the number of tokens in the vocabulary.
      cache: (K7) the format of keys and values in JSON, which is also part of the program; None for f32.
    """

    weights: str
    program: str
    choice: str
    capacity: int
    vocabulary: int
    cache: str | None = None


@dataclass(frozen=True)
class WeightTensor:
    """A tensor that the hash `weights` covers.

    Attributes:
      name: the name in the model.
      transposed: whether the tensor's two dimensions are exchanged before it is hashed.
      element: the element type.
      shape: the shape that is hashed.
      hash: the hash (H1), in hexadecimal.
    """

    name: str
    transposed: bool
    element: str
    shape: tuple[int, ...]
    hash: str


@dataclass(frozen=True)
class ModelPrograms:
    """The programs and weights that a `ModelIdentity` hashes, together with the hashes.

    Attributes:
      identity: the hashes.
      program: the program that reads one token of one request.
      choice: the program that chooses a token.
      weights: the model's tensors, in the order of the program.
    """

    identity: ModelIdentity
    program: Program
    choice: Program
    weights: tuple[WeightTensor, ...]

    def write(self, folder: str | Path) -> None:
        """Writes both programs in the stored form (docs/verification/identity.md), and a list of the weights, into a
        new folder.

        Raises ReproError if the folder exists or cannot be written.
        """
        refuse_inside_receipt(folder)
        try:
            Path(folder).mkdir()
        except OSError as error:
            raise ReproError(f"{folder}: cannot create the folder: {error.strerror}") from None
        write_file(Path(folder) / "program.repro", self.program.data)
        write_file(Path(folder) / "choice.repro", self.choice.data)
        listed = json.dumps([asdict(each) for each in self.weights], indent=1) + "\n"
        write_file(Path(folder) / "weights.json", listed.encode())


def identity_of(
    model: torch.nn.Module, capacity: int, cache: Format | str | Mapping[str, Any] | None = None
) -> ModelIdentity:
    """Returns the identity of a model, which does not depend on the slots, chunk, target or threads of a `Generator`.

    Args:
      model, capacity, cache: as for `Generator`.
    Raises:
      ReproError: as for `Generator`.
    """
    return programs_of(model, capacity, cache).identity


def programs_of(
    model: torch.nn.Module, capacity: int, cache: Format | str | Mapping[str, Any] | None = None
) -> ModelPrograms:
    """Returns the identity of a model together with the programs and tensors that it covers. Arguments and errors as
    for `identity_of`."""
    from repro_mlir.frontends.torch.generation.cached_attention import capture_one_request

    format = None if cache is None else cache_format(cache)
    program, names = capture_one_request(model, capacity, format)
    (logits,) = program.outputs
    vocabulary = logits.shape[-1]
    weights, digests = [], []
    for kind, value in zip(program.state, program.initial, strict=True):
        if kind.name in names:
            name, is_transposed = names[kind.name]
            digests.append(tensor_digest(value, kind.element))
            weights.append(WeightTensor(name, is_transposed, kind.element, kind.shape, digests[-1].hex()))
    choice = sampling_program(vocabulary)
    identity = ModelIdentity(
        combine_digests(digests),
        program.hash,
        choice.hash,
        capacity,
        vocabulary,
        None if format is None else format_text(format),
    )
    return ModelPrograms(identity, program, choice, tuple(weights))
