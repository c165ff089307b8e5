# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parts of tensors, from each rank to all others (T2)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ..errors import StepFailed
from .failures import FORM, describe, pack_failure, unpack_failure
from .ranks import Agreed, Ranks

_FORM = struct.Struct(f"<{FORM}")


def exchange_parts(
    ranks: Ranks,
    parts: Sequence[np.ndarray],
    shapes: Sequence[Sequence[tuple[int, ...]]],
    failure: BaseException | None,
) -> list[list[np.ndarray]]:
    """The parts that each rank has.

    Args:
      parts: those of this rank, contiguous; where it has failed, of any values.
      shapes: of each of them the shape on each rank.
      failure: why this rank has none; the others are told, and none has a result.
    Returns:
      of each part the arrays of all ranks.
    Raises:
      Agreed: a rank has failed; the cause is `failure` on this rank, a StepFailed on the others.
      RankLost: another rank is gone.
    """
    others = [peer for peer in range(ranks.size) if peer != ranks.rank]
    own = np.frombuffer(_FORM.pack(*pack_failure(describe(failure))), np.uint8).copy()
    said = {peer: np.empty(_FORM.size, np.uint8) for peer in others}
    found = [
        [part if rank == ranks.rank else np.empty(shape, part.dtype) for rank, shape in enumerate(each)]
        for part, each in zip(parts, shapes, strict=True)
    ]
    # A part without elements is no message.
    sends = [(peer, _bytes(part)) for peer in others for part in parts if part.size]
    receives = [(peer, _bytes(each[peer])) for peer in others for each in found if each[peer].size]
    ranks.transport.exchange([*((peer, own) for peer in others), *sends], [*said.items(), *receives])
    if failure is not None:
        raise Agreed from failure
    for peer, data in said.items():
        text = unpack_failure(*_FORM.unpack(data.tobytes()))
        if text:
            raise Agreed from StepFailed(f"rank {peer}: {text}")
    return found


def _bytes(array: np.ndarray) -> np.ndarray:
    # A scalar has no view of other elements.
    return array.reshape(-1).view(np.uint8)
