# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts that learn embeddings by contrastive losses and metric learning."""

import copy

import torch
from torch import nn
from user_scripts.tiny import Make, Run, adam, batches, mlp, noise, sgd, train

F = nn.functional


class ArcFace(nn.Module):
    """The loss ArcFace, whose class weights are trained."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(noise(classes, features))

    def forward(self, features: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        cosine = F.linear(F.normalize(features), F.normalize(self.weight)).clamp(-0.99, 0.99)
        wanted = F.one_hot(target, len(self.weight)).bool()
        return F.cross_entropy(10.0 * torch.where(wanted, (cosine.acos() + 0.3).cos(), cosine), target)


def margin_loss_with_weights(make: Make) -> Run:
    model, loss_fn = mlp(5, 4), ArcFace(4, 3)
    optimizer = torch.optim.SGD([*model.parameters(), *loss_fn.parameters()], lr=0.1)
    trainer = make(model, loss_fn, optimizer)
    return [trainer.step(x, y) for x, y in batches(3)], [model, loss_fn]


class MoCo(nn.Module):
    def __init__(self, query: nn.Module, key: nn.Module) -> None:
        super().__init__()
        self.query, self.key = query, key
        self.register_buffer("queue", F.normalize(noise(8, 4), dim=1))

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        q = F.normalize(self.query(one), dim=1)
        with torch.no_grad():
            k = F.normalize(self.key(other), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().T], dim=1) / 0.2
        with torch.no_grad():
            self.queue.copy_(torch.cat([k, self.queue[: -len(k)]]))
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def momentum_contrast_with_a_queue(make: Make) -> Run:
    query = mlp(5, 4)
    key = copy.deepcopy(query).requires_grad_(False)
    model = MoCo(query, key)
    trainer = make(model, None, sgd(query))
    losses = []
    for x, _ in batches(3):
        losses.append(trainer.step(x, x + 0.1 * noise(4, 5)))
        with torch.no_grad():
            for mine, theirs in zip(key.parameters(), query.parameters(), strict=True):
                mine.mul_(0.9).add_(theirs, alpha=0.1)
    return losses, [model]


class Triplet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(5, 4)
        self.loss = nn.TripletMarginLoss(margin=1.0)

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return self.loss(*map(self.encoder, (anchor, positive, negative)))


def triplet_loss(make: Make) -> Run:
    model = Triplet()
    return train(make, model, None, sgd(model), [(x, x + 0.1 * noise(4, 5), x.flip(0)) for x, _ in batches(3)])


def siamese_network(make: Make) -> Run:
    encoder = mlp(5, 4)

    class Siamese(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return F.pairwise_distance(self.encoder(one), self.encoder(other))

    def loss_fn(distance: torch.Tensor, is_same: torch.Tensor) -> torch.Tensor:
        return (is_same * distance**2 + (1 - is_same) * F.relu(1 - distance) ** 2).mean()

    trainer = make(Siamese(), loss_fn, adam(encoder))
    return [trainer.step(x, x.flip(0), (y == y.flip(0)).float()) for x, y in batches(3)], [encoder]


def supervised_contrastive_metric(make: Make) -> Run:
    model = mlp(5, 4)

    def loss_fn(features: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        features = F.normalize(features, dim=1)
        itself = torch.eye(len(target), dtype=torch.bool)
        logits = (features @ features.T / 0.5).masked_fill(itself, -1e9)
        same = (target[:, None] == target) & ~itself
        chances = logits - logits.logsumexp(1, keepdim=True)
        return -(chances * same).sum(1).div(same.sum(1).clamp(min=1)).mean()

    return train(make, model, loss_fn, adam(model))


class Distillation(nn.Module):
    def __init__(self, student: nn.Module, teacher: nn.Module) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            wanted = self.teacher(x)
        soft = F.kl_div(self.student(x).log_softmax(1), wanted.clone().softmax(1), reduction="batchmean")
        return soft + F.cross_entropy(self.student(x), y)


def distillation(make: Make) -> Run:
    student, teacher = mlp(5, 3), mlp(5, 8, 3, seed=2).eval()
    trainer = make(Distillation(student, teacher), None, adam(student))
    return [trainer.step(x, y) for x, y in batches(3)], [student]
