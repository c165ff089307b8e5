# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Batches as users give them: one after the other, and as arguments of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def as_arguments(batch: Any) -> tuple[Any, ...] | dict[str, Any]:
    """The arguments that a batch is: by name those of a mapping, in their order those of a tuple or list, else one."""
    if isinstance(batch, Mapping):
        return dict(batch)
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def repeated(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches again and again; once where they are an iterator, which cannot begin anew, or are none."""
    while True:
        iterator, is_empty = iter(batches), True
        for batch in iterator:
            is_empty = False
            yield batch
        if is_empty or iterator is batches:
            return
