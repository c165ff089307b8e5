# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Keeps track of changed Python values that cause a step to be captured again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from repro_mlir.frontends import torch as frontend

if TYPE_CHECKING:
    from repro_mlir.frontends.torch import FlatBatch, Form, Subject, TorchBindings
    from repro_mlir.train.captured_step import Known


class Changes:
    """Counts, for each Python value, the captures that its change has caused."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._told: set[str] = set()

    @property
    def again(self) -> frozenset[str]:
        """The names of the values that have changed more than once. The next capture makes such values inputs of the
        program, if possible."""
        return frozenset(name for name, count in self._counts.items() if count > 1)

    def note(self, subject: Subject, batch: FlatBatch, last: tuple[Form, Known] | None) -> None:
        """Counts the values whose change since the previous step causes this capture. Called before each capture."""
        if last is None:
            return
        form, known = last
        captured = known.captured
        changing = captured.changing
        now = frontend.form_of(subject, captured.structure, batch, changing, captured.recording)
        # If the forms are equal, the changed value is a number that is already an input, but the step needs its value
        # as a constant.
        self._counts.update(frontend.changed_values(form, now) if form != now else [*changing.asked()])

    def warning(self, captured: TorchBindings) -> str | None:
        """Returns a warning if the changes of a value keep causing captures, because it could not become an input of
        the program. None if there is no such value, or a warning has been given for it."""
        names = (name for name, count in self._counts.items() if count > 1 + (name in captured.changing.names))
        for name in sorted({*names} - self._told):
            self._told.add(name)
            line = captured.changing.asked().get(name)
            where = f", and {line} asks for its value" if line else ""
            return (
                f"{name} has changed again{where}: each value needs a program, which is captured and compiled; "
                "use a tensor of the batch or a buffer of the model instead"
            )
        return None
