# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Verification detects every single change of a finished receipt and says where it is."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import blake3
import pytest
import repro_mlir
from forgery import cut, edit, flip, forge, program_path, with_program
from receipt_runs import STEPS, train
from repro_mlir import Receipt, ReceiptOptions, ReproError
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.base.files.tensor_file import tensor_header
from repro_mlir.cli.main import main
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.verification.receipts.commitments import Commitment, commit
from repro_mlir.verification.receipts.form import program_file
from repro_mlir.verification.receipts.step_log import StoredInputs

STEP_RANGE = range(1, STEPS + 1)


@dataclass(frozen=True)
class Change:
    """A change of a receipt. The error must name the step `step`, or none if that is None, and contain the text
    `place`."""

    name: str
    apply: Callable[[Path], None]
    step: int | None
    place: str


def of_bit(name: str, file: str, at: int, bit: int, step: int | None, place: str) -> Change:
    return Change(name, lambda path: flip(path / file, at, bit), step, place)


def of_record(name: str, step: int, change: Callable[[dict[str, Any]], None], place: str) -> Change:
    return Change(name, lambda path: edit(path / "steps.jsonl", change, step - 1), step, place)


def of_records(name: str, step: int, change: Callable[[list[bytes]], object], place: str) -> Change:
    return Change(name, lambda path: lines(path, change), step, place)


def tensors_in_files(receipt: Receipt, draw: random.Random) -> Iterator[Change]:
    """Yields changes that each flip one bit: one for each tensor of each kept state, and one for each input of each
    step."""
    kinds = receipt.header.programs[0].signature.state
    for step in (0, 3, 6, 8):
        offset = len(tensor_header(kinds))
        for kind in kinds:
            size = StoredInputs([kind]).size
            file, at, bit = f"checkpoints/{step}.safetensors", offset + draw.randrange(size), draw.randrange(7)
            place = f"{file}: tensor {kind.name} is" if step else f"{file}: not the initial state"
            yield of_bit(f"bit of {kind.name} in {file}", file, at, bit, step or None, place)
            offset += size
    record = receipt.stored_inputs(0).size
    for step in STEP_RANGE:
        offset = (step - 1) * record
        for kind in receipt.header.programs[0].signature.inputs:
            size = StoredInputs([kind]).size
            at = offset + draw.randrange(size)
            place = f"inputs.bin: tensor {kind.name} is"
            yield of_bit(f"bit of {kind.name} of step {step}", "inputs.bin", at, 3, step, place)
            offset += size


def other(digits: str) -> str:
    return digits[:-1] + ("0" if digits[-1] != "0" else "1")


def records(receipt: Receipt, draw: random.Random) -> Iterator[Change]:
    """Yields changes of the records: of one digit in hashes and numbers of each record, and of the order and the number
    of records."""
    signature = receipt.header.programs[0].signature
    for step in STEP_RANGE:
        for role, kinds in (("state", signature.state), ("outputs", signature.outputs)):
            for i in draw.sample(range(len(kinds)), 2):

                def digest(value: dict[str, Any], role: str = role, i: int = i) -> None:
                    value[role][i] = other(value[role][i])

                place = f"{role.removesuffix('s')} {kinds[i].name}: "
                yield of_record(f"hash of {kinds[i].name} after step {step}", step, digest, place)
        for key, place in (
            ("root", "steps.jsonl: the root"),
            ("chain", "steps.jsonl: the chain"),
            ("loss", "steps.jsonl: the loss"),
            ("cursor", "steps.jsonl: "),
            ("step", "steps.jsonl: expected the record of this step"),
        ):

            def field(value: dict[str, Any], key: str = key) -> None:
                value[key] = value[key] + 100 if key in ("cursor", "step") else other(value[key])

            yield of_record(f"{key} of step {step}", step, field, place)

        def double(all_lines: list[bytes], step: int = step) -> None:
            all_lines.insert(step, all_lines[step - 1])

        yield of_records(f"step {step} dropped", step, lambda all, step=step: all.pop(step - 1), "")
        yield of_records(f"step {step} doubled", step + 1, double, "steps.jsonl: ")
        if step < STEPS:
            expected = "steps.jsonl: expected the record of this step"
            yield of_records(f"steps {step} and {step + 1} swapped", step, swapped(step), expected)


