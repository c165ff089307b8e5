# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Every error of a command says what the user can do: in its message, or by the hint of the room that raises it."""

import ast
from pathlib import Path

import pytest
import repro_mlir
from repro_mlir.base.hints import HINTS, with_hint
from repro_mlir.cli.main import main

PACKAGE = Path(repro_mlir.__file__).parent
SIGNED = str(Path(__file__).resolve().parents[2] / "data" / "compatibility" / "signed.receipt")
IN_MICROBATCHES = str(Path(SIGNED).with_name("microbatches.receipt"))
WITHOUT = "leave out the choice of microbatches, or choose another receipt"
ED25519 = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
"""
TREES = {
    ".".join(file.relative_to(PACKAGE).with_suffix("").parts): ast.parse(file.read_text())
    for file in sorted(PACKAGE.rglob("*.py"))
    if "_mlir_libs" not in file.parts and "dialects" not in file.parts
}


def name_of(node: ast.expr | None) -> str:
    """Returns the last name of a dotted name or of a call of one."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def user_errors() -> set[str]:
    """Returns the names of ReproError and of the classes that are derived from it."""
    classes = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found: set[str] = set()
    new = {"ReproError"}
    while new - found:
        found |= new
        new = {node.name for node in classes if {name_of(base) for base in node.bases} & found}
    return found


def raising_modules() -> set[str]:
    errors = user_errors() | {"located"}
    raises = [
        (module, node) for module, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, ast.Raise)
    ]
    return {module for module, node in raises if name_of(node.exc) in errors}


def test_each_room_that_raises_has_a_hint() -> None:
    modules = raising_modules()
    assert len(modules) > 200 and "cli.main" in modules
    used = {max((room for room in HINTS if not room or f"{each}.".startswith(f"{room}.")), key=len) for each in modules}
    assert used == set(HINTS)
    # The hint without a room is that of the modules that are in none.
    assert not [each for each in modules if "." in each and not any(f"{each}.".startswith(f"{r}.") for r in HINTS if r)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("x: expected a, got b", "x: expected a, got b: check the arguments of this call"),
        ("x: expected a, got b: check c", "x: expected a, got b: check c"),
        ("expected a (see repro train --help)", "expected a (see repro train --help)"),
        ("a is missing: pip install a", "a is missing: pip install a"),
        ("cannot write x: Permission denied", "cannot write x: Permission denied: check the permissions of the path"),
        # A verb in the middle of a description does not count.
        ("expected to check, got nothing", "expected to check, got nothing: check the arguments of this call"),
        # Nor does a text of another person.
        ("expected a, got 'x: use b'", "expected a, got 'x: use b': check the arguments of this call"),
        ("the run's file 'x': use that of the user's", "the run's file 'x': use that of the user's"),
        ("docs/a: expected a file", "docs/a: expected a file: check the arguments of this call"),
        ("x--help: expected a file", "x--help: expected a file: check the arguments of this call"),
    ],
)
def test_a_hint_is_added_once(message: str, expected: str) -> None:
    assert with_hint(message, None) == expected


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["diff", "--dumps", "text", "text"], HINTS["tensor_dumps"]),
        (["inspect", "a: use b"], HINTS["base.files"]),
        (["vectors", "check", "text", "--library", "nothing"], "check the path"),
        (["inspect", "text"], HINTS["base.files"]),
        (["verify", "text"], HINTS["verification"]),
        (["attest", SIGNED, "-o", "new", "--format", "oms", "--sign", "key.pem"], HINTS["verification.exports"]),
        (["attest", SIGNED, "-o", "new", "--format", "page", "--declare", "name= "], HINTS["verification.exports"]),
        (["attest", SIGNED, "-o", "new", "--sign", "text"], HINTS["verification.receipts.signing"]),
        (["inspect", "x" * 300], "give a shorter path"),
        (["verify", SIGNED, "--steps", "6"], HINTS["verification.receipts.choice"]),
        (["verify", SIGNED, "--steps", "all,1"], HINTS["verification.receipts.choice"]),
        (["verify", SIGNED, "--microbatches", "all"], WITHOUT),
        (["verify", IN_MICROBATCHES, "--microbatches", "2"], HINTS["verification.receipts.choice"]),
        (["verify", SIGNED, "--key", "text"], HINTS["verification.receipts.signing"]),
        (["verify", SIGNED, "--exact-digits", "2"], "leave this option out"),
        (["dispute", SIGNED, "tcp:nowhere"], HINTS["verification.dispute.addresses"]),
        (["dispute", SIGNED, "tcp:127.0.0.1:1", "--token-b", "text"], HINTS["verification.dispute.tokens"]),
        (["diff", SIGNED, SIGNED, "--targets", "cpu,reference"], "name one"),
    ],
)
def test_errors_of_commands_have_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, arguments: list[str], hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text", "a: use b"):
        Path(name).write_text("hello")
    Path("key.pem").write_text(ED25519)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.endswith(f": {hint}\n")
