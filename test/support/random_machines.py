# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Random machine files of many cores, each generated from a number."""

from __future__ import annotations

import json
import random
from typing import Any

from repro_mlir.compilation.cores import read_machine

_UNITS = ("fma", "add", "divide", "square_root", "compare", "load", "store", "integer", "long_integer", "double")


def machine(seed: int) -> str:
    """Returns the machine file with the number `seed`: grids of up to 6 x 6 cores with absent ones, up to 2 x 2 chips,
    memories from tiny to roomy, and all alignments, DMA engines, channels, links and groups."""
    choose = random.Random(f"machine {seed}")
    description: dict[str, Any] = json.loads(read_machine("tiny-2x2").text)

    def put(section: str, **numbers: object) -> None:
        for key, value in numbers.items():
            description[section][key] = {"value": value, "source": "random"}

    columns, rows = choose.randint(1, 6), choose.randint(1, 6)
    points = [[x, y] for x in range(columns) for y in range(rows)]
    absent = choose.sample(points, choose.choice([0, 0, choose.randrange(len(points))]))
    put("grid", columns=columns, rows=rows, absent=absent)
    alignment = choose.choice([1, 2, 4, 8, 16, 64, 256])
    data_bytes = int(2 ** choose.uniform(10.5, 20)) // 256 * 256
    put("core", clock_hz=choose.choice([1e6, 1e8, 3e9]), code_bytes=choose.choice([1 << 15, 1 << 18, 1 << 24]))
    put("core", data_bytes=data_bytes, banks=choose.choice([1, 4]))
    put("group", columns=_divisor(choose, columns), rows=_divisor(choose, rows))
    put("group", bytes=choose.choice([0, 1 << 12, 1 << 16]))
    put("cycles", **{unit: choose.choice([0, 0.25, 1, 3, 50]) for unit in _UNITS})
    put("cycles", **{key: choose.choice([0, 1, 20, 1000]) for key in ("run", "release", "acquire", "loop")})
    put("network", router_columns=_divisor(choose, columns), router_rows=_divisor(choose, rows))
    put("network", payload_bytes=choose.choice([1, 4, 16, 100]), hop_cycles=choose.choice([0, 1, 30]))
    put("network", link_bytes_per_cycle=choose.choice([0.1, 1, 8, 64]), multicast=choose.random() < 0.5)
    put("dma", engines=choose.choice([1, 1, 2, 5]), alignment=alignment, setup_cycles=choose.choice([0, 10, 1000]))
    put("dram", interleave_bytes=alignment * choose.choice([1, 3, 64]))
    description["dram"]["channels"] = [
        {
            "at": {"value": choose.choice(points), "source": "random"},
            "bytes_per_second": {"value": choose.choice([1e6, 1e8, 1e12]), "source": "random"},
            "latency_seconds": {"value": choose.choice([0, 1e-7, 1e-5]), "source": "random"},
        }
        for _ in range(choose.randint(1, 4))
    ]
    put("chips", columns=choose.choice([1, 1, 2]), rows=choose.choice([1, 1, 2]), hexagonal=choose.random() < 0.5)
    put("chips", link_bytes_per_second=choose.choice([1e7, 1e10]), link_latency_seconds=choose.choice([0, 1e-6]))
    return json.dumps(description)


def _divisor(choose: random.Random, number: int) -> int:
    return choose.choice([part for part in range(1, number + 1) if number % part == 0])
