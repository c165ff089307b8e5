# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes bytes of each file of a receipt whose link is published, and recomputes the hashes of files as a forger does.

Verification must refuse the receipt, or name the changed bytes after "open".
"""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from forgery import edit, flip, program_path, replace_program_file, reseal
from repro_mlir import Receipt, ReproError, verify
from repro_mlir.base.compiler import has_compiler
from repro_mlir.cli.main import main
from support.stored_bytes import file, sections

STORED = Path(__file__).resolve().parents[4] / "test" / "data" / "compatibility"
MAGIC = b"\x89repro-mlir\r\n\x1a\n\0"
UNBOUND = "names, messages and origins in the files of programs"
BODY = 0


def edited(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields stored programs without one of their sections, and with another letter in it, and the section's kind."""
    parts = sections(data)
    body = parts[0][1]
    assert file(body, *parts[1:]) == data
    for i, (kind, contents) in enumerate(parts):
        yield kind, file(body, *parts[1:i], *parts[i + 1 :]) if kind else file(b"", *parts[1:])
        at = next(j for j, byte in enumerate(contents) if chr(byte).isalpha())
        changed = contents[:at] + b"Z" + contents[at + 1 :]
        yield kind, file(body, *parts[1:i], (kind, changed), *parts[i + 1 :]) if kind else file(changed, *parts[1:])


def edited_step(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the same edits of both programs of a step in microbatches."""
    at = data.index(MAGIC)
    (size,) = struct.unpack_from("<Q", data, at - 8)
    part, finish = data[at : at + size], data[at + size :]
    for kind, other in edited(part):
        yield kind, data[: at - 8] + struct.pack("<Q", len(other)) + other + finish
    for kind, other in edited(finish):
        yield kind, data[: at + size] + other


def opened(path: Path, link: bytes) -> str | None:
    """Returns the lines after "open"; None if the receipt is refused."""
    try:
        return "\n".join(verify(path, "1", target="reference", threads=1, chain=link).not_checked)
    except ReproError:
        return None


def unsigned(name: str, path: Path) -> tuple[Path, bytes]:
    """Copies a stored receipt without its signature. Returns the copy and the receipt's last link."""
    shutil.copytree(STORED / f"{name}.receipt", path)
    edit(path / "seal.json", lambda value: value.pop("signature", None))
    seal = Receipt(path).seal
    assert seal is not None
    return path, seal.chain


@pytest.mark.parametrize("name", ["signed", "microbatches"])
def test_sections_of_programs(name: str, tmp_path: Path) -> None:
    if name == "microbatches" and not has_compiler():
        pytest.skip("steps in microbatches need the compiler")
    path, link = unsigned(name, tmp_path / "run")
    whole = program_path(path).read_bytes()
    right = opened(path, link)
    assert right is not None and UNBOUND in right
    seen: dict[int, set[str | None]] = {}
    for kind, data in (edited if name == "signed" else edited_step)(whole):
        replace_program_file(path, data)
        seen.setdefault(kind, set()).add(opened(path, link))
    assert seen.pop(BODY) == {None}
    # A reader refuses some of the edits; each edit that it accepts is named.
    assert [*seen] == ([1, 2, 3] if name == "signed" else [1, 3])
    assert set().union(*seen.values()) <= {None, right}
    assert right in seen[3]


def test_bytes_of_other_files(tmp_path: Path) -> None:
    """All bytes of these files are bound by the link or compared with each other."""
    path, link = unsigned("signed", tmp_path / "run")
    paths = [
        path / name for name in ("inputs.bin", "steps.jsonl", "checkpoints/2.safetensors", "changes/4.safetensors")
    ]
    for each in paths:
        whole = each.read_bytes()
        for i in range(5):
            flip(each, min(i * len(whole) // 4, len(whole) - 1))
            reseal(path)
            assert opened(path, link) is None, (each, i)
            each.write_bytes(whole)
        each.write_bytes(whole + b"\n")
        reseal(path)
        assert opened(path, link) is None, each
        each.write_bytes(whole)
    reseal(path)
    assert opened(path, link) is not None


def test_files_and_folders(tmp_path: Path) -> None:
    """An interrupted change may leave the folder `changes` empty; no other folder or file may be added."""
    path, link = unsigned("signed", tmp_path / "run")
    for name in ("other", "programs/other", "changes/other"):
        (path / name).mkdir()
        assert opened(path, link) is None, name
        (path / name).rmdir()
    path, link = tmp_path / "plain", Receipt(STORED / "microbatches.receipt").log[2].chain
    if has_compiler():
        shutil.copytree(STORED / "microbatches.receipt", path)
        (path / "changes").mkdir()
        assert opened(path, link) is not None


def test_surplus_of_an_unfinished_receipt(tmp_path: Path) -> None:
    path, _ = unsigned("signed", tmp_path / "run")
    (path / "seal.json").unlink()
    told = verify(path, target="reference", unfinished=True).not_checked
    assert told[0] == "how the run ends: it is not sealed" and "inputs.bin" not in "".join(told)
    lines = (path / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (path / "steps.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:10])
    for record in (5, 6):
        (path / f"checkpoints/{record}.safetensors").unlink()
    told = verify(path, target="reference", unfinished=True).not_checked
    unused = (path / "inputs.bin").stat().st_size - Receipt(path).log.inputs_end(3)
    assert f"the last {unused} bytes of inputs.bin: they are the inputs of no record" in told
    assert "the end of steps.jsonl: it is not a whole record" in told
    assert "changes/4.safetensors: no record needs the file" in told


def test_places_and_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, link = unsigned("signed", tmp_path / "run")
    assert verify(path, "2,4-5,4", target="reference", chain=link).chosen == (2, 4, 5)
    assert main(["verify", str(path), "--steps", "1", "--target", "reference", "--chain", link.hex().upper()]) == 0
    for choice in ("3,", "3,9", "x,1"):
        with pytest.raises(ReproError, match=r"expected (the )?steps"):
            verify(path, choice, target="reference")
    with (path / "inputs.bin").open("ab") as inputs:
        inputs.write(b"\n")
    reseal(path)
    with pytest.raises(ReproError, match=r"^inputs.bin: expected \d+ bytes, got \d+$"):
        verify(path, target="reference")
    edit(path / "receipt.json", lambda value: value.update(environment={"signed": "by NASA"}))
    edit(
        path / "receipt.json", lambda value: value["data"].update(script={"name": "a\nsigned by x", "blake3": "0" * 64})
    )
    capsys.readouterr()
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    at = shown.index("run on   as the author states, and nothing checks:")
    assert shown[at + 1] == "           signed: by NASA" and any(', from "a' in line for line in shown)
