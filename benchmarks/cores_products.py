# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the simulated times of matrix products on machines of many cores with their bounds.

    python benchmarks/cores_products.py [--machine NAME ...] [--cuts gain|all|none] [--json FILE]

The bound of a step is the largest of three times: that of the kernels of the busiest core, of the busiest channel of
the DRAM, and of the busiest cut of the network; each includes the cost of a call (docs/guides/many-cores.md). `--cuts`
is the option of the pass `repro-map-split`, which cuts sums at chunks.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from cores_mapping import map_program
from repro_mlir.execute.cores import CoresBackend

_ORDERS = {
    "f32": "#repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>",
    "exact, 2 digits": "#repro.exact<digits = 2>",
}

# Products whose sums are worth cutting.
_LONG = [(16, 16, 4096), (64, 64, 8192), (256, 256, 4096)]

_SHAPES = {
    "tiny-2x2": [(16, 16, 64), (64, 64, 64), (64, 256, 128), (16, 16, 2048)],
    "spinnaker2": [(64, 64, 64), (256, 256, 256), (512, 512, 512), (512, 768, 768), *_LONG],
    "wormhole-n150": [(64, 64, 64), (256, 256, 256), (512, 512, 512), (1024, 1024, 512), *_LONG],
}

_PROGRAM = """
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<{m}x{k}xf32>, %y: tensor<{k}x{n}xf32>, %z: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.fold {order} maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) outs(%z : tensor<{m}x{n}xf32>) {{
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %s = math.fma %u, %v, %acc : f32
    repro.yield %s : f32
  }} -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}
"""


def simulate(machine: str, shape: tuple[int, int, int], order: str, cuts: str = "gain") -> dict[str, Any]:
    """Returns the report of the simulator for an m x n x k product of random numbers."""
    m, n, k = shape
    program = _PROGRAM.format(m=m, n=n, k=k, order=order)
    backend = CoresBackend(map_program(program, machine, f"cuts={cuts}"))
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n), (m, n))]
    backend.run([], inputs, [kind.empty() for kind in backend.outputs])
    return backend.report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", nargs="+", choices=_SHAPES, default=list(_SHAPES), metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the rows to FILE", metavar="FILE")
    parser.add_argument("--cuts", choices=("gain", "all", "fit"), default="gain", help="which sums are cut")
    options = parser.parse_args()
    rows = []
    print("| machine | m x n x k | sums | simulated | bound | ratio | largest bound |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for machine in options.machine:
        for shape in _SHAPES[machine]:
            for name, order in _ORDERS.items():
                report = simulate(machine, shape, order, options.cuts)
                seconds, bound = report["seconds"], report["bound_seconds"]
                largest = max(report["bounds"], key=report["bounds"].get)
                row = {"machine": machine, "shape": shape, "sums": name, "seconds": seconds, "bound_seconds": bound}
                rows.append(row | {"bounds": report["bounds"]})
                size = " x ".join(map(str, shape))
                times = f"{seconds * 1e6:,.0f} us | {bound * 1e6:,.0f} us | {seconds / bound:.2f}"
                print(f"| {machine} | {size} | {name} | {times} | {largest} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
