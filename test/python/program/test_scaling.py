# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1) arith.scaling_truncf and arith.scaling_extf of imported modules, compared with ml_dtypes."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import repro_mlir
from repro_mlir import Program

TARGETS = ("reference", "cpu", "cpu:x86-64-v2", "ptx-emulator")
MODULE = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>
func.func @main(%x: tensor<ROWSx40xf32>, %s: tensor<ROWSx1xf8E8M0FNU>)
    -> (tensor<ROWSx40xELEMENT>, tensor<ROWSx40xf32>) {
  %e = tensor.empty() : tensor<ROWSx40xELEMENT>
  %codes = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<ROWSx40xf32>, tensor<ROWSx1xf8E8M0FNU>) outs(%e : tensor<ROWSx40xELEMENT>) {
  ^bb0(%a: f32, %b: f8E8M0FNU, %o: ELEMENT):
    %0 = arith.scaling_truncf %a, %b : f32, f8E8M0FNU to ELEMENT
    linalg.yield %0 : ELEMENT
  } -> tensor<ROWSx40xELEMENT>
  %f = tensor.empty() : tensor<ROWSx40xf32>
  %values = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%codes, %s : tensor<ROWSx40xELEMENT>, tensor<ROWSx1xf8E8M0FNU>) outs(%f : tensor<ROWSx40xf32>) {
  ^bb0(%a: ELEMENT, %b: f8E8M0FNU, %o: f32):
    %0 = arith.scaling_extf %a, %b : ELEMENT, f8E8M0FNU to f32
    linalg.yield %0 : f32
  } -> tensor<ROWSx40xf32>
  return %codes, %values : tensor<ROWSx40xELEMENT>, tensor<ROWSx40xf32>
}
"""
TYPES = {
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("element", TYPES)
def test_scaled_elements_Q1(element: str, tmp_path: Path) -> None:
    scales = np.array([0, 1, 100, 120, 126, 127, 128, 140, 254], np.uint8)[:, np.newaxis]
    factors = np.ldexp(np.float32(1), scales.astype(np.int32) - 127).astype(np.float32)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        x = (rng.standard_normal((len(scales), 40)) * 4 * factors).astype(np.float32)
        x[:, :4] = [0.0, -0.0, 1e-45, 3e38]
        codes = (x / factors).astype(TYPES[element])
        values = codes.astype(np.float32) * factors
    path = tmp_path / "scaled.mlir"
    path.write_text(MODULE.replace("ROWS", str(len(scales))).replace("ELEMENT", element))
    program = Program.load(path)
    for target in TARGETS:
        _, outputs = repro_mlir.compile(program, target)({}, x, scales)
        found, read = outputs.values()
        np.testing.assert_array_equal(np.asarray(found).view(np.uint8), codes.view(np.uint8), err_msg=target)
        np.testing.assert_array_equal(read.view(np.uint32), values.view(np.uint32), err_msg=target)
