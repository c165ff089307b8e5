# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Packs the runner into files for machines that do not have this package."""

from __future__ import annotations

from pathlib import Path

from repro_mlir.base.files.archive import archive_of
from repro_mlir.base.files.storage import write_file

_PACKAGE = Path(__file__).resolve().parents[1]
# The modules outside runner/ that the runner imports. They need only NumPy and the standard library, and use PyTorch
# only if the process has already imported it.
_MODULES = (
    "base/__init__.py",
    "base/command_line.py",
    "base/constant_attributes.py",
    "base/errors.py",
    "base/hints.py",
    "base/limits.py",
    "base/near_names.py",
    "base/output_paths.py",
    "base/printing.py",
    "base/files/__init__.py",
    "base/files/archive.py",
    "base/files/json_shapes.py",
    "base/files/npz.py",
    "base/files/packed_elements.py",
    "base/files/regular.py",
    "base/files/storage.py",
    "base/files/tensor_file.py",
    "base/numerics/__init__.py",
    "base/numerics/digest.py",
    "base/numerics/elements.py",
    "base/numerics/environment.py",
    "base/numerics/formats.py",
    "base/numerics/hashing.py",
    "base/numerics/overlap.py",
    "base/numerics/philox.py",
    "base/numerics/tensors.py",
    "base/tensors/__init__.py",
    "base/tensors/arrays.py",
    "base/tensors/frameworks.py",
    "base/tensors/torch_tensors.py",
    "base/tensors/typed_arrays.py",
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
    """Returns, by path, the contents of the files that make a zip file executable, so that `python FILE` runs
    `repro_mlir.runner`."""
    members = {
        "__main__.py": (_LICENSE + _MAIN).encode(),
        # Replaces the package's own __init__.py, which imports the compiler.
        "repro_mlir/__init__.py": (_LICENSE + '\n"""The part of repro-mlir that runs bundles."""\n').encode(),
    }
    modules = [_PACKAGE / name for name in _MODULES] + sorted((_PACKAGE / "runner").glob("*.py"))
    for path in modules:
        members[f"repro_mlir/{path.relative_to(_PACKAGE).as_posix()}"] = path.read_bytes()
    return members


def write_runner(path: str | Path) -> None:
    """Writes the runner as one executable zip file: `python PATH model.rmb --steps 10`."""
    write_file(path, archive_of(runner_members()))
