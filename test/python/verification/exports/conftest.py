# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fixtures: keys, and a function that exports a receipt with the command."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from repro_mlir.cli.main import main
from support.key_files import write_keys

STORED = Path(__file__).resolve().parents[3] / "data" / "compatibility"


@pytest.fixture(scope="session")
def signed() -> Path:
    """Returns a signed receipt of two programs, with a change of the state by the user."""
    return STORED / "signed.receipt"


@pytest.fixture(scope="session")
def unsigned() -> Path:
    """Returns a receipt without a signature, whose steps are in microbatches."""
    return STORED / "microbatches.receipt"


@pytest.fixture
def copied(signed: Path, tmp_path: Path) -> Path:
    """Returns a copy of the signed receipt under another name."""
    return Path(shutil.copytree(signed, tmp_path / "another name"))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the keys of `write_keys`."""
    folder = tmp_path_factory.mktemp("keys")
    write_keys(folder)
    return folder


@pytest.fixture
def export(tmp_path: Path, keys: Path) -> Callable[..., bytes]:
    """Returns a function that runs `repro attest RECEIPT --format FORMAT` with more options and returns the file. Signs
    with ed25519.pem or P-256.pem, unless another key is named."""

    def run(receipt: Path, format: str, *options: str, key: str | None = None) -> bytes:
        default = {"in-toto": "ed25519", "slsa": "ed25519", "oms": "P-256"}.get(format)
        name = key or default
        sign = [] if name is None else ["--sign", str(keys / f"{name}.pem")]
        output = tmp_path / "export"
        assert main(["attest", str(receipt), "--format", format, *sign, *options, "-o", str(output)]) == 0
        return output.read_bytes()

    return run
