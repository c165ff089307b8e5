# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scores the recorded outputs of other projects and of tensor cores by the rules of the conformance vectors.

`make check-vectors VECTORS=DIR`: DIR or its folders have the .npz files of `make check-block-formats` and `make
check-tensor-cores`. A recording has its own operands: the reference interpreter computes the results for these, under
the rule of the project's name for it, without the variants that imitate the project. Each test prints the score of a
file and compares it with SCORES.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.conformance.catalogue import MX, make_group
from repro_mlir.conformance.group import Array, Arrays, Group, Parameters
from repro_mlir.conformance.operations import compute, format_of
from repro_mlir.conformance.score import score
from repro_mlir.reference.low_precision.binary_formats import F16, decode
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements

FILES = sorted(Path(os.environ.get("REPRO_VECTORS") or "/nonexistent").rglob("*.npz"))

ELEMENTS = {"mxfp4_e2m1": "f4E2M1FN", "mxfp6_e2m3": "f6E2M3FN", "mxfp6_e3m2": "f6E3M2FN"}
ELEMENTS |= {name: element for name, element in MX.items() if name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxint8")}

LIBRARY = {"float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float6_e3m2fn": "f6E3M2FN"}
LIBRARY |= {"float6_e2m3fn": "f6E2M3FN", "float4_e2m1fn": "f4E2M1FN"}

DEVICES = {"V100": "volta", "A100": "ampere", "A2": "ampere", "Ada": "ada", "L40S": "ada", "H100": "hopper"}
DEVICES |= {"H200": "hopper", "B200": "blackwell"}
FORMATS = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "E4M3": "f8E4M3FN", "E5M2": "f8E5M2"}

SCORES: dict[str, tuple[int, int]] = {
    "microxcaling-mxfp4_e2m1": (471, 656),
    "microxcaling-mxfp6_e2m3": (515, 702),
    "microxcaling-mxfp6_e3m2": (519, 702),
    "microxcaling-mxfp8_e4m3": (585, 757),
    "microxcaling-mxfp8_e5m2": (605, 779),
    "microxcaling-mxint8": (280, 736),
    "ml_dtypes-casts": (99985, 99985),
    "te-mxfp8_e4m3-1x32": (756, 757),
    "te-nvfp4-1x16-row-scaled": (1509, 1534),
    "te-nvfp4-1x16": (1513, 1534),
    "torchao-0.18.0-mxfp4_e2m1": (2340, 2624),
    "torchao-0.18.0-mxfp6_e2m3": (2509, 2808),
    "torchao-0.18.0-mxfp6_e3m2": (2459, 2808),
    "torchao-0.18.0-mxfp8_e4m3": (2608, 3028),
    "torchao-0.18.0-mxfp8_e5m2": (2625, 3116),
    "torchao-0.18.0-nvfp4-single": (630, 630),
    "torchao-0.18.0-nvfp4-two-level": (792, 792),
    "torchao-36027d8-mxfp4_e2m1": (2623, 2624),
    "torchao-36027d8-mxfp6_e2m3": (2807, 2808),
    "torchao-36027d8-mxfp6_e3m2": (2807, 2808),
    "torchao-36027d8-mxfp8_e4m3": (3027, 3028),
    "torchao-36027d8-mxfp8_e5m2": (3115, 3116),
    "torchao-36027d8-nvfp4-single": (630, 630),
    "torchao-36027d8-nvfp4-two-level": (792, 792),
    "A100-bf16": (1000, 1000),
    "A100-fp16": (2000, 2000),
    "A100-tf32": (1000, 1000),
    "A2-bf16": (1000, 1000),
    "A2-fp16": (2000, 2000),
    "A2-tf32": (1000, 1000),
    "Ada-E4M3": (2000, 2000),
    "Ada-E5M2": (2000, 2000),
    "Ada-bf16": (1000, 1000),
    "Ada-fp16": (2000, 2000),
    "Ada-tf32": (1000, 1000),
    "B200-E4M3": (2000, 2000),
    "B200-E5M2": (2000, 2000),
    "B200-bf16": (1000, 1000),
    "B200-fp16": (2000, 2000),
    "B200-tf32": (1000, 1000),
    "H100-E4M3": (2000, 2000),
    "H100-E5M2": (2000, 2000),
    "H100-bf16": (1000, 1000),
    "H100-fp16": (2000, 2000),
    "H100-tf32": (1000, 1000),
    "H200-E4M3": (2000, 2000),
    "H200-E5M2": (2000, 2000),
    "H200-bf16": (1000, 1000),
    "H200-fp16": (2000, 2000),
    "H200-tf32": (1000, 1000),
    "L40S-E4M3": (1000, 1000),
    "L40S-E5M2": (1000, 1000),
    "L40S-bf16": (1000, 1000),
    "L40S-fp16": (2000, 2000),
    "L40S-tf32": (1000, 1000),
    "V100-fp16": (2000, 2000),
}
"""The numbers of right cases and of all cases with finite operands, by file, as docs/guides/vectors.md states them."""

