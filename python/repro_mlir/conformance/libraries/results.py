# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Results that a program wrote to files, for libraries in other languages and for hardware."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repro_mlir.base.files.regular import read_regular
from repro_mlir.conformance.group import Arrays, Compute, Group, Parameters, file_name


def results_in(folder: str | Path, group: Group) -> Compute:
    """Returns a function that reads the outputs of a group, or returns None if the folder has no file of the group.

    The elements of the output `codes` of the group `quantize/mxfp4/floor` are the bytes of the file
    quantize.mxfp4.floor.codes.bin, little-endian, with the dtype and shape of the expected output. The function raises
    ValueError if a file has another size, and ReproError if one is missing.
    """
    paths = {name: Path(folder) / file_name(group.name, name) for name in group.outputs}

    def read(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays | None:
        if not any(path.exists() for path in paths.values()):
            return None
        found = {}
        for name, path in paths.items():
            expected = group.outputs[name].values
            data = read_regular(path, expected.nbytes)
            if len(data) != expected.nbytes:
                raise ValueError(f"{path.name}: expected {expected.nbytes:,} bytes, got {len(data):,}")
            kind = expected.dtype.newbyteorder("<")
            found[name] = np.frombuffer(data, kind).astype(expected.dtype).reshape(expected.shape)
        return found

    return read
