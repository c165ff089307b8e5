# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The runner as files of its own, for machines without this package."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
# What the runner imports of the package: NumPy and the standard library throughout, torch where the process has it.
_MODULES = (
    "archive.py",
    "arrays.py",
    "commands/__init__.py",
    "commands/ending.py",
    "commands/options.py",
    "digest.py",
    "errors.py",
    "files.py",
    "frontends/__init__.py",
    "frontends/tensors.py",
    "frontends/torch/tensors.py",
    "hashing.py",
    "limits.py",
    "printing.py",
    "tensor_file.py",
    "receipts/__init__.py",
    "receipts/shapes.py",
    "reference/environment.py",
    "reference/formats.py",
    "reference/random.py",
)
_LICENSE = """# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
_MAIN = """
import sys

from repro_mlir.runner.command import main

sys.exit(main())
"""


def runner_members() -> dict[str, bytes]:
    """The files, by path, with which a zip is a program: `python FILE ...` is `python -m repro_mlir.runner ...`."""
    members = {
        "__main__.py": (_LICENSE + _MAIN).encode(),
        # Without the compiler, which the package's own imports.
        "repro_mlir/__init__.py": (_LICENSE + '\n"""The part of repro-mlir that runs bundles."""\n').encode(),
        "repro_mlir/reference/__init__.py": _LICENSE.encode(),
        "repro_mlir/frontends/torch/__init__.py": _LICENSE.encode(),
    }
    modules = [_PACKAGE / name for name in _MODULES] + sorted((_PACKAGE / "runner").glob("*.py"))
    for path in modules:
        members[f"repro_mlir/{path.relative_to(_PACKAGE).as_posix()}"] = path.read_bytes()
    return members


def zip_of(members: dict[str, bytes], stored: frozenset[str] = frozenset()) -> bytes:
    """A zip with these members in this order; equal members give equal bytes.

    Args:
      members: contents by name.
      stored: names of members that are not compressed, as it would gain nothing.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            # A ZipInfo made by hand has a fixed date.
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def write_runner(path: str | Path) -> None:
    """Writes the runner as one file: `python PATH model.rmb --steps 10`."""
    Path(path).write_bytes(zip_of(runner_members()))
