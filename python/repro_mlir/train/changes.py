# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Python values that changed between captures of a step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from repro_mlir.frontends import torch as frontend

if TYPE_CHECKING:
    from repro_mlir.frontends.torch import FlatBatch, Form, Subject, TorchBindings
    from repro_mlir.train.captured_step import Known


class Changes:
    """Counts the captures that a changed Python value caused."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._told: set[str] = set()

    @property
    def again(self) -> frozenset[str]:
        """The names of the values that changed more than once, on which the next program should not depend."""
        return frozenset(name for name, count in self._counts.items() if count > 1)

    def note(self, subject: Subject, batch: FlatBatch, last: tuple[Form, Known] | None) -> None:
        """Called before a capture: counts the values that changed since the previous step and thereby caused it."""
        if last is None:
            return
        form, known = last
        captured = known.captured
        changing = captured.changing
        now = frontend.form_of(subject, captured.structure, batch, changing, captured.recording)
        # Equal forms leave only one cause: a number that is an input changed, although the step needs its value.
        self._counts.update(frontend.changed_values(form, now) if form != now else [*changing.asked()])

    def warning(self, captured: TorchBindings) -> str | None:
        """Returns a warning for a value that keeps causing captures although the program could not make it an input."""
        names = (name for name, count in self._counts.items() if count > 1 + (name in captured.changing.names))
        for name in sorted({*names} - self._told):
            self._told.add(name)
            line = captured.changing.asked().get(name)
            where = f", and {line} asks for its value" if line else ""
            return (
                f"{name} has changed again{where}: each value has a program, which is captured and compiled; "
                "expected a tensor of the batch or a buffer of the model in its place"
            )
        return None
