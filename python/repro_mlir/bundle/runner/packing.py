# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The runner as files of its own, for machines without this package."""

from __future__ import annotations

from pathlib import Path

from repro_mlir.files.archive import archive_of
from repro_mlir.files.storage import write_file

_PACKAGE = Path(__file__).resolve().parents[2]
# What the runner imports of the package: NumPy and the standard library throughout, torch where the process has it.
_MODULES = (
    "bundle/__init__.py",
    "command_line.py",
    "constant_attributes.py",
    "errors.py",
    "files/__init__.py",
    "files/archive.py",
    "files/json_shapes.py",
    "files/npz.py",
    "files/packed_elements.py",
    "files/regular.py",
    "files/storage.py",
    "files/tensor_file.py",
    "frontends/__init__.py",
    "frontends/arrays.py",
    "frontends/tensors.py",
    "frontends/torch/base/__init__.py",
    "frontends/torch/base/tensors.py",
    "frontends/typed_arrays.py",
    "limits.py",
    "numerics/__init__.py",
    "numerics/digest.py",
    "numerics/elements.py",
    "numerics/environment.py",
    "numerics/formats.py",
    "numerics/hashing.py",
    "numerics/overlap.py",
    "numerics/philox.py",
    "numerics/tensors.py",
    "printing.py",
)
_LICENSE = """# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
_MAIN = """
import sys

from repro_mlir.bundle.runner.command import main

sys.exit(main())
"""


def runner_members() -> dict[str, bytes]:
    """The files, by path, with which a zip is a program: `python FILE` is `python -m repro_mlir.bundle.runner`."""
    members = {
        "__main__.py": (_LICENSE + _MAIN).encode(),
        # Without the compiler, which the package's own imports.
        "repro_mlir/__init__.py": (_LICENSE + '\n"""The part of repro-mlir that runs bundles."""\n').encode(),
        "repro_mlir/frontends/torch/__init__.py": _LICENSE.encode(),
    }
    modules = [_PACKAGE / name for name in _MODULES] + sorted((_PACKAGE / "bundle" / "runner").glob("*.py"))
    for path in modules:
        members[f"repro_mlir/{path.relative_to(_PACKAGE).as_posix()}"] = path.read_bytes()
    return members


def write_runner(path: str | Path) -> None:
    """Writes the runner as one file: `python PATH model.rmb --steps 10`."""
    write_file(path, archive_of(runner_members()))
