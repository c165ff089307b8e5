# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Arguments that PyTorch's kernels reject, but shape inference (meta kernels) accepts: the capture must reject them,
too."""

from collections.abc import Callable
from pathlib import Path

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from torch import nn

NAME = Path(__file__).name
IMAGE, KERNEL = torch.ones(1, 2, 5, 5), torch.ones(2, 2, 3, 3)
EMPTY, LOGITS = torch.ones(3, 0), torch.ones(2, 4)

CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "output padding": (lambda x: F.conv_transpose2d(x, KERNEL, stride=2, dilation=2, output_padding=2), IMAGE),
    "dilation": (lambda x: F.conv2d(x, KERNEL, dilation=0), IMAGE),
    "kernel without elements": (lambda x: F.conv2d(x, KERNEL[..., :0, :0]), IMAGE),
    "max": (lambda x: x.max(), EMPTY),
    "max of a dimension": (lambda x: x.max(1)[0], EMPTY),
    "argmax": (lambda x: x.argmax(), EMPTY),
    "unfold": (lambda x: F.unfold(x, 2, padding=-1), IMAGE),
    "pooling of no channels": (lambda x: F.adaptive_avg_pool3d(x, 2), torch.ones(1, 0, 4, 4, 4)),
    "resampling to nothing": (lambda x: F.interpolate(x, scale_factor=0.1, mode="bicubic"), IMAGE),
    "classes of int32": (lambda x: F.cross_entropy(x, torch.tensor([0, 1], dtype=torch.int32)), LOGITS),
    "classes of another shape": (lambda x: F.nll_loss(x, torch.zeros(1, 5, 4, dtype=torch.int64)), IMAGE),
    "beta": (lambda x: F.smooth_l1_loss(x, x + 1, beta=-1.0), LOGITS),
    "alpha": (lambda x: F.celu(x, 0.0), LOGITS),
    "large exponent": (lambda x: x.to(torch.int8) ** 300, LOGITS),
    "negative power": (lambda x: x.to(torch.int32) ** -2, LOGITS),
    "p of mvlgamma": (lambda x: x.mvlgamma(0), LOGITS),
    "exponent of bool": (lambda x: torch.ldexp(x, x > 0), LOGITS),
    "offsets": (lambda x: F.embedding_bag(torch.tensor([0, 1]), x, torch.tensor([1, 0]), mode="sum"), LOGITS),
}


class _Apply(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)


@pytest.mark.parametrize("name", CASES)
def test_arguments_that_a_kernel_refuses(name: str) -> None:
    function, x = CASES[name]
    with pytest.raises((RuntimeError, IndexError)):
        function(x)
    with pytest.raises(repro_mlir.ReproError, match=rf"^{NAME}:\d+: [^\n]*$"):
        repro_mlir.capture(_Apply(function), (x,))


def test_torch_compile_refuses_it_too() -> None:
    for name in ("output padding", "max", "beta", "offsets"):
        function, x = CASES[name]
        compiled = torch.compile(function, backend=repro_mlir.backend(target="reference"), fullgraph=True)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=rf"CaptureError: {NAME}:\d+: "):
            compiled(x)


def test_weights_of_the_classes_of_images() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(x, torch.ones(1, 5, 5, dtype=torch.int64), torch.tensor([1.0, 2.0]))

    compiled = torch.compile(function, backend=repro_mlir.backend(target="reference"), fullgraph=True)
    torch.testing.assert_close(compiled(IMAGE), function(IMAGE))
