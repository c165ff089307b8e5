# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K6) The logits of a request are those of one forward pass over all its tokens. They do not depend on the other
requests that run at the same time."""

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import Generator, ReproError, Sampling
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
nn, F = torch.nn, torch.nn.functional

from repro_mlir.frontends.torch.generation.cached_attention import capture_generation  # noqa: E402
from support.small_decoder import CAPACITY, VOCABULARY, WIDTH, Model, model  # noqa: E402

REQUESTS = int(os.environ.get("REPRO_REQUESTS", "40"))
"""The number of requests per configuration."""


@functools.cache
def generator(slots: int, chunk: int, target: str, threads: int = 1) -> Generator:
    return Generator(model(), CAPACITY, slots=slots, chunk=chunk, target=target, threads=threads)


@functools.cache
def whole() -> repro_mlir.Executable:
    tokens, positions = torch.zeros(1, CAPACITY, dtype=torch.int64), torch.arange(CAPACITY)[None]
    return repro_mlir.compile(repro_mlir.capture(model(), (tokens, positions)), "cpu", 1)


def whole_logits(tokens: list[int]) -> np.ndarray:
    """Returns the logits of each token from one forward pass. Causal attention hides later tokens, such as the
    padding."""
    state = {name: value.detach() for name, value in model().named_parameters()}
    padded = np.array([[*tokens, *[0] * (CAPACITY - len(tokens))]])
    (logits,) = whole()(state, padded, np.arange(CAPACITY)[None])[1].values()
    return np.asarray(logits)[0, : len(tokens)]


def bits(values: object) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def requests(count: int, seed: int) -> list[tuple[list[int], int, Sampling]]:
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        length = int(rng.integers(1, CAPACITY))
        prompt = rng.integers(0, VOCABULARY, length).tolist()
        most = int(rng.integers(1, CAPACITY - length + 2))
        choice = [Sampling(), Sampling(0.8, seed=number), Sampling(1.3, top_k=5, top_p=0.9, seed=number)][number % 3]
        made.append((prompt, most, choice))
    return made


@pytest.mark.parametrize(
    ("slots", "chunk", "target", "threads"),
    [(1, 1, "cpu", 1), (3, 4, "cpu", 2), (4, 16, "cpu:x86-64-v2", 1), (2, 5, "reference", 1)],
)
def test_k6_logits_are_those_of_the_whole_forward_pass(slots: int, chunk: int, target: str, threads: int) -> None:
    used = generator(slots, chunk, target, threads)
    rng = np.random.default_rng(1)
    count = REQUESTS // 4 if target == "reference" else REQUESTS
    waiting = requests(count, 2)
    rng.shuffle(waiting)
    running = []
    while waiting or not all(request.finished for request in running):
        # Up to two new requests arrive before each step, while earlier ones run.
        for _ in range(rng.integers(0, 3)):
            if waiting:
                prompt, most, sampling = waiting.pop()
                running.append(used.submit(prompt, most, sampling, logits=True))
        used.step()
    assert len(running) == count
    for request in running:
        read = [*request.prompt, *request.tokens[:-1]]
        np.testing.assert_array_equal(bits(request.logits), bits(whole_logits(read)[len(request.prompt) - 1 :]))


@pytest.mark.exhaustive
def test_k6_positions_without_tokens_change_no_bit_across_chunks_and_lanes() -> None:
    """(F1) Sums over positions have chunks of 512, and the sums of a softmax have 64 lanes. Up to position 257,
    programs read only a quarter of the cache."""
    capacity = 1030
    torch.manual_seed(4)
    long = Model(capacity).eval()
    used = Generator(long, capacity, chunk=200, threads=1)
    prompt = [i * i % VOCABULARY for i in range(capacity - 3)]
    found = {length: used.submit(prompt[:length], 3, logits=True) for length in (1, 63, 255, 510, capacity - 3)}
    while not all(request.finished for request in found.values()):
        used.step()
    positions = torch.arange(capacity)[None]
    executable = repro_mlir.compile(long, "cpu", 1, inputs=(torch.zeros_like(positions), positions))
    for length, request in found.items():
        tokens = np.zeros((1, capacity), np.int64)
        tokens[0, : length + 3] = [*request.prompt, *request.tokens]
        (logits,) = executable(executable.program.initial_state(), tokens, positions)[1].values()
        want = np.asarray(logits)[0, length - 1 : length + 2]
        np.testing.assert_array_equal(bits(request.logits), bits(want))


def test_caches_are_written_in_place_and_one_token_of_a_prompt_has_logits() -> None:
    """The arena is smaller than a cache, which shows that a step does not copy caches."""
    capacity = 5000
    ((prompt, token),) = capture_generation(Model(capacity).eval(), 1, capacity, 4, [16])
    assert [program.outputs[0].shape for program in (prompt, token)] == [(1, 1, VOCABULARY)] * 2
    for program in (prompt, token):
        backend = CpuBackend(cached_compile(program.data, "x86-64-v2"), 1)
        assert backend.arena_bytes < capacity * WIDTH


@pytest.mark.parametrize("kind", ["looks", "writes", "calls twice"])
@pytest.mark.exhaustive("writes", "calls twice")
def test_models_that_do_more_with_their_last_layer(kind: str) -> None:
    class Other(Model):
        def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            logits = super().forward(tokens, positions)
            if kind == "looks" and logits.shape[1] != tokens.shape[1]:
                raise ValueError("logits are missing")
            if kind == "writes":
                logits[:, :, 0] += positions * 1e-7
            return logits if kind != "calls twice" else self.head(logits[:, :, :WIDTH])

    torch.manual_seed(5)
    other = Other().eval()
    used = Generator(other, CAPACITY, chunk=4, threads=1)
    prompt = list(range(7))
    request = used.submit(prompt, 3, logits=True)
    while not request.finished:
        used.step()
    tokens, positions = torch.tensor([[*prompt, *request.tokens[:-1]]]), torch.arange(len(prompt) + 2)[None]
    executable = repro_mlir.compile(other, "cpu", 1, inputs=(tokens, positions))
    (logits,) = executable(executable.program.initial_state(), tokens, positions)[1].values()
    np.testing.assert_array_equal(bits(request.logits), bits(np.asarray(logits)[0, len(prompt) - 1 :]))


def test_tokens_are_the_same_in_every_order_and_on_a_gpu() -> None:
    prompts, most = [[1, 2, 3, 4, 5, 6, 7], [3], [8, 8]], 5
    choices = [Sampling(), Sampling(1.0, seed=2**64 - 1), Sampling(1.2, top_k=4, top_p=0.8, seed=-7)]
    want = [generator(1, 1, "cpu").generate([p], most, s)[0] for p, s in zip(prompts, choices, strict=True)]
    assert len({token for tokens in want for token in tokens}) > 3
    for order in itertools.permutations(range(3)):
        got = generator(3, 4, "cpu", 2).generate([prompts[i] for i in order], most, [choices[i] for i in order])
        assert got == [want[i] for i in order]
    assert generator(2, 3, "ptx-emulator").generate(prompts, most, choices) == want


def test_values_that_are_not_finite_stay_with_their_request() -> None:
    poisoned = model()
    with torch.no_grad():
        poisoned.tokens.weight[7] = 3e38
        poisoned.blocks[0].norm.weight.fill_(3e38)
    plain = [5, 3, 2, 6]
    used = Generator(poisoned, CAPACITY, slots=2, chunk=3, threads=1)
    one_by_one = Generator(poisoned, CAPACITY, slots=1, chunk=1, threads=1)
    alone = one_by_one.submit(plain, 4, logits=True)
    while not alone.finished:
        one_by_one.step()
    for _ in range(2):
        # In the second run, these slots contain keys and values of the first run's requests.
        bad, good = used.submit([1, 7, 5], 4, logits=True), used.submit(plain, 4, logits=True)
        while not (bad.finished and good.finished):
            used.step()
        np.testing.assert_array_equal(bits(good.logits), bits(alone.logits))


def test_stop_tokens_cancel_and_one_token() -> None:
    used = generator(3, 4, "cpu", 2)
    (tokens,) = used.generate([[1, 2]], 6)
    assert used.generate([[1, 2]], 6, stop={tokens[2]}) == [tokens[: tokens.index(tokens[2]) + 1]]
    assert used.generate([[1] * CAPACITY], 1) and used.generate([], 1) == []
    first, second = used.submit([1], 9), used.submit([2], 3)
    used.step()
    used.cancel(first)
    while not second.finished:
        used.step()
    assert first.finished and len(first.tokens) == 1 and second.tokens == used.generate([[2]], 3)[0]


@pytest.mark.parametrize(
    ("prompt", "most", "message"),
    [
        ([], 1, "expected a prompt of at least one token, got none"),
        ([23], 1, "expected a prompt of tokens from 0 to 22, got 23"),
        ([1.5], 1, "expected a prompt of tokens from 0 to 22, got 1.5"),
        ([True], 1, "expected a prompt of tokens from 0 to 22, got True"),
        (np.array([1.0]), 1, "expected a prompt of tokens from 0 to 22, got 1.0"),
        ("12", 1, "expected a prompt of tokens from 0 to 22, got '1'"),
        (3, 1, "expected a prompt of tokens from 0 to 22, got int"),
        ([-1], 1, "expected a prompt of tokens from 0 to 22"),
        ([1], 0, "expected max_new_tokens of at least 1, got 0"),
        ([1] * 10, 9, "a prompt of 10 tokens and 9 new ones are more than the capacity of 17"),
    ],
)
def test_requests_that_are_none(prompt: list[int], most: int, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        generator(3, 4, "cpu", 2).submit(prompt, most)


def test_stop_tokens_and_a_sampling_that_are_none() -> None:
    used = generator(3, 4, "cpu", 2)
    for stop in ([23], 5, "1", [1.0]):
        with pytest.raises(ReproError, match="expected stop of tokens from 0 to 22"):
            used.submit([1], 1, stop=stop)  # type: ignore[arg-type]
    with pytest.raises(ReproError, match=r"expected a Sampling, got 0\.7"):
        used.submit([1], 1, 0.7)  # type: ignore[arg-type]


def test_tokens_of_arrays_and_tensors() -> None:
    used = generator(3, 4, "cpu", 2)
    want = used.generate([[1, 2]], 6)
    assert used.generate(torch.tensor([[1, 2]]), 6) == want  # type: ignore[arg-type]
    assert used.generate([np.array([1, 2], np.uint8), list(np.array([1, 2]))], 6) == want * 2
    (tokens,) = want
    assert used.generate([[1, 2]], 6, stop=torch.tensor([tokens[0]])) == [tokens[:1]]  # type: ignore[arg-type]


def test_equal_requests_are_not_the_same() -> None:
    used = generator(1, 4, "cpu", 1)
    first, second = used.submit([1, 2], 3, logits=True), used.submit([1, 2], 3, logits=True)
    used.cancel(second)
    used.cancel(second)
    while not first.finished:
        used.step()
    assert len(first.tokens) == 3 and second.finished and not second.tokens
    pair = generator(3, 4, "cpu", 2)
    both = [pair.submit([1, 2], 3, logits=True) for _ in range(2)]
    while not all(request.finished for request in both):
        pair.step()
    assert [request.tokens for request in both] == [first.tokens] * 2


@pytest.mark.parametrize("failing", range(12))
def test_a_step_that_was_interrupted_is_repeated(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used = generator(2, 2, "cpu", 1)
    prompts = [[1, 2, 3, 4, 5], [6, 7]]
    running = [used.submit(prompt, 4, Sampling(1.0, seed=3), logits=True) for prompt in prompts]
    calls = itertools.count()

    def interrupted(original: Callable[..., Any], ahead: bool) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            fails = next(calls) == failing
            if fails and ahead:
                raise KeyboardInterrupt
            result = original(*arguments)
            if fails:
                raise KeyboardInterrupt
            return result

        return call

    monkeypatch.setattr(used, "_run", interrupted(used._run, ahead=False))
    monkeypatch.setattr(used._sampler, "choose", interrupted(used._sampler.choose, ahead=True))
    interrupts = 0
    while not all(request.finished for request in running):
        try:
            used.step()
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts == 1
    for request in running:
        assert len(request.tokens) == len(request.logits) == 4
        read = [*request.prompt, *request.tokens[:-1]]
        np.testing.assert_array_equal(bits(request.logits), bits(whole_logits(read)[len(request.prompt) - 1 :]))


def test_generate_that_was_interrupted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    used = generator(1, 4, "cpu", 1)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(used, "_run", interrupted)
        used.generate([[1], [2]], 3)
    assert used.step() == []


def test_threads_generate_at_a_time() -> None:
    used = generator(2, 2, "cpu", 1)
    prompts = [[[1, 2, 3], [4]], [[5, 6], [7, 8, 9]], [[10]]]
    want = [used.generate(each, 8) for each in prompts]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda each: used.generate(each, 8), prompts * 5)) == want * 5


class OwnPositions(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return super().forward(tokens, torch.arange(tokens.shape[1])[None])


class NotCausal(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks[0](self.tokens(tokens), is_causal=False))


class Mixing(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        return self.head(self.blocks[0](x + torch.roll(x, 1, 1)))


class NoAttention(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.head(self.tokens(tokens))


class TokensAlone(Model):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(tokens, torch.arange(tokens.shape[1])[None])


class Window(Model):
    """A model in which each token attends only to the last eight tokens, including itself."""

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(positions)
        q = x[:, None]
        seen = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        attended = F.scaled_dot_product_attention(q, q, q, attn_mask=seen & ~seen.tril(-8))
        return self.head(x + attended[:, 0])


class Dropping(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q = self.tokens(tokens)[:, None]
        return self.head(F.scaled_dot_product_attention(q, q, q, dropout_p=0.5, is_causal=True)[:, 0])


class Counting(Model):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        self.calls += 1e-6
        return super().forward(tokens, positions) + self.calls


class DoubleInside(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q = self.tokens(tokens)[:, None].double()
        return self.head(F.scaled_dot_product_attention(q, q, q, is_causal=True)[:, 0].float())


class FewPositions(Model):
    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Embedding(CAPACITY - 1, WIDTH)


class SmallLogits(OwnPositions):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return super().forward(tokens, positions) * 1e-4


class MultiheadBeside(Model):
    def __init__(self) -> None:
        super().__init__()
        self.beside = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        hidden = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        mixed, _ = self.beside(x, x, x, attn_mask=hidden, need_weights=True)
        return super().forward(tokens, positions) + 1e-5 * self.head(mixed)


class NegativeScale(Model):
    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q = self.tokens(tokens)[:, None]
        return self.head(F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=-1.0)[:, 0])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Window, "expected causal attention, by is_causal=True or a causal mask, got another"),
        (Dropping, "expected attention without dropout, got dropout_p=0.5"),
        (Counting, "forward writes the buffer calls"),
        (DoubleInside, "expected attention in float32, got torch.float64"),
        (FewPositions, "the model does not run on 17 tokens, the given capacity: index out of range"),
        (SmallLogits, "uses the given positions"),
        (NegativeScale, "the model does not run on 17 tokens, the given capacity: "),
        (OwnPositions, "uses the given positions"),
        (NotCausal, "expected causal attention, by is_causal=True or a causal mask, got another"),
        (Mixing, "depend on each other only by causal attention"),
        (MultiheadBeside, "change the logits of other tokens outside of scaled_dot_product_attention"),
        (NoAttention, "the model does not call scaled_dot_product_attention"),
        (TokensAlone, "takes tokens, expected tokens and their positions"),
    ],
)
def test_models_that_are_none_for_generation(kind: type[Model], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        Generator(kind().eval(), CAPACITY)


class Rotary(nn.Module):
    """A model with rotary positions, fewer keys than queries, values of another size than keys, a mask, and a head that
    is also the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.query, self.key, self.value = nn.Linear(WIDTH, 32), nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 8)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("rates", 0.1 ** torch.arange(4), persistent=False)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        angles = (positions[:, :, None] * self.rates)[:, None]
        cos, sin = angles.cos(), angles.sin()

        def heads(part: torch.Tensor, count: int) -> torch.Tensor:
            return part.unflatten(-1, (count, -1)).transpose(1, 2)

        def rotated(part: torch.Tensor) -> torch.Tensor:
            a, b = part.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        attended = F.scaled_dot_product_attention(
            key=rotated(heads(self.key(x), 2)),
            query=rotated(heads(self.query(x), 4)),
            value=heads(self.value(x), 2),
            attn_mask=torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril(),
            scale=0.7,
            enable_gqa=True,
        )
        return self.head(x + attended.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """A model of PyTorch's transformer layers, which call attention themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 48, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layers(self.tokens(tokens) + positions[..., None] / 16, mask, is_causal=True))


@pytest.mark.parametrize("kind", [Rotary, Encoder])
@pytest.mark.exhaustive("Encoder")
def test_k6_holds_for_attention_of_other_forms(kind: type[nn.Module]) -> None:
    torch.manual_seed(3)
    model = kind().eval()
    inputs = (torch.zeros(1, CAPACITY, dtype=torch.int64), torch.arange(CAPACITY)[None])
    executable = repro_mlir.compile(model, threads=1, inputs=inputs)
    used = Generator(model, CAPACITY, slots=3, chunk=4, threads=1)
    running = [used.submit(prompt, most, sampling, logits=True) for prompt, most, sampling in requests(8, 4)]
    while not all(request.finished for request in running):
        used.step()
    for request in running:
        read = [*request.prompt, *request.tokens[:-1]]
        padded = np.array([[*read, *[0] * (CAPACITY - len(read))]])
        state = executable.program.initial_state()
        (logits,) = executable(state, padded, np.arange(CAPACITY)[None])[1].values()
        want = np.asarray(logits)[0, len(request.prompt) - 1 : len(read)]
        np.testing.assert_array_equal(bits(request.logits), bits(want))


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(ReproError, match=r"model.eval\(\)"):
        Generator(Model(), CAPACITY)
    with pytest.raises(ReproError, match="expected slots of at least 1, got 0"):
        Generator(Model().eval(), CAPACITY, slots=0)
