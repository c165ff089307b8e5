# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the speed of `repro_mlir.Generator` for a GPT of 124 million parameters with PyTorch's eager mode.

    .venv/bin/python benchmarks/generation.py [--threads 1 2] [--lengths 64 256 512] [--no-decode]

Measures decoding at batch 1 after a prompt, and reading prompts in one chunk. Our generator, PyTorch, and the
generator's matrix products alone take turns in one process (timing.py). Prints the tables of
docs/performance/generation.md.
"""

import argparse
import datetime
import os
import platform
from collections.abc import Callable, Iterator

import repro_mlir
import torch
from case import Setting
from programs import compiled
from repro_mlir.compilation.cpu import native_level
from timing import Figure, interleaved
from torch import nn
from torch.nn import functional as F

OURS, EAGER, PRODUCTS = "ours", "PyTorch", "products"
WIDTH, HEADS, CAPACITY, VOCABULARY = 768, 12, 1024, 50257
_SIZE = WIDTH // HEADS
_PROMPT = 128
"""The number of tokens before the tokens whose decoding is timed."""


class Cache:
    """A key-value cache for eager mode: new keys and values are written in place, and only the filled part is read."""

    def __init__(self, layers: int) -> None:
        self.filled = 0
        self.layers = [torch.zeros(2, 1, HEADS, CAPACITY, _SIZE) for _ in range(layers)]

    def extend(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Returns the keys and values of all tokens, f32 [2, 1, HEADS, tokens, size]."""
        end = self.filled + key.shape[2]
        self.layers[layer][0, :, :, self.filled : end] = key
        self.layers[layer][1, :, :, self.filled : end] = value
        return self.layers[layer][:, :, :, :end]


