# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Descriptions of initial state tensors that are filled with one value, or drawn as by `repro_mlir.initialize`.

A bundle contains such a description instead of the bytes of the tensor:

    {"from": "fill", "bits": "0000803f"}                                  every element has these bytes (little-endian)
    {"from": "uniform", "seed": 0, "site": 3, "scale": "f304353e"}        (u - 0.5) * scale in f32, u by (R1), (R2)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from repro_mlir.base.numerics.philox import Place, map_runs, uniform
from repro_mlir.base.numerics.tensors import TensorType, check_canonical, from_bytes


def initial_array(kind: TensorType, description: Mapping[str, Any]) -> np.ndarray:
    """Returns a new array of type `kind` from its description. Raises KeyError or ValueError if the description is
    invalid."""
    if description["from"] == "fill":
        element = from_bytes(bytes.fromhex(description["bits"]), TensorType(kind.name, kind.element, ()))
        check_canonical(element, kind, "initial value")
        return np.full(kind.shape, element, kind.dtype)
    if description["from"] != "uniform" or kind.element != "f32":
        raise ValueError(f"unknown initial value {description['from']!r} of {kind}")
    (scale,) = np.frombuffer(bytes.fromhex(description["scale"]), "<f4")
    return centred_uniform(kind.shape, int(description["seed"]), int(description["site"]), np.float32(scale))


def centred_uniform(shape: tuple[int, ...], seed: int, site: int, scale: np.float32) -> np.ndarray:
    """Returns (u - 0.5) * scale in f32, where u is uniform by (R1) and (R2) at `site` in step 0. Uses several
    threads."""

    def centred(bits: np.ndarray) -> np.ndarray:
        return (uniform(bits) - np.float32(0.5)) * scale

    size, threads = int(np.prod(shape, dtype=np.int64)), os.cpu_count() or 1
    result = map_runs(np.zeros(1, np.uint64), size, Place(seed, site, 0), centred, np.float32, threads=threads)
    return result.reshape(shape)


def describe_initial(kind: TensorType, array: np.ndarray, seed: int, sites: int) -> dict[str, Any] | None:
    """Returns a description from which `initial_array` makes exactly the bytes of `array`; None if there is none.

    Args:
      kind: the type of the array.
      array: the value.
      seed: the seed of `initialize`.
      sites: the number of sites that are tried, starting with 0.
    """
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, kind.dtype.itemsize)
    if array.size and (raw == raw[0]).all():
        return {"from": "fill", "bits": raw[0].tobytes().hex()}
    if kind.element != "f32" or len(kind.shape) < 2:
        return None
    fan_in = array.size // max(kind.shape[0], 1)
    scale = np.float32(2.0) * np.float32(np.sqrt(np.float64(1.0) / np.float64(max(fan_in, 1))))
    start = array.reshape(-1)[:4]
    for site in range(sites):
        if np.array_equal(centred_uniform((start.size,), seed, site, scale), start) and np.array_equal(
            centred_uniform(kind.shape, seed, site, scale).view(np.uint32), array.view(np.uint32)
        ):
            bits = np.array(scale, "<f4").tobytes().hex()
            return {"from": "uniform", "seed": seed, "site": site, "scale": bits}
    return None
