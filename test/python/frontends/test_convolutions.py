# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K2) Convolutions and their gradients become repro.convolution operations, and no tensor has zeros inserted between
its elements."""

import re

import pytest
import torch
import torch.nn.functional as F
from graph_running import parse_with_llvm
from repro_mlir.frontends.torch import CaptureError
from repro_mlir.frontends.torch.lower.lowering import lower
from repro_mlir.frontends.torch.operators import convolutions
from support.convolutions import FORMS
from support.tracing import trace


def _check(function, arguments: list[torch.Tensor]) -> str:
    graph = trace(function, arguments)
    want = function(*arguments)
    for got, expected in zip(graph(*arguments), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    targets = {node.target for node in graph.graph.nodes}
    assert torch.ops.repro.convolution.default in targets and torch.ops.aten.convolution.default not in targets
    text = lower(graph, 0, ["x"] * len(arguments), ["y"] * len(want))
    parse_with_llvm(text)
    return text


def _with_gradients(forward):
    def run(gradient: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
        values = [value.detach().requires_grad_() for value in values]
        result = forward(*values)
        return [result.detach(), *torch.autograd.grad(result, values, gradient)]

    return run


@pytest.mark.parametrize("case", FORMS)
def test_K2_convolution_and_gradients(case: str) -> None:
    size, kernel, stride, padding, dilation, groups = FORMS[case]
    torch.manual_seed(0)
    operator = (F.conv1d, F.conv2d, F.conv3d)[len(size) - 1]
    x, weight, bias = torch.randn(2, 4, *size), torch.randn(8, 4 // groups, *kernel), torch.randn(8)

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return operator(x, weight, bias, stride, padding, dilation, groups)

    gradient = torch.randn_like(forward(x, weight, bias))
    _check(_with_gradients(forward), [gradient, x, weight, bias])


@pytest.mark.parametrize("output_padding", [0, 1])
@pytest.mark.parametrize("case", FORMS)
@pytest.mark.diagonal
def test_K2_transposed_convolution_and_gradients(case: str, output_padding: int) -> None:
    size, kernel, stride, padding, dilation, groups = FORMS[case]
    if output_padding and stride == 1:
        pytest.skip("output padding needs a stride")
    output_padding = (output_padding,) + (0,) * (len(size) - 1)
    torch.manual_seed(0)
    operator = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(size) - 1]
    x, weight, bias = torch.randn(2, 4, *size), torch.randn(4, 6 // groups, *kernel), torch.randn(6 // groups * groups)

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return operator(x, weight, bias, stride, padding, output_padding, groups, dilation)

    gradient = torch.randn_like(forward(x, weight, bias))
    _check(_with_gradients(forward), [gradient, x, weight, bias])


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation", "groups", "output_padding"),
    [
        ((5,), (3,), 1, 0, 3, 2, 2),
        ((5, 4), (3, 3), 1, 0, 2, 4, 1),
        ((4, 3), (2, 3), 2, 1, 3, 1, 2),
        ((3, 4), (1, 2), (1, 2), (0, 1), (3, 1), 2, (2, 1)),
        ((2, 4, 3), (2, 1, 2), 1, (0, 0, 1), 3, 1, (0, 1, 2)),
    ],
)
def test_K2_gradients_where_the_output_padding_is_a_stride_or_more(
    size, kernel, stride, padding, dilation, groups, output_padding
) -> None:
    torch.manual_seed(0)
    operator = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(size) - 1]
    x, weight, bias = torch.randn(2, 4, *size), torch.randn(4, 8 // groups, *kernel), torch.randn(8)

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return operator(x, weight, bias, stride, padding, output_padding, groups, dilation)

    gradient = torch.randn_like(forward(x, weight, bias))
    _check(_with_gradients(forward), [gradient, x, weight, bias])


def test_a_replacement_must_have_the_shape_and_element_type_of_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(2, 4, 9), torch.randn(3, 4, 3)
    plain = convolutions._plain
    for change, found in ((lambda y: y[..., 1:], r"float32 of shape \[2, 3, 6\]"), (torch.Tensor.double, "float64")):
        monkeypatch.setattr(convolutions, "_plain", lambda *given, change=change: change(plain(*given)))
        match = rf"test_convolutions.py:\d+: aten.convolution returns {found}.*, expected float32 of shape \[2, 3, 7\]"
        with pytest.raises(CaptureError, match=match):
            trace(lambda x, weight: [F.conv1d(x, weight)], [x, weight])


def test_K2_weight_gradient_folds_over_batch_and_output_positions() -> None:
    x, weight = torch.randn(5, 2, 9, 9), torch.randn(3, 2, 3, 3)
    gradient = torch.randn_like(F.conv2d(x, weight, stride=2))

    def run(x: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        weight = weight.detach().requires_grad_()
        return list(torch.autograd.grad(F.conv2d(x, weight, stride=2), [weight], gradient))

    text = _check(run, [x, weight, gradient])
    # The gradient of the weight is a convolution whose sums run over the 5 samples of the batch and then over the 4 x 4
    # positions of the output.
    (operation,) = re.findall(r'"repro\.convolution".*', text)
    assert "(tensor<2x5x9x9xf32>, tensor<3x5x4x4xf32>, tensor<2x3x3x3xf32>)" in operation
    assert "strides = array<i64: 1, 1>" in operation and "kernel_dilation = array<i64: 2, 2>" in operation


@pytest.mark.parametrize("case", ["stride", "dilation", "common_factor"])
def test_K2_no_tensor_with_inserted_zeros(case: str) -> None:
    size, kernel, stride, padding, dilation, groups = FORMS[case]
    x, weight = torch.randn(2, 4, *size), torch.randn(4, 6, *kernel)
    text = _check(lambda a, b: [F.conv_transpose2d(a, b, None, stride, padding, 0, groups, dilation)], [x, weight])
    (operation,) = re.findall(r'"repro\.convolution".*', text)
    assert f"input_dilation = array<i64: {stride}, {stride}>" in operation
    assert "tensor.insert_slice" not in text
