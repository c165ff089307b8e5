# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes receipts: flips single bits, or forges contents and recomputes all hashes as a forger would."""

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import blake3
import numpy as np
from repro_mlir import Receipt
from repro_mlir.base.files import canonical_json
from repro_mlir.base.numerics.hashing import combine_digests
from repro_mlir.verification.receipts.commitments import Commitment, next_link
from repro_mlir.verification.receipts.file_list import describe_files
from repro_mlir.verification.receipts.form import Header, Record
from repro_mlir.verification.receipts.kept_tensors import checkpoints
from repro_mlir.verification.receipts.receipt import digests_of


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flips a bit of a file; a negative offset counts from the end of the file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def program_path(path: Path) -> Path:
    """Returns the file of the first program of a receipt."""
    return path / Receipt(path).header.program_file(0)


def with_program(header: Header, **changes: Any) -> Header:
    """Returns a header in which `changes` replaces values of the entry of the first program."""
    return replace(header, programs=(replace(header.programs[0], **changes), *header.programs[1:]))


def cut(path: Path, size: int) -> None:
    """Truncates a file to `size` bytes; a negative size removes that many bytes from the end."""
    path.write_bytes(path.read_bytes()[:size])


def edit(path: Path, change: Callable[[Any], None], line: int | None = None) -> None:
    """Applies `change` to the JSON value of a file or, if `line` is given, of that line (counted from 0). Writes
    canonical JSON."""
    lines = path.read_bytes().splitlines(keepends=True)
    index = line or 0
    value = json.loads(lines[index])
    change(value)
    lines[index] = canonical_json.dump(value) + (b"\n" if lines[index].endswith(b"\n") else b"")
    path.write_bytes(b"".join(lines))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Returns each container in a JSON value with each of its keys or indices, at all depths."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


def damage(value: Any, draw: random.Random, values: Sequence[Any]) -> Any:
    """Removes a value somewhere in JSON, adds it again under another key, or replaces it by one of `values`. Returns
    the key of the value."""
    container, key = draw.choice(_places(value))
    kind = draw.randrange(4)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container["other"] = container[key]
    else:
        old = container[key]
        container[key] = draw.choice([each for each in values if each != old or type(each) is not type(old)])
    return key


def forge(
    path: Path,
    *,
    header: Callable[[Header], Header] = lambda header: header,
    steps: Callable[[list[tuple[Commitment, list[np.ndarray], bytes | None]]], None] = lambda steps: None,
) -> None:
    """Applies the given changes to the header and the steps (commitment, inputs and loss), and recomputes roots, links,
    stored inputs and seal.

    The receipt must be that of a run with one program, in which the user did not change the state.
    """
    receipt = Receipt(path)
    log = receipt.log
    numbers = range(1, log.steps + 1)
    given = [(log[i].commitment, [a.copy() for a in receipt.inputs(i)], log[i].loss) for i in numbers]
    steps(given)
    changed = header(receipt.header)
    (path / "receipt.json").write_bytes(changed.dump())
    kinds = changed.programs[0].stored_inputs(changed.stored)
    program = bytes.fromhex(changed.programs[0].identity)
    cursors = sorted(commitment.cursor for commitment, _, _ in given)
    link, lines, inputs = changed.first_link(), [], []
    for step, (commitment, arrays, loss) in enumerate(given, 1):
        digests = digests_of(kinds, arrays)
        outputs, signature = commitment.outputs, changed.programs[0].signature.digest
        named = outputs, step, program, signature, commitment.microbatches
        commitment = Commitment(cursors[step - 1], commitment.state, digests, *named)
        link = next_link(link, step, commitment.root)
        lines.append(Record(step, commitment, commitment.root, link, 0, loss).dump())
        inputs.append(receipt.stored_inputs(0).encode(arrays))
    (path / "steps.jsonl").write_bytes(b"".join(lines))
    (path / "inputs.bin").write_bytes(b"".join(inputs))

    # A receipt contains the state after its last step, so this state's file is renamed if the number of steps changes.
    os.rename(path / checkpoints.name_of(log.steps), path / checkpoints.name_of(len(given)))
    edit(path / "seal.json", lambda value: value.update(steps=len(given), chain=link.hex()))
    if given:
        edit(path / "seal.json", lambda value: value.update(state_hash=combine_digests(given[-1][0].state)))
    reseal(path)


def replace_program_file(path: Path, data: bytes) -> None:
    """Replaces the file of the first program and updates the hashes of files, but no identity, root or link."""
    program_path(path).write_bytes(data)
    digest = blake3.blake3(data).hexdigest()
    edit(path / "receipt.json", lambda value: value["programs"][0].update(blake3=digest))
    reseal(path)


def reseal(path: Path) -> None:
    """Updates the seal's list of files and digests. Does not sign the seal again, so a signature no longer verifies."""
    files = describe_files(path)

    def seal(value: dict[str, Any]) -> None:
        value["files"] = {name: {"bytes": file.size, "blake3": file.digest} for name, file in files.items()}

    edit(path / "seal.json", seal)
