# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads the records that recorder.py writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign

EFFECTIVE = frozenset({"parameter", "buffer", "optimizer state", "hyper-parameter", "scheduler", "scaler"})
"""The kinds of state that determine the following steps. Random number generators, buffers that no state_dict contains,
attributes and variables do so only if the script uses them."""

UNREADABLE = "unreadable"
"""The value of an entry whose tensor has no values that PyTorch can read; recorder.py has the same text."""


@dataclass(frozen=True)
class Key:
    """The name of an entry of the state.

    Attributes:
      kind: one of `EFFECTIVE`, or "rng", "non-persistent buffer", "attribute", "variable".
      owner: the optimizer, model, scheduler, scaler, generator or function to which the entry belongs.
      name: the name of the entry within the owner; a parameter of an optimizer has group and index, as "0.3".
      part: the name of the entry of an optimizer's state, such as "momentum_buffer"; else "".
    """

    kind: str
    owner: str
    name: str
    part: str = ""

    @property
    def is_effective(self) -> bool:
        return self.kind in EFFECTIVE


@dataclass(frozen=True)
class Step:
    """A step of a record.

    Attributes:
      number: counts from 1; the end of the process has the number after the last step.
      state: the value or digest of each entry before the step; the next step changes this dictionary.
      changed: the entries with another value than before the last step.
      inputs: class and digest of the arguments of each call of a module.
      data: DataLoader, position in its iteration and digest of each batch that DataLoaders have returned.
      gradients: the digest of each gradient, by optimizer and parameter.
      optimizer: the owner, in the keys of the state, that makes the step; "" at the end of the process.
      is_end: whether this is the end of the process.
    """

    number: int
    state: dict[Key, str]
    changed: frozenset[Key]
    inputs: list[tuple[str, str]] = field(default_factory=list)
    data: list[tuple[str, int, str]] = field(default_factory=list)
    gradients: dict[str, str] = field(default_factory=dict)
    optimizer: str = ""
    is_end: bool = False


class Record:
    """The record of one run.

    Attributes:
      path: the file.
      count: the number of steps.
      labels: the name of a parameter in the script's model, by optimizer and index; also the name of a model.
      batches: the steps by the digest of the first input, the earliest step of each.
      moving: the last step before which an entry of the state changed.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file once. Raises ReproError if the recorder failed or reached its limit."""
        self.path = path
        self.count = 0
        self.labels: dict[str, str] = {}
        self.batches: dict[str, int] = {}
        self.moving: dict[Key, int] = {}
        for step in self._steps(self._checked_lines()):
            self.moving.update(dict.fromkeys(step.changed, step.number))
            if not step.is_end:
                self.count = step.number
            if step.inputs:
                self.batches.setdefault(step.inputs[0][1], step.number)

    def _checked_lines(self) -> Iterator[dict[str, Any]]:
        for line in self._lines():
            if line.get("full"):
                raise ReproError(
                    f"{self.path.stem}: the record of its state has reached {self.path.stat().st_size >> 20} MiB; "
                    "expected fewer steps (--steps)"
                )
            if "failed" in line:
                raise ReproError(f"{self.path.stem}: the recorder failed: {foreign(str(line['failed']))}")
            self.labels.update(line.get("labels", {}))
            yield line

    def steps(self) -> Iterator[Step]:
        """Yields the steps, and at last the end of the process if it is recorded."""
        return self._steps(self._lines())

    @staticmethod
    def _steps(lines: Iterator[dict[str, Any]]) -> Iterator[Step]:
        state: dict[Key, str] = {}
        number = 0
        for line in lines:
            if "state" not in line:
                continue
            number += 1
            changes = {Key(*text.split("\t", 3)): value for text, value in line["state"].items()}
            changed = frozenset(key for key, value in changes.items() if key in state and value is not None)
            for key, value in changes.items():
                if value is None:
                    del state[key]
                else:
                    state[key] = value
            yield Step(
                number,
                state,
                changed,
                [tuple(each) for each in line.get("inputs", [])],
                [tuple(each) for each in line.get("data", [])],
                line.get("gradients", {}),
                line.get("optimizer", ""),
                "end" in line,
            )

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as file:
            for text in file:
                # A process that is killed leaves a part of a line at the end.
                if text.endswith(b"\n"):
                    yield json.loads(text)
