# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts that train generative models."""

import torch
from torch import distributions, nn
from user_scripts.tiny import Make, Run, adam, batches, mlp, noise, sgd, train

F = nn.functional


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = mlp(5, 4), mlp(2, 5, seed=2)
        self.beta = 1.0

    def forward(self, x: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        mu, log_sigma = self.encoder(x).chunk(2, dim=1)
        posterior = distributions.Normal(mu, log_sigma.exp())
        prior = distributions.Normal(torch.zeros_like(mu), torch.ones_like(mu))
        output = distributions.Independent(distributions.Normal(self.decoder(mu + log_sigma.exp() * drawn), 0.5), 1)
        kl = distributions.kl_divergence(posterior, prior).sum(1)
        return (self.beta * kl - output.log_prob(x)).mean()


def variational_autoencoder(make: Make) -> Run:
    model = VAE()
    return train(make, model, None, adam(model), [(x, noise(4, 2)) for x, _ in batches(3)])


def annealed_kl_weight(make: Make) -> Run:
    model = VAE()
    trainer = make(model, None, adam(model))
    losses = []
    for number, (x, _) in enumerate(batches(6)):
        model.beta = number / 6
        losses.append(trainer.step(x, noise(4, 2)))
    return losses, [model]


class PenalizedCritic(nn.Module):
    def __init__(self, critic: nn.Module) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, fake: torch.Tensor, x: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        between = (share * x + (1 - share) * fake).requires_grad_()
        scores = self.critic(between)
        (gradient,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True)
        penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
        return self.critic(fake).mean() - self.critic(x).mean() + 10 * penalty


def wasserstein_gan_with_gradient_penalty(make: Make) -> Run:
    critic = mlp(5, 6, 1)
    trainer = make(PenalizedCritic(critic), None, adam(critic))
    return [trainer.step(noise(4, 5), x, torch.full((4, 1), 0.3)) for x, _ in batches(3)], [critic]


class Coupling(nn.Module):
    """A normalizing flow of affine couplings (RealNVP)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(mlp(2, 6, 4, seed=seed) for seed in (1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = x[:, :2], x[:, 2:4]
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            shift, log_scale = layer(one).chunk(2, dim=1)
            one, other = other * log_scale.tanh().exp() + shift, one
            log_det = log_det + log_scale.tanh().sum(1)
        prior = distributions.MultivariateNormal(torch.zeros(4), torch.eye(4))
        return -(prior.log_prob(torch.cat([one, other], dim=1)) + log_det).mean()


def normalizing_flow(make: Make) -> Run:
    model = Coupling()
    return train(make, model, None, adam(model), [(x,) for x, _ in batches(3)])


class Diffusion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = mlp(6, 8, 5)
        self.register_buffer("kept", torch.linspace(0.99, 0.9, 10).cumprod(0))

    def forward(self, x: torch.Tensor, time: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        kept = self.kept[time][:, None]
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * drawn
        return F.mse_loss(self.network(torch.cat([noisy, time[:, None] / 10], dim=1)), drawn)


def diffusion(make: Make) -> Run:
    model = Diffusion()
    return train(make, model, None, adam(model), [(x, torch.tensor([1, 3, 9, 0]), noise(4, 5)) for x, _ in batches(3)])


def transformed_distribution(make: Make) -> Run:
    """Fits the density of a TransformedDistribution to log-normal data."""
    model = mlp(5, 2)

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        base = distributions.Normal(output[:, 0], F.softplus(output[:, 1]) + 0.1)
        return -distributions.TransformedDistribution(base, distributions.ExpTransform()).log_prob(target).mean()

    return train(make, model, loss_fn, sgd(model, 0.02), [(x, x[:, 0].exp()) for x, _ in batches(3)])
