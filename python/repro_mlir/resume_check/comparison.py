# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the first step at which a record differs from another one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from repro_mlir.resume_check.records import UNREADABLE, Key, Record, Step


@dataclass(frozen=True)
class Values:
    """The values of an entry that differ; None where the entry is absent.

    Attributes:
      step: the first step, of the record that is expected, before which the values differ.
      expected: the value in the record that is expected.
      actual: the value in the other record.
    """

    step: int
    expected: str | None
    actual: str | None


@dataclass(frozen=True)
class Batch:
    """A batch that differs.

    Attributes:
      step: the first step with another batch.
      same_as: the step of the expected record that has this batch; None if there is none.
      positions: the loader and the expected and actual number of the batch in the loader's iteration, if they differ.
      is_input: whether the input of a module differs; else only a DataLoader returned another batch.
    """

    step: int
    same_as: int | None
    positions: tuple[str, int, int] | None
    is_input: bool


@dataclass(frozen=True)
class Difference:
    """The first step of two records that differs in the state or the gradients.

    Attributes:
      step: the number of the step in the record that is expected.
      is_end: whether only the state after the last step differs.
      state: the entries that differ before this step or an earlier one.
      batch: the first other batch, up to this step.
      gradients: the names of the gradients that differ, by optimizer and parameter.
    """

    step: int
    is_end: bool
    state: dict[Key, Values]
    batch: Batch | None
    gradients: list[str]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
      difference: the first difference, or None.
      unused: entries that differ without an effect, such as the state of a generator.
      unread: entries that were not compared, because both records have no values of them.
      unread_gradients: the names of gradients that were not compared, by optimizer and parameter.
    """

    difference: Difference | None
    unused: dict[Key, Values]
    unread: list[Key]
    unread_gradients: list[str]


def compare(expected: Record, actual: Record, offset: int = 0) -> Comparison:
    """Compares the steps of `actual` with the steps of `expected` that follow the first `offset` steps. Steps that only
    one record has are ignored.

    Args:
      expected: the record of the whole run.
      actual: the record of a part of the run.
      offset: the number of steps of `expected` that precede the first step of `actual`.
    """
    found: dict[Key, Values] = {}
    unread: dict[Key, None] = {}
    unread_gradients: dict[str, None] = {}
    batch: Batch | None = None
    difference = None
    for whole, part in zip(islice(expected.steps(), offset, None), actual.steps(), strict=False):
        if whole.is_end != part.is_end:
            break
        for key in _differing(whole, part):
            found.setdefault(key, Values(whole.number, whole.state.get(key), part.state.get(key)))
        unread.update((key, None) for key in whole.state if whole.state[key] == UNREADABLE == part.state.get(key))
        batch = batch or _other_batch(expected, whole, part)
        common = [name for name in part.gradients if name in whole.gradients]
        gradients = [name for name in common if part.gradients[name] != whole.gradients[name]]
        unread_gradients.update((name, None) for name in common if part.gradients[name] == UNREADABLE)
        if gradients or any(key.is_effective for key in found):
            difference = Difference(whole.number, whole.is_end, found, batch, gradients)
            break
    return Comparison(difference, {} if difference else found, [*unread], [*unread_gradients])


def _differing(whole: Step, part: Step) -> list[Key]:
    """Returns the entries that differ. A model or an optimizer that only one of the steps knows is ignored, unless it
    is the optimizer that makes the step: the other process may not have called that model yet. Schedulers and scalers
    are known as soon as the script has created them."""
    keys = dict.fromkeys([*whole.state, *part.state])
    owners = {_owner(key) for key in whole.state} & {_owner(key) for key in part.state}
    owners |= {("hyper-parameter", each.optimizer) for each in (whole, part)}
    owners |= {_owner(key) for key in keys if key.kind in ("scheduler", "scaler")}
    differing = [key for key in keys if whole.state.get(key) != part.state.get(key) and _owner(key) in owners]
    # A variable that one of the processes has not assigned yet is not a difference.
    return [key for key in differing if key.kind != "variable" or (key in whole.state and key in part.state)]


def _owner(key: Key) -> tuple[str, str]:
    # Before the first step, the state of an optimizer has no entries; its hyper-parameters show that it is known.
    kind = "hyper-parameter" if key.kind == "optimizer state" else key.kind
    return kind, key.owner


def _other_batch(expected: Record, whole: Step, part: Step) -> Batch | None:
    positions = None
    if whole.data and part.data and whole.data[0][0] == part.data[0][0] and whole.data[0][1] != part.data[0][1]:
        positions = (part.data[0][0], whole.data[0][1], part.data[0][1])
    if whole.inputs and part.inputs and whole.inputs[0] != part.inputs[0]:
        return Batch(whole.number, expected.batches.get(part.inputs[0][1]), positions, is_input=True)
    if whole.inputs[1:] != part.inputs[1:] or [each[2] for each in whole.data] != [each[2] for each in part.data]:
        return Batch(whole.number, None, positions, is_input=False)
    return None
