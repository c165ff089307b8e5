# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro run-bundle` does not run any code from a bundle, and a bundle's signature covers the whole bundle."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import blake3
import pytest
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.bundle.writer import expect, write_bundle
from repro_mlir.cli.main import main
from repro_mlir.runner import Bundle
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.runner.manifest import MANIFEST, SIGNATURE
from repro_mlir.verification.receipts.signing import PrivateKey
from support import handmade

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")


def _keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Returns the paths of a private key and its public key, as PEM files."""
    key = ed25519.Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private, public = folder / f"{name}.pem", folder / f"{name}-public.pem"
    pkcs8 = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))

    def make(sign: Path | None = None) -> Path:
        program, steps = handmade.program(), handmade.steps(3)
        signer = PrivateKey(sign) if sign else None
        expected = expect(program, steps)
        write_bundle(tmp_path / "m.rmb", program, [handmade.code()], steps=steps, expected=expected, sign=signer)
        return tmp_path / "m.rmb"

    return make


def change(path: Path, edit: Callable[[dict[str, bytes]], None]) -> None:
    """Edits the members of a bundle and updates their digests in the manifest."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    manifest = json.loads(members[MANIFEST])
    for name in manifest["members"]:
        data = members[name]
        manifest["members"][name] = {"bytes": len(data), "blake3": blake3.blake3(data).hexdigest()}
    if manifest != json.loads(members[MANIFEST]):
        members[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_the_code_of_a_bundle_is_not_run(write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write()
    trap = f"open({str(tmp_path / 'trap')!r}, 'w').write('sprung')\nraise SystemExit(0)\n".encode()
    change(path, lambda m: m.update({name: trap for name in m if name.endswith(".py")}))
    assert main(["run-bundle", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = Bundle(path).expected
    assert expected is not None and report["state_hash"] == expected.state[3] and report["differences"] == []
    assert not (tmp_path / "trap").exists()


def test_results_that_are_not_expected(write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write()

    def lie(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        manifest["expected"]["outputs"]["loss"][1] = "0" * 64
        members[MANIFEST] = json.dumps(manifest).encode()

    change(path, lie)
    assert main(["run-bundle", str(path)]) == 1
    assert "the results are not those that the bundle expects: output loss of step 2" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run-bundle", "inspect"])
def test_signatures(command: str, write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = _keys(tmp_path, "own")
    _, stranger = _keys(tmp_path, "stranger")

    def failing(*arguments: str) -> str:
        assert main([command, *arguments]) == 2
        told = capsys.readouterr()
        assert told.out == "" and len(told.err.splitlines()) == 1
        return told.err

    path = write(private)
    assert main([command, str(path), "--key", str(public)]) == 0
    assert main([command, str(path)]) == 0
    capsys.readouterr()
    assert "expected a signature by" in failing(str(path), "--key", str(stranger))
    for name, data in (("sm_75.ptx", b"//"), ("__main__.py", b"#"), (MANIFEST, b" ")):
        change(write(private), lambda m, name=name, data=data: m.update({name: m[name] + data}))
        assert "the signature by" in failing(str(path))
    write(private)
    change(path, lambda m: m.update({SIGNATURE: m[SIGNATURE].replace(b"ed25519", b"ed25518")}))
    assert "expected the key 'ed25519'" in failing(str(path))
    write(private)
    # The public key is the identity of the curve, for which one signature is valid for every message.
    weak = {"key": (1).to_bytes(32, "little").hex(), "ed25519": (b"\1" + bytes(63)).hex()}
    change(path, lambda m: m.update({SIGNATURE: json.dumps(weak).encode()}))
    assert "of small order" in failing(str(path))
    unsigned = failing(str(write()), "--key", str(public))
    assert "expected a signature by" in unsigned and "got none" in unsigned


def test_inspect_says_who_signed(write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, _ = _keys(tmp_path, "own")
    for key, told in ((private, PrivateKey(private).sign(b"")[0].hex()), (None, None)):
        assert main(["inspect", str(write(key)), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["signed_by"] == told


def test_a_signed_bundle_runs_itself(write, tmp_path: Path) -> None:
    """The runner inside a bundle accepts a signed bundle, although the signature is an additional member of the zip
    file."""
    import subprocess
    import sys

    private, _ = _keys(tmp_path, "own")
    found = subprocess.run([sys.executable, str(write(private)), "--json"], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0 and json.loads(found.stdout)["differences"] == []
