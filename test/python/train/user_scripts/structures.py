# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts that train models of sequences and graphs, mixtures of experts, and ensembles."""

import copy

import torch
from torch import nn
from user_scripts.tiny import Make, Run, adam, batches, mlp, sgd, train

F = nn.functional

TEXT = "the bits of a step are the same on every machine "
LETTERS = sorted(set(TEXT))


class CharacterModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(len(LETTERS), 4)
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, len(LETTERS))

    def forward(self, letters: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]):
        hidden, state = self.lstm(self.embedding(letters), state)
        return self.head(hidden), state


def character_model_that_carries_its_state(make: Make) -> Run:
    model = CharacterModel()
    codes = torch.tensor([LETTERS.index(each) for each in TEXT])

    def loss_fn(output, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output[0].transpose(1, 2), target)

    trainer = make(model, loss_fn, adam(model))
    state = torch.zeros(1, 2, 5), torch.zeros(1, 2, 5)
    losses = []
    for start in (0, 6, 12):
        letters = codes[start : start + 14].view(2, 7)
        result = trainer.step(letters[:, :-1], state, letters[:, 1:], returns=("outputs",))
        losses.append(result.loss)
        state = tuple(each.detach() for each in result.outputs[1])
    return losses, [model]


class MaskedModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(9, 4)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.head = nn.Linear(4, 9)

    def forward(self, words: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(words), src_key_padding_mask=padding))


def masked_language_model(make: Make) -> Run:
    model = MaskedModel()

    def loss_fn(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output.flatten(0, 1), labels.flatten(), ignore_index=-100)

    trainer = make(model, loss_fn, sgd(model))
    words = torch.randint(1, 9, (3, 2, 5), generator=torch.Generator().manual_seed(3))
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    losses = []
    for each in words:
        labels = torch.full_like(each, -100)
        labels[:, 1] = each[:, 1]
        losses.append(trainer.step(each.index_fill(1, torch.tensor(1), 0), padding, labels))
    return losses, [model]


class GraphNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = mlp(5, 6), mlp(6, 3, seed=2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        for layer in (self.one, self.other):
            x = layer(x)
            degree = torch.ones(len(x)).index_add(0, target, torch.ones(len(target)))
            x = (x + torch.zeros_like(x).index_add_(0, target, x[source])) / degree[:, None]
        return x


def graph_network(make: Make) -> Run:
    model = GraphNetwork()
    trainer = make(model, F.cross_entropy, adam(model))
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    return [trainer.step(x, edges, y) for x, y in batches(3)], [model]


class Experts(nn.Module):
    """A mixture of experts that runs all experts and gives those that are not selected the weight 0."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = mlp(5, 4)
        self.experts = nn.ModuleList(mlp(5, 3, seed=seed) for seed in range(2, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(1).topk(2, dim=1)
        weights = weights / weights.sum(1, keepdim=True)
        dense = torch.zeros(len(x), 4).scatter(1, chosen, weights)
        return sum(dense[:, number, None] * expert(x) for number, expert in enumerate(self.experts))


def mixture_of_experts(make: Make) -> Run:
    model = Experts()
    return train(make, model, F.cross_entropy, adam(model))


class Ensemble(nn.Module):
    """An ensemble of models with one architecture. Their parameters are stacked, and a model on the meta device is
    called with them."""

    def __init__(self) -> None:
        super().__init__()
        members = [mlp(5, 4, 3, seed=seed) for seed in (1, 2)]
        stacked, _ = torch.func.stack_module_state(members)
        self.names = [*stacked]
        self.stacked = nn.ParameterList([nn.Parameter(each.detach()) for each in stacked.values()])
        self.skeleton = [copy.deepcopy(members[0]).to("meta")]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def call(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.func.functional_call(self.skeleton[0], parameters, (x,))

        return torch.vmap(call)(dict(zip(self.names, self.stacked, strict=True))).mean(0)


def ensemble_on_a_skeleton(make: Make) -> Run:
    model = Ensemble()
    return train(make, model, F.cross_entropy, sgd(model))
