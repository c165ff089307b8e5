# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Names the causes of a difference between two records, and how a script restores what it has not restored."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from repro_mlir.resume_check.comparison import Batch, Comparison, Difference, Values
from repro_mlir.resume_check.records import Key, Record

_SHOWN = 3
"""The number of names that a line lists."""

_DIGEST = re.compile("[0-9a-f]{24}")

_RESTORE = {
    "parameter": "load the model's state_dict before the first step, and save it after the last optimizer step",
    "buffer": "load the model's state_dict, which contains its buffers; a copy of only the parameters does not",
    "non-persistent buffer": "no state_dict contains this buffer: register it with persistent=True, or save it too",
    "optimizer state": "save optimizer.state_dict() and call optimizer.load_state_dict() before the first step",
    "scheduler": "save scheduler.state_dict() and call scheduler.load_state_dict() before the first step",
    "hyper-parameter": "call optimizer.load_state_dict() after the scheduler is created, and load the scheduler too",
    "scaler": "save scaler.state_dict() and call scaler.load_state_dict() before the first step",
    "attribute": "save the attribute, or register it as a buffer; model.train() sets `training`",
    "variable": "save the variable with the checkpoint",
    "data order": "skip the batches that the epoch has used (accelerate.skip_first_batches), "
    "in the order that it began with",
    "unseen": "look for state outside of PyTorch: Python objects, files, the time; or for operations that are not "
    "deterministic (torch.use_deterministic_algorithms)",
}

_SEED = {
    "parameter": "call torch.manual_seed before the model is created",
    "buffer": "call torch.manual_seed before the model is created",
    "rng": "seed this generator at the begin of the script",
    "data order": "seed the generator that chooses the order of the data",
    "unseen": _RESTORE["unseen"],
}
"""How a script becomes reproducible."""

_GENERATORS = (
    ("PyTorch's CPU", "torch.get_rng_state() and torch.set_rng_state()"),
    ("PyTorch's generator of cuda", "torch.cuda.get_rng_state_all() and torch.cuda.set_rng_state_all()"),
    ("PyTorch's generator of mps", "torch.mps.get_rng_state() and torch.mps.set_rng_state()"),
    ("NumPy's", "numpy.random.get_state() and numpy.random.set_state()"),
    ("Python's", "random.getstate() and random.setstate()"),
    ("the generator", "its get_state() and set_state(), or bit_generator.state of a numpy.random.Generator"),
)

_ORDER = (
    *("parameter", "buffer", "non-persistent buffer", "optimizer state", "scheduler", "hyper-parameter", "scaler"),
    *("data order", "rng", "data", "attribute", "variable", "unseen"),
)
"""The kinds of findings: state that the checkpoint lacks first, then causes before their effects. "data order" is a
batch that is known to have another place; "data" is another batch, which a generator may have chosen."""

_NAMES = {
    "parameter": "parameters",
    "buffer": "buffers",
    "non-persistent buffer": "non-persistent buffers",
    "hyper-parameter": "hyper-parameters",
    "rng": "random numbers",
    "data": "data",
    "attribute": "attributes of modules",
    "variable": "variables of the script",
    "unseen": "unknown cause",
}


@dataclass(frozen=True)
class Finding:
    """A kind of state that differs.

    Attributes:
      kind: one of "parameter", "buffer", "non-persistent buffer", "optimizer state", "hyper-parameter", "scheduler",
        "scaler", "data order", "data", "rng", "attribute", "variable", "unseen".
      step: the first step before which the state differs.
      names: the qualified names of all entries that differ.
      text: the finding in words.
      hint: how the script restores this state, or how it becomes reproducible; may be empty.
    """

    kind: str
    step: int
    names: tuple[str, ...]
    text: str
    hint: str = ""

    @property
    def title(self) -> str:
        return _NAMES.get(self.kind, self.kind)

    def report(self) -> dict[str, object]:
        """Returns the finding for JSON."""
        return {
            "kind": self.kind,
            "step": self.step,
            "names": [*self.names],
            "text": self.text,
            "hint": self.hint,
        }


def causes_of_resume(difference: Difference, whole: Record, noise: Collection[Key]) -> list[Finding]:
    """Returns the causes for which a resumed run differs, the most probable cause first, with hints how to restore the
    state.

    Args:
      difference: the difference.
      whole: the record that is expected, for names and for the entries that change during the run.
      noise: entries that differ between equal runs, such as times.
    """
    hints = {**_RESTORE, "data": _RESTORE["data order"]}
    return [
        replace(each, hint=_restore_generator(each) if each.kind == "rng" else hints[each.kind])
        for each in causes(difference, whole, noise)
    ]


def causes_of_repetition(difference: Difference, whole: Record) -> list[Finding]:
    """Returns the causes for which two runs of the same command differ, the most probable cause first, with hints how
    to make the script reproducible."""
    hints = {**_SEED, "data": _SEED["data order"]}
    return [
        replace(each, hint=hints.get(each.kind, hints["unseen"])) for each in causes(difference, whole, frozenset())
    ]


