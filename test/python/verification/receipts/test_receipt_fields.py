# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes each number and string in a receipt's JSON in turn, and recomputes all hashes as a forger would.

Verification must refuse the receipt or report the field as not checked.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
from forgery import reseal
from repro_mlir import Receipt, ReceiptOptions, ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.verification.receipts.commitments import next_link
from repro_mlir.verification.receipts.form import Header, Record

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

Path_ = tuple[str | int, ...]

SCRIPT, INFORMATION = "are the intended ones: no script", "environment, data.script and checkpoint_every"

OPEN = {
    "receipt.json data.script.name": INFORMATION,
    "receipt.json data.script.blake3": INFORMATION,
    "receipt.json checkpoint_every": INFORMATION,
    "receipt.json environment.*": INFORMATION,
    "receipt.json run.nonfinite_loss": SCRIPT,
    "receipt.json run.microbatches_every": "microbatches_every (5 in the receipt): no option compares it",
    "receipt.json run.state[].unsigned": SCRIPT,
    "receipt.json programs[].inputs[].unsigned": SCRIPT,
    "receipt.json programs[].outputs[].unsigned": SCRIPT,
    "receipt.json programs[].num_hyper_parameters": SCRIPT,
    "steps.jsonl cursor": "batches without a step",
}
"""Fields that a verification without a script does not check, each with the text by which its report says so."""

REFUSED = {
    "receipt.json format",
    "receipt.json version",
    "receipt.json data.kind",
    "receipt.json run.numerics",
    "receipt.json run.initial",
    *(f"receipt.json run.state[].{field}" for field in ("name", "element", "shape[]")),
    *(f"receipt.json programs[].{role}[].{field}" for role in ("inputs", "outputs") for field in ("name", "element")),
    *(f"receipt.json programs[].{role}[].shape[]" for role in ("inputs", "outputs")),
    "receipt.json programs[].identity",
    "receipt.json programs[].blake3",
    *(f"steps.jsonl {field}" for field in ("step", "kind", "program", "root", "chain", "loss")),
    *(f"steps.jsonl {field}[]" for field in ("state", "inputs", "outputs", "microbatches")),
    *(f"seal.json {field}" for field in ("steps", "chain", "state_hash", "files.*.bytes", "files.*.blake3")),
}
"""All other fields: verification refuses any change of them."""

ADDED: dict[str, Any] = {
    "run.microbatches_every": 5,
    "run.state.0.unsigned": True,
    "programs.0.inputs.0.unsigned": True,
    "programs.0.outputs.0.unsigned": True,
}
"""Optional fields that the receipts of this test do not contain, with the values that the forger adds."""


def record(path: Path, **options: Any) -> Path:
    """Records a run of two steps, with a change of the state between them."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    script = path.with_suffix(".py")
    script.write_text("")
    every = options.pop("every", None)
    receipt = ReceiptOptions(path, checkpoint_every=1, script=script, microbatches_every=every)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.25)
    x, y = torch.arange(12.0).reshape(4, 3) / 8, torch.arange(4) % 2
    loss_fn = torch.nn.functional.cross_entropy
    with repro_mlir.Trainer(model, loss_fn, optimizer, threads=1, receipt=receipt, **options) as trainer:
        trainer.step(x, y)
        with torch.no_grad():
            model.bias.add_(1.0)
        trainer.step(x.flip(0), y)
    return path


def leaves(value: Any, at: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yields each value in a JSON value that is neither a dict nor a list, with its path."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            yield from leaves(each, (*at, key))
    else:
        yield at, value


def pattern(file: str, at: Path_) -> str:
    """Returns the name of a leaf's field, in which indices of lists and arbitrary keys are replaced."""
    text = "".join("[]" if isinstance(key, int) else f".{key}" for key in at).removeprefix(".")
    return f"{file} " + re.sub(r"^(environment)\..*|^(files)\..*(\.\w+)$", lambda m: _mapped(m), text)


def _mapped(match: re.Match[str]) -> str:
    return "environment.*" if match[1] else f"files.*{match[3]}"


def changed(value: Any) -> Any:
    """Returns a value that differs from `value`, but has the same type and format."""
    if isinstance(value, int):
        return value + 1
    if value in OTHERS:
        return OTHERS[value]
    if re.fullmatch("(?:[0-9a-f]{2})+", value):
        return value[:-1] + f"{int(value[-1], 16) ^ 1:x}"
    return value + "x"


OTHERS = {"stored": "external", "warn": "ignore", "step": "change", "change": "step", "f32": "i32", "i64": "f64"}


def put(value: Any, at: Path_, leaf: Any) -> Any:
    """Returns a copy of a JSON value in which the value at the path `at` is `leaf`."""
    value = copy.deepcopy(value)
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = leaf
    return value


