# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The compressed gradients that ranks send instead of sums if this takes fewer bytes (T2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.distributed.ranks import Ranks
from repro_mlir.distributed.reduction import bytes_of_all
from repro_mlir.distributed.sums import SumLayout
from repro_mlir.program.microbatches import MicrobatchProgram
from repro_mlir.program.payload import Payload, packed_bytes, payload_of


def chosen_payload(program: MicrobatchProgram, ranks: Ranks, layout: SumLayout) -> Payload | None:
    """Returns the form in which a rank sends the gradients of each microbatch to all other ranks, if that takes fewer
    bytes than sending sums. None means that ranks send sums.

    Ranks also send sums if there is a `check_share`, because the checks compare sums, and if shares are measured,
    because a microbatch can then move to another rank.
    """
    if ranks.size == 1 or ranks.check_share or ranks.shares == "measured":
        return None
    sums = bytes_of_all(ranks, program.microbatches.leaves, layout)
    return payload_of(program, sums / ((ranks.size - 1) * program.microbatches.count))


def pack(tensors: Sequence[np.ndarray], kinds: Sequence[TensorType]) -> np.ndarray:
    """Returns the concatenated bytes of tensors; elements narrower than a byte are packed from the lowest bit up."""
    parts = [np.empty(0, np.uint8)]
    for array, kind in zip(tensors, kinds, strict=True):
        raw, width = np.ascontiguousarray(array).reshape(-1).view(np.uint8), ELEMENTS[kind.element].width
        if width < 8:
            bits = np.unpackbits(raw[:, np.newaxis], axis=1, count=width, bitorder="little")
            raw = np.packbits(bits.reshape(-1), bitorder="little")
        parts.append(raw)
    return np.concatenate(parts)


def unpack(data: np.ndarray, kinds: Sequence[TensorType]) -> list[np.ndarray]:
    """Returns the tensors from the bytes that `pack` returned."""
    found, begin = [], 0
    for kind in kinds:
        size, width = packed_bytes(kind.element, kind.shape), ELEMENTS[kind.element].width
        raw = data[begin : begin + size]
        begin += size
        if width < 8:
            bits = np.unpackbits(raw, count=math.prod(kind.shape) * width, bitorder="little")
            raw = np.packbits(bits.reshape(-1, width), axis=1, bitorder="little").reshape(-1)
        # The slice may be misaligned for its elements; its copy is aligned.
        found.append(raw.copy().view(kind.dtype).reshape(kind.shape))
    return found
