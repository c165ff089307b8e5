# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operations of conformance vectors by torchao's MX and NVFP4 quantizers, in eager mode on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_dtype, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

from repro_mlir.conformance.group import Arrays, Compute, Parameters

_ELEMENTS = {
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "f6E3M2FN": DTYPE_FP6_E3M2,
    "f6E2M3FN": DTYPE_FP6_E2M3,
    "f4E2M1FN": torch.float4_e2m1fn_x2,
}
_MODES = {each: ScaleCalculationMode[each.upper()] for each in ("floor", "ceil", "even", "rceil")}


def library() -> Compute:
    """Returns the function that computes operations."""
    return _compute


def _compute(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays | None:
    element = _ELEMENTS.get(str(parameters.get("element")))
    scale, is_mx = str(parameters.get("scale")), parameters.get("block") == 32
    if element is None:
        return None
    if operation == "dequantize" and is_mx:
        codes = torch.from_numpy(inputs["codes"])
        codes = codes[:, ::2] | codes[:, 1::2] << 4 if parameters["element"] == "f4E2M1FN" else codes
        data = codes.view(element) if parameters["element"] in ("f8E4M3FN", "f8E5M2") else codes.contiguous()
        scales = torch.from_numpy(inputs["scales"]).view(torch.float8_e8m0fnu)
        return {"values": to_dtype(data, scales[:, None], element, 32, torch.float32).numpy()}
    if operation != "quantize":
        return None
    x = torch.from_numpy(inputs["x"])
    if is_mx and scale in _MODES:
        scales, codes = to_mx(x, element, 32, _MODES[scale])
        return {"codes": _unpacked(codes, x.shape[1]), "scales": scales.view(torch.uint8).numpy().reshape(len(x))}
    if scale == "nvfp4_single":
        scales, codes = nvfp4_quantize(x, 16)
        return {"codes": _unpacked(codes, 16), "scales": scales.view(torch.uint8).numpy()[:, 0]}
    if scale == "nvfp4_quotient":
        given = [nvfp4_quantize(x[i : i + 1], 16, torch.tensor(t)) for i, t in enumerate(inputs["tensor"])]
        return {
            "codes": np.concatenate([_unpacked(codes, 16) for _, codes in given]),
            "scales": np.concatenate([scales.view(torch.uint8).numpy()[:, 0] for scales, _ in given]),
        }
    return None


def _unpacked(codes: torch.Tensor, width: int) -> np.ndarray:
    """Returns one code per element; two codes of f4 share a byte."""
    found = codes.view(torch.uint8).numpy().reshape(len(codes), -1)
    if found.shape[1] == width:
        return found
    return np.stack([found & 15, found >> 4], axis=-1).reshape(len(found), width)