class Block(nn.Module):
    """A transformer block for x, f32 [rows, length, WIDTH]. Returns y + mlp(norm2(y)), where y is x +
    attention(norm1(x))."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, cache: Cache | None) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = (
            part.view(rows, length, HEADS, _SIZE).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(WIDTH, 2)
        )
        if cache is not None:
            k, v = cache.extend(self.number, k, v)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None or length > 1)
        x = x + self.mix(attended.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class GPT(nn.Module):
    """A GPT that maps tokens and positions, i64 [rows, length], to logits f32 [rows, length, VOCABULARY]. The embedding
    and the output layer share their weight."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CAPACITY, WIDTH)
        self.blocks = nn.ModuleList(map(Block, range(layers)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x, cache)
        # With a cache, the tokens are a prompt or one new token, and only the logits of the last token are needed.
        return self.head(self.norm(x if cache is None else x[:, -1:]))

    @torch.inference_mode()
    def read(self, tokens: list[int], cache: Cache) -> int:
        """Reads prompt tokens in eager mode; returns the next token."""
        positions = torch.arange(cache.filled, cache.filled + len(tokens))
        logits = self(torch.tensor([tokens]), positions[None], cache)
        cache.filled += len(tokens)
        return int(logits[0, -1].argmax())


def _prompt(length: int) -> list[int]:
    return [number * number % VOCABULARY for number in range(length)]


def _our_tokens(generator: repro_mlir.Generator) -> Iterator[int]:
    """Yields the tokens of our generator, which decodes one token at a time."""
    while True:
        request = generator.submit(_prompt(_PROMPT), CAPACITY - _PROMPT)
        while not request.finished:
            before = len(request.tokens)
            generator.step()
            if len(request.tokens) > before:
                yield request.tokens[-1]


def _eager_tokens(model: GPT) -> Iterator[int]:
    while True:
        cache = Cache(len(model.blocks))
        token = model.read(_prompt(_PROMPT), cache)
        yield token
        while cache.filled < CAPACITY - 1:
            yield (token := model.read([token], cache))


def _decode(model: GPT, threads: int, seconds: float) -> dict[str, Figure]:
    generator = repro_mlir.Generator(model, CAPACITY, chunk=_PROMPT, threads=threads)
    ours, eager = _our_tokens(generator), _eager_tokens(model)
    found = [[next(tokens) for _ in range(8)] for tokens in (ours, eager)]
    if found[0] != found[1]:
        raise ValueError(f"expected the tokens of eager mode, {found[1]}, got {found[0]}")
    return dict(interleaved({OURS: lambda: next(ours), EAGER: lambda: next(eager)}, seconds))


def _products(layers: int, length: int, setting: Setting) -> Callable[[], None]:
    """Returns a function that runs the matrix products of a prompt's forward pass in our code, one after another, each
    with its own operands."""
    generator = torch.Generator().manual_seed(0)

    def product(*shapes: tuple[int, ...]) -> Callable[[], object]:
        operands = [torch.randn(*shape, generator=generator) for shape in shapes]
        return compiled(f"products {shapes}", torch.matmul, operands, setting)

    layer = [
        product((length, WIDTH), (WIDTH, 3 * WIDTH)),
        product((HEADS, length, _SIZE), (HEADS, _SIZE, length)),
        product((HEADS, length, length), (HEADS, length, _SIZE)),
        product((length, WIDTH), (WIDTH, WIDTH)),
        product((length, WIDTH), (WIDTH, 4 * WIDTH)),
        product((length, 4 * WIDTH), (4 * WIDTH, WIDTH)),
    ]
    head = product((1, WIDTH), (WIDTH, VOCABULARY))

    def run() -> None:
        for _ in range(layers):
            for call in layer:
                call()
        head()

    return run


def _prefill(model: GPT, length: int, threads: int, seconds: float) -> dict[str, Figure]:
    generator = repro_mlir.Generator(model, CAPACITY, chunk=length, threads=threads)
    layers = len(model.blocks)
    return dict(
        interleaved(
            {
                OURS: lambda: generator.generate([_prompt(length)], 1),
                EAGER: lambda: model.read(_prompt(length), Cache(layers)),
                PRODUCTS: _products(layers, length, Setting(native_level(), threads)),
            },
            seconds,
        )
    )


def _cell(figure: Figure) -> str:
    return f"{1e3 * figure.median:.1f} ({1e3 * figure.best:.1f})"


def _ratio(over: Figure, under: Figure) -> str:
    return f"{over.median / under.median:.2f} ({over.best / under.best:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--lengths", type=int, nargs="*", default=[64, 256, 512], help="of prompts")
    parser.add_argument("--decode", action=argparse.BooleanOptionalAction, default=True, help="time decoding as well")
    parser.add_argument("--seconds", type=float, default=8.0, help="to spend on each that takes turns")
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = GPT(options.layers).eval()
    date = datetime.datetime.now(datetime.UTC)
    print(f"{platform.machine()} {native_level()}; PyTorch {torch.__version__}; {date:%Y-%m-%d %H:%M} UTC")
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters; load {os.getloadavg()[0]:.1f}\n")
    print("| threads | ours, ms | PyTorch, ms | tokens/s | ratio |\n| --- | --- | --- | --- | --- |", flush=True)
    for threads in options.threads if options.decode else ():
        torch.set_num_threads(threads)
        figures = _decode(model, threads, options.seconds)
        ours, eager = figures[OURS], figures[EAGER]
        rate = f"{1 / ours.median:.1f} ({1 / ours.best:.1f})"
        print(f"| {threads} | {_cell(ours)} | {_cell(eager)} | {rate} | {_ratio(eager, ours)} |", flush=True)
    print("\n| prompt | threads | ours, ms | PyTorch, ms | products, ms | ratio | share of products |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for length in options.lengths:
        for threads in options.threads:
            torch.set_num_threads(threads)
            figures = _prefill(model, length, threads, options.seconds)
            ours, eager, products = (figures[name] for name in (OURS, EAGER, PRODUCTS))
            cells = " | ".join(map(_cell, (ours, eager, products)))
            print(f"| {length} | {threads} | {cells} | {_ratio(eager, ours)} | {_ratio(products, ours)} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
