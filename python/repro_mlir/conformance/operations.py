# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operations of conformance vectors, computed by the reference interpreter.

docs/guides/vectors.md lists the inputs, outputs and parameters of each operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import F32 as F32_TYPE
from repro_mlir.base.numerics.formats import canonical, element_type, round_to_format, to_bits
from repro_mlir.base.numerics.philox import multiply_words, philox4x32_10, random_bits, random_uniform
from repro_mlir.conformance.group import Arrays, Parameters
from repro_mlir.reference import arithmetic, distributions, folds, functions
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, accumulate
from repro_mlir.reference.low_precision.binary_formats import FORMATS, BinaryFormat, Format, decode, decode_e8m0
from repro_mlir.reference.low_precision.block_quantization import BlockFormat, Quantized, dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import ROUNDINGS, round_elements
from repro_mlir.reference.low_precision.block_scales import SCALE_RULES, TwoLevel

DRAWN = 64
"""The number of random numbers of a case of `random`."""


def format_of(name: str) -> Format:
    """Returns the format of codes with this name."""
    return FORMATS[name]


def binary_format_of(name: str) -> BinaryFormat:
    """Returns the format of codes with this name, which must not be a format of integers."""
    found = FORMATS[name]
    assert isinstance(found, BinaryFormat)
    return found


@float_environment()
def compute(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays:
    """Returns the outputs of an operation, as defined by the rules of docs/reference/numerics.md.

    Args:
      operation: a key of OPERATIONS.
      inputs: the arrays of a group by name.
      parameters: the parameters of a group.
    """
    with np.errstate(all="ignore"):
        return OPERATIONS[operation](inputs, parameters)


def _decode(inputs: Arrays, parameters: Parameters) -> Arrays:
    name = str(parameters["format"])
    codes = inputs["codes"]
    return {"values": decode_e8m0(codes) if name == "f8E8M0FNU" else decode(codes, format_of(name))}


def _round(inputs: Arrays, parameters: Parameters) -> Arrays:
    name, x = str(parameters["format"]), inputs["x"]
    if x.dtype == np.float64:
        return {"codes": to_bits(round_to_format(x, element_type(name)), element_type(name))}
    rounding = dataclasses.replace(ROUNDINGS[str(parameters["rounding"])], saturate=bool(parameters["saturate"]))
    return {"codes": round_elements(x, format_of(name), rounding, random=inputs.get("random"))}


def _block_format(parameters: Parameters) -> BlockFormat:
    element = format_of(str(parameters["element"]))
    return BlockFormat(element, (1, int(parameters["block"])), SCALE_RULES[str(parameters["scale"])])


def _tensors(form: BlockFormat, tensor: np.ndarray | None, count: int) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Divides the blocks into parts that are quantized together. Returns the indices of each part with the number that
    the scale rule reads: none, the amax of each row (`nvfp4`), or one scale."""
    if tensor is None or isinstance(form.scale, TwoLevel):
        return [(np.arange(count), tensor)]
    bits = tensor.view(np.uint32)
    return [(np.flatnonzero(bits == each), tensor[bits == each][0]) for each in np.unique(bits)]


def _quantize(inputs: Arrays, parameters: Parameters) -> Arrays:
    x, form = inputs["x"], _block_format(parameters)
    codes = np.zeros(x.shape, np.uint8)
    scales: np.ndarray | None = None
    for chosen, tensor in _tensors(form, inputs.get("tensor"), len(x)):
        part = quantize(x[chosen], form, tensor)
        scales = np.zeros(len(x), part.scales.dtype) if scales is None else scales
        codes[chosen], scales[chosen] = part.codes, part.scales[:, 0]
    assert scales is not None
    return {"codes": codes, "scales": scales}


def _dequantize(inputs: Arrays, parameters: Parameters) -> Arrays:
    codes, form = inputs["codes"], _block_format(parameters)
    values = np.zeros(codes.shape, np.float32)
    for chosen, tensor in _tensors(form, inputs.get("tensor"), len(codes)):
        scales = inputs["scales"][chosen][:, np.newaxis]
        values[chosen] = dequantize(Quantized(codes[chosen], scales, tensor), form)
    return {"values": values}


def _dot(inputs: Arrays, parameters: Parameters) -> Arrays:
    of, result = str(parameters["format"]), str(parameters["result"])
    by = ACCUMULATORS[str(parameters["accumulator"])][of, result]
    # The operands of tf32 are f32 values whose last 13 bits are zero.
    a, b = (inputs[each] if of == "tf32" else decode(inputs[each], format_of(of)) for each in "ab")
    scales = scale_format = None
    if "a_scales" in inputs:
        name = str(parameters["scale_format"])
        scale_format = None if name == "f8E8M0FNU" else binary_format_of(name)
        block = int(parameters["scale_block"])
        first, second = (np.repeat(inputs[f"{each}_scales"], block, axis=-1) for each in "ab")
        scales = first, second
    return {"d": accumulate(a, b, inputs["c"], by, binary_format_of(of), scales, scale_format)}


def _philox(inputs: Arrays, parameters: Parameters) -> Arrays:
    counter, key = (list(inputs[each].astype(np.uint64).T) for each in ("counter", "key"))
    words = philox4x32_10(counter, key, multiply_words)
    return {"words": np.stack(words, axis=-1).astype(np.uint32)}


def _random(inputs: Arrays, parameters: Parameters) -> Arrays:
    sites = zip(inputs["seed"].tolist(), inputs["site"].tolist(), inputs["step"].tolist(), strict=True)
    return {"values": np.stack([_draw(seed, site, step, parameters) for seed, site, step in sites])}


def _draw(seed: int, site: int, step: int, parameters: Parameters) -> np.ndarray:
    shape = (DRAWN,)
    match parameters["distribution"]:
        case "bits":
            return random_bits(shape, seed, site, step).astype(np.uint32)
        case "uniform":
            return random_uniform(shape, seed, site, step)
        case "bernoulli":
            drawn = distributions.bernoulli(shape, seed, site, step, float(parameters["probability"]))
            return drawn.astype(np.uint8)
        case "randint":
            return distributions.randint(shape, seed, site, step, int(parameters["bound"])).astype(np.uint32)
        case _:
            return distributions.normal(shape, seed, site, step)


def _function(inputs: Arrays, parameters: Parameters) -> Arrays:
    return {"values": functions.evaluate(str(parameters["function"]), *inputs.values())}


def _fold(inputs: Arrays, parameters: Parameters) -> Arrays:
    order = folds.Order(int(parameters["chunk"]), int(parameters["lanes"]), 0, parameters["totals"] == "refold")
    x, init = np.moveaxis(inputs["x"], -1, 0), inputs["init"]
    combine = np.multiply if parameters["combine"] == "mul" else np.add
    start = np.array(1 if parameters["combine"] == "mul" else 0, np.float32)

    def step(acc: np.ndarray, t: int, count: int) -> np.ndarray:
        if "y" in inputs:
            return arithmetic.fma(x[t : t + count], np.moveaxis(inputs["y"], -1, 0)[t : t + count], acc)
        return combine(acc, x[t : t + count])

    return {"total": canonical(folds.ordered_fold(order, [len(x)], start, init, step, combine), F32_TYPE)}


OPERATIONS: dict[str, Callable[[Arrays, Parameters], Arrays]] = {
    "decode": _decode,
    "round": _round,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "dot": _dot,
    "philox4x32_10": _philox,
    "random": _random,
    "function": _function,
    "fold": _fold,
}
"""The operations by name."""
