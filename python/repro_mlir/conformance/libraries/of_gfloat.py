# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operations of conformance vectors by gfloat: codes, roundings, and its MX blocks."""

from __future__ import annotations

import numpy as np
from gfloat import (
    RoundMode,
    compute_scale_amax,
    decode_block,
    decode_ndarray,
    encode_block,
    encode_ndarray,
    formats,
    round_ndarray,
)

from repro_mlir.conformance.group import Arrays, Compute, Parameters

_FORMATS = {
    "f8E4M3FN": formats.format_info_ocp_e4m3,
    "f8E5M2": formats.format_info_ocp_e5m2,
    "f6E3M2FN": formats.format_info_ocp_e3m2,
    "f6E2M3FN": formats.format_info_ocp_e2m3,
    "f4E2M1FN": formats.format_info_ocp_e2m1,
    "mxint8": formats.format_info_ocp_int8,
    "f16": formats.format_info_binary16,
    "bf16": formats.format_info_bfloat16,
    "f8E8M0FNU": formats.format_info_ocp_e8m0,
}
_BLOCKS = {
    "f8E4M3FN": formats.format_info_mxfp8_e4m3,
    "f8E5M2": formats.format_info_mxfp8_e5m2,
    "f6E3M2FN": formats.format_info_mxfp6_e3m2,
    "f6E2M3FN": formats.format_info_mxfp6_e2m3,
    "f4E2M1FN": formats.format_info_mxfp4_e2m1,
    "mxint8": formats.format_info_mxint8,
}
_ROUNDINGS = {"rne": RoundMode.TiesToEven, "away": RoundMode.TiesToAway, "rz": RoundMode.TowardZero}


def library() -> Compute:
    """Returns the function that computes operations."""
    return _compute


def _compute(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays | None:
    if operation == "decode":
        return {"values": decode_ndarray(_FORMATS[str(parameters["format"])], inputs["codes"]).astype(np.float32)}
    if operation == "round":
        return _round(inputs, parameters)
    is_mx = parameters.get("block") == 32 and parameters.get("scale") == "floor"
    if operation == "quantize" and is_mx:
        return _quantize(inputs["x"], str(parameters["element"]))
    if operation == "dequantize" and is_mx:
        block = _BLOCKS[str(parameters["element"])]
        rows = zip(inputs["scales"].tolist(), inputs["codes"].tolist(), strict=True)
        values = [[float(each) for each in decode_block(block, [scale, *codes])] for scale, codes in rows]
        return {"values": np.array(values).astype(np.float32)}
    return None


def _round(inputs: Arrays, parameters: Parameters) -> Arrays:
    of, name = _FORMATS[str(parameters["format"])], str(parameters["rounding"])
    x, saturate = inputs["x"].astype(np.float64), bool(parameters["saturate"])
    codes = np.zeros(x.shape, np.int64)
    # gfloat refuses NaNs if the format has none; their cases get code 0.
    chosen = ~np.isnan(x) if of.num_nans == 0 else np.ones(x.shape, np.bool_)
    if name in _ROUNDINGS:
        rounded = round_ndarray(of, x[chosen], _ROUNDINGS[name], saturate)
    else:
        bits = int(name.removeprefix("sr"))
        drawn = inputs["random"].astype(np.int64)[chosen]
        rounded = round_ndarray(of, x[chosen], RoundMode.StochasticFastest, saturate, drawn, bits)
    codes[chosen] = encode_ndarray(of, rounded)
    return {"codes": codes}


def _quantize(x: np.ndarray, element: str) -> Arrays:
    block = _BLOCKS[element]
    codes, scales = np.zeros(x.shape, np.int64), np.zeros(len(x), np.int64)
    for row, values in enumerate(x.astype(np.float64)):
        try:
            scale = compute_scale_amax(block.etype.emax, values)
            scales[row], *codes[row] = encode_block(block, scale, values / scale)
        except (ValueError, AssertionError):
            # gfloat refuses this block, so its codes and scale stay 0.
            continue
    return {"codes": codes, "scales": scales}
