# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1), (Q2), (Q3) Compares named variants with the recorded outputs of other projects' quantizers.

`make check-block-formats VECTORS=DIR` reads the .npz files in DIR, whose names identify the project. Floats are stored
as their bits (uint32), scales and codes as uint8, one code per element. `x` is the quantized input; the code below
lists the names of scales and codes. `same_NAME` marks elements on which all code paths of one project agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from edge_values import bits
from recorded import PROPERTY, Comparison, files, floats, without_nan_bits
from repro_mlir.reference.low_precision.binary_formats import (
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E4M3FN,
    F8E5M2,
    MXINT8,
    Format,
    decode,
    decode_e8m0,
)
from repro_mlir.reference.low_precision.block_quantization import TILES, BlockFormat, Quantized, dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements
from repro_mlir.reference.low_precision.block_scales import (
    SCALE_RULES,
    FourError,
    InfiniteAmax,
    PowerOfTwo,
    PowerRule,
    TwoLevel,
    power_bytes,
    power_exponent,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction
from repro_mlir.reference.low_precision.f32_operations import largest_magnitude

Data = dict[str, np.ndarray]

ELEMENTS: dict[str, Format] = {
    "mxfp8_e4m3": F8E4M3FN,
    "mxfp8_e5m2": F8E5M2,
    "mxfp6_e3m2": F6E3M2FN,
    "mxfp6_e2m3": F6E2M3FN,
    "mxfp4_e2m1": F4E2M1FN,
    "mxint8": MXINT8,
}

TORCHAO = {
    "main": {
        "FLOOR": PowerOfTwo(PowerRule.FLOOR),
        "CEIL": PowerOfTwo(PowerRule.CEIL),
        "EVEN": PowerOfTwo(PowerRule.EVEN),
        "RCEIL": PowerOfTwo(PowerRule.RCEIL_PRODUCT),
    },
    "0.18.0": {
        "FLOOR": PowerOfTwo(PowerRule.FLOOR, InfiniteAmax.POWER, least=-126),
        "CEIL": PowerOfTwo(PowerRule.CEIL, InfiniteAmax.POWER, least=-126),
        "EVEN": PowerOfTwo(PowerRule.EVEN, InfiniteAmax.POWER, least=-126),
        "RCEIL": PowerOfTwo(PowerRule.RCEIL, InfiniteAmax.LARGEST, least=0),
    },
}
"""torchao's rules: those of the release and those of later versions."""

MICROXCALING = {"nearest": Direction.NEAREST_AWAY, "even": Direction.NEAREST_EVEN, "floor": Direction.TOWARD_ZERO}

TRANSFORMER_ENGINE = Rounding(nan="zero", signed_zero=False)
"""TransformerEngine's reference of NVFP4 uses comparisons: a zero or NaN of either sign has code 0."""

LIBRARY = {
    "float8_e4m3fn": F8E4M3FN,
    "float8_e5m2": F8E5M2,
    "float6_e3m2fn": F6E3M2FN,
    "float6_e2m3fn": F6E2M3FN,
    "float4_e2m1fn": F4E2M1FN,
}


def amax_of(x: np.ndarray) -> np.ndarray:
    return largest_magnitude(x, -1)


def below_power(amax: np.ndarray) -> np.ndarray:
    """Marks values slightly below 2^n: a project that computes their logarithm in f32, with at most 17 fraction bits,
    may get n."""
    return np.isfinite(amax) & (np.frexp(amax)[0] >= 1 - 2.0**-16)


def above_maximum(amax: np.ndarray, element: Format) -> np.ndarray:
    """Marks values slightly above the element type's maximum times 2^n. In f32, the binary logarithm of their quotient
    by this maximum may be rounded to n."""
    largest = element.largest_integer * 2.0**element.least_place
    part = np.frexp(amax.astype(np.float64) / largest)[0]
    return np.isfinite(amax) & (part > 0.5) & (part < 0.5 + 2.0**-16)


def same(data: Data, name: str) -> np.ndarray:
    return ~data[f"same_{name}"] if f"same_{name}" in data else np.zeros(data[name].shape, np.bool_)


def canonical_e4m3(codes: np.ndarray) -> np.ndarray:
    return np.where(codes & 0x7F == 0x7F, np.uint8(0x7F), codes)


def canonical_e5m2(codes: np.ndarray) -> np.ndarray:
    return np.where(codes & 0x7F > 0x7C, np.uint8(0x7E), codes)


def canonical(codes: np.ndarray, element: Format) -> np.ndarray:
    """(V4) Replaces the code of each NaN by that of the canonical NaN if the codes are f8; returns other codes
    unchanged."""
    return {F8E4M3FN: canonical_e4m3, F8E5M2: canonical_e5m2}.get(element, lambda each: each)(codes)


# --- One function per file type ---


def torchao(data: Data, found: Comparison, version: str, kind: str) -> None:
    x, element = floats(data, "x"), ELEMENTS[kind]
    # A version that TORCHAO does not list is newer than the listed releases, so the rules of the main branch apply.
    for mode, rule in TORCHAO[version if version in TORCHAO else "main"].items():
        q = quantize(x, BlockFormat(element, TILES["mx"], rule))
        scale, code = data[f"scale_{mode}"], data[f"code_{mode}"]
        log = np.zeros(len(x), np.bool_)
        if version == "0.18.0" and mode == "RCEIL":
            log = above_maximum(amax_of(x), element)
        found.arrays(f"scale_{mode}", q.scales[:, 0], scale, logarithm_in_f32=log)
        found.arrays(
            f"code_{mode}",
            canonical(q.codes, element),
            canonical(code, element),
            logarithm_in_f32=log[:, np.newaxis],
            scale_is_NaN=(scale == 255)[:, np.newaxis],
            depends_on_the_CPU=same(data, f"code_{mode}"),
        )


def torchao_nvfp4(data: Data, found: Comparison, version: str, kind: str) -> None:
    x = floats(data, "x")
    if kind == "single":
        parts = [(np.ones(len(x), np.bool_), quantize(x, nvfp4("nvfp4_single")), None)]
    else:
        given = floats(data, "per_tensor_scale")
        parts = []
        for number, scale in enumerate(given):
            rows = data["tensor"] == number
            parts.append((rows, quantize(x[rows], nvfp4("nvfp4_quotient"), scale), scale))
    for rows, q, scale in parts:
        want = canonical_e4m3(data["scale"][rows])
        found.arrays("scale", canonical_e4m3(q.scales[:, 0]), want)
        found.arrays(
            "code",
            q.codes,
            data["code"][rows],
            scale_is_NaN=(want == 0x7F)[:, np.newaxis],
            depends_on_the_CPU=same(data, "code")[rows],
            # For an element 0 and a scale 0, torchao computes 0 * (1 / 0), a NaN, which f4E2M1FN cannot represent.
            element_is_NaN=(x[rows] == 0) & (scale is not None and scale == 0),
        )


def nvfp4(name: str) -> BlockFormat:
    return BlockFormat(F4E2M1FN, TILES["nvfp4"], SCALE_RULES[name])


def microxcaling(data: Data, found: Comparison, kind: str) -> None:
    x, element = floats(data, "x"), ELEMENTS[kind]
    amax = amax_of(x)
    finite = np.where(np.isfinite(amax) & (amax > 0), amax, np.float32(2.0**-126))
    exponent = power_exponent(finite, element, PowerRule.FLOOR) + element.max_exponent
    found.arrays(
        "shared_exp",
        exponent.astype(np.float32),
        floats(data, "shared_exp"),
        logarithm_in_f32=below_power(amax),
        scale_is_NaN=~np.isfinite(amax),
    )
    for name, direction in MICROXCALING.items():
        form = BlockFormat(element, TILES["mx"], PowerOfTwo(PowerRule.FLOOR), Rounding(direction, signed_zero=False))
        q = quantize(x, form)
        got, want = bits(dequantize(q, form)), without_nan_bits(data[f"y_{name}"])
        # If |x| is one ulp below half of the smallest step of the format, microxcaling rounds |x| up to a step, because
        # it adds half a step in f32.
        half = np.float64(2.0) ** (q.scales.astype(np.float64) - 127 + element.least_place - 1)
        low = np.abs(x).astype(np.float64)
        close = (low < half) & (low >= half * (1 - 2.0**-24)) & (name != "floor")
        found.arrays(
            f"y_{name}",
            got,
            want,
            logarithm_in_f32=below_power(amax)[:, np.newaxis],
            half_added_in_f32=close,
            integer_has_no_minus_zero=(want == 0x80000000) & (got == 0) & (element == MXINT8),
        )


def te_nvfp4(data: Data, found: Comparison, tile: str, variants: dict[str, TwoLevel]) -> None:
    x = floats(data, "x")
    for suffix, rule in variants.items():
        form = BlockFormat(F4E2M1FN, TILES[tile], rule, TRANSFORMER_ENGINE)
        given = floats(data, "amax") if "amax" in data and data["amax"].shape[1:] in ((), x.shape[1:2]) else None
        parts = [quantize(each, form, None if given is None else given[i]) for i, each in enumerate(x)]
        compare_two_level(found, data, suffix, parts)
        if "amax" in data and given is None:
            tensors = np.array([part.tensor for part in parts])
            found.arrays("amax", bits(tensors), without_nan_bits(data["amax"])[:, 0])
    if "given_tensor" in data:
        form = BlockFormat(F4E2M1FN, TILES[tile], TwoLevel(), TRANSFORMER_ENGINE)
        pairs = zip(data["given_tensor"], floats(data, "given_amax"), strict=True)
        compare_two_level(found, data, "given", [quantize(x[i], form, amax) for i, amax in pairs])


def compare_two_level(found: Comparison, data: Data, name: str, parts: list[Quantized]) -> None:
    scale, code = ("given_scale", "given_code") if name == "given" else (f"scale{name}", f"code{name}")
    found.arrays(scale, canonical_e4m3(np.stack([q.scales for q in parts])), canonical_e4m3(data[scale]))
    found.arrays(code, np.stack([q.codes for q in parts]), data[code])


def te_four_over_six(data: Data, found: Comparison) -> None:
    names = [key.removeprefix("scale") for key in data if key.startswith("scale_")]
    variants = {}
    for name in names:
        _, largest, error, speed = name.split("_")
        variants[name] = TwoLevel(int(largest), FourError(error == "MSE", speed == "fast"))
    te_nvfp4(data, found, "nvfp4", variants)


def te_mxfp4(data: Data, found: Comparison) -> None:
    x = floats(data, "x")
    rule = PowerOfTwo(PowerRule.RCEIL, InfiniteAmax.LARGEST)
    q = quantize(x, BlockFormat(F4E2M1FN, TILES["mx"], rule, TRANSFORMER_ENGINE))
    log = above_maximum(amax_of(x), F4E2M1FN)
    scale = without_nan_bits(data["scale_f32"])
    found.arrays("scale_f32", bits(decode_e8m0(q.scales[:, 0])), scale, logarithm_in_f32=log)
    found.arrays("code", q.codes, data["code"], logarithm_in_f32=log[:, np.newaxis])


TE_MXFP8 = PowerOfTwo(PowerRule.RCEIL_PRODUCT, nan=0)


def te_mxfp8(data: Data, found: Comparison, tile: str) -> None:
    x = floats(data, "x")
    q = quantize(x, BlockFormat(F8E4M3FN, TILES[tile], TE_MXFP8))
    want = data["scale"].reshape(q.scales.shape)
    found.arrays("scale", q.scales, want)
    lost = np.repeat(np.repeat(want == 255, TILES[tile][0] or 1, 0), 32, 1)
    found.arrays("code", canonical_e4m3(q.codes), canonical_e4m3(data["code"]), scale_is_NaN=lost)


def te_amax(data: Data, found: Comparison) -> None:
    found.arrays("scale", power_bytes(floats(data, "amax"), F8E4M3FN, TE_MXFP8), data["scale"])


def ml_dtypes(data: Data, found: Comparison) -> None:
    x = floats(data, "x")
    for name, element in LIBRARY.items():
        codes = np.arange(1 << element.width)
        found.arrays(f"decode_{name}", bits(decode(codes, element)), without_nan_bits(data[f"decode_{name}"]))
        got = round_elements(x, element, Rounding(saturate=False, nan="negative_zero"))
        # ml_dtypes converts a negative NaN to code +0 if the format has no NaN. Our result does not depend on a NaN's
        # sign (V4).
        lost = np.isnan(x) & np.signbit(x) & (element.nan is None)
        found.arrays(name, got, canonical(data[name], element), sign_of_a_NaN=lost)
    name = "float8_e8m0fnu"
    found.arrays(f"decode_{name}", bits(decode_e8m0(np.arange(256))), without_nan_bits(data[f"decode_{name}"]))
    found.arrays(name, np.zeros_like(data[name]), data[name], is_no_scale_rule=np.ones(data[name].shape, np.bool_))


KINDS: list[tuple[str, Callable[..., None]]] = [
    (r"torchao-(?P<version>[\w.]+)-nvfp4-(?P<kind>single|two-level)", torchao_nvfp4),
    (r"torchao-(?P<version>[\w.]+)-(?P<kind>mx\w+)", torchao),
    (r"microxcaling-(?P<kind>mx\w+)", microxcaling),
    (r"te-nvfp4-1x16-4over6", te_four_over_six),
    (r"te-nvfp4-1x16(?:-row-scaled|-given-amax)?", lambda d, f: te_nvfp4(d, f, "nvfp4", {"": TwoLevel()})),
    (r"te-nvfp4-16x16", lambda d, f: te_nvfp4(d, f, "nvfp4_square", {"": TwoLevel()})),
    (r"te-mxfp4-pow2-1x32", te_mxfp4),
    (r"te-mxfp8_e4m3-1x32", lambda d, f: te_mxfp8(d, f, "mx")),
    (r"te-mxfp8_e4m3-32x32", lambda d, f: te_mxfp8(d, f, "mx_square")),
    (r"te-mxfp8_e4m3-amax-to-e8m0", te_amax),
    (r"ml_dtypes-casts", ml_dtypes),
]
"""The prefix of a file name that identifies its project, and the comparison. A file without a known prefix is an
error."""

REASONS = {
    "logarithm_in_f32": "the project takes a logarithm in f32, which rounds to a whole number beside a power of two",
    "half_added_in_f32": "the project adds 0.5 in f32, which rounds up one ulp below half of the smallest step",
    "scale_is_NaN": "under a scale that is NaN the projects give codes that mean nothing",
    "depends_on_the_CPU": "the paths of the project differ",
    "element_is_NaN": "a NaN in a format that has none, whose code depends on the path",
    "integer_has_no_minus_zero": "the project keeps -0 beside integers of two's complement",
    "sign_of_a_NaN": "the code depends on the sign of a NaN, which is no part of it (V4)",
    "is_no_scale_rule": "a cast to f8E8M0FNU with ties up, which no project uses for scales",
}
"""Explanations of the reasons for which elements are skipped, by the reason's name in masks."""


def compare(file: Path) -> Comparison:
    """Compares a recorded file with our variants of the project that its name identifies."""
    with np.load(file) as archive:
        data = {name: archive[name] for name in archive.files}
    found = Comparison(file.name)
    for pattern, comparison in KINDS:
        if match := re.fullmatch(pattern, file.stem):
            # Converting a signaling NaN to f64 raises a warning.
            with np.errstate(all="ignore"):
                comparison(data, found, **match.groupdict())
            break
    else:
        pytest.fail(f"{file.name}: expected a name by one of the patterns of KINDS")
    assert set(found.left_out) <= set(REASONS)
    return found


@pytest.mark.parametrize("file", files("REPRO_BLOCK_FORMATS", "check-block-formats"))
def test_recorded_Q2(file: Path, record_property: Callable[[str, object], None]) -> None:
    found = compare(file)
    record_property(PROPERTY, found.line())
    assert found.compared and not found.differing, found.differing
