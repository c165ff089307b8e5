# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the names that the package itself defines: the order of data, initial parameters, and learning rates."""

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
import repro_mlir


def test_import_is_light() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import repro_mlir; seconds = time.perf_counter() - start\n"
        "print(seconds, 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    results = [run.stdout.split() for run in runs]
    assert all(result[1:] == ["False", "False"] for result in results)
    assert min(float(result[0]) for result in results) < 0.5


def test_every_public_name_exists() -> None:
    for name in repro_mlir.__all__:
        assert getattr(repro_mlir, name) is not None
        assert name in dir(repro_mlir)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        repro_mlir.optimise  # noqa: B018


def test_permutation_is_one_and_stays_the_same() -> None:
    order = repro_mlir.permutation(1000, seed=3, epoch=2)
    assert sorted(order) == list(range(1000))
    assert order.dtype == np.int64
    assert repro_mlir.permutation(10, seed=7).tolist() == [8, 9, 3, 2, 6, 4, 1, 5, 0, 7]
    assert (repro_mlir.permutation(1000, seed=3, epoch=3) != order).any()


def test_batches_cover_each_epoch_without_the_rest() -> None:
    stream = repro_mlir.batches(10, 4, seed=1)
    first = [next(stream) for _ in range(2)]
    assert len({*np.concatenate(first)}) == 8
    assert (np.concatenate(first) == repro_mlir.permutation(10, seed=1)[:8]).all()
    assert (next(stream) == repro_mlir.permutation(10, seed=1, epoch=1)[:4]).all()


@pytest.mark.parametrize("size", [0, 11])
def test_batch_size_out_of_range(size: int) -> None:
    with pytest.raises(repro_mlir.ReproError, match=f"expected a batch size from 1 to 10, got {size}"):
        next(repro_mlir.batches(10, size))


def test_schedule_is_the_cosine() -> None:
    for step in range(0, 320, 3):
        rate = repro_mlir.cosine_with_warmup(step, peak=3e-3, warmup=30, total=300, floor=3e-4)
        fallen = 3e-4 + 2.7e-3 * 0.5 * (1 + math.cos(math.pi * (step - 30) / 270))
        expected = 3e-3 * (step + 1) / 30 if step < 30 else fallen if step < 300 else 3e-4
        assert rate == pytest.approx(expected, rel=1e-13)


def test_schedule_keeps_its_bits() -> None:
    rates = [repro_mlir.cosine_with_warmup(s, peak=1e-3, warmup=10, total=400, floor=1e-5) for s in range(400)]
    digest = hashlib.sha256(np.array(rates, "<f8").tobytes()).hexdigest()
    assert digest == "383b5398ad9c4da6fad90eb13c482203a2d7bf63568d4c0364e0f7630d0a9e2b"


def test_initialize_is_a_function_of_the_seed() -> None:
    torch = pytest.importorskip("torch")

    def model():
        return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.LayerNorm(30), torch.nn.Conv1d(30, 4, 3))

    first, second = repro_mlir.initialize(model(), 5), repro_mlir.initialize(model(), 5)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(repro_mlir.initialize(model(), 6)[0].weight, first[0].weight)
    assert first[0].bias.abs().max() == 0
    assert (first[1].weight == 1).all()
    bound = 1 / math.sqrt(20)
    assert 0.9 * bound < first[0].weight.abs().max() <= bound
    assert first[2].weight.abs().max() <= 1 / math.sqrt(90)
    data = b"".join(p.detach().numpy().tobytes() for p in first.parameters())
    assert hashlib.sha256(data).hexdigest() == "19b27e17958458a85d6b61e75bda863d6d12a4ff472ee2a91161ace81f7349c7"
