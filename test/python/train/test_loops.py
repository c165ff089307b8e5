# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training scripts as users write them: the values are close to those of eager mode, and the bits are the same on every
target.

A script is a function with two arguments: `make`, which is `EagerTrainer` or `Trainer` for one target, and a folder. It
returns the numbers that it logs and the models that it has trained.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from eager_trainer import EagerTrainer
from repro_mlir import Trainer
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, LambdaLR, ReduceLROnPlateau, StepLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("torch_mlir")

from user_scripts.tiny import Make, Run, batches, samples, scripts_of, sgd, train

F = nn.functional
TARGETS = ("cpu", "cpu:x86-64-v2", "reference")
Script = Callable[[Make, Path], Run]
HELD = samples(9, seed=5)


def classifier(seed: int = 1, dropout: float = 0.0) -> nn.Sequential:
    layers = nn.Linear(5, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3)
    return repro_mlir.initialize(nn.Sequential(*layers), seed)


def adamw(model: nn.Module, **options: Any) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), **{"lr": 0.02} | options)


def accuracy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == target).float().mean()


def steps_around(trainer: Any, change: Callable[[], object]) -> list[float]:
    """Returns the losses of three steps before a change and three steps after the change."""
    given = batches(6)
    losses = [trainer.step(x, y) for x, y in given[:3]]
    change()
    return losses + [trainer.step(x, y) for x, y in given[3:]]


# --- The scripts ---


def plain_loop_with_a_scheduler(make: Make, folder: Path) -> Run:
    model = classifier()
    optimizer = sgd(model, momentum=0.0)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
    losses, _ = train(make, model, F.cross_entropy, optimizer, batches(6), after=scheduler.step)
    return [*losses, optimizer.param_groups[0]["lr"]], [model]


def warmup_by_a_lambda(make: Make, folder: Path) -> Run:
    model = classifier()
    optimizer = adamw(model)
    scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    return train(make, model, F.cross_entropy, optimizer, batches(5), after=scheduler.step)


def warm_restarts(make: Make, folder: Path) -> Run:
    model = classifier()
    optimizer = sgd(model)
    scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2)
    return train(make, model, F.cross_entropy, optimizer, batches(4), after=scheduler.step)


def plateau_of_the_validation_loss(make: Make, folder: Path) -> Run:
    model = classifier()
    optimizer = sgd(model, lr=0.5)
    scheduler = ReduceLROnPlateau(optimizer, factor=0.1, patience=0)
    trainer = make(model, F.cross_entropy, optimizer)
    values = []
    for x, y in batches(5):
        trainer.step(x, y)
        values.append(trainer.evaluate(*HELD))
        scheduler.step(values[-1])
    return [*values, optimizer.param_groups[0]["lr"]], [model]


def numpy_batches(make: Make, folder: Path) -> Run:
    model = classifier()
    return train(make, model, F.cross_entropy, adamw(model), [(x.numpy(), y.numpy()) for x, y in batches(4)])