def forge(path: Path, header: dict[str, Any], lines: list[dict[str, Any]], kept: str | None) -> None:
    """Writes the header and the records with recomputed hashes, except that the field `kept` of the records stays as it
    is."""
    names = [each["identity"] for each in json.loads((path / "receipt.json").read_bytes())["programs"]]
    data = canonical_json.dump(header)
    (path / "receipt.json").write_bytes(data)
    read = Header.load(data, "receipt.json")
    for before, after in zip(names, read.programs, strict=True):
        (path / f"programs/{before}.repro").rename(path / f"programs/{after.identity}.repro")
    link, written = read.first_link(), b""
    for number, line in enumerate(lines, 1):
        found = Record.load(canonical_json.dump(line), read, "line")
        root = line["root"] if kept == "root" else found.commitment.root.hex()
        link = bytes.fromhex(line["chain"]) if kept == "chain" else next_link(link, number, bytes.fromhex(root))
        written += canonical_json.dump(line | {"root": root, "chain": link.hex()}) + b"\n"
        state = found.commitment.state
    (path / "steps.jsonl").write_bytes(written)
    seal = json.loads((path / "seal.json").read_bytes())
    (path / "seal.json").write_bytes(
        canonical_json.dump(seal | {"chain": link.hex(), "state_hash": combine_digests(state)})
    )
    reseal(path)


def told(path: Path) -> str | None:
    """Returns the part of a verification's report that says what was not checked; None if the receipt is refused."""
    try:
        return "\n".join(repro_mlir.verify(path, target="reference", threads=1).not_checked)
    except ReproError:
        return None


@pytest.mark.parametrize("options", [{}, {"microbatches": 2, "every": 1}], ids=["whole", "microbatches"])
def test_every_leaf(tmp_path: Path, options: dict[str, Any]) -> None:
    whole = record(tmp_path / "run", **options)
    header = json.loads((whole / "receipt.json").read_bytes())
    lines = [json.loads(line) for line in (whole / "steps.jsonl").read_bytes().splitlines()]
    seal = json.loads((whole / "seal.json").read_bytes())
    cases: list[tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, Any] | None, str | None]] = []
    for at, leaf in leaves(header):
        cases.append((pattern("receipt.json", at), put(header, at, changed(leaf)), lines, None, None))
    for name, leaf in ADDED.items():
        at = tuple(int(key) if key.isdigit() else key for key in name.split("."))
        if leaf != 5 or "every" not in options:
            cases.append((pattern("receipt.json", at), put(header, at, leaf), lines, None, None))
    for at, leaf in leaves(lines):
        field = str(at[1])
        cases.append((pattern("steps.jsonl", at[1:]), header, put(lines, at, changed(leaf)), None, field))
    for at, leaf in leaves(seal):
        cases.append((pattern("seal.json", at), header, lines, put(seal, at, changed(leaf)), None))
    found: dict[str, set[str | None]] = {}
    tried = Counter[str]()
    for i, (field, new_header, new_lines, new_seal, kept) in enumerate(cases):
        tried[field] += 1
        if tried[field] > 2:
            continue
        path = Path(shutil.copytree(whole, tmp_path / str(i)))
        if new_seal is not None:
            (path / "seal.json").write_bytes(canonical_json.dump(new_seal))
        try:
            if new_seal is None:
                forge(path, new_header, new_lines, kept)
        except ReproError:
            found.setdefault(field, set()).add(None)
            continue
        found.setdefault(field, set()).add(told(path))
        shutil.rmtree(path)
    for field, outcomes in found.items():
        if field in REFUSED:
            assert outcomes == {None}, field
        else:
            wanted = OPEN[field].replace("5", "2") if "every" in options and "every" in field else OPEN[field]
            assert all(each is None or wanted in each for each in outcomes), (field, outcomes)
    optional = {
        "receipt.json run.microbatches_every",
        "receipt.json programs[].outputs[].shape[]",
        "steps.jsonl microbatches[]",
    }
    assert {*REFUSED, *OPEN} - optional <= found.keys()


def test_swapped_names(tmp_path: Path) -> None:
    """Swapping the names of two inputs of the same type must be detected."""
    for options in ({}, {"microbatches": 2}):
        path = record(tmp_path / f"run{len(options)}", **options)
        header = json.loads((path / "receipt.json").read_bytes())
        inputs = header["programs"][0]["inputs"]
        inputs[0]["name"], inputs[1]["name"] = inputs[1]["name"], inputs[0]["name"]
        lines = [json.loads(line) for line in (path / "steps.jsonl").read_bytes().splitlines()]
        forge(path, header, lines, None)
        with pytest.raises(ReproError, match="lr"):
            repro_mlir.verify(path, target="reference")


def test_a_program_without_a_step_is_reported(tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    other = record(tmp_path / "other", clip_norm=1.0)
    headers = [json.loads((each / "receipt.json").read_bytes()) for each in (path, other)]
    lines = [json.loads(line) for line in (path / "steps.jsonl").read_bytes().splitlines()]
    for line in lines:
        if "program" in line:
            line["program"] += 1
    (listed,) = headers[1]["programs"]
    file = f"programs/{listed['identity']}.repro"
    shutil.copy(other / file, path / file)
    extended = headers[0] | {"programs": [listed, *headers[0]["programs"]]}
    (path / "receipt.json").write_bytes(canonical_json.dump(extended))
    forge(path, extended, lines, None)
    open_lines = repro_mlir.verify(path, target="reference").not_checked
    assert f"program {listed['identity']}, the first of the list: no step runs it" in open_lines
    assert Receipt(path).header.programs[1].identity == headers[0]["programs"][0]["identity"]
