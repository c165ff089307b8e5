# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Evaluates the operations on tensors in blocks: quantization and contractions (Q1) to (Q4), packing of two codes per
byte (Q7), and contractions with accumulators (M5)."""

from __future__ import annotations

import numpy as np

from repro_mlir.base.numerics.formats import F32, ElementType, from_bits, to_bits
from repro_mlir.reference.low_precision.accumulators import Fdpa
from repro_mlir.reference.low_precision.binary_formats import (
    ELEMENT_FORMATS,
    F8E4M3FN,
    BinaryFormat,
    FixedFormat,
    Format,
)
from repro_mlir.reference.low_precision.block_contraction import Step, scale_products, scaled_contraction
from repro_mlir.reference.low_precision.block_contraction import block_contraction as contract_blocks
from repro_mlir.reference.low_precision.block_quantization import Quantized
from repro_mlir.reference.low_precision.block_quantization import dequantize as values_of_blocks
from repro_mlir.reference.low_precision.block_quantization import quantize as blocks_of_values
from repro_mlir.reference.low_precision.block_rounding import ptx_site_bits, site_bits
from repro_mlir.reference.low_precision.f32_operations import add
from repro_mlir.reference.program import Operation, ValueType
from repro_mlir.reference.random_sites import random_site
from repro_mlir.reference.stored_block_format import StoredFormat

Environment = dict[int, np.ndarray]


def _scales(bits: np.ndarray, element: ElementType) -> np.ndarray:
    """Converts scales from the codes or float32 values of the package `low_precision` to the interpreter's
    representation."""
    return bits if element == F32 else from_bits(bits, element)


def quantize(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.quantize."""
    form: StoredFormat = op.attributes["format"]
    x, *others = (env[n] for n in op.operands)
    tensor = others.pop(0) if form.takes_tensor else None
    random = None
    if form.is_stochastic:
        seed, site, step = random_site(op, others[0], others[1])
        element, bits = form.format.element, form.format.rounding.bits
        if form.is_ptx:
            assert isinstance(element, BinaryFormat)
            random = ptx_site_bits(x.shape, element, seed, site, step)
        else:
            random = site_bits(x.shape, bits, seed, site, step)
    found = blocks_of_values(x, form.within(x.shape), tensor, random)
    return [from_bits(found.codes, form.element), _scales(found.scales, form.scale_element)]


def dequantize(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.dequantize."""
    form: StoredFormat = op.attributes["format"]
    codes, scales, *others = (env[n] for n in op.operands)
    held = scales if form.scale_element == F32 else to_bits(scales, form.scale_element)
    tensor = others[0] if form.keeps_tensor else None
    blocks = Quantized(to_bits(codes, form.element), held, tensor)
    return [values_of_blocks(blocks, form.within(codes.shape))]


def pack_codes(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.pack_codes."""
    (kind,), (of,) = op.operand_types, op.result_types
    codes = to_bits(env[op.operands[0]], kind.element)
    packed = codes[..., ::2].astype(np.uint8)
    second = codes[..., 1::2].astype(np.uint8)
    packed[..., : second.shape[-1]] |= second << 4
    return [from_bits(packed, of.element)]


def unpack_codes(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.unpack_codes."""
    (kind,), (of,) = op.operand_types, op.result_types
    packed = to_bits(env[op.operands[0]], kind.element)
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], 2 * packed.shape[-1])
    return [from_bits(codes[..., : (of.shape or ())[-1]], of.element)]


def _format(kind: ValueType, fraction_bits: int) -> Format:
    if kind.element.is_float:
        return ELEMENT_FORMATS[kind.element.name]
    return FixedFormat(kind.element.name, kind.element.width, -fraction_bits)


def block_contraction(op: Operation, env: Environment) -> list[np.ndarray]:
    """Evaluates repro.block_contraction, whose dot products are exact (Q4) or computed by an accumulator (M5)."""
    *kinds, _ = op.operand_types
    x, x_scales, y, y_scales, init = (env[n] for n in op.operands)
    # For integer codes, `fraction_bits` is the number of fraction bits of a product. The format of x gets all of them,
    # that of y none.
    bits = op.attributes.get("fraction_bits") or 0
    of = _format(kinds[0], bits), _format(kinds[2], 0)
    first, second = (to_bits(each, kind.element) for each, kind in ((x, kinds[0]), (y, kinds[2])))
    block, rows, by = op.attributes["block"], op.attributes["rows"], op.attributes.get("accumulator")
    is_scaled = op.attributes["step"] == "scaled"
    # The number of rows that share a scale (`rows`) may exceed the number of rows of the operand.
    scales = [
        np.repeat(_scale_bits(each, kind) if is_scaled else _magnitude(each, kind), min(count, extent), axis=-2)[
            ..., :extent, :
        ]
        for each, kind, count, extent in zip((x_scales, y_scales), kinds[1::2], rows, init.shape[-2:], strict=True)
    ]
    total = np.zeros(init.shape, np.float32)
    for at in np.ndindex(init.shape[:-2]):
        if is_scaled:
            assert isinstance(by, Fdpa)
            left, right = (first[at], scales[0][at]), (second[at], scales[1][at])
            of_scales = _scale_format(kinds[1]), _scale_format(kinds[3])
            total[at] = scaled_contraction(left, right, of, of_scales, block, by)
        else:
            products, step = scale_products(scales[0][at], scales[1][at]), Step(op.attributes["step"])
            total[at] = contract_blocks(first[at], second[at], products, of, block, step, by)
    return [add(init, total)]


def _scale_bits(scales: np.ndarray, kind: ValueType) -> np.ndarray:
    return to_bits(scales, kind.element)


def _scale_format(kind: ValueType) -> BinaryFormat | None:
    """(M2) Returns the format of scales that are factors of the products; None for f8E8M0FNU."""
    return F8E4M3FN if kind.element.name == F8E4M3FN.name else None


def _magnitude(scales: np.ndarray, kind: ValueType) -> np.ndarray:
    """(Q1) Returns the scales; the sign of a scale in f8E4M3FN is ignored."""
    return np.abs(scales) if kind.element.name == "f8E4M3FN" else scales
