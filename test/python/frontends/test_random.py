# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R1), (R2) Random numbers in captured PyTorch functions, each drawn at a numbered site."""

import re

import numpy
import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from frontend_models import GPT, MLP, token_loss
from graph_running import GraphTrainer, initial_state, parse_with_llvm
from repro_mlir.frontends.torch import CaptureError, capture_inference, capture_training
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.trace.random_sites import philox_bits
from torch import nn


class _Draw(nn.Module):
    def __init__(self, draw) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.draw(x)


def _draw(draw, shape=(64, 64), seed: int = 5):
    captured = capture_inference(_Draw(draw), torch.zeros(shape))
    parse_with_llvm(captured.text)
    assert [entry.name for entry in captured.state] == ["seed", "step"]
    captured.initial[0][...] = seed
    results = captured.bindings.graph(*initial_state(captured), torch.zeros(shape))
    assert int(results[1]) == 1
    return results[2], captured


def test_R1_philox_words() -> None:
    # The published results of Philox4x32-10 if all bits of the counter and the key are 0, and if all are 1.
    zero = torch.tensor(0)
    words = philox_bits(zero, zero, 0, [4]).tolist()
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    again = philox_bits(zero, zero, 0, [9]).tolist()
    assert again[:4] == words
    assert philox_bits(zero, zero, 1, [4]).tolist() != words
    assert philox_bits(zero, zero + 1, 0, [4]).tolist() != words
    assert philox_bits(zero - 1, zero, 0, [4]).tolist() != words


def test_R2_uniform() -> None:
    got, captured = _draw(torch.rand_like)
    want = (philox_bits(torch.tensor(5), torch.tensor(0), 0, [64, 64]) >> 8).numpy() * 2.0**-24
    assert numpy.array_equal(got.numpy(), want.astype(numpy.float32))
    assert _random_op(captured.text) == "distribution = #repro<distribution uniform>, site = 0 : i64"


def _random_op(text: str) -> str:
    """Returns the attributes of the text's only `repro.random`, without operandSegmentSizes."""
    (attributes,) = re.findall(r'"repro\.random"\([^)]*\) \{([^}]*)\}', text)
    return attributes.replace("operandSegmentSizes = array<i32: 2, 1>, ", "")


_GENERATOR = torch.Generator().manual_seed(1)
_MANUAL_SEED = torch.manual_seed


def _seeded_again(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        _MANUAL_SEED(0)
        return torch.randn_like(x)


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (lambda x: torch.manual_seed(0) and torch.rand_like(x), "the step calls manual_seed of torch's random numbers"),
        (_seeded_again, "the step calls manual_seed"),
        (lambda x: x + torch.seed(), "the step calls seed"),
        (lambda x: x + torch.initial_seed(), "the step calls initial_seed"),
        (lambda x: torch.rand(x.shape, generator=_GENERATOR), "leave out generator=, and pass seed= to Trainer"),
        (lambda x: torch.empty_like(x).normal_(generator=_GENERATOR), "the step draws from a torch.Generator"),
        (lambda x: torch.bernoulli(x, generator=_GENERATOR), "the step draws from a torch.Generator"),
    ],
)
def test_seeds_and_generators_within_a_step_are_refused(draw, reason: str) -> None:
    default = torch.random.default_generator
    with pytest.raises(CaptureError, match=rf"test_random.py:\d+: .*{re.escape(reason)}"):
        _draw(draw, (2, 2))
    assert torch.random.default_generator is default is torch.default_generator


def test_R2_bernoulli() -> None:
    got, _ = _draw(lambda x: torch.bernoulli(x + 0.3))
    uniform, _ = _draw(torch.rand_like)
    assert torch.equal(got, (uniform < numpy.float32(0.3)).float())
    got, captured = _draw(lambda x: torch.empty_like(x).bernoulli_(0.3))
    assert torch.equal(got, (uniform < torch.tensor(0.3)).float())
    assert "distribution bernoulli>, probability = 3.000000e-01 : f32, site = 0" in _random_op(captured.text)
    with pytest.raises(CaptureError, match=r"expected a probability from 0 to 1, got -0\.5"):
        _draw(lambda x: torch.native_dropout(x, 1.5, True)[0] + torch.empty_like(x).bernoulli_(-0.5))


@pytest.mark.parametrize("extent", [1, 10, 2**31, 2**32 - 1, 2**32])
def test_R2_randint(extent: int) -> None:
    got, captured = _draw(lambda x: torch.randint(3, 3 + extent, x.shape))
    bits = philox_bits(torch.tensor(5), torch.tensor(0), 0, [64, 64]).tolist()
    want = [[3 + (value * extent >> 32) for value in row] for row in bits]
    assert got.tolist() == want
    assert f"distribution randint>, range = {extent} : i64, site = 0" in _random_op(captured.text)