def swapped(step: int) -> Callable[[list[Any]], None]:
    """Returns a change that exchanges the entries of a step and of the next step."""
    return lambda entries: entries.insert(step, entries.pop(step - 1))


def lines(path: Path, change: Callable[[list[bytes]], object]) -> None:
    all_lines = (path / "steps.jsonl").read_bytes().splitlines(keepends=True)
    change(all_lines)
    (path / "steps.jsonl").write_bytes(b"".join(all_lines))


def headers(receipt: Receipt) -> Iterator[Change]:
    """Yields a change of each value in receipt.json and seal.json."""

    def change(file: str, name: str, edited: Callable[[Any], None], place: str) -> Change:
        return Change(f"{file}: {name}", lambda path: edit(path / file, edited), None, place)

    header = [
        (
            "numerics",
            lambda v: v["run"].update(numerics=2),
            "expected a receipt of numerics 1, got numerics 2",
        ),
        ("version", lambda v: v.update(version=3), "expected version 2 of the receipt format, got 3"),
        ("version 1", lambda v: v.update(version=1), "expected version 2 of the receipt format, got 1"),
        (
            "program",
            lambda v: v["programs"][0].update(identity=other(v["programs"][0]["identity"])),
            "receipt.json: expected the file that",
        ),
        (
            "initial",
            lambda v: v["run"].update(initial=other(v["run"]["initial"])),
            "receipt.json: expected the file that",
        ),
        (
            "text",
            lambda v: v["programs"][0].update(blake3=other(v["programs"][0]["blake3"])),
            "receipt.json: expected the file that",
        ),
        ("every", lambda v: v.update(checkpoint_every=4), "receipt.json: expected the file that"),
        ("target", lambda v: v["environment"].update(target="cuda"), "receipt.json: expected the file that"),
        ("name", lambda v: v["run"]["state"][0].update(name="other"), "receipt.json: expected the file that"),
        ("shape", lambda v: v["programs"][0]["inputs"][1].update(shape=[5, 5]), "receipt.json: expected the file that"),
        ("hyper", lambda v: v["programs"][0].update(num_hyper_parameters=0), "receipt.json: expected the file that"),
        ("inputs", lambda v: v["programs"][0]["inputs"].pop(), ""),
        ("kind", lambda v: v["data"].update(kind="external"), "receipt.json: expected the file that"),
    ]
    for name, edited, place in header:
        yield change("receipt.json", name, edited, place)
    seal = [
        ("steps", lambda v: v.update(steps=9), "steps.jsonl: expected 9 steps, as in seal.json, got 8"),
        ("fewer steps", lambda v: v.update(steps=7), "steps.jsonl: expected 7 steps, as in seal.json, got 8"),
        ("chain", lambda v: v.update(chain=other(v["chain"])), "seal.json: not the last link"),
        ("state", lambda v: v.update(state_hash=other(v["state_hash"])), "seal.json: the hash of the state"),
        (
            "kept",
            lambda v: v["files"].pop("checkpoints/3.safetensors"),
            "checkpoints/3.safetensors: only in the receipt, expected in the receipt and in seal.json",
        ),
        (
            "not there",
            lambda v: v["files"].update({"other": v["files"]["steps.jsonl"]}),
            "other: only in seal.json, expected in the receipt and in seal.json",
        ),
        ("no header", lambda v: v["files"].pop("receipt.json"), "seal.json: does not list receipt.json"),
    ]
    for name in (
        "receipt.json",
        receipt.header.program_file(0),
        "steps.jsonl",
        "inputs.bin",
        "checkpoints/6.safetensors",
    ):
        for key in ("blake3", "bytes"):

            def file(value: dict[str, Any], name: str = name, key: str = key) -> None:
                entry = value["files"][name]
                entry[key] = other(entry[key]) if key == "blake3" else entry[key] + 1

            seal.append((f"{key} of {name}", file, f"{name}: expected the file that seal.json names"))
    for name, edited, place in seal:
        found = change("seal.json", name, edited, place)
        yield replace(found, step={"steps": 9, "fewer steps": 8}.get(name))


