# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R3) A sampled token depends only on the logits, the seed of the request and the token's position."""

import numpy as np
import pytest
from repro_mlir import ReproError, Sampling
from repro_mlir.generation.sampling import Sampler

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
philox_bits = pytest.importorskip("repro_mlir.frontends.torch.trace.random_sites").philox_bits

VOCABULARY = 50


def logits(seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(VOCABULARY) * 3).astype(np.float32)


def uniform(seed: int, step: int) -> float:
    signed = (seed + 2**63) % 2**64 - 2**63
    return (int(philox_bits(torch.tensor(signed), torch.tensor(step), 0, [1])) >> 8) * 2.0**-24


def expected(values: np.ndarray, sampling: Sampling, position: int) -> int:
    """Returns the token that (R3) samples, computed in f64. If two of the compared numbers are almost equal, the result
    can be another token."""
    order = np.argsort(-values, kind="stable")
    scaled = values[order].astype(float) / sampling.temperature
    scaled[sampling.top_k or len(values) :] = -np.inf
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
    weights[np.cumsum(weights) - weights >= sampling.top_p] = 0
    sums = np.cumsum(weights)
    return int(order[np.searchsorted(sums, uniform(sampling.seed, position) * sums[-1], side="right")])


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "reference"])
def test_r3_tokens_follow_the_rule(target: str) -> None:
    sampler = Sampler(VOCABULARY, target, 1)
    values = logits()
    ways = [Sampling(1.0, seed=9), Sampling(0.7, top_k=6, seed=1), Sampling(2.0, top_p=0.6, seed=2**63 + 5)]
    for way in ways:
        got = [sampler.choose(values, way, position) for position in range(25)]
        assert got == [expected(values, way, position) for position in range(25)]
        assert len(set(got)) > 2


def test_one_candidate_is_the_greatest_logit() -> None:
    sampler = Sampler(VOCABULARY, "cpu", 1)
    for seed in range(5):
        greatest = int(np.argmax(logits(seed)))
        for way in (Sampling(), Sampling(1.0, top_k=1, seed=seed), Sampling(1.0, top_p=1e-6, seed=seed)):
            assert sampler.choose(logits(seed), way, 3) == greatest


def test_a_token_of_no_weight_is_never_chosen() -> None:
    sampler = Sampler(VOCABULARY, "cpu", 1)
    values = np.full(VOCABULARY, -np.inf, np.float32)
    values[[4, 9]] = 1
    assert {sampler.choose(values, Sampling(1.0, seed=s), 0) for s in range(20)} == {4, 9}
    values[:] = np.nan
    assert sampler.choose(values, Sampling(1.0), 0) == 0


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_r3_weights_that_are_nan_give_rank_zero(target: str) -> None:
    sampler = Sampler(VOCABULARY, target, 1)
    values = logits()
    for way in (Sampling(1e-38, seed=3), Sampling(1e-38, top_k=5, seed=4), Sampling(1e-38, top_p=0.5, seed=5)):
        large = (values * np.float32(10)).astype(np.float32)
        assert float(large.max()) / way.temperature > np.finfo(np.float32).max
        assert sampler.choose(large, way, 2) == int(np.argmax(values))


def test_numbers_of_every_kind_and_size() -> None:
    sampler = Sampler(VOCABULARY, "cpu", 1)
    values = logits()
    want = sampler.choose(values, Sampling(2.0, top_k=VOCABULARY, seed=4), 1)
    for two in (2, np.float32(2), np.int64(2)):
        assert sampler.choose(values, Sampling(two, top_k=10**30, top_p=1, seed=4), 1) == want  # type: ignore[arg-type]
    for tiny in (1e-40, 1e-300):
        assert sampler.choose(values, Sampling(tiny, seed=4), 1) == int(np.argmax(values))
        assert sampler.choose(values, Sampling(1.0, top_p=tiny, seed=4), 1) == int(np.argmax(values))
    assert len({sampler.choose(values, Sampling(3e38, seed=s), 1) for s in range(30)}) > 15
    values[7] = np.inf
    assert sampler.choose(values, Sampling(1.0), 0) == sampler.choose(values, Sampling(), 0) == 7
    values[9] = np.nan
    assert sampler.choose(values, Sampling(1.0), 0) == sampler.choose(values, Sampling(), 0) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": 1e39}, "temperature from 0 to 3.4"),
        ({"temperature": True}, "temperature"),
        ({"temperature": 10**400}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": float("nan")}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"seed": 2**64}, "expected a whole number of 64 bits as seed, got 18446744073709551616"),
    ],
)
def test_options_that_are_none(options: dict[str, float], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        Sampling(**options)  # type: ignore[arg-type]
