# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the documentation of a trained model as a page of HTML for printing, without scripts of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import count_of
from repro_mlir.pages import document, escaped
from repro_mlir.verification.exports.declared import Declared
from repro_mlir.verification.exports.facts import Facts, File
from repro_mlir.verification.receipts.form import SEAL, STEPS

_FOLDER = Path(__file__).parent
_MOST = 4
"""The maximum number of programs, changes and batches that the page lists, so that it fits on one sheet of paper.
steps.jsonl and receipt.json contain all of them."""
_MOST_VALUES = 16
"""The maximum number of hyper-parameters, and of entries of the environment, that the page lists."""


@dataclass(frozen=True)
class Prediction:
    """The predicted cost of all steps of a run on a machine.

    Attributes:
      machine: the name of the machine.
      threads: the number of threads of a step; None on a GPU.
      seconds: the time of all steps.
      joules: the energy of all steps; None if the power of the machine is unknown.
    """

    machine: str
    threads: int | None
    seconds: float
    joules: float | None


def model_page(facts: Facts, declared: Declared, prediction: Prediction | None, created: str | None) -> str:
    """Returns the page as HTML text.

    Args:
      declared: what the author declares, in a section of its own.
      prediction: the predicted cost of the steps, which the page labels as predicted; None to omit it.
      created: the time that the page states as its creation; None to state none.
    """
    title = declared.name or f"Model {facts.seal.state_hash[:16]}"
    sections = (
        ("Model", _model(facts)),
        ("Training", _training(facts)),
        ("Hyper-parameters", _hyper_parameters(facts)),
        ("Data", _data(facts)),
        ("Declared by the writer of the receipt", _unchecked(facts)),
        ("Time and energy, predicted and not measured", _predicted(prediction)),
        ("Declared by the author", _declared(declared, created)),
        ("Evidence", _evidence(facts)),
    )
    body = "".join(f"<section><h2>{name}</h2>{table}</section>" for name, table in sections if table)
    note = (
        "This page shows what the files of the receipt state, and they agree with each other. "
        "<code>repro verify</code> checks the statements by computing steps again. The sections whose titles say "
        "declared or predicted contain what no verification checks. A receipt does not contain the purpose, the "
        "evaluation or the limits of the model, nor the origin of its data."
    )
    return document(title, f"<h1>{escaped(title)}</h1><p>{note}</p><main>{body}</main>", None, [_FOLDER / "page.css"])


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    """Returns a table of names and values. Names are text, values are HTML."""
    lines = "".join(f"<tr><th scope=row>{escaped(name)}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table>{lines}</table>" if lines else ""


def _code(text: str) -> str:
    return f"<code>{escaped(text)}</code>"


def _of_file(file: File) -> str:
    return f"{_code(file.name)}, {count_of(file.size, 'byte')}, SHA-256 {_code(file.sha256)}"


def _shortened(rows: Sequence[tuple[str, str]], where: str, most: int = _MOST) -> list[tuple[str, str]]:
    left = len(rows) - most
    return [*rows[:most], *([("", f"and {left:,} more, which {_code(where)} lists")] if left > 0 else [])]


def _types(kinds: Iterable[TensorType]) -> str:
    return escaped(", ".join(map(str, kinds))) or "none"


def _model(facts: Facts) -> str:
    header, state = facts.header, facts.header.state
    elements = sum(kind.nbytes // kind.dtype.itemsize for kind in state)
    programs = [
        (
            f"program {i + 1}",
            f"{_code(listed.identity)} (H2), {count_of(steps, 'step')}; inputs: "
            f"{_types(listed.signature.inputs[listed.signature.num_hyper_parameters :])}; outputs: "
            f"{_types(listed.signature.outputs)}",
        )
        for i, (listed, steps) in enumerate(zip(header.programs, facts.steps_of, strict=True))
    ]
    rows = [
        ("last state", f"{_code(facts.seal.state_hash)} (H3)"),
        ("file", _of_file(facts.result)),
        (
            "size",
            f"{count_of(len(state), 'tensor')} with {count_of(elements, 'element')}, parameters and state of the "
            "optimizer together",
        ),
    ]
    return _rows([*rows, *_shortened(programs, "receipt.json")])


def _training(facts: Facts) -> str:
    header, failed = facts.header, facts.taken - len(facts.batches)
    changes = [(f"change {i + 1}", _of_file(file)) for i, file in enumerate(facts.changes)]
    return _rows(
        [
            ("steps", f"{facts.seal.steps:,}"),
            ("initial state", f"root {_code(header.initial)} (C3); {_of_file(facts.initial)}"),
            ("changes of the state by the user", f"{len(facts.changed):,}"),
            *_shortened(changes, STEPS),
            ("loss", f"{facts.first_loss or 'none'} in the first step, {facts.last_loss or 'none'} in the last step"),
            ("batches whose step failed", f"{failed:,}"),
            ("rules", f"numerics {header.numerics}; at a loss that is not finite: {escaped(header.nonfinite_loss)}"),
        ]
    )


def _hyper_parameters(facts: Facts) -> str:
    if not facts.hyper_parameters:
        return "<p>No hyper-parameter is an input of the steps. All are constants of the programs.</p>"
    found = [(each.name, escaped(str(each))) for each in facts.hyper_parameters]
    return _rows([*_shortened(found, "receipt.json", _MOST_VALUES), ("others", "constants of the programs")])


def _data(facts: Facts) -> str:
    stored = "in the receipt" if facts.header.stored else "not in the receipt; their hashes are"
    listed = [
        (f"batch {batch.number}", "; ".join(f"{escaped(name)} {_code(digest.hex())}" for name, digest in batch.tensors))
        for batch in facts.batches
    ]
    return _rows(
        [
            ("batches", f"{len(facts.batches):,}, of them {facts.different_batches:,} different, {stored}"),
            ("hash of all batches", f"{_code(facts.data_hash)} (H3)"),
            *_shortened(listed, STEPS),
        ]
    )


def _unchecked(facts: Facts) -> str:
    """Returns the fields of receipt.json that are for information only."""
    entries = [f"{name} {value}" for name, value in facts.header.environment.items()]
    left = len(entries) - _MOST_VALUES
    shown = ", ".join([*entries[:_MOST_VALUES], *([f"and {left:,} more"] if left > 0 else [])])
    script = facts.header.script
    return _rows(
        [
            *([("machine and software", escaped(shown))] if shown else []),
            *([] if script is None else [("script", f"{escaped(script[0])}, BLAKE3 {_code(script[1])}")]),
        ]
    )


def _predicted(prediction: Prediction | None) -> str:
    if prediction is None:
        return ""
    joules, threads = prediction.joules, prediction.threads
    energy = (
        "unknown: the machine file has no power" if joules is None else f"{joules:.3g} J ({joules / 3.6e6:.3g} kWh)"
    )
    return _rows(
        [
            ("machine", escaped(prediction.machine)),
            *([] if threads is None else [("threads", f"{threads:,}")]),
            ("time of all steps", f"{prediction.seconds:.3g} s"),
            ("energy of all steps", energy),
            ("method", "the roofline model of <code>repro roofline predict</code>; power of the machine under load"),
        ]
    )


def _declared(declared: Declared, created: str | None) -> str:
    rows = [(name, escaped(text)) for name, text in declared.made().items()]
    return _rows([*rows, *([("page written", escaped(created))] if created else [])])


def _evidence(facts: Facts) -> str:
    signer = "not signed" if facts.signed_by is None else f"ed25519 key {_code(facts.signed_by)}"
    return _rows(
        [
            ("last link of the chain", f"{_code(facts.seal.chain.hex())} (C5)"),
            ("signature of the receipt", signer),
            ("seal", _of_file(facts.files[SEAL])),
            ("check", _code(f"repro verify RECEIPT --chain {facts.seal.chain.hex()}")),
        ]
    )
