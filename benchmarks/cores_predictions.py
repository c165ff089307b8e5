# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts published figures of machines of many cores, with the analytic model.

    python benchmarks/cores_predictions.py [--json FILE]

The model uses the machine files alone (docs/contributors/machines.md). The time of a matrix product is the fixed cost
of a call plus the larger of two times: that of the arrays of the cores, with filling and draining, and that of the
DRAM, from which each operand is read once and to which each result is written once. A row of the kind `calibration` is
the measurement that a number of the machine file comes from, so it cannot check the model.
"""

import argparse
import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from repro_mlir._mlir_libs import _repro
from repro_mlir.compilation.cores import read_machine


class Machine:
    """The numbers of a machine file that the model uses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._sections: dict[str, Any] = json.loads(read_machine(name).text)

    def _get(self, section: str, number: str) -> Any:
        return self._sections[section][number]["value"]

    @property
    def cores(self) -> int:
        return int(self._get("grid", "columns") * self._get("grid", "rows") - len(self._get("grid", "absent")))

    @property
    def clock(self) -> float:
        return float(self._get("core", "clock_hz"))

    @property
    def call_seconds(self) -> float:
        return float(self._get("calibration", "call_seconds"))

    @property
    def accumulators(self) -> tuple[int, int]:
        return int(self._get("matrix", "rows")), int(self._get("matrix", "columns"))

    @property
    def products_per_cycle(self) -> float:
        rows, columns = self.accumulators
        return float(rows * columns * self._get("matrix", "depth") / self._get("matrix", "passes"))

    @property
    def dram_bytes_per_second(self) -> float:
        channels = self._sections["dram"]["channels"]
        peak = sum(each["bytes_per_second"]["value"] for each in channels)
        return float(peak * self._get("calibration", "dram_efficiency"))

    def array_cycles(self, depth: int) -> float:
        """The cycles of one block of results, by the formula of the compiler."""
        return _repro.many_core_matrix_cycles(self.name.encode(), depth)

    def product_seconds(self, m: int, n: int, k: int, split: tuple[int, int] | None = None) -> float:
        """The time of the arrays for an m x n x k product, whose rows and columns are split among the cores as given,
        or so that the time is least."""
        splits = [split] if split else [(p, self.cores // p) for p in range(1, self.cores + 1)]
        rows, columns = self.accumulators
        blocks = min(
            math.ceil(math.ceil(m / p) / height) * math.ceil(math.ceil(n / q) / width)
            for p, q in splits
            for height, width in ((rows, columns), (columns, rows))
        )
        return blocks * self.array_cycles(k) / self.clock

    def dram_seconds(self, m: int, n: int, k: int, operand_bytes: int, result_bytes: int) -> float:
        moved = (m * k + k * n) * operand_bytes + m * n * result_bytes
        return moved / self.dram_bytes_per_second

    def used_share(self, m: int, n: int, k: int, split: tuple[int, int] | None = None) -> float:
        """The part of the peak of all arrays that a product with operands in the cores' memories reaches."""
        peak = self.cores * self.products_per_cycle * self.clock
        return m * n * k / self.product_seconds(m, n, k, split) / peak


@dataclass(frozen=True)
class Row:
    """A predicted figure. `predicted` has two numbers, the least and the largest, for a range."""

    machine: str
    name: str
    unit: str
    predicted: list[float]
    kind: str = "prediction"  # or "calibration"; "assumed shape" if no source states the shape
    assumption: str = ""


def _spinnaker2() -> Iterator[Row]:
    machine = Machine("spinnaker2")

    def row(name: str, unit: str, predicted: list[float], kind: str = "prediction", assumption: str = "") -> Row:
        return Row(machine.name, name, unit, predicted, kind, assumption)

    percent = 100.0
    yield row(
        "use of the arrays, matrix products of a transformer, operands in SRAM",
        "%",
        [percent * machine.used_share(512, 3072, 768)],
        "calibration",
        "512 x 3072 x 768",
    )
    yield row("scheduling of a layer", "us", [machine.call_seconds * 1e6], "calibration")
    yield row(
        "use of the arrays, fully connected layers",
        "%",
        [percent * machine.used_share(1, 4096, k) for k in (256, 4096)],
        "assumed shape",
        "batch of 1, 4096 outputs, 256 and 4096 inputs, operands in SRAM",
    )
    yield row(
        "use of the arrays, convolutions",
        "%",
        [percent * machine.used_share(32 * 32, 64, 9 * channels) for channels in (3, 64)],
        "assumed shape",
        "3 x 3, 32 x 32 pixels, 64 outputs, 3 and 64 input channels, operands in SRAM",
    )
    m, n, k = 16, 1024, 1024
    weights = n * k / machine.dram_bytes_per_second
    arrays = machine.product_seconds(m, n, k)
    shape = f"{m} x {n} x {k}, weights of one byte"
    yield row("layer of an MLP: weights from the DRAM", "us", [weights * 1e6], "assumed shape", shape)
    yield row("layer of an MLP: arrays", "us", [arrays * 1e6], "assumed shape", shape)
    moved = machine.dram_seconds(m, n, k, 1, 1)
    total = machine.call_seconds + max(arrays, moved)
    yield row("layer of an MLP: whole layer", "us", [total * 1e6], "assumed shape", shape)
    shares = []
    for rows in (512, 1):
        dram = machine.dram_seconds(rows, 768, 768, 1, 1)
        shares.append(percent * dram / (dram + machine.product_seconds(rows, 768, 768)))
    yield row(
        "share of the DRAM in the time of matrix product layers, one after the other",
        "%",
        shares,
        "assumed shape",
        "768 inputs and outputs of one byte, 512 rows and 1 row",
    )
    for m, k, n in ((512, 768, 768), (512, 768, 3072)):
        cycles = machine.product_seconds(m, n, k, (2, 48)) * machine.clock
        name = f"cycles of Timeloop for ({m}, {k}, {n})"
        yield row(name, "cycles", [cycles], assumption="rows on 2 and columns on 48 cores")
    cycles = machine.product_seconds(512, 512, 64, (2, 48)) * machine.clock
    yield row(
        "cycles of Timeloop for (512, 64, 512)",
        "cycles",
        [cycles],
        "assumed shape",
        "64 is the depth; rows on 2 and columns on 48 cores",
    )


def _wormhole() -> Iterator[Row]:
    machine = Machine("wormhole-n150")
    for size in (512, 2048, 4096):
        arrays = machine.product_seconds(size, size, size)
        seconds = machine.call_seconds + max(arrays, machine.dram_seconds(size, size, size, 2, 2))
        kind = "calibration" if size == 512 else "prediction"
        peak = machine.cores * machine.products_per_cycle * machine.clock
        name = f"{size} x {size} x {size}, bf16, HiFi2, operands in the DRAM"
        yield Row(machine.name, f"{name}: time", "us", [seconds * 1e6], kind)
        yield Row(machine.name, f"{name}: rate", "TFLOP/s", [2e-12 * size**3 / seconds], kind)
        yield Row(machine.name, f"{name}: use", "%", [100 * size**3 / seconds / peak], kind)


def _npu2() -> Iterator[Row]:
    machine = Machine("npu2-strix")
    size = 4096
    seconds = max(machine.product_seconds(size, size, size), machine.dram_seconds(size, size, size, 2, 2))
    rate = 2e-12 * size**3 / seconds
    shape = f"{size} x {size} x {size}"
    # The array multiplies bytes at twice the rate of bf16.
    moved = machine.dram_seconds(size, size, size, 1, 1)
    bytes_rate = 2e-12 * size**3 / max(machine.product_seconds(size, size, size) / 2, moved)
    yield Row(machine.name, "largest matrix product, int8", "TOP/s", [bytes_rate], "calibration", shape)
    yield Row(machine.name, "largest matrix product, bf16", "TOP/s", [rate], "prediction", shape)


def predictions() -> list[Row]:
    return [*_spinnaker2(), *_wormhole(), *_npu2()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the predictions to FILE", metavar="FILE")
    options = parser.parse_args()
    rows = predictions()
    for row in rows:
        numbers = " to ".join(f"{number:.4g}" for number in row.predicted)
        print(f"{row.machine:14} {row.name}: {numbers} {row.unit} ({row.kind})")
    if options.json:
        content = {
            "date": datetime.date.today().isoformat(),
            "model": "analytic",
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