class Bag(nn.Module):
    """A model that computes the loss itself and returns it in a dict, as models of libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, words: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        weights = mask.unsqueeze(-1).float()
        logits = self.head((self.embedding(words) * weights).sum(1) / weights.sum(1))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def sentences(count: int, length: int, seed: int = 1) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 7, (count, length), generator=generator)
    lengths = torch.randint(1, length + 1, (count, 1), generator=generator)
    return {"words": words, "mask": torch.arange(length) < lengths, "labels": words[:, 0] % 3}


def dict_batches(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(Bag(), 1)
    return train(make, model, None, adamw(model), [(sentences(4, 5, seed),) for seed in range(4)])


def sequences_of_several_lengths(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(Bag(), 1)
    given = [(sentences(4, length, seed),) for seed, length in enumerate((5, 3, 5, 3))]
    return train(make, model, None, sgd(model), given)


def last_smaller_batch(make: Make, folder: Path) -> Run:
    model = classifier()
    loader = DataLoader(TensorDataset(*samples(10)), batch_size=4)
    trainer = make(model, F.cross_entropy, sgd(model))
    return trainer.fit(loader, 6), [model]


def best_checkpoint(make: Make, folder: Path) -> Run:
    model = classifier()
    trainer = make(model, F.cross_entropy, sgd(model, lr=0.8))
    best, values = float("inf"), []
    for number, (x, y) in enumerate(batches(8), 1):
        trainer.step(x, y)
        if number % 2 == 0:
            values.append(trainer.evaluate(*HELD))
            if values[-1] < best:
                best = values[-1]
                trainer.save_checkpoint(folder / "best")
    trainer.load_checkpoint(folder / "best")
    return [*values, trainer.evaluate(*HELD)], [model]


def early_stopping(make: Make, folder: Path) -> Run:
    model = classifier()
    trainer = make(model, F.cross_entropy, sgd(model, lr=2.0))
    seen: list[float] = []

    def stop(given: Any, loss: float) -> bool:
        seen.append(given.evaluate(*HELD))
        return len(seen) > 2 and min(seen[-2:]) > min(seen)

    losses = trainer.fit(batches(5), 12, callbacks=[stop])
    assert len(losses) == len(seen) < 12
    return [*losses, *seen], [model]


def logged_metrics(make: Make, folder: Path) -> Run:
    model = classifier()
    trainer = make(model, F.cross_entropy, adamw(model), metrics={"accuracy": accuracy})
    values = []
    for x, y in batches(4, 8):
        result = trainer.step(x, y, returns=("metrics",))
        values += [result.loss, result.metrics["accuracy"]]
    held = [trainer.evaluate(*batch, returns=("metrics",)).metrics["accuracy"] for batch in batches(3, 8, seed=5)]
    return [*values, sum(held) / len(held)], [model]


def confusion_from_the_outputs(make: Make, folder: Path) -> Run:
    model = classifier()
    trainer = make(model, F.cross_entropy, adamw(model))
    trainer.fit(batches(3), 3)
    confusion = torch.zeros(3, 3)
    for x, y in batches(3, 5, seed=5):
        outputs = trainer.evaluate(x, y, returns=("outputs",)).outputs
        for target, predicted in zip(y, outputs.argmax(1), strict=True):
            confusion[target, predicted] += 1
    return confusion.reshape(-1).tolist(), [model]


def two_losses_summed(make: Make, folder: Path) -> Run:
    model = classifier()

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target) + 0.1 * output.abs().mean()

    return train(make, model, loss_fn, sgd(model), batches(4))


def label_smoothing(make: Make, folder: Path) -> Run:
    model = classifier()
    return train(make, model, nn.CrossEntropyLoss(label_smoothing=0.1), adamw(model), batches(4))


class MultiTask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(5, 8)
        self.kind = nn.Linear(8, 3)
        self.size = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.tanh(self.trunk(x))
        return {"kind": self.kind(hidden), "size": self.size(hidden).squeeze(-1)}


def multi_task_outputs(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(MultiTask(), 1)

    def loss_fn(output: dict[str, torch.Tensor], target: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(output["kind"], target["kind"]) + F.mse_loss(output["size"], target["size"])

    trainer = make(model, loss_fn, adamw(model))
    values = []
    for x, y in batches(4):
        result = trainer.step(x, {"kind": y, "size": x.sum(1)}, returns=("outputs",))
        values += [result.loss, result.outputs["size"].mean().item()]
    return values, [model]


class GeneratorStep(nn.Module):
    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        judged = self.discriminator(self.generator(noise))
        return F.binary_cross_entropy_with_logits(judged, torch.ones_like(judged))


class DiscriminatorStep(GeneratorStep):
    def forward(self, real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        judged = self.discriminator(torch.cat([real, fake]))
        wanted = torch.cat([torch.ones(len(real), 1), torch.zeros(len(fake), 1)])
        return F.binary_cross_entropy_with_logits(judged, wanted)


def gan_with_two_trainers(make: Make, folder: Path) -> Run:
    generator = repro_mlir.initialize(nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 5)), 1)
    discriminator = repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.LeakyReLU(), nn.Linear(6, 1)), 2)
    making = make(
        GeneratorStep(generator, discriminator),
        None,
        torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.9)),
    )
    judging = make(
        DiscriminatorStep(generator, discriminator), None, torch.optim.Adam(discriminator.parameters(), lr=0.01)
    )
    noise = torch.Generator().manual_seed(7)
    losses = []
    for x, _ in batches(4):
        # The newest values of the generator may be on the device.
        with torch.no_grad():
            fake = generator(torch.randn(4, 2, generator=noise))
        losses.append(judging.step(x, fake))
        losses.append(making.step(torch.randn(4, 2, generator=noise)))
    return losses, [generator, discriminator]


def freezing_and_unfreezing_the_backbone(make: Make, folder: Path) -> Run:
    model = classifier()
    model[0].requires_grad_(False)
    trainer = make(model, F.cross_entropy, adamw(model))
    return steps_around(trainer, lambda: model[0].requires_grad_(True)), [model]


def a_group_for_the_backbone_added_midway(make: Make, folder: Path) -> Run:
    model = classifier()
    optimizer = torch.optim.SGD(model[3].parameters(), lr=0.1, momentum=0.9)
    trainer = make(model, F.cross_entropy, optimizer)
    added = {"params": model[0].parameters(), "lr": 0.01}
    return steps_around(trainer, lambda: optimizer.add_param_group(added)), [model]


def groups_with_and_without_weight_decay(make: Make, folder: Path) -> Run:
    model = classifier()
    decayed = [value for value in model.parameters() if value.dim() > 1]
    others = [value for value in model.parameters() if value.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.02
    )
    return train(make, model, F.cross_entropy, optimizer, batches(4))


def clipping_with_the_norm_logged(make: Make, folder: Path) -> Run:
    model = classifier()
    trainer = make(model, F.cross_entropy, sgd(model, lr=1.0), clip_norm=0.3)
    values = []
    for x, y in batches(4):
        result = trainer.step(x, y, returns=("gradient_norm", "gradients"))
        values += [result.loss, result.gradient_norm, result.gradients["3.weight"].abs().max().item()]
    return values, [model]


def moving_average(make: Make, folder: Path) -> Run:
    model = classifier()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    trainer = make(model, F.cross_entropy, sgd(model), average=average)
    values = []
    for x, y in batches(4):
        trainer.step(x, y)
        values += [trainer.evaluate(*HELD), trainer.evaluate(*HELD, average=True)]
    return values, [model, average]


def moving_average_by_hand(make: Make, folder: Path) -> Run:
    model = classifier()
    shadow = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer = make(model, F.cross_entropy, sgd(model))
    losses = []
    for x, y in batches(4):
        losses.append(trainer.step(x, y))
        for name, value in model.named_parameters():
            shadow[name].lerp_(value.detach(), 0.2)
    model.load_state_dict(shadow)
    return [*losses, trainer.evaluate(*HELD)], [model]


def resumed_in_a_new_trainer(make: Make, folder: Path) -> Run:
    given = batches(6)

    def new() -> tuple[nn.Module, Any]:
        model = classifier()
        return model, make(model, F.cross_entropy, adamw(model))

    _, first = new()
    losses = [first.step(x, y) for x, y in given[:3]]
    first.save_checkpoint(folder / "middle")
    model, second = new()
    second.load_checkpoint(folder / "middle")
    losses += [second.step(x, y) for x, y in given[3:]]
    return losses, [model]


def mixup_outside(make: Make, folder: Path) -> Run:
    model = classifier()
    trainer = make(model, F.cross_entropy, adamw(model))
    drawn = torch.Generator().manual_seed(4)
    losses = []
    for x, y in batches(4):
        share, order = torch.rand((), generator=drawn), torch.randperm(len(x), generator=drawn)
        target = F.one_hot(y, 3).float()
        losses.append(trainer.step(x * share + x[order] * (1 - share), target * share + target[order] * (1 - share)))
    return losses, [model]


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(5, 2), nn.Linear(2, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = torch.tanh(self.encoder(x))
        return F.mse_loss(self.decoder(code), x), code


def autoencoder(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(Autoencoder(), 1)
    trainer = make(model, None, adamw(model))
    values = []
    for x, _ in batches(4):
        result = trainer.step(x, returns=("outputs",))
        values += [result.loss, result.outputs[1].norm().item()]
    return values, [model]


class Contrastive(nn.Module):
    """The loss InfoNCE: each view of a sample must be closest to the sample's other view."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(5, 4)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        one, other = (F.normalize(self.encoder(view), dim=1) for view in (one, other))
        return F.cross_entropy(one @ other.T / 0.1, torch.arange(len(one)))


