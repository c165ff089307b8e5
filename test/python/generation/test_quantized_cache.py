# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K7) With a block-scaled cache, logits are those of one forward pass whose keys and values are quantized and
dequantized."""

import functools
import itertools
import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import repro_mlir
from repro_mlir import Generator
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.generation.identity import identity_of
from repro_mlir.precision.cache_format import cache_format
from repro_mlir.reference.low_precision.binary_formats import ELEMENT_FORMATS
from repro_mlir.reference.low_precision.block_quantization import BlockFormat
from repro_mlir.reference.low_precision.block_quantization import dequantize as values_of
from repro_mlir.reference.low_precision.block_quantization import quantize as codes_of
from repro_mlir.reference.low_precision.block_scales import SCALE_RULES

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
nn, F = torch.nn, torch.nn.functional

from repro_mlir.frontends.torch.generation.cached_attention import capture_generation  # noqa: E402
from repro_mlir.frontends.torch.operators.blocks import dequantize, quantize  # noqa: E402
from repro_mlir.frontends.torch.trace.attention import ReplacedAttention  # noqa: E402
from support.small_decoder import CAPACITY, HEADS, VOCABULARY, WIDTH, Model, model  # noqa: E402

FORMATS: dict[str, Any] = {
    "mxfp8": "mxfp8",
    "mxfp6": "mxfp6",
    "mxfp4": "mxfp4",
    "mxint8": "mxint8",
    "fp8_rowwise": "fp8_rowwise",
    "nvfp4": {"element": "f4E2M1FN", "tile": [1, 3], "scale": "nvfp4", "amax": "row"},
    "nvfp4_single": {"element": "f4E2M1FN", "tile": [1, 4], "scale": "nvfp4_single"},
    "e5m2": {"element": "f8E5M2", "tile": [1, 5], "scale": "f32_power"},
    "e2m3": {"element": "f6E2M3FN", "tile": [1, None], "scale": "floor"},
}
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [3], [8, 8]]
MOST = 5


def bits(values: object) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def generated(used: Generator) -> list[Any]:
    running = [used.submit(prompt, MOST, logits=True) for prompt in PROMPTS]
    while not all(request.finished for request in running):
        used.step()
    return running


@functools.cache
def generator(name: str | None, slots: int, chunk: int, target: str = "cpu", threads: int = 1) -> Generator:
    cache = None if name is None else FORMATS[name]
    return Generator(model(), CAPACITY, slots=slots, chunk=chunk, cache=cache, target=target, threads=threads)


class Whole(nn.Module):
    """A module that runs a model over all tokens at once, with keys and values quantized and dequantized."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.model, self.format = model(), cache_format(FORMATS[name])

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **_: Any) -> torch.Tensor:
            root = math.sqrt(1 / math.sqrt(q.shape[-1]))
            k, v = (dequantize(quantize(x.flatten(0, 1), self.format), self.format, x.shape[-1]) for x in (k * root, v))
            scores = (q * root).flatten(0, 1) @ k.transpose(1, 2)
            seen = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
            weights = torch.softmax(torch.where(seen, scores, -math.inf), -1)
            return (weights @ v).reshape(q.shape)

        with ReplacedAttention(attend):
            return self.model(tokens, positions)


@functools.cache
def whole(name: str) -> repro_mlir.Executable:
    tokens, positions = torch.zeros(1, CAPACITY, dtype=torch.int64), torch.arange(CAPACITY)[None]
    return repro_mlir.compile(repro_mlir.capture(Whole(name).eval(), (tokens, positions)), "cpu", 1)


def check(name: str, slots: int, chunk: int, target: str, threads: int) -> None:
    for request in generated(generator(name, slots, chunk, target, threads)):
        tokens = np.zeros((1, CAPACITY), np.int64)
        read = [*request.prompt, *request.tokens[:-1]]
        tokens[0, : len(read)] = read
        state = whole(name).program.initial_state()
        (logits,) = whole(name)(state, tokens, np.arange(CAPACITY)[None])[1].values()
        want = np.asarray(logits)[0, len(request.prompt) - 1 : len(read)]
        np.testing.assert_array_equal(bits(request.logits), bits(want))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.diagonal(name=["mxfp8", "mxint8", "nvfp4", "e2m3"])
@pytest.mark.exhaustive("e2m3", "mxint8")
def test_k7_logits_are_those_of_a_forward_pass_on_values_of_codes(name: str) -> None:
    check(name, 3, 4, "cpu", 2)


@pytest.mark.parametrize(
    ("name", "slots", "chunk", "target"),
    [
        ("mxfp8", 1, 1, "cpu"),
        ("mxfp8", 2, 5, "ptx-emulator"),
        ("mxfp8", 1, 7, "reference"),
        ("nvfp4", 2, 5, "cpu:x86-64-v2"),
        ("nvfp4", 1, 7, "ptx-emulator"),
        ("nvfp4", 2, 3, "reference"),
    ],
)
@pytest.mark.diagonal("target")
def test_k7_on_every_target(name: str, slots: int, chunk: int, target: str) -> None:
    check(name, slots, chunk, target, 1)


def stored(name: str | None) -> dict[str, np.ndarray]:
    """Returns the state tensors of a generator, by name, after a request in its first slot."""
    used = generator(name, 3, 4, "cpu", 2)
    used.generate(PROMPTS[:1], 1)
    kept = used._programs[-1].token
    names = [kind.name for kind in kept._executable.program.state]
    return {name: np.asarray(value) for name, value in zip(names, kept._states, strict=True)}


def in_reference(name: str) -> BlockFormat:
    given = cache_format(FORMATS[name])
    assert given.tile is not None and given.scale is not None
    return BlockFormat(ELEMENT_FORMATS[given.element], given.tile, SCALE_RULES[given.scale.rule])


