# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Conversion of the user's batches to model arguments, and repetition of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def as_arguments(batch: Any) -> tuple[Any, ...] | dict[str, Any]:
    """Returns the model arguments in a batch: a mapping contains keyword arguments, a tuple or list contains positional
    arguments, and any other batch is itself the only argument."""
    if isinstance(batch, Mapping):
        return dict(batch)
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def repeated(batches: Iterable[Any]) -> Iterator[Any]:
    """Repeats the batches forever; stops after one pass if `batches` is empty or an iterator, which cannot restart."""
    while True:
        iterator, is_empty = iter(batches), True
        for batch in iterator:
            is_empty = False
            yield batch
        if is_empty or iterator is batches:
            return
