# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""No command writes a file into a receipt, which any other file would make wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.compiler import has_compiler
from repro_mlir.base.files import storage
from repro_mlir.base.output_paths import RECEIPT_FILES
from repro_mlir.cli.main import main
from repro_mlir.verification.dispute.addresses import listen
from repro_mlir.verification.dispute.folder import Folder
from repro_mlir.verification.receipts.file_list import describe_files
from repro_mlir.verification.receipts.form import HEADER, STEPS

STORED = Path(__file__).resolve().parents[4] / "test" / "data" / "compatibility"


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED / "signed.receipt", tmp_path / "run"))


def test_the_files_that_tell_a_receipt() -> None:
    assert RECEIPT_FILES == (HEADER, STEPS)


@pytest.mark.parametrize(
    "write",
    [
        storage.check_can_write,
        lambda path: storage.write_file(path, b"x"),
        storage.make_folder,
        storage.check_empty_folder,
        storage.make_empty_folder,
        lambda path: listen(f"unix:{path}"),
        lambda path: Folder(path.parent),
    ],
)
def test_every_way_to_write(write: Callable[[Path], object], receipt: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(receipt / "checkpoints")
    before = describe_files(receipt)
    for path in (receipt / "run.sig", receipt / "checkpoints" / "3.safetensors", tmp_path / "link" / "run.sig"):
        with pytest.raises(ReproError, match=r"is a receipt, which another file would make wrong: name a path outside"):
            write(path)
    assert describe_files(receipt) == before


@pytest.mark.parametrize(
    "command",
    [
        ["attest", "{run}", "--format", "cyclonedx", "-o", "{run}/run.json"],
        ["attest", "{run}", "--format", "cyclonedx", "-o", "{run}/receipt.json"],
        ["diff", "{run}", "{run}", "--html", "{run}/programs/page.html"],
        ["diff", "--dumps", "{run}/checkpoints", "{run}/checkpoints", "--html", "{run}/checkpoints/page.html"],
        ["dispute", "{run}", "{run}", "--evidence", "{run}"],
        ["dispute", "{run}", "{run}", "--evidence", "{run}/evidence"],
        ["dispute", "--serve", "{run}", "--listen", "files:{run}"],
        ["vectors", "write", "-o", "{run}/vectors"],
    ],
)
def test_commands(command: list[str], receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = describe_files(receipt)
    assert main([word.format(run=receipt) for word in command]) == 2
    said = capsys.readouterr()
    assert not said.out and "is a receipt, which another file would make wrong" in said.err
    assert describe_files(receipt) == before and not (receipt / "evidence").exists()


@pytest.mark.skipif(not has_compiler(), reason="needs the compiler")
def test_commands_of_the_compiler(receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, inputs = STORED / "program.repro", tmp_path / "inputs.npz"
    np.savez(inputs, x=np.zeros(1))
    for command in (
        ["run", str(program), "--save", f"{receipt}/state.safetensors"],
        ["compile", "script.py", "-o", f"{receipt}/program.repro"],
        ["inputs", str(program), "-o", f"{receipt}/inputs.npz"],
    ):
        assert main(command) == 2
        assert "is a receipt, which another file would make wrong" in capsys.readouterr().err
    assert main(["verify", str(receipt), "--steps", "1", "--target", "reference"]) == 0