@pytest.mark.parametrize("name", FORMATS)
def test_k7_codes_and_scales_are_those_of_the_reference(name: str) -> None:
    """Compares the cache of the first layer, because the keys and values of later layers depend on what is read from
    caches."""
    plain, found, form = stored(None), stored(name), in_reference(name)
    heads, count = slice(HEADS), slice(len(PROMPTS[0]))
    for part in ("keys0", "values0"):
        x = plain[part][heads, count]
        amaxes = [np.abs(x).max(-1)] if name == "nvfp4" else []
        want = codes_of(x, form, *amaxes)
        codes, scales = found[f"{part}_codes"][heads, count], found[f"{part}_scales"][heads, count]
        assert codes.dtype == np.int8
        np.testing.assert_array_equal(scales.view(want.scales.dtype), want.scales)
        if amaxes:
            np.testing.assert_array_equal(found[f"{part}_amaxes"][heads, count], amaxes[0])
        if form.element.name in ("f8E4M3FN", "f8E5M2") or name == "mxint8":
            np.testing.assert_array_equal(codes.view(np.uint8), want.codes.view(np.uint8))
            continue
        assert not np.array_equal(values_of(want, form), x)
        if form.element.name == "f4E2M1FN":
            # (Q7) Two codes share a byte.
            np.testing.assert_array_equal(codes.view(np.uint8), want.codes[..., ::2] | want.codes[..., 1::2] << 4)
            continue
        # The cache stores an f6 element as the code of its value in f8E4M3FN.
        narrow = {"f6E3M2FN": ml_dtypes.float6_e3m2fn, "f6E2M3FN": ml_dtypes.float6_e2m3fn}
        kind = narrow[form.element.name]
        byte = want.codes.view(kind).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(codes.view(np.uint8), byte.view(np.uint8))


class Large(nn.Module):
    """A model whose values are large, because they come from an embedding, and whose keys are small."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        q = x.clamp(-1, 1)[:, None]
        return (
            self.head(F.scaled_dot_product_attention(q, q, x[:, None], is_causal=True)[:, 0]) + 0 * positions[..., None]
        )


@pytest.mark.parametrize("value", [3.4e38, math.inf, math.nan])
def test_k7_values_that_are_read_as_not_finite_hide_later_tokens_alone(value: float) -> None:
    """3.4e38 is finite, but its dequantized value is 2^128, an infinity in f32."""
    torch.manual_seed(5)
    large = Large().eval()
    with torch.no_grad():
        large.tokens.weight[7, 3] = value
    found = []
    for chunk in (1, 6):
        used = Generator(large, CAPACITY, chunk=chunk, cache="mxfp8", threads=1)
        for length in (3, 6):
            found.append(used.submit([1, 2, 3, 7, 4, 5][:length], 1, logits=True))
            while not found[-1].finished:
                used.step()
    for first, second in itertools.pairwise([found[0], found[2]]):
        np.testing.assert_array_equal(bits(first.logits), bits(second.logits))
    assert np.isfinite(found[0].logits).all()
    assert np.isnan(found[1].logits).all() and np.isnan(found[3].logits).all()


def test_k7_the_format_is_part_of_the_identity_and_not_of_the_weights() -> None:
    plain, eight, four = (identity_of(model(), CAPACITY, cache) for cache in (None, "mxfp8", "mxfp4"))
    assert len({plain.program, eight.program, four.program}) == 3
    assert plain.weights == eight.weights == four.weights
    assert plain.cache is None and eight.cache is not None
    assert json.loads(eight.cache) == {"element": "f8E4M3FN", "rounding": "rne", "scale": "rceil", "tile": [1, 32]}
    assert identity_of(model(), CAPACITY, eight.cache) == eight


def test_bytes_of_caches() -> None:
    rows, size = 2 * 2 * 3 * HEADS * (CAPACITY + 1), WIDTH // HEADS
    assert generator(None, 3, 4, "cpu", 2).cache_bytes == rows * size * 4
    assert generator("mxfp8", 3, 4, "cpu", 2).cache_bytes == rows * (size + 1)
    assert generator("mxfp4", 3, 4, "cpu", 2).cache_bytes == rows * (size // 2 + 1)
    # Each row has three scales of one byte, and an amax in f32.
    assert generator("nvfp4", 3, 4, "cpu", 2).cache_bytes == rows * (size // 2 + 3 + 4)


def test_k7_heads_of_an_odd_size() -> None:
    """(Q7) A row of five codes takes three bytes, and its scale one byte."""
    torch.manual_seed(5)
    odd, found = Large(5).eval(), []
    for chunk, target in ((4, "cpu"), (1, "reference")):
        used = Generator(odd, CAPACITY, chunk=chunk, cache="mxfp4", target=target, threads=1)
        assert used.cache_bytes == 2 * (CAPACITY + 1) * (3 + 1)
        found.append(used.submit(PROMPTS[0], 3, logits=True))
        while not found[-1].finished:
            used.step()
    np.testing.assert_array_equal(bits(found[0].logits), bits(found[1].logits))


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
@pytest.mark.exhaustive("mxfp8")
def test_caches_in_blocks_are_written_in_place(name: str) -> None:
    """The arena has fewer bytes than a cache has positions, which shows that a step copies no cache and does not
    dequantize all positions at once."""
    capacity = 4000
    ((prompt, token),) = capture_generation(Model(capacity).eval(), 1, capacity, 4, [16], cache_format(FORMATS[name]))
    for program in (prompt, token):
        backend = CpuBackend(cached_compile(program.data, "x86-64-v2"), 1)
        assert backend.arena_bytes < capacity