def test_R2_normal() -> None:
    got, _ = _draw(torch.randn_like)
    uniform, _ = _draw(lambda x: torch.rand(64, 64, 2))
    u1, u2 = uniform[..., 0], uniform[..., 1]
    want = torch.sqrt(-2 * torch.log(1 - u1)) * torch.cos(
        torch.tensor(0x40C90FDB, dtype=torch.int32).view(torch.float32) * u2
    )
    assert torch.equal(got, want)
    assert abs(float(got.mean())) < 0.05 and abs(float(got.std()) - 1) < 0.05


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.randperm(64),
        lambda x: torch.empty_like(x).exponential_(2.0),
        lambda x: torch.empty_like(x).uniform_(-1, 3),
        lambda x: torch.normal(x, 2.0),
        lambda x: torch.multinomial(x + 1, 3),
        lambda x: F.dropout2d(x[None] + 1, 0.5),
        lambda x: F.alpha_dropout(x + 1, 0.5, training=True),
        lambda x: F.gumbel_softmax(x, hard=True),
        lambda x: torch.rand_like(x, dtype=torch.bfloat16),
    ],
)
def test_other_distributions_are_captured(draw) -> None:
    got, _ = _draw(draw)
    assert torch.isfinite(got.float()).all() and len(got.float().unique()) > 1


def test_dropout_in_training() -> None:
    model = MLP(dropout=0.25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.randn(4, 16), torch.randint(0, 8, (4,)))
    captured = capture_training(model, F.cross_entropy, optimizer, batch, CaptureOptions(seed=9))
    assert [entry.name for entry in captured.state[-2:]] == ["seed", "step"]
    trainer = GraphTrainer(captured)
    parameters = {kind.name: value for kind, value in zip(captured.state, initial_state(captured), strict=True)}
    uniform = (philox_bits(torch.tensor(9), torch.tensor(0), 0, [4, 32]) >> 8) * 2.0**-24
    hidden = torch.relu(batch[0] @ parameters["0.weight"].T + parameters["0.bias"])
    hidden = hidden * (uniform < 0.75) / 0.75
    want = F.cross_entropy(hidden @ parameters["3.weight"].T + parameters["3.bias"], batch[1])
    torch.testing.assert_close(trainer.step(batch)[0], want)
    assert [int(v) for v in trainer.state[-2:]] == [9, 1]
    # The trainer gets its initial parameters again. The next step draws other numbers, because its step number differs.
    trainer.state[:-2] = initial_state(captured)[:-2]
    assert not torch.equal(trainer.step(batch)[0], want)


def test_sites_are_numbered_in_order_of_drawing() -> None:
    model = GPT(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = (torch.randint(0, 64, (2, 16)), torch.randint(0, 64, (2, 16)))
    captured = capture_training(model, token_loss, optimizer, batch)
    sites = sorted(int(s) for s in re.findall(r"\bsite = (\d+) : i64", captured.text))
    assert sites == list(range(7))
    assert captured.text.count('"repro.random"') == 7


class _Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.body = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 16))
        self.head = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=self.reentrant)
        return self.head(F.dropout(x, 0.5, self.training))


def test_R1_recomputation_keeps_its_site() -> None:
    model = _Checkpointed(False)
    batch = (torch.randn(4, 16), torch.randint(0, 8, (4,)))
    captured = capture_training(model, F.cross_entropy, torch.optim.SGD(model.parameters()), batch)
    nodes = captured.bindings.graph.graph.nodes
    sites = [node.args[2] for node in nodes if str(node.target).startswith("repro.random_")]
    assert sites == [0, 1, 0]
    # The recomputed matrix product must remain: the graph has more products than that of the model without
    # checkpointing.
    products = [n for n in captured.bindings.graph.graph.nodes if n.target is torch.ops.aten.mm.default]
    plain = nn.Sequential(model.body, nn.Dropout(0.5), model.head)
    kept = capture_training(plain, F.cross_entropy, torch.optim.SGD(plain.parameters()), batch)
    assert len(products) > len([n for n in kept.bindings.graph.graph.nodes if n.target is torch.ops.aten.mm.default])
    first, second = GraphTrainer(captured), GraphTrainer(kept)
    torch.testing.assert_close(first.step(batch)[0], second.step(batch)[0])
    for a, b in zip(first.state, second.state, strict=True):
        torch.testing.assert_close(a, b)


def test_seed_of_64_bits() -> None:
    model = MLP(dropout=0.5)
    batch = (torch.randn(4, 16), torch.randint(0, 8, (4,)))
    captured = capture_training(
        model, F.cross_entropy, torch.optim.SGD(model.parameters()), batch, CaptureOptions(seed=2**64 - 1)
    )
    assert int(captured.initial[-2]) == -1


def test_unsupported_random_operator_is_named() -> None:
    with pytest.raises(CaptureError, match=r"test_random\.py:\d+: random operator aten\.poisson"):
        _draw(lambda x: torch.poisson(x))
