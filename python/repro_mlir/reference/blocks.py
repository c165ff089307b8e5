# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro.quantize and repro.dequantize: tensors in blocks, (Q1) to (Q3)."""

from __future__ import annotations

import numpy as np

from ..numerics.formats import F32, ElementType, from_bits, to_bits
from .low_precision.binary_formats import BinaryFormat
from .low_precision.block_quantization import Quantized
from .low_precision.block_quantization import dequantize as values_of_blocks
from .low_precision.block_quantization import quantize as blocks_of_values
from .low_precision.block_rounding import ptx_site_bits, site_bits
from .program import Operation
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
    tensor = others[0] if form.takes_tensor else None
    blocks = Quantized(to_bits(codes, form.element), held, tensor)
    return [values_of_blocks(blocks, form.within(codes.shape))]
