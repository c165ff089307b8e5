# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts of reinforcement learning."""

import copy

import torch
from torch import distributions, nn
from user_scripts.tiny import Make, Run, adam, batches, mlp, noise, train

F = nn.functional


def policy_gradient(make: Make) -> Run:
    model = mlp(5, 6, 3)

    def loss_fn(logits: torch.Tensor, taken: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        actions, returns = taken
        return -(distributions.Categorical(logits=logits).log_prob(actions) * returns).mean()

    return train(make, model, loss_fn, adam(model), [(x, (actions, noise(4))) for x, actions in batches(3)])


class ActorCritic(nn.Module):
    def __init__(self, continuous: bool = False) -> None:
        super().__init__()
        self.body, self.actor, self.critic = mlp(5, 6), mlp(6, 3, seed=2), mlp(6, 1, seed=3)
        self.log_sigma = nn.Parameter(torch.zeros(3)) if continuous else None

    def forward(self, x: torch.Tensor) -> tuple[distributions.Distribution, torch.Tensor]:
        hidden = torch.tanh(self.body(x))
        mean = self.actor(hidden)
        policy: distributions.Distribution
        if self.log_sigma is None:
            policy = distributions.Categorical(logits=mean)
        else:
            policy = distributions.Independent(distributions.Normal(mean, self.log_sigma.exp()), 1)
        return policy, self.critic(hidden)[:, 0]


def clipped_loss(
    output: tuple[distributions.Distribution, torch.Tensor], target: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    policy, value = output
    action, former, advantage, returned = target
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = (policy.log_prob(action) - former).exp()
    gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    return -gain + 0.5 * F.mse_loss(value, returned) - 0.01 * policy.entropy().mean()


def proximal_policy_optimization(make: Make) -> Run:
    model = ActorCritic()
    trainer = make(model, clipped_loss, adam(model))
    losses = []
    for x, action in batches(2):
        with torch.no_grad():
            former = model(x)[0].log_prob(action)
        losses += [trainer.step(x, (action, former, noise(4), noise(4, seed=3))) for _ in range(2)]
    return losses, [model]


def continuous_actions(make: Make) -> Run:
    model = ActorCritic(continuous=True)
    given = [(x, (noise(4, 3), noise(4) - 4, noise(4), noise(4))) for x, _ in batches(3)]
    return train(make, model, clipped_loss, adam(model), given)


class QLearning(nn.Module):
    def __init__(self, online: nn.Module, target: nn.Module) -> None:
        super().__init__()
        self.online, self.target = online, target

    def forward(self, x: torch.Tensor, *played: torch.Tensor) -> torch.Tensor:
        action, reward, after = played
        value = self.online(x).gather(1, action[:, None])[:, 0]
        with torch.no_grad():
            wanted = reward + 0.9 * self.target(after).max(1).values
        return F.smooth_l1_loss(value, wanted)


def q_learning_with_a_target_network(make: Make) -> Run:
    online = mlp(5, 6, 3)
    target = copy.deepcopy(online)
    trainer = make(QLearning(online, target), None, adam(online))
    losses = []
    for number, (x, action) in enumerate(batches(4)):
        losses.append(trainer.step(x, action, noise(4), x.flip(0)))
        if number % 2:
            target.load_state_dict(online.state_dict())
    return losses, [online, target]


def bernoulli_policy(make: Make) -> Run:
    model = mlp(5, 3)

    def loss_fn(logits: torch.Tensor, target: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        policy = distributions.Bernoulli(logits=logits)
        action, reward = target
        return -(policy.log_prob(action).sum(1) * reward).mean() - 0.1 * policy.entropy().mean()

    return train(make, model, loss_fn, adam(model), [(x, ((x[:, :3] > 0).float(), noise(4))) for x, _ in batches(3)])
