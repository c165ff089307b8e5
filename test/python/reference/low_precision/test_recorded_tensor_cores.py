# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M1), (M3) Compares the named accumulators with the recorded results of tensor cores.

`make check-tensor-cores VECTORS=DIR` reads the files DEVICE-FORMAT.npz in DIR, with the operands `a`, `b` [n, K] and
`c` [n] and the results `d_fp32` and `d_fp16` [n], one of which may be missing, all as the bits of f32. Each row is one
block. For f16 results, c was rounded to f16 first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from edge_values import bits
from recorded import PROPERTY, Comparison, files, floats, without_nan_bits
from repro_mlir.reference.low_precision.accumulators import Accumulator, Fdpa, LateFdpa, accumulate, named_accumulator
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    TF32,
    BinaryFormat,
    decode,
)
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements

DEVICES = {
    "V100": "volta",
    "T4": "turing",
    "A100": "ampere",
    "A2": "ampere",
    "Ada": "ada",
    "L40S": "ada",
    "H100": "hopper",
    "H200": "hopper",
    "B200": "blackwell",
}
"""Maps a device to its accumulator class."""

FORMATS = {"fp16": F16, "bf16": BF16, "tf32": TF32, "E4M3": F8E4M3FN, "E5M2": F8E5M2}

RESULTS = {"d_fp32": F32, "d_fp16": F16}

TWO_HMMA = {("hopper", "d_fp16"), ("blackwell", "d_fp32"), ("blackwell", "d_fp16")}
"""Results of f8 that were recorded from `mma.sync`, which does not execute f8 instructions on these devices."""

WITHOUT_C = {("hopper", "d_fp32")}
"""Results of f8 that were recorded from wgmma without c."""


def operation(device: str, of: BinaryFormat, result: str) -> tuple[str, Accumulator]:
    """Returns the name of the accumulator class of a device, and the accumulator of this class for a format and a
    result."""
    name = DEVICES[device]
    if of in (F8E4M3FN, F8E5M2) and (name, result) in TWO_HMMA:
        name = f"{name}_mma"
    return name, named_accumulator(name, of, RESULTS[result])


def with_fraction(by: Accumulator, more: int) -> Accumulator:
    """Returns the accumulator with `more` additional fraction bits."""
    if isinstance(by, LateFdpa):
        return dataclasses.replace(by, inner=with_fraction(by.inner, more))
    assert isinstance(by, Fdpa) and by.fraction is not None
    return dataclasses.replace(by, fraction=by.fraction + more)


def tells_fraction(by: Accumulator, of: BinaryFormat, result: str) -> bool:
    """Returns whether random operands determine the number of fraction bits. With 25 fraction bits, sums of f8 lose no
    bits, and results in f16 do not show the last bits. With 13 fraction bits, both determine it."""
    inner = by.inner if isinstance(by, LateFdpa) else by
    assert isinstance(inner, Fdpa) and inner.fraction is not None
    return inner.fraction < 20 if of in (F8E4M3FN, F8E5M2) or result == "d_fp16" else True


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The contents of one file.

    Attributes:
      a: the first operands of all cases, as f32; b, c: the second operands and the addends.
      results: the bits of f32 results, by their names in RESULTS.
    """

    device: str
    of: BinaryFormat
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    results: dict[str, np.ndarray]

    def addend(self, result: str) -> np.ndarray:
        """Returns the values of c from which the results named `result` were computed."""
        if self.of in (F8E4M3FN, F8E5M2) and (DEVICES[self.device], result) in WITHOUT_C:
            return np.zeros_like(self.c)
        if result == "d_fp16":
            return decode(round_elements(self.c, F16, Rounding(saturate=False)), F16)
        return self.c


def recorded(file: Path) -> Recorded:
    with np.load(file) as archive:
        data = {name: archive[name] for name in archive.files}
    device, _, format_name = file.stem.partition("-")
    if device not in DEVICES or format_name not in FORMATS:
        pytest.fail(f"{file.name}: expected DEVICE-FORMAT.npz, of {', '.join(DEVICES)} and {', '.join(FORMATS)}")
    a, b, c = (floats(data, name) for name in "abc")
    results = {name: data[name] for name in sorted(RESULTS.keys() & data.keys())}
    return Recorded(device, FORMATS[format_name], a, b, c, results)


def compare(file: Path) -> tuple[Comparison, list[str]]:
    """Compares a file with the accumulators of its device. Also returns a note for each result that one fraction bit
    more or less would not change, although it should."""
    data = recorded(file)
    found = Comparison(file.name)
    unseen = []
    for result, bits_of_result in data.results.items():
        name, by = operation(data.device, data.of, result)
        a, b, c = data.a, data.b, data.addend(result)
        want = without_nan_bits(bits_of_result)
        found.arrays(f"{name} {result}", bits(accumulate(a, b, c, by, data.of)), want)
        wrong = [int((bits(accumulate(a, b, c, with_fraction(by, more), data.of)) != want).sum()) for more in (-1, 1)]
        found.notes.append(f"{result} {name}, {wrong[0]} and {wrong[1]} with a bit less and more")
        if tells_fraction(by, data.of, result) and min(wrong) == 0:
            unseen.append(found.notes[-1])
    return found, unseen


@pytest.mark.parametrize("file", files("REPRO_TENSOR_CORES", "check-tensor-cores"))
def test_recorded_M3(file: Path, record_property: Callable[[str, object], None]) -> None:
    found, unseen = compare(file)
    record_property(PROPERTY, found.line())
    assert found.compared and not found.differing, found.differing
    assert not unseen
