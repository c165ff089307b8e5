# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The groups of the conformance vectors, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from repro_mlir.conformance.block_operands import OPEN, block_cases, scaled_codes, tensor_amaxes, tensor_scales
from repro_mlir.conformance.dot_operands import dot_cases, dot_scales
from repro_mlir.conformance.function_operands import function_cases
from repro_mlir.conformance.group import Array, Arrays, Cases, Group, Parameters
from repro_mlir.conformance.operations import binary_format_of, compute, format_of
from repro_mlir.conformance.rounding_operands import codes_of, rounding_cases, wide_cases
from repro_mlir.conformance.words import Words
from repro_mlir.reference.functions import BINARY, DOUBLE, NAMES
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, Accumulator, Fdpa, LateFdpa
from repro_mlir.reference.low_precision.binary_formats import F8E8M0FNU

MX = {
    "mxfp8_e4m3": "f8E4M3FN",
    "mxfp8_e5m2": "f8E5M2",
    "mxfp6_e3m2": "f6E3M2FN",
    "mxfp6_e2m3": "f6E2M3FN",
    "mxfp4": "f4E2M1FN",
    "mxint8": "mxint8",
}
"""The MX formats of the OCP specification, and the formats of their elements."""

_FLOATS = ("f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "f16", "bf16")
# The hexadecimal digits of pi after the point.
_PI_DIGITS = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
_SCALED_UNITS = {"blackwell_mx": (32, "f8E8M0FNU"), "blackwell_mxf4": (32, "f8E8M0FNU")}
_SCALED_UNITS["blackwell_nvfp4"] = (16, "f8E4M3FN")


def catalogue() -> Iterator[Group]:
    """Yields the groups, with results that the reference interpreter computes."""
    yield from _decode_groups()
    yield from _round_groups()
    yield from _block_groups()
    yield from _dot_groups()
    yield from _random_groups()
    yield from _function_groups()
    yield from _fold_groups()


def make_group(
    name: str,
    operation: str,
    rule: str,
    parameters: Parameters,
    inputs: Mapping[str, Array],
    kinds: tuple[np.ndarray, list[str]],
    outputs: Mapping[str, str],
    open_kinds: tuple[str, ...] = (),
) -> Group:
    """Returns a group whose outputs the reference interpreter computes.

    Args:
      kinds: the kind of each case (uint8), and the names of the kinds.
      outputs: the number format of each output.
    """
    values: Arrays = {each: array.values for each, array in inputs.items()}
    results = compute(operation, values, parameters)
    known = tuple(each for each in open_kinds if each in kinds[1])
    found = {each: Array(results[each], form) for each, form in outputs.items()}
    return Group(name, operation, rule, dict(parameters), dict(inputs), found, kinds[0], tuple(kinds[1]), known)


def _kinds(cases: Cases) -> tuple[np.ndarray, list[str]]:
    return cases.kinds, cases.names


def _decode_groups() -> Iterator[Group]:
    for name in (*_FLOATS, "mxint8", "f8E8M0FNU"):
        if name == "mxint8":
            codes = np.arange(256).astype(np.uint8)
        else:
            codes = codes_of(F8E8M0FNU if name == "f8E8M0FNU" else binary_format_of(name))
        kinds = np.zeros(len(codes), np.uint8), ["code"]
        inputs = {"codes": Array(codes, name)}
        yield make_group(f"decode/{name}", "decode", "Q1", {"format": name}, inputs, kinds, {"values": "f32"})


def _round_groups() -> Iterator[Group]:
    for name in (*_FLOATS, "mxint8"):
        of = format_of(name)
        cases = rounding_cases(of)
        x = {"x": Array(cases.array("x"), "f32")}
        # The standards define no code for a NaN in a format without NaNs, and allow -2 as a value of mxint8.
        unspecified: tuple[str, ...] = () if of.nan is not None else ("nan",)
        if name == "mxint8":
            unspecified = ("overflow", "infinity", "nan")
        for rounding in ("rne", "away", "rz"):
            # IEEE 754 defines that rz does not overflow to infinity, (Q3) that it does, so there is no such group.
            for saturate in (True, False) if of.nan is not None and rounding != "rz" else (True,):
                label = "saturate" if saturate else "overflow"
                parameters = {"format": name, "rounding": rounding, "saturate": saturate}
                yield make_group(
                    f"round/{name}/{rounding}/{label}", "round", "Q3", parameters, x, _kinds(cases), {"codes": name},
                    unspecified,
                )  # fmt: skip
        for bits in (8, 16):
            drawn = Words(f"stochastic {name} {bits}").below(1 << bits, cases.kinds.size).astype(np.uint32)
            parameters = {"format": name, "rounding": f"sr{bits}", "saturate": True}
            yield make_group(
                f"round/{name}/sr{bits}/saturate", "round", "Q3", parameters, {**x, "random": Array(drawn)},
                _kinds(cases), {"codes": name}, unspecified,
            )  # fmt: skip
    for name in ("f8E4M3FN", "f8E5M2", "f16", "bf16"):
        cases = wide_cases(binary_format_of(name))
        parameters = {"format": name, "rounding": "rne", "saturate": False}
        wide = {"x": Array(cases.array("x"), "f64")}
        yield make_group(
            f"round/{name}/rne/overflow/f64", "round", "S3", parameters, wide, _kinds(cases), {"codes": name}
        )


def _block_parameters(element: str, block: int, scale: str) -> Parameters:
    return {"element": element, "block": block, "scale": scale}


def _block_groups() -> Iterator[Group]:
    for name, element in MX.items():
        cases = block_cases(format_of(element), 32, name)
        x = {"x": Array(cases.array("x"), "f32")}
        outputs = {"codes": element, "scales": "f8E8M0FNU"}
        for rule in ("floor", "ceil", "even", "rceil"):
            parameters = _block_parameters(element, 32, rule)
            group = f"quantize/{name}/{rule}"
            yield make_group(group, "quantize", "Q2", parameters, x, _kinds(cases), outputs, OPEN)
        scales = np.array([0, 1, 2, 100, 126, 127, 128, 140, 239, 253, 254, 255], np.uint8)
        yield _dequantize_group(f"dequantize/{name}", element, 32, "floor", "f8E8M0FNU", scales, None)
    cases = block_cases(format_of("f4E2M1FN"), 16, "nvfp4")
    x = {"x": Array(cases.array("x"), "f32")}
    given = {
        "nvfp4": tensor_amaxes(x["x"].values),
        "nvfp4_quotient": tensor_scales(cases.kinds.size),
        "nvfp4_single": None,
    }
    for rule, tensor in given.items():
        inputs = x if tensor is None else {**x, "tensor": Array(tensor, "f32")}
        parameters = _block_parameters("f4E2M1FN", 16, rule)
        outputs = {"codes": "f4E2M1FN", "scales": "f8E4M3FN"}
        yield make_group(f"quantize/{rule}", "quantize", "Q2", parameters, inputs, _kinds(cases), outputs, OPEN)
        scales = np.arange(128).astype(np.uint8)
        numbers = None if tensor is None else (tensor_scales(160) if rule != "nvfp4" else tensor_scales(160) * 2688)
        yield _dequantize_group(f"dequantize/{rule}", "f4E2M1FN", 16, rule, "f8E4M3FN", scales, numbers)
    cases = block_cases(format_of("f8E4M3FN"), 128, "float8")
    x = {"x": Array(cases.array("x"), "f32")}
    for rule in ("float8", "float8_power", "f32_product", "f32_reciprocal", "f32_power"):
        parameters = _block_parameters("f8E4M3FN", 128, rule)
        outputs = {"codes": "f8E4M3FN", "scales": "f32"}
        yield make_group(f"quantize/{rule}", "quantize", "Q2", parameters, x, _kinds(cases), outputs, OPEN)


def _dequantize_group(
    name: str, element: str, block: int, rule: str, of_scales: str, scales: np.ndarray, tensor: np.ndarray | None
) -> Group:
    cases = scaled_codes(format_of(element), block, scales)
    inputs = {"codes": Array(cases.array("codes"), element), "scales": Array(cases.array("scales"), of_scales)}
    if tensor is not None:
        inputs["tensor"] = Array(tensor[: cases.kinds.size], "f32")
    parameters = _block_parameters(element, block, rule)
    return make_group(name, "dequantize", "Q2", parameters, inputs, _kinds(cases), {"values": "f32"})


def _dot_groups() -> Iterator[Group]:
    for unit, accumulators in ACCUMULATORS.items():
        for (of, result), by in accumulators.items():
            cases = dot_cases(binary_format_of(of), result)
            inputs = {each: Array(cases.array(each), "f32" if of == "tf32" else of) for each in "ab"}
            inputs["c"] = Array(cases.array("c"), "f32")
            parameters: dict[str, Any] = {"accumulator": unit, "format": of, "result": result, **_numbers(by)}
            rule = "M1" if isinstance(by, Fdpa) else "M3"
            if unit in _SCALED_UNITS:
                block, of_scales = _SCALED_UNITS[unit]
                scales = dot_scales(cases.kinds.size, of_scales, block)
                inputs |= {f"{each}_scales": Array(codes, of_scales) for each, codes in zip("ab", scales, strict=True)}
                parameters |= {"scale_block": block, "scale_format": of_scales}
                rule = "M2"
            yield make_group(f"dot/{unit}/{of}/{result}", "dot", rule, parameters, inputs, _kinds(cases), {"d": "f32"})


def _numbers(by: Accumulator) -> dict[str, Any]:
    """Returns the parameters of an accumulator (M1), or those of the inner one of a late sum (M3)."""
    inner = by.inner if isinstance(by, LateFdpa) else by
    found: dict[str, Any] = {"variant": type(by).__name__, "terms": inner.terms}
    if isinstance(inner, Fdpa):
        found |= {"round": inner.round, "floor": inner.floor, "group": inner.group}
    fraction = getattr(inner, "fraction", None)
    return found if fraction is None else found | {"fraction": fraction}


def _random_groups() -> Iterator[Group]:
    # The three known answers of Random123, by the authors of Philox, then random counters and keys.
    words = Words("philox")
    counter = np.concatenate([np.array([[0] * 4, [0xFFFFFFFF] * 4, _PI_DIGITS[:4]]), words.below(1 << 32, 29, 4)])
    key = np.concatenate([np.array([[0] * 2, [0xFFFFFFFF] * 2, _PI_DIGITS[4:]]), words.below(1 << 32, 29, 2)])
    inputs = {"counter": Array(counter.astype(np.uint32)), "key": Array(key.astype(np.uint32))}
    kinds = np.array([0] * 3 + [1] * 29, np.uint8), ["published", "random"]
    yield make_group("philox4x32_10", "philox4x32_10", "R1", {}, inputs, kinds, {"words": "integer"})
    seeds = np.array([0, 1, 42, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 0x0123456789ABCDEF], np.uint64)
    sites = np.array([0, 0, 1, 7, 2**32 - 1, 3, 0, 1000], np.uint32)
    steps = np.array([0, 1, 0, 300, 2**32 - 1, 0, 2**31, 123456], np.uint32)
    inputs = {"seed": Array(seeds), "site": Array(sites), "step": Array(steps)}
    kinds = np.zeros(len(seeds), np.uint8), ["site"]
    for name, more, form in (
        ("bits", {}, "integer"),
        ("uniform", {}, "f32"),
        ("bernoulli", {"probability": 0.1}, "integer"),
        ("bernoulli", {"probability": 0.5}, "integer"),
        ("randint", {"bound": 10}, "integer"),
        ("randint", {"bound": 3000000000}, "integer"),
        ("normal", {}, "f32"),
    ):
        label = "/".join(["random", name, *map(str, more.values())])
        parameters: Parameters = {"distribution": name, **more}
        yield make_group(label, "random", "R2", parameters, inputs, kinds, {"values": form})


def _function_groups() -> Iterator[Group]:
    for kind in ("f32", "f64"):
        for name in NAMES if kind == "f32" else DOUBLE:
            cases = function_cases(name, kind)
            operands = ("x",) if name not in BINARY else ("x", "n" if name == "powi" else "y")
            inputs = {each: Array(cases.array(each), "integer" if each == "n" else kind) for each in operands}
            parameters = {"function": name}
            group = f"function/{name}/{kind}"
            yield make_group(group, "function", "S5", parameters, inputs, _kinds(cases), {"values": kind})


def _fold_groups() -> Iterator[Group]:
    orders: tuple[tuple[str, str, Parameters], ...] = (
        ("sum", "P2", {"combine": "add", "chunk": 8192, "lanes": 64, "totals": "refold"}),
        ("column_sum", "P2", {"combine": "add", "chunk": 512, "lanes": 1, "totals": "sequential"}),
        ("contraction", "P1", {"combine": "fma", "chunk": 512, "lanes": 1, "totals": "sequential"}),
        ("product", "P2", {"combine": "mul", "chunk": 8192, "lanes": 64, "totals": "refold"}),
    )
    for name, rule, parameters in orders:
        for length in (1, 5, 63, 64, 100, 513, 2048, 8193):
            words, cases = Words(f"fold {length}"), Cases()
            near_one = 1 + np.abs(words.floats(-10, -10, 2, length)) if name == "product" else None
            x = words.floats(-4, 2, 2, length) if near_one is None else near_one.astype(np.float32)
            cancelling = x[:1].copy()
            cancelling[:, length // 2 :] = -cancelling[:, : length - length // 2]
            y = words.floats(-4, 2, 3, length)
            init = np.array([0, 1.5, -0.0], np.float32)
            cases.add("random", x=x, y=y[:2], init=init[:2])
            cases.add("cancelling", x=x[:1] if name == "product" else cancelling, y=y[2:], init=init[2:])
            used = ("x", "y", "init") if parameters["combine"] == "fma" else ("x", "init")
            inputs = {each: Array(cases.array(each), "f32") for each in used}
            group = f"fold/{name}/{length}"
            yield make_group(group, "fold", rule, parameters, inputs, _kinds(cases), {"total": "f32"})
