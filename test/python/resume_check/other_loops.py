# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Loops of other forms, which resume exactly: --form chooses one."""

import argparse
import contextlib
import random

import repro_mlir.random
import torch
from torch import nn
from torch.nn import functional


def linear(*sizes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.Tanh(), nn.Linear(sizes[1], sizes[2]))


class Checked(torch.optim.SGD):
    """An optimizer that refuses every third step."""

    def step(self, closure: None = None) -> None:
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls % 3 == 2:
            raise ArithmeticError
        super().step(closure)


class Loop:
    """A loop whose objects are attributes, without a DataLoader."""

    def __init__(self, form: str) -> None:
        torch.manual_seed(0)
        self.form = form
        self.model = linear(3, 8, 2)
        self.critic = linear(2, 8, 1)
        self.generator = torch.Generator().manual_seed(5)
        # This generator has no state that can be recorded.
        self.entropy = random.SystemRandom()
        self.noise = repro_mlir.random.Generator(seed=7)
        if form == "unreadable":
            self.model.register_buffer("unused", torch.ones(3, device="meta"))
        parameters = [*self.model.parameters()]
        if form == "lbfgs":
            self.optimizers = [torch.optim.LBFGS(parameters, lr=0.1, max_iter=3)]
        elif form == "refused":
            self.optimizers = [Checked(parameters, lr=0.1)]
        elif form == "two":
            self.optimizers = [torch.optim.Adam(parameters), torch.optim.AdamW(self.critic.parameters())]
        else:
            self.optimizers = [torch.optim.SGD([{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:]}])]
        self.called = torch.compile(self.model, backend="eager") if form == "compiled" else self.model
        self.step = 0

    def batch(self) -> torch.Tensor:
        if self.form == "own":
            return repro_mlir.random.randn((4, 3), generator=self.noise, device="cpu")
        return torch.randn(4, 3, generator=self.generator)

    def train(self) -> None:
        if self.form == "two":
            fake = self.model(self.batch())
            self.optimizers[1].zero_grad()
            (self.critic(fake.detach()).mean() - self.critic(self.batch()[:, :2]).mean()).backward()
            self.optimizers[1].step()
            self.optimizers[0].zero_grad()
            (-self.critic(fake).mean()).backward()
            self.optimizers[0].step()
        elif self.form == "lbfgs":
            x = self.batch()

            def closure() -> torch.Tensor:
                self.optimizers[0].zero_grad()
                loss = self.model(x).square().mean()
                loss.backward()
                return loss

            self.optimizers[0].step(closure)
        else:
            self.optimizers[0].zero_grad()
            for _ in range(2):
                functional.dropout(self.called(self.batch()), 0.5).square().mean().backward()
            with contextlib.suppress(ArithmeticError):
                self.optimizers[0].step()
            with torch.no_grad():
                self.model.eval()
                self.called(self.batch())
                self.model.train()
        # Nothing uses this number.
        random.random()
        self.step += 1

    def state(self) -> dict:
        parts = {"model": self.model, "critic": self.critic}
        parts.update({f"optimizer {i}": each for i, each in enumerate(self.optimizers)})
        return parts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--save")
    parser.add_argument("--resume")
    parser.add_argument("--form")
    parser.add_argument("--omit", default="")
    options = parser.parse_args()
    random.seed(0)
    loop = Loop(options.form)
    if options.resume:
        saved = torch.load(options.resume)
        for name, part in loop.state().items():
            part.load_state_dict(saved[name])
        if options.omit != "step":
            loop.step = saved["step"]
        if options.omit != "noise":
            loop.noise.set_state(saved["noise"])
        loop.generator.set_state(saved["generator"])
        torch.set_rng_state(saved["random"])
    while loop.step < options.steps:
        loop.train()
    saved = {name: part.state_dict() for name, part in loop.state().items()}
    saved.update(
        step=loop.step, noise=loop.noise.get_state(), generator=loop.generator.get_state(), random=torch.get_rng_state()
    )
    torch.save(saved, options.save)


if __name__ == "__main__":
    main()
