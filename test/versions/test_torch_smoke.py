# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the frontend with a tried version of PyTorch: the bits are those of the repository's own version."""

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import repro_mlir
import torch
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.frontends.torch.scripts import Training
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = json.loads((ROOT / "test" / "python" / "examples" / "golden.json").read_text())["examples"]
HASHES = {
    "trainer": "2e28b0771918f0f471ca77a031d76601c55feaf7e6e45e554a6603eb7acfd19c",
    "decoder": "5916ca37efa38bf5a795320e4b0867f9d96db09e40264683bed8b2248f32011d",
    "compiled loop": "f12ae566fb7cf978694967753496b4ae4c63a6a4750a54062ceef9c96a5ce22f",
}
"""The hashes of the results with PyTorch 2.13.0."""

X = torch.linspace(-1, 1, 8 * 64).reshape(8, 1, 8, 8).sin()
Y = torch.arange(8) % 3


def hash_of(tensors: list[torch.Tensor]) -> str:
    return state_hash([(each.detach().numpy(), "f32") for each in tensors])


def filled(model: nn.Module) -> nn.Module:
    """Returns the model with parameters that no random number generator of PyTorch has drawn."""
    for i, parameter in enumerate(model.parameters()):
        values = torch.linspace(-1, 1, parameter.numel()).mul(40 + i).sin().reshape(parameter.shape)
        parameter.data.copy_(values / max(parameter[0].numel(), 2) ** 0.5)
    return model


def convolutional() -> nn.Module:
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25)
    return filled(nn.Sequential(*layers, nn.Linear(36, 3)))


@pytest.fixture
def example_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(ROOT / "examples")
    yield
    for name in GOLDEN:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", GOLDEN)
def test_examples_have_their_golden_hashes(name: str, example_scripts: None) -> None:
    given = importlib.import_module(name).training(10)
    program, steps = capture_steps(Training(*given, *([{}] if len(given) == 4 else [])), 10)
    executable, state = repro_mlir.compile(program, threads=1), program.initial_state()
    for inputs in steps:
        executable(state, *inputs)
    assert state_hash([(state[kind.name], kind.element) for kind in program.state]) == GOLDEN[name]["10"]


def test_a_trainer_with_scheduler_checkpoint_and_evaluation(tmp_path: Path) -> None:
    model = convolutional()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    trainer = repro_mlir.Trainer(model, nn.functional.cross_entropy, optimizer, clip_norm=1.0, seed=7, threads=1)
    for _ in range(3):
        trainer.step(X, Y)
        scheduler.step()
    torch.save(trainer.state_dict(), tmp_path / "kept.pt")
    assert math.isfinite(trainer.evaluate(X, Y))
    found = trainer.state_hash()
    trainer.step(X, Y)
    assert trainer.state_hash() != found
    trainer.load_state_dict(torch.load(tmp_path / "kept.pt"))
    assert hash_of([*model.parameters()]) == HASHES["trainer"]


def test_inference_of_a_decoder() -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(17, 16)
            self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embedding(tokens)
            heads = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
            mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            return nn.functional.silu(x + self.out(mixed.transpose(1, 2).flatten(2))).cumsum(1)

    tokens = torch.arange(24).reshape(2, 12) % 17
    model = filled(Decoder()).eval()
    executable = repro_mlir.compile(model, inputs=(tokens,), threads=1)
    _, outputs = executable(executable.program.initial_state(), tokens.numpy())
    (found,) = outputs.values()
    torch.testing.assert_close(torch.from_numpy(found), model(tokens))
    assert state_hash([(found, "f32")]) == HASHES["decoder"]


def test_a_loop_under_torch_compile() -> None:
    model = convolutional().eval()

    @torch.compile(backend=repro_mlir.backend(threads=1), fullgraph=True)
    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), y)

    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    update = repro_mlir.compile_optimizer(optimizer, threads=1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(X, Y)
        loss.backward()
        update()
    assert hash_of([loss, *(each.grad for each in model.parameters())]) == HASHES["compiled loop"]
