# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads a folder of conformance vectors with NumPy only, checks the hash of every array, and scores a conversion from
float32 to bfloat16 as an example.

python read_vectors.py FOLDER
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def read_vectors(folder: str | Path) -> Iterator[dict[str, Any]]:
    """Yields the groups of vectors.json; in place of each array's record, `arrays` has the array by its name.

    Raises:
      ValueError: a file is damaged.
    """
    listed = json.loads((Path(folder) / "vectors.json").read_text())
    if listed["form"] != "repro-vectors" or listed["form_version"] != 1:
        raise ValueError(f"expected vectors of form version 1, got {listed['form']} {listed['form_version']}")
    for group in listed["groups"]:
        arrays = {}
        for record in group["arrays"]:
            data = (Path(folder) / Path(record["file"]).name).read_bytes()
            if hashlib.sha256(data).hexdigest() != record["sha256"]:
                raise ValueError(f"{record['file']}: the file is damaged")
            dtype = np.dtype(record["dtype"]).newbyteorder("<")
            arrays[record["name"]] = np.frombuffer(data, dtype).reshape(record["shape"])
        yield {**group, "arrays": arrays}


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Returns the codes of float32 values rounded to bfloat16, to nearest even."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def main(folder: str) -> None:
    """Prints the number of cases by operation, and the score of `to_bfloat16`."""
    counts: Counter[str] = Counter()
    for group in read_vectors(folder):
        counts[group["operation"]] += group["cases"]
        if group["name"] == "round/bf16/rne/overflow":
            right = to_bfloat16(group["arrays"]["x"]) == group["arrays"]["codes"]
    for operation, cases in counts.items():
        print(f"{operation:14} {cases:7,} cases")
    print(f"bfloat16: {int(right.sum())} of {right.size} cases right")


if __name__ == "__main__":
    main(sys.argv[1])
