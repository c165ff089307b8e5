# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the wheel of the distribution repro-mlir-verify: the modules that need neither MLIR nor PyTorch.

The bytes of the wheel depend only on the files of the repository and on SOURCE_DATE_EPOCH. The wheel is not compressed,
since versions of zlib compress to different bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import sys
import time
import tomllib
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "repro_mlir"

ROOMS = (
    "base", "conformance", "distributed", "pages", "program", "random", "reference", "resume_check", "runner",
    "sandbox", "sandbox_worker", "tensor_dumps", "verification",
)  # fmt: skip
"""The rooms (docs/contributors/architecture.md) whose modules are in the wheel, except those of `NEED_MLIR`."""

NEED_MLIR = ("program/debugging.py",)
"""The modules of these rooms that import MLIR's bindings when they are imported."""

SINGLE = (
    "__init__.py",
    "__main__.py",
    "py.typed",
    "cli/__init__.py",
    "cli/attest.py",
    "cli/bundle_signature.py",
    "cli/check_resume.py",
    "cli/diff.py",
    "cli/dispute.py",
    "cli/doctor.py",
    "cli/file_kinds.py",
    "cli/inspect.py",
    "cli/main.py",
    "cli/options.py",
    "cli/packages.py",
    "cli/parsers.py",
    "cli/script_inputs.py",
    "cli/target.py",
    "cli/vectors.py",
    "cli/verifier_installation.py",
    "cli/verify.py",
    "cli/versions.py",
    "cli/wrong_receipt.py",
)
"""The files in the wheel that belong to none of these rooms."""

DATA = (".css", ".js", ".json")
"""The suffixes of the files, in addition to .py, that belong to a room."""

NAME = "repro-mlir-verify"
_LICENSES = ("LICENSE",)
# The date of ZIP's epoch, if SOURCE_DATE_EPOCH is not set.
_EPOCH = 315532800


def members() -> dict[str, Path]:
    """Returns the files of the package in the wheel, by the path below `repro_mlir`."""
    found = {name: PACKAGE / name for name in SINGLE}
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*"):
            if path.suffix in (".py", *DATA) and "__pycache__" not in path.parts:
                found[path.relative_to(PACKAGE).as_posix()] = path
    for name in NEED_MLIR:
        del found[name]
    return found


def _project() -> dict[str, object]:
    project: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _metadata() -> str:
    """Returns the file METADATA. Version, Python and the ranges of packages are those of pyproject.toml."""
    project = _project()
    wanted = ("numpy", "blake3", "gmpy2", "packaging")
    dependencies = [each for each in _texts(project["dependencies"]) if each.split(">")[0] in wanted]
    assert len(dependencies) == len(wanted)
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {project['version']}",
        "Summary: Verifies receipts of training runs of repro-mlir, without a compiler",
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in _LICENSES),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {each}" for each in dependencies),
        "Provides-Extra: sign",
        *(f'Requires-Dist: {each}; extra == "sign"' for each in _texts(extras["sign"])),
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / "docs" / "guides" / "verifier.md").read_text(),
    ]
    return "\n".join(lines)


def _texts(values: object) -> list[str]:
    assert isinstance(values, list)
    return [str(each) for each in values]


def contents() -> dict[str, bytes]:
    """Returns the files of the wheel, without RECORD, by path."""
    info = f"{_stem()}.dist-info"
    found = {f"repro_mlir/{name}": path.read_bytes() for name, path in members().items()}
    found[f"{info}/METADATA"] = _metadata().encode()
    found[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tools/release/verifier.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    found[f"{info}/entry_points.txt"] = b"[console_scripts]\nrepro = repro_mlir.cli.main:main\n"
    for name in _LICENSES:
        found[f"{info}/licenses/{name}"] = (ROOT / name).read_bytes()
    return found


def _stem() -> str:
    return f"{NAME.replace('-', '_')}-{_project()['version']}"


def _record(files: dict[str, bytes], own: str) -> bytes:
    def line(name: str, data: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(data)}\n"

    return "".join([*(line(name, files[name]) for name in _ordered(files)), f"{own},,\n"]).encode()


def _ordered(names: Iterable[str]) -> list[str]:
    """Returns the names in the order of the archive: .dist-info last, as the specification of wheels recommends."""
    return sorted(names, key=lambda name: (".dist-info/" in name, name))


def write_archive(
    path: Path,
    files: dict[str, bytes],
    record: str,
    programs: Collection[str] = (),
    compression: int = zipfile.ZIP_STORED,
) -> None:
    """Writes the files and their RECORD, which is called `record`, to the wheel `path`: always in the same order, with
    the date of SOURCE_DATE_EPOCH, and with the modes of a program for `programs`."""
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", _EPOCH)), _EPOCH))[:6]
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in [*_ordered(files), record]:
            entry = zipfile.ZipInfo(name, date)
            # The mode of a regular file that everybody may read, and the system Unix, whichever system packs.
            entry.create_system, entry.external_attr = 3, (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(entry, files[name] if name != record else _record(files, record), compression, 9)


def write_wheel(folder: Path) -> Path:
    """Writes the wheel to a folder and returns its path."""
    path = folder / f"{_stem()}-py3-none-any.whl"
    write_archive(path, contents(), f"{_stem()}.dist-info/RECORD")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist", help="where the wheel is written (dist)")
    path = write_wheel(parser.parse_args().folder)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{path}: {path.stat().st_size:,} bytes, sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
