# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of the convolutions of ResNet-18 and ResNet-50: the forward pass, and the gradients of image and
weight."""

from collections.abc import Callable

import torch
from case import OURS, Case, Contestants, Setting
from programs import compiled

_BATCH = 8
# The layers: input channels, image size, output channels, kernel size, stride.
_RESNET_18 = [
    (3, 224, 64, 7, 2),
    (64, 56, 64, 3, 1),
    (64, 56, 128, 3, 2),
    (128, 28, 128, 3, 1),
    (256, 14, 256, 3, 1),
    (512, 7, 512, 3, 1),
    (64, 56, 128, 1, 2),
]
_RESNET_50 = [
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (512, 28, 128, 1, 1),
    (256, 14, 1024, 1, 1),
    (2048, 7, 512, 1, 1),
    (512, 14, 512, 3, 2),
]
_PARTS = ("forward", "input gradient", "weight gradient")


def _function(part: str, kernel: int, stride: int) -> Callable[..., torch.Tensor]:
    padding = kernel // 2
    if part == "forward":
        return lambda image, weight, _: torch.conv2d(image, weight, None, stride, padding)
    wanted = part == "input gradient"

    def backward(image: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        results = torch.ops.aten.convolution_backward(
            gradient,
            image,
            weight,
            None,
            [stride, stride],
            [padding, padding],
            [1, 1],
            False,
            [0, 0],
            1,
            [wanted, not wanted, False],
        )
        return results[0 if wanted else 1]

    return backward


def _build(part: str, shape: tuple[int, int, int, int, int], setting: Setting) -> Contestants:
    channels, image, filters, kernel, stride = shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(_BATCH, channels, image, image, generator=generator)
    w = torch.randn(filters, channels, kernel, kernel, generator=generator)
    size = -(-image // stride)
    y = torch.randn(_BATCH, filters, size, size, generator=generator)
    function = _function(part, kernel, stride)
    last = [value.contiguous(memory_format=torch.channels_last) for value in (x, w, y)]
    return {
        OURS: compiled(f"convolution {part} {shape}", function, (x, w, y), setting),
        "torch": lambda: function(x, w, y),
        "channels last": lambda: function(*last),
    }


def cases() -> list[Case]:
    """Returns benchmarks of the forward pass, the input gradient and the weight gradient, for each shape. PyTorch uses
    oneDNN; it is measured with images in the layout [N, C, H, W] and in channels_last."""
    rows = []
    for model, shapes in (("ResNet-18", _RESNET_18), ("ResNet-50", _RESNET_50)):
        for shape in shapes:
            channels, image, filters, kernel, stride = shape
            size = -(-image // stride)
            described = f"{kernel}x{kernel}" + (f" stride {stride}" if stride > 1 else "")
            for part in _PARTS:
                if channels == 3 and part == "input gradient":
                    continue  # A training step does not need the gradient of the input images.
                rows.append(
                    Case(
                        f"conv {described} {channels}@{image} to {filters} {part}",
                        "convolution",
                        f"[{_BATCH}, {channels}, {image}, {image}] to {filters}, {described}, {model}",
                        lambda setting, part=part, shape=shape: _build(part, shape, setting),
                        flops=2.0 * _BATCH * filters * size * size * channels * kernel * kernel,
                    )
                )
    return rows