def contrastive_loss(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(Contrastive(), 1)
    trainer = make(model, None, sgd(model))
    noise = torch.Generator().manual_seed(4)
    return [trainer.step(x, x + 0.1 * torch.randn(4, 5, generator=noise)) for x, _ in batches(4)], [model]


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(5, 4)
        self.right = self.left

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return (self.left(one) - self.right(other)).square().sum(1)


def siamese_network_with_a_shared_module(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(Siamese(), 1)

    def loss_fn(distance: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        return torch.where(same, distance, F.relu(1.0 - distance)).mean()

    return train(make, model, loss_fn, sgd(model, lr=0.05), [(x, x.flip(0), y == y.flip(0)) for x, y in batches(4)])


class Distillation(nn.Module):
    def __init__(self, student: nn.Module, teacher: nn.Module) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = F.softmax(self.teacher(x) / 2.0, dim=1)
        output = self.student(x)
        soft = F.kl_div(F.log_softmax(output / 2.0, dim=1), wanted, reduction="batchmean")
        return F.cross_entropy(output, y) + 4.0 * soft


def distillation_from_a_frozen_teacher(make: Make, folder: Path) -> Run:
    student, teacher = classifier(), classifier(seed=9)
    teacher.requires_grad_(False).eval()
    trainer = make(Distillation(student, teacher), None, adamw(student))
    return [trainer.step(x, y) for x, y in batches(4)], [student, teacher]


def micro_batches_of_one_step(make: Make, folder: Path) -> Run:
    """Does in one step what gradient accumulation does: the batch has a dimension for the microbatches."""
    model = classifier()

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.stack([F.cross_entropy(o, t) for o, t in zip(output, target, strict=True)]).mean()

    trainer = make(model, loss_fn, sgd(model))
    x, y = samples(24)
    return [trainer.step(a, b) for a, b in zip(x.view(3, 2, 4, 5), y.view(3, 2, 4), strict=True)], [model]


def learning_rates_tried_and_taken_back(make: Make, folder: Path) -> Run:
    model = classifier()
    optimizer = sgd(model)
    trainer = make(model, F.cross_entropy, optimizer)
    (batch,) = batches(1)
    trainer.step(*batch)
    trainer.save_checkpoint(folder / "before")
    tried = []
    for rate in (0.01, 0.1, 1.0):
        trainer.load_checkpoint(folder / "before")
        optimizer.param_groups[0]["lr"] = rate
        trainer.step(*batch)
        tried.append(trainer.evaluate(*batch))
    return tried, [model]


def tied_language_model(make: Make, folder: Path) -> Run:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(7, 6)
            self.head = nn.Linear(6, 7, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(self.embedding(words)))

    model = repro_mlir.initialize(Tied(), 1)

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output.flatten(0, 1), target.flatten())

    trainer = make(model, loss_fn, adamw(model))
    words = torch.randint(0, 7, (4, 3, 6), generator=torch.Generator().manual_seed(2))
    return [trainer.step(each[:, :-1], each[:, 1:]) for each in words], [model]


def batch_norm_in_both_modes(make: Make, folder: Path) -> Run:
    model = repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)), 1)
    trainer = make(model, F.cross_entropy, sgd(model))
    return steps_around(trainer, model.eval), [model]