def truncations(receipt: Receipt) -> Iterator[Change]:
    """Yields truncations of each file to several sizes, and its removal."""
    files = ["receipt.json", "seal.json", "steps.jsonl", "inputs.bin", receipt.header.program_file(0)]
    files += [f"checkpoints/{step}.safetensors" for step in (0, 3, 6, 8)]
    for file in files:
        size = (receipt.path / file).stat().st_size
        for keep in (0, size // 3, size - 1):
            yield Change(
                f"{file} cut to {keep} of {size} bytes",
                lambda path, file=file, keep=keep: cut(path / file, keep),
                -1,
                file,
            )
        whole = file == "checkpoints/0.safetensors" or file.startswith("programs/")
        place = file if whole else file.partition("/")[0]
        yield Change(f"{file} removed", lambda path, file=file: (path / file).unlink(), -1, place)


def programs(receipt: Receipt) -> Iterator[Change]:
    """Yields edits of the program, with and without recomputed hashes."""
    text = receipt.program.text
    # The number in an edit is the first step whose result changes: 2 if the operand is a moment of the optimizer, which
    # is 0 in step 1.
    edits = [
        ("arith.mulf", "arith.addf", 1),
        ("arith.subf", "arith.addf", 1),
        ("arith.divf", "arith.mulf", 1),
        ("arith.addf", "arith.subf", 2),
        ("1.000000e+00", "2.000000e+00", 1),
        ("1.000000e+00", "1.000001e+00", 1),
    ]
    for old, new, step in edits:
        changed = text.replace(old, new, 1)
        assert changed != text, old
        yield Change(
            f"{old} for {new} in the program",
            lambda path, t=changed: program_path(path).write_bytes(to_bytes(t)),
            None,
            ".repro: expected the file that",
        )

        def with_hashes(path: Path, t: str = changed) -> None:
            data = to_bytes(t)
            identity, digest = examine(data).identity, blake3.blake3(data).hexdigest()
            os.rename(program_path(path), path / program_file(identity))
            (path / program_file(identity)).write_bytes(data)
            forge(path, header=lambda header: with_program(header, identity=identity, digest=digest))

        yield Change(
            f"{old} for {new}, and all hashes", with_hashes, step, "the receipt does not have the result of cpu"
        )


def forgeries(receipt: Receipt) -> Iterator[Change]:
    """Yields forgeries of one step with recomputed roots, links, inputs and seal. Only running the step can detect
    them."""
    signature = receipt.header.programs[0].signature

    def at(step: int, change: Callable[[list[Any]], None]) -> Callable[[Path], None]:
        def steps(given: list[Any]) -> None:
            entry = list(given[step - 1])
            change(entry)
            given[step - 1] = tuple(entry)

        return lambda path: forge(path, steps=steps)

    number = signature.num_hyper_parameters

    def rate(entry: list[Any]) -> None:
        entry[1][0] = entry[1][0] * 2

    def batch(entry: list[Any]) -> None:
        entry[1][number][2, 1] += 1

    def label(entry: list[Any]) -> None:
        entry[1][number + 1][0] = (entry[1][number + 1][0] + 1) % 3

    for step in STEP_RANGE:
        yield Change(f"forged rate of step {step}", at(step, rate), step, "state ")
        yield Change(f"forged batch of step {step}", at(step, batch), step, "output ")
        yield Change(f"forged class of step {step}", at(step, label), step, "output loss")
        # The state after these steps is in the receipt, so changing its digest alone would be detected without running
        # the step.
        if step not in (3, 6, 8):
            i = step % len(signature.state)

            def state(entry: list[Any], i: int = i) -> None:
                digests = list(entry[0].state)
                digests[i] = bytes(32)
                entry[0] = Commitment(entry[0].cursor, tuple(digests), entry[0].inputs, entry[0].outputs)

            yield Change(f"forged state after step {step}", at(step, state), step, f"state {signature.state[i].name}: ")

        def output(entry: list[Any]) -> None:
            entry[0] = Commitment(entry[0].cursor, entry[0].state, entry[0].inputs, (entry[0].outputs[0], bytes(32)))

        yield Change(f"forged output of step {step}", at(step, output), step, f"output {signature.outputs[1].name}: ")
    for step in range(1, STEPS):
        for name, change in (
            (f"steps {step} and {step + 1} forged in the other order", swapped(step)),
            (f"step {step} forged away", lambda given, step=step: given.pop(step - 1)),
        ):
            yield Change(name, lambda path, change=change: forge(path, steps=change), step, "")

    def initial(path: Path) -> None:
        file = path / "checkpoints" / "0.safetensors"
        flip(file, len(tensor_header(signature.state)))
        data = file.read_bytes()[len(tensor_header(signature.state)) :]
        root = commit(receipt.program, 0, StoredInputs(signature.state).decode(data, "state")).root.hex()
        forge(path, header=lambda header: replace(header, initial=root))

    yield Change("forged initial state", initial, 1, "the receipt does not have the result of cpu")


def all_changes(receipt: Receipt) -> list[Change]:
    draw = random.Random(1)
    return [
        *tensors_in_files(receipt, draw),
        *records(receipt, draw),
        *headers(receipt),
        *truncations(receipt),
        *programs(receipt),
        *forgeries(receipt),
    ]


def test_every_change_is_detected_at_its_place(finished: Path, tmp_path: Path) -> None:
    changes = all_changes(Receipt(finished))
    assert len(changes) >= 200 and len({change.name for change in changes}) == len(changes)
    missed = []
    for number, change in enumerate(changes):
        path = Path(shutil.copytree(finished, tmp_path / str(number)))
        change.apply(path)
        try:
            repro_mlir.verify(path, threads=1)
            missed.append(f"{change.name}: not detected")
        except ReproError as error:
            step = error.step if isinstance(error, ReceiptWrong) else -1
            wanted = (change.step,) if change.step != -1 else (-1, None, *range(STEPS + 2))
            if change.place not in str(error) or (step not in wanted and isinstance(error, ReceiptWrong)):
                missed.append(f"{change.name}: expected step {change.step}, {change.place!r}, got {error}")
        shutil.rmtree(path)
    assert not missed, "\n".join(missed)
    print(f"{len(changes)} changes detected")


@pytest.mark.parametrize("file", ["checkpoints/8.safetensors", "inputs.bin"])
def test_V4_a_nan_that_no_run_writes(finished: Path, tmp_path: Path, file: str) -> None:
    signature = Receipt(finished).header.programs[0].signature
    kinds, offset = signature.inputs, 0
    if file != "inputs.bin":
        kinds, offset = signature.state, len(tensor_header(signature.state))
    for kind in kinds:
        if kind.element == "f32":
            break
        offset += StoredInputs([kind]).size
    path = Path(shutil.copytree(finished, tmp_path / "run"))
    data = bytearray((path / file).read_bytes())
    data[offset : offset + 4] = (0x7FC00001).to_bytes(4, "little")
    (path / file).write_bytes(data)
    with pytest.raises(ReproError, match=rf"{file}.*tensor {kind.name}: expected the NaN 0x7fc00000"):
        repro_mlir.verify(path, threads=1)


def test_a_signature(finished: Path, tmp_path: Path, capsys) -> None:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric import ed25519

    keys = [ed25519.Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2)]
    pem, raw = serialization.Encoding.PEM, keys[0].public_key().public_bytes_raw()
    private = keys[0].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "private.pem").write_bytes(private)
    for i, key in enumerate(keys):
        public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"public{i}.pem").write_bytes(public)
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    train(ReceiptOptions(path, resume=True, sign=tmp_path / "private.pem"))
    assert repro_mlir.verify(path, "1").signed_by == raw.hex()
    assert main(["verify", str(path), "--steps", "1", "--key", str(tmp_path / "public0.pem")]) == 0
    assert f"signed   by {raw.hex()}" in capsys.readouterr().out
    assert main(["verify", str(path), "--key", str(tmp_path / "public1.pem")]) == 1
    assert "WRONG    seal.json: signed by another key" in capsys.readouterr().out
    assert main(["verify", str(finished), "--key", str(tmp_path / "public0.pem")]) == 1
    assert "WRONG    seal.json: expected a signature by" in capsys.readouterr().out
    assert main(["verify", str(path), "--key", str(tmp_path / "private.pem")]) == 2
    assert "expected an ed25519 public key as PEM" in capsys.readouterr().err
    with pytest.raises(ReproError, match="expected an ed25519 private key as PEM without password"):
        train(ReceiptOptions(path, resume=True, sign=tmp_path / "public0.pem"))
    # A forger who recomputes all hashes still cannot sign them.
    forge(path, steps=lambda given: given.pop())
    with pytest.raises(ReceiptWrong, match=f"seal.json: the signature by {raw.hex()} is invalid"):
        repro_mlir.verify(path)
