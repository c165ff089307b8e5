# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""States, inputs and checkpoints that are too large, too deeply nested or of a wrong type cause one line of error
before they are read."""

import dataclasses
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from repro_mlir import ReproError
from repro_mlir.base.files.tensor_file import read_all_tensors, write_tensors
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.cli.main import main
from repro_mlir.frontends.torch import load_checkpoint
from repro_mlir.program import read_signature
from repro_mlir.program.canonical import to_bytes

pytestmark = pytest.mark.timeout(60)

NAME = "x" * 300
KINDS = (TensorType("argument 0", "f32", (4,)),)
TEXT = f"""
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32> {{repro.name = "{NAME}"}}) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {{repro.num_state = 1 : i64}} {{
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Writes a program, a state and inputs for it; returns their paths."""
    program = dataclasses.replace(read_signature(to_bytes(TEXT)), initial=(np.zeros(4, np.float32),))
    program.save(tmp_path / "p.repro")
    (tmp_path / "s.safetensors").write_bytes(write_tensors(KINDS, [np.ones(4, np.float32)]))
    np.savez(tmp_path / "i.npz", **{NAME: np.arange(4, dtype=np.float32)})
    return {"program": tmp_path / "p.repro", "state": tmp_path / "s.safetensors", "inputs": tmp_path / "i.npz"}


def run(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> str:
    """Runs `repro run` on the files and returns its error; "" if there is none."""
    names = [str(files["program"]), "--inputs", str(files["inputs"]), "--state", str(files["state"])]
    status = main(["run", *names, "--target", "reference"])
    captured = capsys.readouterr()
    assert status == (2 if captured.err else 0) and captured.err.count("\n") == status // 2, captured
    assert not captured.err or captured.err.startswith("repro: error: ")
    return captured.err


def test_right_files(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, capsys) == ""
    np.savez_compressed(files["inputs"], **{NAME: np.arange(4, dtype=np.float32)})
    assert run(files, capsys) == ""
    np.savez(files["inputs"], **{NAME: np.arange(4, dtype=np.float32), "more": np.zeros(3)})
    assert "i.npz: unknown inputs more, expected" in run(files, capsys)


def test_a_large_state(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate(files["state"], 1 << 42)
    assert "s.safetensors: expected at most 16,777,240 bytes, got 4,398,046,511,104" in run(files, capsys)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"argument 0":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"argument 0":' + b'{"a":' * 100_000,
        b"7" * 100_000,
        b'{"argument 0":{"dtype":"F32","shape":[4],"data_offsets":[0,1e999]}}',
        b'{"argument 0":{"dtype":"F32","shape":{},"data_offsets":[0,16]}}',
    ],
    ids=range(6),
)
def test_headers_that_are_none(files: dict[str, Path], capsys: pytest.CaptureFixture[str], header: bytes) -> None:
    files["state"].write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    assert "s.safetensors: " in run(files, capsys)
    with pytest.raises(ReproError):
        read_all_tensors(files["state"].read_bytes(), "a file")


def test_a_header_of_more_than_the_limit(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    header = json.dumps({"argument 0": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    for size, error in ((1 << 24, ""), ((1 << 24) + 1, "s.safetensors: expected at most")):
        files["state"].write_bytes(size.to_bytes(8, "little") + header.ljust(size) + np.ones(4, np.float32).tobytes())
        assert run(files, capsys).startswith(f"repro: error: {files['state'].parent}/{error}" if error else "")
    files["state"].write_bytes(((1 << 24) + 1).to_bytes(8, "little") + header.ljust(1 << 24))
    assert "s.safetensors: expected a safetensors file" in run(files, capsys)


def array(shape: str, descr: str = "<f4") -> bytes:
    """Returns an .npy file with four f32 elements, whose header declares the shape `shape` and the type `descr`."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.ones(4, np.float32).tobytes()


@pytest.mark.parametrize(
    "data",
    [
        array("(1099511627776,)"),
        array("(4611686018427387904, 4611686018427387904)"),
        array("(-4,)"),
        array("(" * 5000),
        array("(4,)", "|O"),
        array("(4,)", "|V2147483647"),
        b"\x93NUMPY\x09\x00",
        b"",
    ],
    ids=range(8),
)
def test_arrays_that_are_none(files: dict[str, Path], capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    with zipfile.ZipFile(files["inputs"], "w") as archive:
        archive.writestr(f"{NAME}.npy", data)
    assert "i.npz: expected an .npz file of plain arrays" in run(files, capsys)


def test_inputs_that_inflate(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(files["inputs"], "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{NAME}.npy", array("(4,)"))
        with archive.open("more.npy", "w") as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    message = run(files, capsys)
    assert "i.npz: expected an .npz file of plain arrays, got 314,57" in message and "bytes of members" in message
    assert files["inputs"].stat().st_size < 1 << 20


def test_no_zip_and_members_that_are_not_arrays(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(4, np.float32))
    files["inputs"].write_bytes(buffer.getvalue())
    assert "i.npz: expected an .npz file of plain arrays" in run(files, capsys)
    with zipfile.ZipFile(files["inputs"], "w") as archive:
        archive.writestr("run.py", b"")
    assert "unknown member 'run.py'" in run(files, capsys)


def test_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.safetensors"
    os.mkfifo(path)
    with pytest.raises(ReproError, match="expected a regular file, got a FIFO"):
        load_checkpoint(path)
    path.unlink()
    monkeypatch.setenv("REPRO_MLIR_LIMITS", "archive_bytes=1M")
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ReproError, match="expected at most 1,048,576 bytes, got 1,048,577"):
        load_checkpoint(path)