def half_precision_with_a_scaler(make: Make, folder: Path) -> Run:
    model = classifier()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    trainer = make(model, F.cross_entropy, sgd(model), autocast=torch.float16, loss_scale=scaler)
    return [value for x, y in batches(4) for value in (trainer.step(x, y), scaler.get_scale())], [model]


def dropout(make: Make, folder: Path) -> Run:
    """This script is compared between targets only, because eager mode draws other random numbers."""
    model = classifier(dropout=0.5)
    trainer = make(model, F.cross_entropy, adamw(model), seed=3)
    values = []
    for x, y in batches(3):
        values += [trainer.step(x, y), trainer.evaluate(x, y)]
    return values, [model]


SCRIPTS = scripts_of(sys.modules[__name__])
assert len(SCRIPTS) >= 34
ROUTINE = (
    *(plateau_of_the_validation_loss, numpy_batches, dict_batches, best_checkpoint, logged_metrics),
    *(gan_with_two_trainers, freezing_and_unfreezing_the_backbone, moving_average, resumed_in_a_new_trainer),
    *(tied_language_model, half_precision_with_a_scaler, dropout),
)
RANDOM = (dropout,)
ON_A_DEVICE = (gan_with_two_trainers,)
LOOSE = (half_precision_with_a_scaler,)


def state_of(models: list[nn.Module]) -> dict[str, torch.Tensor]:
    return {
        f"{number}.{name}": value for number, model in enumerate(models) for name, value in model.state_dict().items()
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.diagonal(script=ROUTINE)
@pytest.mark.exhaustive("logged_metrics", "moving_average")
def test_near_eager_mode_and_the_same_bits_on_every_target(script: Script, tmp_path: Path) -> None:
    values, models = script(partial(Trainer, target=TARGETS[0], threads=1), tmp_path)
    state = state_of(models)
    for target in (*TARGETS[1:], *(["ptx-emulator"] if script in ON_A_DEVICE else [])):
        others, models = script(partial(Trainer, target=target, threads=1), tmp_path)
        assert others == values, target
        assert all(torch.equal(value, state[name]) for name, value in state_of(models).items()), target
    if script not in RANDOM:
        wanted, models = script(EagerTrainer, tmp_path)
        tolerance = 2e-2 if script in LOOSE else 2e-4
        assert values == pytest.approx(wanted, rel=tolerance, abs=tolerance)
        torch.testing.assert_close(state, state_of(models), rtol=tolerance, atol=tolerance)