Recorded = tuple[Group, Arrays]


def floats(data: Arrays, name: str) -> np.ndarray:
    return np.ascontiguousarray(data[name]).view(np.float32)


def blocks(
    name: str, element: str, scale: str, x: np.ndarray, outputs: dict[str, str], tensor: np.ndarray | None = None
) -> Group:
    """Returns the group of blocks `x` [n, block], whose kinds are finite and, open, infinite."""
    inputs = {"x": Array(x, "f32")} | ({} if tensor is None else {"tensor": Array(tensor, "f32")})
    parameters: Parameters = {"element": element, "block": x.shape[1], "scale": scale}
    kinds = (~np.isfinite(x).all(axis=1)).astype(np.uint8)
    named = kinds, ["finite", "not_finite"]
    return make_group(name, "quantize", "Q2", parameters, inputs, named, outputs, ("not_finite",))


def recorded_blocks(stem: str, data: Arrays) -> Iterator[Recorded]:
    """Yields groups of blocks with the recorded codes and scales."""
    project, _, kind = stem.rpartition("-")
    if project.startswith("torchao") and kind in ELEMENTS:
        for mode in ("FLOOR", "CEIL", "EVEN", "RCEIL"):
            outputs = {"codes": ELEMENTS[kind], "scales": "f8E8M0FNU"}
            group = blocks(mode, ELEMENTS[kind], mode.lower(), floats(data, "x"), outputs)
            yield group, {"codes": data[f"code_{mode}"], "scales": data[f"scale_{mode}"]}
    elif project.startswith("torchao"):
        tensor = floats(data, "per_tensor_scale")[data["tensor"]] if "tensor" in data else None
        rule = "nvfp4_single" if tensor is None else "nvfp4_quotient"
        group = blocks(rule, "f4E2M1FN", rule, floats(data, "x"), NVFP4, tensor)
        yield group, {"codes": data["code"], "scales": data["scale"]}
    elif stem in ("te-nvfp4-1x16", "te-nvfp4-1x16-row-scaled"):
        x = floats(data, "x")
        amax = floats(data, "amax")[:, :, np.newaxis]
        tensor = np.broadcast_to(amax, data["scale"].shape).reshape(-1).copy()
        group = blocks("nvfp4", "f4E2M1FN", "nvfp4", x.reshape(-1, 16), NVFP4, tensor)
        yield group, {"codes": data["code"].reshape(-1, 16), "scales": data["scale"].reshape(-1)}
    elif stem == "te-mxfp8_e4m3-1x32":
        outputs = {"codes": "f8E4M3FN", "scales": "f8E8M0FNU"}
        group = blocks("rceil", "f8E4M3FN", "rceil", floats(data, "x"), outputs)
        yield group, {"codes": data["code"], "scales": data["scale"]}
    elif project == "microxcaling":
        # Nothing but values is recorded, so they are compared with the values of our codes.
        group = blocks("floor", ELEMENTS[kind], "floor", floats(data, "x"), {"codes": "", "scales": ""})
        quantized = {name: array.values for name, array in group.outputs.items()}
        want = compute("dequantize", quantized, group.parameters)["values"]
        values = Group(
            group.name, "dequantize", "Q2", group.parameters, group.inputs, {"values": Array(want, "f32")}, group.kinds,
            group.kind_names, group.open_kinds,
        )  # fmt: skip
        yield values, {"values": floats(data, "y_even")}


