# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hold-out models: no parameter of the time predictions was fitted to their steps. All other models are in
training_models.py."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from training_models import STEPS, Step


class _RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class _LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.norm1, self.norm2 = _RMSNorm(width), _RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * shared * self.size, bias=False)
        self.mix = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2, self.shared, self.size).permute(2, 0, 3, 1, 4)
        q, k = (_rotated(each, cosine, sine) for each in (q, k))
        repeats = self.heads // self.shared
        k, v = (each.repeat_interleave(repeats, dim=1) for each in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class Llama(nn.Module):
    """A transformer that maps letters and next letters, i64 [batch, length], to the loss. It has rotary positions, RMS
    norms, grouped queries and a gated MLP (Touvron et al. 2023)."""

    def __init__(self, layers: int, width: int, heads: int, shared: int, hidden: int, vocabulary: int, length: int):
        super().__init__()
        self.letters = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(_LlamaBlock(width, heads, shared, hidden) for _ in range(layers))
        self.norm = _RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, letters: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        x = self.letters(letters)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), following.flatten())


def _double(channels: int, filters: int) -> nn.Sequential:
    layers = []
    for inputs in (channels, filters):
        layers += [nn.Conv2d(inputs, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Maps images f32 [batch, 3, height, width] and the classes of their pixels, i64 [batch, height, width], to the
    loss (Ronneberger et al. 2015, with padded convolutions)."""

    def __init__(self, filters: int, depth: int, classes: int) -> None:
        super().__init__()
        sizes = [filters << level for level in range(depth)]
        self.down = nn.ModuleList(
            _double(channels, size) for channels, size in zip([3, *sizes[:-1]], sizes, strict=True)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, stride=2) for size in reversed(sizes[:-1]))
        self.merge = nn.ModuleList(_double(2 * size, size) for size in reversed(sizes[:-1]))
        self.head = nn.Conv2d(filters, classes, 1)

    def forward(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        x, skipped = images, []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            skipped.append(x)
        skipped.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat((skipped.pop(), up(x)), dim=1))
        return F.cross_entropy(self.head(x), classes)


class LSTM(nn.Module):
    """An LSTM that maps letters and next letters, i64 [batch, length], to the loss."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(vocabulary, width)
        self.cell = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, letters: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.cell(self.letters(letters))[0]).flatten(0, 1), following.flatten())


def _with_adamw(model: nn.Module, *batch: torch.Tensor) -> Any:
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True), batch


def _llama() -> Any:
    torch.manual_seed(0)
    model = Llama(layers=4, width=256, heads=8, shared=2, hidden=704, vocabulary=2048, length=128)
    return _with_adamw(model, *torch.randint(2048, (2, 8, 128)).unbind())


def _unet() -> Any:
    torch.manual_seed(0)
    return _with_adamw(UNet(16, 4, 5), torch.randn(8, 3, 64, 64), torch.randint(5, (8, 64, 64)))


def _lstm() -> Any:
    torch.manual_seed(0)
    return _with_adamw(LSTM(256, 128), *torch.randint(256, (2, 32, 24)).unbind())


HELD_OUT = {
    **STEPS,
    "Llama": Step("Llama", "4 layers, 8 heads of 2 keys, width 256, 8 x 128 of 2048, AdamW", _llama, 0.0, 64),
    "U-Net": Step("U-Net", "16 to 128 filters, 8 x 3 x 64 x 64, AdamW", _unet, 0.0),
    "LSTM": Step("LSTM", "width 128, 32 x 24 of 256, AdamW", _lstm, 0.0),
}
