# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(I2) PyTorch's quantization operators return the integers of eager PyTorch. Their gradients are computed as if
nothing were rounded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
import torch

# This import registers the operators.
import torch.ao.quantization.fx._decomposed
from operator_checks import check, gradients
from repro_mlir import ReproError

library = torch.ops.quantized_decomposed

# Odd multiples of 1/32 are ties for the step 1/16.
X = torch.cat([torch.arange(-48, 48) / 32, torch.tensor([100.0, -100.0, 0.03, -0.07])]).reshape(4, 25)
SCALES, POINTS = torch.tensor([0.0625, 0.1, 0.03, 2.0]), torch.tensor([0, 3, -5, 100])


def test_integers_of_floats() -> None:
    def tensors(x: torch.Tensor) -> list[torch.Tensor]:
        signed = library.quantize_per_tensor(x, 0.0625, 3, -128, 127, torch.int8)
        unsigned = library.quantize_per_tensor(x, 0.013, 128, 0, 255, torch.uint8)
        given = library.quantize_per_tensor.tensor(x, SCALES[:1], POINTS[1:2], -128, 127, torch.int8)
        back = library.dequantize_per_tensor(unsigned, 0.013, 128, 0, 255, torch.uint8)
        return [signed, unsigned, given, back, *library.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)]

    def channels(x: torch.Tensor) -> list[torch.Tensor]:
        found = library.quantize_per_channel(x, SCALES, POINTS, 0, -128, 127, torch.int8)
        bytes_ = library.quantize_per_channel(x, SCALES, POINTS.abs(), 0, 0, 255, torch.uint8)
        return [
            found,
            bytes_,
            library.dequantize_per_channel(found, SCALES, POINTS, 0, -128, 127, torch.int8),
            library.dequantize_per_channel(bytes_, SCALES, None, 0, 0, 255, torch.uint8),
            library.quantize_per_token(x, SCALES[:, None], POINTS[:, None], -128, 127, torch.int8),
        ]

    results = check({"tensors": tensors, "channels": channels}, X, rtol=0, atol=0)
    assert results[0].min() == -128 and results[0].max() == 127


def test_products_of_integers_are_exact() -> None:
    torch.manual_seed(0)
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((32, 200), (200, 24)))

    def function(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [torch._int_mm(a, b), a.int() @ b.int()]

    check({"products": function}, a, b, rtol=0, atol=0)


def test_gradients_pass_where_nothing_was_cut() -> None:
    on, scale, point = torch.ones(1), torch.tensor([0.0625]), torch.tensor([3], dtype=torch.int32)
    functions: dict[str, Any] = {
        "tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.0625, 3, -20, 20),
        "given": lambda x: torch.fake_quantize_per_tensor_affine(x, scale * on, point, -20, 20),
        "channels": lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, POINTS.int(), 0, -128, 127),
    }
    results = check({name: gradients(each) for name, each in functions.items()}, X, rtol=0, atol=0)
    assert (results[1] == 0).any() and (results[1] != 0).any()


def test_quantized_types_are_refused() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()

    with pytest.raises(ReproError, match=r"test_quantization\.py:\d+: quantize_per_tensor: tensors of quantized types"):
        repro_mlir.capture(Model(), (X,))


def test_rescaled_sums_of_a_tosa_module(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(_RESCALED)
    program = repro_mlir.Program.load(tmp_path / "m.mlir")
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-128, 128, shape).astype(np.int8) for shape in ((1, 4, 8), (1, 8, 5)))
    sums = (a.astype(np.int64) - 3) @ b.astype(np.int64)
    expected = np.clip((sums * 2**30 + 2**37) >> 38, -128, 127)
    for target in ("reference", "cpu", "cpu:x86-64-v2"):
        (found,) = repro_mlir.compile(program, target)({}, a, b)[1].values()
        np.testing.assert_array_equal(found, expected)


_RESCALED = """
func.func @main(%a: tensor<1x4x8xi8>, %b: tensor<1x8x5xi8>) -> tensor<1x4x5xi8> {
  %point = "tosa.const"() {values = dense<3> : tensor<1xi8>} : () -> tensor<1xi8>
  %zero = "tosa.const"() {values = dense<0> : tensor<1xi8>} : () -> tensor<1xi8>
  %none = "tosa.const"() {values = dense<0> : tensor<1xi32>} : () -> tensor<1xi32>
  %factor = "tosa.const"() {values = dense<1073741824> : tensor<1xi32>} : () -> tensor<1xi32>
  %shift = "tosa.const"() {values = dense<38> : tensor<1xi8>} : () -> tensor<1xi8>
  %sums = tosa.matmul %a, %b, %point, %zero
    : (tensor<1x4x8xi8>, tensor<1x8x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5xi32>
  %result = tosa.rescale %sums, %factor, %shift, %none, %zero {input_unsigned = false, output_unsigned = false,
      per_channel = false, rounding_mode = SINGLE_ROUND, scale32 = true}
    : (tensor<1x4x5xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x4x5xi8>
  return %result : tensor<1x4x5xi8>
}
"""
