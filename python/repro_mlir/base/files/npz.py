# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Named arrays in .npz files, such as the inputs of a step."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.archive import archive_of, read_archive
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.numerics.tensors import TensorType


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes named arrays; equal arrays result in equal bytes. Raises ReproError if the file cannot be written."""
    members = {}
    for name, array in arrays.items():
        data = io.BytesIO()
        np.lib.format.write_array(data, array, allow_pickle=False)
        members[f"{name}.npy"] = data.getvalue()
    write_file(path, archive_of(members, members))


def load_inputs(path: str | None, inputs: Sequence[TensorType]) -> list[np.ndarray]:
    """Loads the arrays for `inputs` by name from an .npz file.

    Raises:
      ReproError: `path` is None although there are inputs, the file is not an .npz file, or its arrays do not have
        exactly the names of the inputs.
    """
    wanted = [kind.name for kind in inputs]
    if path is None:
        if wanted:
            raise ReproError(f"expected --inputs FILE with {', '.join(map(str, inputs))}")
        return []
    what = "an .npz file of plain arrays"
    members = read_archive(path, lambda name: name.endswith(".npy"), what)
    found = {}
    for name in wanted:
        data = members.get(f"{name}.npy")
        try:
            if data is not None:
                found[name] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        except Exception:
            # NumPy can raise any exception for a damaged file.
            raise ReproError(f"{path}: expected {what}") from None
    others = [name.removesuffix(".npy") for name in members]
    missing = [name for name in wanted if name not in found]
    unknown = [name for name in others if name not in wanted]
    if missing:
        raise ReproError(f"{path}: expected the inputs {', '.join(wanted)}, got {', '.join(others) or 'none'}")
    if unknown:
        raise ReproError(f"{path}: unknown inputs {', '.join(unknown)}, expected {', '.join(wanted) or 'none'}")
    return [found[name] for name in wanted]