NVFP4 = {"codes": "f4E2M1FN", "scales": "f8E4M3FN"}


def recorded_casts(stem: str, data: Arrays) -> Iterator[Recorded]:
    """Yields groups of casts of ml_dtypes with the recorded codes."""
    x = floats(data, "x")
    kinds = np.isnan(x).astype(np.uint8), ["number", "nan"]
    for name, element in LIBRARY.items():
        saturate = element not in ("f8E4M3FN", "f8E5M2")
        parameters = {"format": element, "rounding": "rne", "saturate": saturate}
        unspecified = ("nan",) if saturate else ()
        inputs = {"x": Array(x, "f32")}
        group = make_group(name, "round", "Q3", parameters, inputs, kinds, {"codes": element}, unspecified)
        yield group, {"codes": data[name]}


def recorded_dots(stem: str, data: Arrays) -> Iterator[Recorded]:
    """Yields groups of blocks of products with the recorded sums."""
    device, _, name = stem.partition("-")
    of = FORMATS[name]
    for result in sorted({"d_fp16", "d_fp32"} & data.keys()):
        unit, to, c = DEVICES[device], "f16" if result == "d_fp16" else "f32", floats(data, "c")
        if name in ("E4M3", "E5M2"):
            # f8 of Hopper with results in f32 was recorded without c; mma.sync of f8 runs as two instructions of f16.
            if (unit, to) == ("hopper", "f32"):
                c = np.zeros_like(c)
            elif unit in ("hopper", "blackwell"):
                unit = f"{unit}_mma"
        if to == "f16":
            c = decode(round_elements(c, F16, Rounding(saturate=False)), F16)
        inputs = {each: Array(coded(floats(data, each), of), of) for each in "ab"} | {"c": Array(c, "f32")}
        parameters = {"accumulator": unit, "format": of, "result": to}
        kinds = np.zeros(len(c), np.uint8), ["block"]
        group = make_group(f"{unit} {to}", "dot", "M3", parameters, inputs, kinds, {"d": "f32"})
        yield group, {"d": floats(data, result)}


def coded(x: np.ndarray, of: str) -> np.ndarray:
    return x if of == "tf32" else round_elements(x, format_of(of), Rounding(saturate=False))


@pytest.mark.skipif(not FILES, reason="recorded outputs are no part of this repository: make check-vectors VECTORS=DIR")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_scores(file: Path, record_property) -> None:
    with np.load(file) as archive:
        data = {name: archive[name] for name in archive.files}
    device = file.stem.partition("-")[0]
    groups = recorded_dots if device in DEVICES else recorded_casts if device == "ml_dtypes" else recorded_blocks
    found = []
    with np.errstate(all="ignore"):
        for group, got in groups(file.stem, data):
            each = score(group, lambda *given, got=got: got)
            assert each is not None and not each.error, each
            found.append(each)
    if not found:
        pytest.skip("no group of the vectors has the operation of this file")
    parts = [f"{each.name} {each.right} of {each.cases} ({each.only_zero_signs} signs of zeros)" for each in found]
    record_property("recorded", f"{file.stem}: {', '.join(parts)}")
    print(f"{file.stem}: {', '.join(parts)}")
    for each in found:
        if each.first_wrong:
            print(f"  {each.name}: {each.first_wrong}")
    assert (sum(each.right for each in found), sum(each.cases for each in found)) == SCORES[file.stem]
