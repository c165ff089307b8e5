# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A step with GradScaler's rule has the results of scale, unscale_, step and update in eager mode."""

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from repro_mlir import ReceiptOptions, Trainer
from torch import nn
from torch.amp import GradScaler

pytest.importorskip("torch_mlir")

F = nn.functional
TARGETS = ("cpu", "cpu:x86-64-v2", "reference", "ptx-emulator")
MAKES: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
}
FACTORS = {"init_scale": 2.0**16, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 2}


class Steep(nn.Module):
    """A layer whose gradients are not finite for large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = repro_mlir.initialize(nn.Linear(5, 3), 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns seven batches. The gradients of the third overflow f16 if the scale is large, those of the fifth
    always."""
    generator = torch.Generator().manual_seed(3)
    batches = [(torch.randn(4, 5, generator=generator), torch.randn(4, 3, generator=generator)) for _ in range(7)]
    batches[2][1].mul_(30.0)
    batches[4][1][0, 0] = float("inf")
    return batches


def _loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.float() - target).clamp(max=1e30).square().mean()


def _make(optimizer: str = "sgd", **options: Any) -> tuple[nn.Module, GradScaler, Trainer]:
    model, scaler = Steep(), GradScaler("cpu", **FACTORS)
    made = MAKES[optimizer](model.parameters())
    options = {"autocast": torch.float16, "nonfinite_loss": "ignore", "threads": 1} | options
    return model, scaler, Trainer(model, _loss, made, loss_scale=scaler, **options)


@pytest.mark.parametrize("optimizer", MAKES)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_as_eager_mode(optimizer: str, clip: float | None) -> None:
    model, scaler, trainer = _make(optimizer, clip_norm=clip)
    expected, wanted = Steep(), GradScaler("cpu", **FACTORS)
    stepped = MAKES[optimizer](expected.parameters())
    scales, norms = [], []
    for x, y in _batches():
        before = copy.deepcopy(model.state_dict())
        result = trainer.step(x, y, returns=("gradient_norm",))
        stepped.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = _loss(expected(x), y)
        wanted.scale(loss).backward()
        wanted.unscale_(stepped)
        norm = nn.utils.clip_grad_norm_(expected.parameters(), float("inf") if clip is None else clip).item()
        wanted.step(stepped)
        wanted.update()
        assert scaler.state_dict() == wanted.state_dict()
        scales.append(scaler.get_scale())
        norms.append(torch.tensor(result.gradient_norm).isfinite().item())
        assert norms[-1] == torch.tensor(norm).isfinite().item()
        if norms[-1]:
            assert result.gradient_norm == pytest.approx(norm, rel=1e-3)
        else:
            assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=2e-3, atol=1e-4)
    # Some steps were skipped, each of which decreases the scale. After other steps, the scale has increased.
    assert True in norms and norms.count(False) >= 2
    assert any(later > former for former, later in itertools.pairwise(scales))


def test_the_same_bits_on_every_target() -> None:
    found = []
    for target in TARGETS:
        _, scaler, trainer = _make(target=target)
        losses = [trainer.step(*batch) for batch in _batches()]
        found.append((trainer.state_hash(), str(losses), scaler.get_scale()))
    assert len({*found}) == 1


