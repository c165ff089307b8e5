# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts whose losses have numbers that change between steps, or whose models are wrapped."""

import torch
from torch import nn
from user_scripts.tiny import Make, Run, adam, batches, mlp, noise, sgd, train

F = nn.functional


def mixup_in_the_loss(make: Make) -> Run:
    """Mixes the losses for two targets of a mixed sample; the proportion is a Python number that differs in each
    step."""
    model = mlp(5, 3)

    def loss_fn(output: torch.Tensor, target: tuple[torch.Tensor, torch.Tensor, float]) -> torch.Tensor:
        one, other, share = target
        return share * F.cross_entropy(output, one) + (1 - share) * F.cross_entropy(output, other)

    given = [
        (share * x + (1 - share) * x.flip(0), (y, y.flip(0), share))
        for (x, y), share in zip(batches(5), (0.3, 0.8, 0.55, 0.1, 0.9), strict=True)
    ]
    return train(make, model, loss_fn, sgd(model), given)


WEIGHT = 0.0


def weighted(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output, target) + WEIGHT * output.square().mean()


def curriculum_by_a_global_number(make: Make) -> Run:
    global WEIGHT
    model = mlp(5, 3)
    trainer = make(model, weighted, sgd(model))
    losses = []
    for number, (x, y) in enumerate(batches(5)):
        WEIGHT = number / 10
        losses.append(trainer.step(x, y))
    return losses, [model]


def class_weights(make: Make) -> Run:
    model = mlp(5, 3)
    return train(make, model, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])), sgd(model))


def focal_loss(make: Make) -> Run:
    model = mlp(5, 3)

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        entropy = F.cross_entropy(output, target, reduction="none")
        return ((1 - (-entropy).exp()) ** 2 * entropy).mean()

    return train(make, model, loss_fn, sgd(model))


class Uncertainty(nn.Module):
    """A model of two tasks that returns their weighted losses; the weights are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.scale = mlp(5, 4), nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        output = self.body(x)
        losses = torch.stack([F.cross_entropy(output[:, :3], y), F.mse_loss(output[:, 3], x[:, 4])])
        return ((-self.scale).exp() * losses + self.scale).sum()


def learned_weights_of_tasks(make: Make) -> Run:
    model = Uncertainty()
    return train(make, model, None, adam(model))


class LowRank(nn.Module):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(0.1 * noise(2, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + x @ self.down.T @ self.up.T


def low_rank_adaptation(make: Make) -> Run:
    model = mlp(5, 6, 3)
    model[0] = LowRank(model[0])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 0.02)
    return train(make, model, F.cross_entropy, optimizer)


class Quantized(nn.Module):
    """A layer with quantized weights. The gradient of the weights passes through the rounding unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = mlp(5, 3)[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.layer.weight
        scale = weight.detach().abs().max() / 7
        rounded = (weight / scale).round().clamp(-8, 7) * scale
        return F.linear(x, weight + (rounded - weight).detach(), self.layer.bias)


def quantization_aware_training(make: Make) -> Run:
    model = Quantized()
    return train(make, model, F.cross_entropy, sgd(model))


def freezing_midway(make: Make) -> Run:
    model = mlp(5, 6, 3)
    trainer = make(model, F.cross_entropy, torch.optim.SGD(model.parameters(), 0.1))
    losses = []
    for number, (x, y) in enumerate(batches(4)):
        model[0].requires_grad_(number < 2)
        losses.append(trainer.step(x, y))
    return losses, [model]


class OneStepAhead(nn.Module):
    """First-order MAML: returns the loss of the model after one step of gradient descent in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.model = mlp(5, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        named = dict(self.model.named_parameters())
        inner = F.cross_entropy(torch.func.functional_call(self.model, named, (x[:2],)), y[:2])
        found = torch.autograd.grad(inner, [*named.values()])
        ahead = {name: value - 0.1 * g.detach() for (name, value), g in zip(named.items(), found, strict=True)}
        return F.cross_entropy(torch.func.functional_call(self.model, ahead, (x[2:],)), y[2:])


def first_order_meta_learning(make: Make) -> Run:
    model = OneStepAhead()
    return train(make, model, None, adam(model))


class Named(nn.Module):
    """A model that accepts file names and does not use them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = mlp(5, 3)

    def forward(self, x: torch.Tensor, files: list[str], label: str | None = None) -> torch.Tensor:
        return self.layer(x)


def file_names_in_the_batch(make: Make) -> Run:
    model = Named()
    given = [
        (x, [f"{number}-{place}.png" for place in range(4)], f"batch {number}", y)
        for number, (x, y) in enumerate(batches(3))
    ]
    return train(make, model, F.cross_entropy, sgd(model), given)
