# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the machine's limits: multiply-adds per second and bytes per second."""

from functools import partial

import numpy as np
import torch
from case import Setting
from programs import compiled
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.program.canonical import to_bytes
from timing import interleaved

# The numbers of independent chains of multiply-adds to try; only the fastest variant counts. More chains hide the
# latency better, but need more registers: at least one for each chain.
_CHAINS, _LENGTH, _ELEMENTS = (4, 6, 8, 12), 100, 1 << 17
_PRODUCT = 512
_STREAM_ELEMENTS = 1 << 24


def _fma_program(chains: int) -> str:
    """Returns an element-wise program that computes independent chains of x = fma(x, a, b)."""
    shape = f"tensor<{_ELEMENTS}xf32>"
    body = [f"%c{i} = arith.constant {1 + i / 16:e} : f32" for i in range(chains)]
    body += [f"%x{i}_0 = arith.addf %x, %c{i} : f32" for i in range(chains)]
    for step in range(_LENGTH):
        body += [f"%x{i}_{step + 1} = math.fma %x{i}_{step}, %a, %b : f32" for i in range(chains)]
    body.append(f"%s0 = arith.addf %x0_{_LENGTH}, %x1_{_LENGTH} : f32")
    body += [f"%s{i} = arith.addf %s{i - 1}, %x{i + 1}_{_LENGTH} : f32" for i in range(1, chains - 1)]
    lines = "\n".join(body)
    return f"""
#map = affine_map<(d0) -> (d0)>
func.func @main(%in: {shape}) -> {shape} attributes {{repro.num_state = 0 : i64}} {{
  %a = arith.constant 5.000000e-01 : f32
  %b = arith.constant 1.000000e+00 : f32
  %empty = tensor.empty() : {shape}
  %out = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}}
      ins(%in : {shape}) outs(%empty : {shape}) {{
  ^bb0(%x: f32, %unused: f32):
    {lines}
    linalg.yield %s{chains - 2} : f32
  }} -> {shape}
  return %out : {shape}
}}
"""


def fma_peak(setting: Setting, seconds: float = 0.2) -> float:
    """Returns the highest FLOP/s of float32 multiply-adds in our programs at this CPU level. Measures chains that work
    in registers, and a matrix product whose operands fit in the cache."""
    inputs = [np.zeros(_ELEMENTS, np.float32)]
    runs = {}
    for chains in _CHAINS:
        artifact = cached_compile(to_bytes(_fma_program(chains)), setting.level)
        executable = CpuBackend(artifact, setting.threads)
        outputs = [kind.empty() for kind in executable.outputs]
        runs[str(chains)] = partial(executable.run, [], inputs, outputs)
    a = torch.ones(_PRODUCT, _PRODUCT)
    flops = {name: 2.0 * int(name) * _LENGTH * _ELEMENTS for name in runs} | {"product": 2.0 * _PRODUCT**3}
    runs["product"] = compiled("peak", torch.mm, (a, a.clone()), setting)
    times = interleaved(runs, seconds)
    return max(flops[name] / figure.best for name, figure in times.items())


def stream_bandwidth(seconds: float = 0.3) -> float:
    """Returns the highest number of bytes per second that torch moves by copy, scale or triad of arrays larger than any
    cache.

    Counts the bytes that the program reads and writes, not those that a cache reads before a write.
    """
    a, b, c = (torch.zeros(_STREAM_ELEMENTS) for _ in range(3))
    size = 4 * _STREAM_ELEMENTS
    times = interleaved(
        {
            "copy": lambda: c.copy_(a),
            "scale": lambda: torch.mul(a, 3.0, out=c),
            "triad": lambda: torch.add(a, b, alpha=3.0, out=c),
        },
        seconds,
    )
    moved = {"copy": 2 * size, "scale": 2 * size, "triad": 3 * size}
    return max(moved[name] / figure.best for name, figure in times.items())