def test_the_optimizer_is_left_alone_too() -> None:
    _, scaler, trainer = _make("adamw")
    good, bad = _batches()[0], _batches()[4]
    while trainer.steps == 0 or trainer.step(*good, returns=("gradient_norm",)).gradient_norm == float("inf"):
        trainer.step(*good)
    before = {name: value.copy() for name, value in trainer.state.items()}
    scale = scaler.get_scale()
    trainer.step(*bad)
    changed = {name for name, value in trainer.state.items() if (value != before[name]).any()}
    assert changed <= {"loss_scale.scale", "loss_scale.growth_tracker"}
    assert scaler.get_scale() == pytest.approx(scale * FACTORS["backoff_factor"], rel=1e-6)


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
def test_changes_of_the_scaler_take_effect(target: str) -> None:
    _, scaler, trainer = _make(target=target)
    good = _batches()[0]
    scaler.load_state_dict(scaler.state_dict() | {"scale": 8.0})
    trainer.step(*good)
    assert (scaler.get_scale(), scaler._get_growth_tracker()) == (8.0, 1)
    scaler.update(16.0)
    trainer.step(*good)
    # Two steps have succeeded and the growth interval is 2, so the scale has grown once.
    assert scaler.get_scale() == pytest.approx(16.0 * 1.7, rel=1e-6)
    scaler.set_growth_factor(4.0)
    scaler.set_growth_interval(1)
    scale = scaler.get_scale()
    trainer.step(*good)
    assert scaler.get_scale() == scale * 4.0


def test_checkpoints_hold_it(tmp_path: Path) -> None:
    _, _, whole = _make()
    _, _, first = _make()
    batches = _batches()
    for batch in batches:
        whole.step(*batch)
    for batch in batches[:4]:
        first.step(*batch)
    first.save_checkpoint(tmp_path / "run.safetensors")
    _, scaler, second = _make()
    second.load_checkpoint(tmp_path / "run.safetensors")
    assert scaler.state_dict() == first.state_dict()["loss_scale"]
    for batch in batches[4:]:
        second.step(*batch)
    assert second.state_hash() == whole.state_hash()
    model = Steep()
    plain = Trainer(model, _loss, MAKES["sgd"](model.parameters()))
    with pytest.raises(repro_mlir.ReproError, match="the state has loss_scale, but the trainer has none"):
        plain.load_checkpoint(tmp_path / "run.safetensors")
    with pytest.raises(repro_mlir.ReproError, match="the state has no loss_scale"):
        second.load_state_dict(plain.state_dict())
    broken = first.state_dict()
    broken["loss_scale"]["scale"] = "high"
    with pytest.raises(repro_mlir.ReproError, match="loss_scale: scale: expected a float, got 'high'"):
        second.load_state_dict(broken)


def test_a_receipt_has_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _make(receipt=ReceiptOptions(path, checkpoint_every=3))[2] as trainer:
        for batch in _batches():
            trainer.step(*batch)
    assert repro_mlir.verify(path, target="reference").steps == 7


@pytest.mark.parametrize(
    ("scaler", "message"),
    [
        (2.0**16, "loss_scale is a float, expected a torch.amp.GradScaler"),
        (GradScaler("cpu", enabled=False), "loss_scale is a disabled GradScaler"),
        (GradScaler("cpu", growth_interval=0), "expected a growth_interval of loss_scale from 1"),
    ],
)
def test_objects_that_are_not_scalers(scaler: Any, message: str) -> None:
    model = Steep()
    with pytest.raises(repro_mlir.ReproError, match=message):
        Trainer(model, _loss, MAKES["sgd"](model.parameters()), loss_scale=scaler)


def test_f16_parameters_are_refused_as_by_torch() -> None:
    model = Steep().half()
    trainer = Trainer(model, _loss, MAKES["sgd"](model.parameters()), loss_scale=GradScaler("cpu"))
    x, y = _batches()[0]
    with pytest.raises(repro_mlir.ReproError, match=r"parameter layer\.weight is float16, expected float32"):
        trainer.step(x.half(), y)


def test_with_an_average() -> None:
    from torch.optim.swa_utils import AveragedModel

    model, scaler = Steep(), GradScaler("cpu", **FACTORS)
    average = AveragedModel(model)
    optimizer = MAKES["sgd"](model.parameters())
    trainer = Trainer(
        model, _loss, optimizer, autocast=torch.float16, loss_scale=scaler, average=average, nonfinite_loss="ignore"
    )
    for batch in _batches():
        trainer.step(*batch)
    assert average.n_averaged == 7
    assert all(value.isfinite().all() for value in average.state_dict().values())
