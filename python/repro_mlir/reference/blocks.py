# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors in blocks, (Q1) to (Q4), and two codes in a byte (Q7)."""

from __future__ import annotations

import numpy as np

from ..numerics.formats import F32, ElementType, from_bits, to_bits
from .low_precision.binary_formats import ELEMENT_FORMATS, BinaryFormat, FixedFormat, Format
from .low_precision.block_contraction import Step, scale_products
from .low_precision.block_contraction import block_contraction as contract_blocks
from .low_precision.block_quantization import Quantized
from .low_precision.block_quantization import dequantize as values_of_blocks
from .low_precision.block_quantization import quantize as blocks_of_values
from .low_precision.block_rounding import ptx_site_bits, site_bits
from .low_precision.f32_operations import add
from .program import Operation, ValueType
from .random_sites import random_site
from .stored_block_format import StoredFormat

Environment = dict[int, np.ndarray]


def _scales(bits: np.ndarray, element: ElementType) -> np.ndarray:
    """Scales as the oracle gives and takes them, codes or float32, as the interpreter holds them."""
    return bits if element == F32 else from_bits(bits, element)


def quantize(op: Operation, env: Environment) -> list[np.ndarray]:
    """repro.quantize"""
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
    """repro.dequantize"""
    form: StoredFormat = op.attributes["format"]
    codes, scales, *others = (env[n] for n in op.operands)
    held = scales if form.scale_element == F32 else to_bits(scales, form.scale_element)
    tensor = others[0] if form.keeps_tensor else None
    blocks = Quantized(to_bits(codes, form.element), held, tensor)
    return [values_of_blocks(blocks, form.within(codes.shape))]


def pack_codes(op: Operation, env: Environment) -> list[np.ndarray]:
    """repro.pack_codes"""
    (kind,), (of,) = op.operand_types, op.result_types
    codes = to_bits(env[op.operands[0]], kind.element)
    packed = codes[..., ::2].astype(np.uint8)
    second = codes[..., 1::2].astype(np.uint8)
    packed[..., : second.shape[-1]] |= second << 4
    return [from_bits(packed, of.element)]


def unpack_codes(op: Operation, env: Environment) -> list[np.ndarray]:
    """repro.unpack_codes"""
    (kind,), (of,) = op.operand_types, op.result_types
    packed = to_bits(env[op.operands[0]], kind.element)
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], 2 * packed.shape[-1])
    return [from_bits(codes[..., : (of.shape or ())[-1]], of.element)]


def _format(kind: ValueType, fraction_bits: int) -> Format:
    if kind.element.is_float:
        return ELEMENT_FORMATS[kind.element.name]
    return FixedFormat(kind.element.name, kind.element.width, -fraction_bits)


def block_contraction(op: Operation, env: Environment) -> list[np.ndarray]:
    """repro.block_contraction"""
    *kinds, _ = op.operand_types
    x, x_scales, y, y_scales, init = (env[n] for n in op.operands)
    # Of integers the product has the fraction bits: they are those of x.
    bits = op.attributes["fraction_bits"] or 0
    of = _format(kinds[0], bits), _format(kinds[2], 0)
    codes = [to_bits(each, kind.element) for each, kind in ((x, kinds[0]), (y, kinds[2]))]
    rows, step = op.attributes["rows"], Step(op.attributes["step"])
    scales = [
        np.repeat(_magnitude(each, kind), count, axis=-2)[..., : each_codes.shape[-2], :]
        for each, kind, count, each_codes in zip((x_scales, y_scales), (kinds[1], kinds[3]), rows, codes, strict=True)
    ]
    total = np.zeros(init.shape, np.float32)
    for at in np.ndindex(init.shape[:-2]):
        products = scale_products(scales[0][at], scales[1][at])
        total[at] = contract_blocks(codes[0][at], codes[1][at], products, of, op.attributes["block"], step)
    return [add(init, total)]


def _magnitude(scales: np.ndarray, kind: ValueType) -> np.ndarray:
    """(Q1) Of a scale in f8E4M3FN the sign is not read."""
    return np.abs(scales) if kind.element.name == "f8E4M3FN" else scales
