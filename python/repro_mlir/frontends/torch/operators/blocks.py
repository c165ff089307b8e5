# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K7) Block-quantized tensors (Q2) in PyTorch: the operators `repro.quantize` and `repro.dequantize`, with i8 codes.

An f8 code is stored as its byte. An f6 code is stored as the byte of the same value in f8E4M3FN, which represents all
f6 values: scatters accept no narrower floats (V1). Two f4 codes share a byte (Q7).
"""

from collections.abc import Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_mlir_names import ir
from repro_mlir.frontends.torch.operators.bit_patterns import canonical_bits
from repro_mlir.precision.formats import Format

_BYTES = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7E, "f8E8M0FNU": 0xFF}
"""The bits of the canonical NaN (V4) for each float type that is stored as its bits."""

_PACKED = "f4E2M1FN"
"""The element type whose codes are packed, two per byte (Q7)."""

PARTS = ("codes", "scales", "amaxes")
"""The results of `quantize`; the amaxes exist only for formats with an amax per row."""

_ONES = {"f32": 1, "f8E8M0FNU": 127, "f8E4M3FN": 0x38}
"""The stored representation of the scale 1, keyed by the scale's element type."""


def zeros(shape: Sequence[int], format: Format) -> tuple[torch.Tensor, ...]:
    """Returns tensors with the shapes and dtypes of the results of `quantize`: codes of 0, scales and amaxes of 1."""
    assert format.tile is not None and format.scale is not None
    kinds = format.code_type, format.scale.element
    codes, scales = _meta_quantize(torch.empty(*shape), None, "", *kinds, format.tile[1] or 0)
    amaxes = (torch.ones(shape[:-1]),) if format.scale.has_tensor else ()
    return codes.zero_(), scales.fill_(_ONES[format.scale.element]), *amaxes


def quantize(x: torch.Tensor, format: Format) -> tuple[torch.Tensor, ...]:
    """Quantizes each row in blocks (Q2); returns codes, scales and, if the format requires it, the amax per row.

    Args:
      x: f32 [..., rows, columns].
      format: a block format with tiles of one row.
    Returns:
      codes, i8 [..., rows, columns], or for f4 [..., rows, ceil(columns / 2)]; scales, f32 or i8 [..., rows, blocks];
      optionally amaxes, f32 [..., rows].
    """
    assert format.tile is not None and format.scale is not None
    amaxes = (x.abs().amax(-1),) if format.scale.has_tensor else ()
    kinds = format.block_format, format.code_type, format.scale.element
    return (*_QUANTIZE(x, *(amaxes or (None,)), *kinds, format.tile[1] or 0), *amaxes)


def dequantize(parts: Sequence[torch.Tensor], format: Format, columns: int) -> torch.Tensor:
    """Returns the values (Q2) of the results of `quantize`, f32 [..., rows, columns]."""
    assert format.scale is not None
    codes, scales, *amaxes = parts
    kinds = format.block_format, format.code_type, format.scale.element
    return _DEQUANTIZE(codes, scales, *(amaxes or (None,)), *kinds, columns)


def _meta_quantize(
    x: torch.Tensor, amaxes: torch.Tensor | None, format: str, element: str, scale: str, columns: int
) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = -(-x.shape[-1] // columns) if columns else 1
    kind = torch.float32 if scale == "f32" else torch.int8
    bytes = -(-x.shape[-1] // 2) if element == _PACKED else x.shape[-1]
    codes = torch.empty((*x.shape[:-1], bytes), dtype=torch.int8, device=x.device)
    return codes, torch.empty((*x.shape[:-1], blocks), dtype=kind, device=x.device)


def _meta_dequantize(codes: torch.Tensor, *others: Any) -> torch.Tensor:
    return torch.empty((*codes.shape[:-1], others[-1]), dtype=torch.float32, device=codes.device)


def _write_quantize(
    build: Builder, x: Any, amaxes: Any, format: str, element: str, scale: str, columns: int
) -> Sequence[Any]:
    codes, scales = _typed(x.type, element), _typed(build.types[1], scale)
    given = [] if amaxes is None else [amaxes]
    attributes = {"format": build.attribute(format)}
    found, scaled = build.create("repro.quantize", [[x], given, [], []], [codes, scales], attributes)
    if element == _PACKED:
        return [*build.create("repro.pack_codes", [[found]], build.types[:1]), _bytes(build, scaled, scale)]
    return [_bytes(build, found, element), _bytes(build, scaled, scale)]


def _write_dequantize(
    build: Builder, codes: Any, scales: Any, amaxes: Any, format: str, element: str, scale: str, columns: int
) -> Sequence[Any]:
    if element == _PACKED:
        (found,) = build.create("repro.unpack_codes", [[codes]], [_typed(build.types[0], element)])
    else:
        found = _floats(build, codes, element)
    operands = [found, _floats(build, scales, scale), *([] if amaxes is None else [amaxes])]
    return build.create("repro.dequantize", [operands], build.types, {"format": build.attribute(format)})


def _stored(element: str) -> str:
    """Returns the type whose bits are stored: f8E4M3FN for f6, else the element type itself."""
    return "f8E4M3FN" if element.startswith("f6") else element


def _typed(kind: ir.Type, element: str) -> ir.Type:
    """Returns a tensor type with the shape of `kind` and the element type `element`."""
    return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, ir.Type.parse(element))


def _mapped(build: Builder, tensor: Any, element: str, compute: Any) -> Any:
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(tensor.type).rank)
    output = build.empty(_typed(tensor.type, element))
    parallel = ["parallel"] * identity.n_dims
    return build.structured([tensor], [output], [identity, identity], parallel, lambda x: [compute(x[0])])[0]


def _convert(name: str, value: Any, element: str) -> Any:
    return ir.Operation.create(name, operands=[value], results=[ir.Type.parse(element)]).result


def _bytes(build: Builder, tensor: Any, element: str) -> Any:
    """Converts codes or scales to bytes; i8 and f32 tensors are returned unchanged."""
    stored = _stored(element)
    if stored not in _BYTES:
        return tensor

    def compute(value: Any) -> Any:
        if stored != element:
            value = _convert("arith.extf", value, stored)
        wide = _convert("arith.extf", value, "f32")
        return canonical_bits(build, value, wide, ir.IntegerType.get_signless(8), _BYTES[stored])

    return _mapped(build, tensor, "i8", compute)


def _floats(build: Builder, tensor: Any, element: str) -> Any:
    """Converts bytes back to codes or scales: the inverse of `_bytes`."""
    stored = _stored(element)
    if stored not in _BYTES:
        return tensor

    def compute(value: Any) -> Any:
        found = _convert("arith.bitcast", value, stored)
        return found if stored == element else _convert("arith.truncf", found, element)

    return _mapped(build, tensor, element, compute)


_QUANTIZE = define(
    "quantize(Tensor x, Tensor? amaxes, str format, str element, str scale, int columns) -> (Tensor, Tensor)",
    meta=_meta_quantize,
    write=_write_quantize,
)
_DEQUANTIZE = define(
    "dequantize(Tensor codes, Tensor scales, Tensor? amaxes, str format, str element, str scale, int columns) "
    "-> Tensor",
    meta=_meta_dequantize,
    write=_write_dequantize,
)