def causes(difference: Difference, whole: Record, noise: Collection[Key]) -> list[Finding]:
    """Returns the causes of a difference, the most probable cause first, without hints."""
    findings = _state_findings(difference.state, whole, noise)
    if difference.batch is not None and difference.batch.is_input:
        findings.append(_of_batch(difference.batch))
    certain = [each for each in findings if each.kind != "variable"]
    if not certain and difference.batch is not None:
        certain = [_of_batch(difference.batch)]
    findings = certain or findings
    if not findings:
        text = f"equal state and equal data gave other {'parameters' if difference.is_end else 'gradients'}"
        findings = [Finding("unseen", difference.step, (), text)]
    return sorted(findings, key=lambda each: _ORDER.index(each.kind))


def without_effect(found: dict[Key, Values], whole: Record, noise: Collection[Key]) -> list[Finding]:
    """Returns the findings of state that differs without an effect on the steps that were run."""
    kept = [each for each in _state_findings(found, whole, noise) if each.kind != "variable"]
    return [
        replace(each, hint=_restore_generator(each) if each.kind == "rng" else _RESTORE[each.kind]) for each in kept
    ]


def gradient_names(gradients: Iterable[str], whole: Record) -> list[str]:
    """Returns the names of the parameters of gradients that a comparison names by optimizer and parameter."""
    return [whole.labels.get(name, name.replace("\t", " ")) for name in gradients]


def unread_names(found: Comparison, whole: Record) -> list[str]:
    """Returns the names of the state and the gradients that a comparison could not read."""
    gradients = (f"gradient of {name}" for name in gradient_names(found.unread_gradients, whole))
    return [*(_name(key, whole) for key in found.unread), *gradients]


def _state_findings(found: dict[Key, Values], whole: Record, noise: Collection[Key]) -> list[Finding]:
    kinds: dict[str, dict[Key, Values]] = {}
    for key, values in found.items():
        # A generator that nothing draws from, and a variable that never changes, are not the cause.
        is_still = key.kind in ("rng", "variable") and whole.moving.get(key, 0) <= values.step
        if key.is_effective or (key not in noise and not is_still):
            kinds.setdefault(key.kind, {})[key] = values
    findings = []
    for kind, entries in kinds.items():
        # Each generator has a finding of its own.
        groups = [{key: values} for key, values in entries.items()] if kind == "rng" else [entries]
        findings += [_of_entries(kind, group, whole) for group in groups]
    return findings


def _of_entries(kind: str, entries: dict[Key, Values], whole: Record) -> Finding:
    names = tuple(_name(key, whole) for key in entries)
    step = min(values.step for values in entries.values())
    if kind == "rng":
        return Finding(kind, step, names, f"the state of {names[0]} differs before step {step}")
    shown = [_shown(name, values) for name, values in zip(names, entries.values(), strict=True)]
    return Finding(kind, step, names, f"before step {step}: {listed(shown)}")


def _restore_generator(finding: Finding) -> str:
    calls = next(text for prefix, text in _GENERATORS if finding.names[0].startswith(prefix))
    return f"save and restore it with {calls}"


def _name(key: Key, whole: Record) -> str:
    if key.kind == "rng":
        return key.owner
    if key.kind in ("scheduler", "scaler", "hyper-parameter"):
        return f"{key.name} of {key.owner}"
    if key.kind == "variable":
        return key.name if key.owner == "<module>" else f"{key.name} in {key.owner}"
    label = whole.labels.get(f"{key.owner}\t{key.name}") or f"{whole.labels.get(key.owner, key.owner)}.{key.name}"
    return f"{key.part} of {label}" if key.part else label


def _shown(name: str, values: Values) -> str:
    if values.actual is None:
        return f"{name} is absent"
    if values.expected is None:
        return f"{name} is present, expected none"
    if _DIGEST.search(values.actual) or _DIGEST.search(values.expected):
        return name
    return f"{name} is {values.actual}, expected {values.expected}"


def _of_batch(batch: Batch) -> Finding:
    parts = []
    if batch.same_as is not None:
        parts.append(f"the batch of step {batch.step} is that of step {batch.same_as}")
    else:
        what = "the input of the model" if batch.is_input else "the batch or a later input of a module"
        parts.append(f"{what} differs at step {batch.step}")
    names: tuple[str, ...] = ()
    if batch.positions is not None:
        loader, expected, actual = batch.positions
        names = (loader,)
        parts.append(f"{loader} gave batch {actual} of its iteration, expected batch {expected}")
    is_known = batch.same_as is not None or batch.positions is not None
    return Finding("data order" if is_known else "data", batch.step, names, "; ".join(parts))


def listed(names: Iterable[str]) -> str:
    """Returns the first names and the number of the others."""
    names = [*names]
    text = "; ".join(names[:_SHOWN])
    return f"{text} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else text
