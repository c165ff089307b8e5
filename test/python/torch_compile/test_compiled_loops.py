# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Users' training loops to which only torch.compile is added: the values are near those of eager mode, and the bits are
the same on all targets."""

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import repro_mlir

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

F = torch.nn.functional
nn = torch.nn
TARGETS = ("cpu", "cpu:x86-64-v2", "reference")
Compile = Callable[..., Any]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=False):
        yield
    torch._dynamo.reset()


def model_of(*sizes: int, seed: int = 1) -> Any:
    layers: list[Any] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return repro_mlir.initialize(nn.Sequential(*layers[:-1]), seed)


def batches(count: int, sizes: tuple[int, ...] = (6,), width: int = 5) -> Iterator[tuple[Any, Any]]:
    for number in range(count):
        size = sizes[number % len(sizes)]
        x = torch.linspace(-2, 2 + number, size * width).sin().reshape(size, width)
        yield x, torch.arange(size) % 3


def plain(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = compiles(lambda x, y: F.cross_entropy(model(x), y))
    step = compiles(optimizer.step)
    losses = []
    for x, y in batches(4):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        step()
        losses.append(loss.detach())
    return [*losses, *model.parameters()]


def only_the_model(compiles: Compile) -> list[Any]:
    """Compiles only the model: loss and optimizer would run in PyTorch, whose bits depend on the machine, so they are
    left out."""
    model = model_of(5, 7, 3)
    compiled = compiles(model)
    x, _ = next(batches(1))
    return [compiled(x), compiled(x[:2]), *torch.autograd.grad(compiled(x).sum(), [*model.parameters()])]


def smaller_last_batch(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = compiles(lambda x, y: F.cross_entropy(model(x), y))
    step = compiles(optimizer.step)
    for x, y in batches(6, sizes=(6, 6, 2)):
        optimizer.zero_grad()
        loss_of(x, y).backward()
        step()
    return [*model.parameters()]


def accumulation(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01))
    backward_of = compiles(lambda x, y: F.cross_entropy(model(x), y) / 2)
    # `backward` adds gradients to `.grad` in eager mode. With two terms, the sum does not depend on an order.
    step = compiles(optimizer.step)
    for number, (x, y) in enumerate(batches(6)):
        backward_of(x, y).backward()
        if number % 2:
            step()
            optimizer.zero_grad()
    return [*model.parameters()]


def gan(compiles: Compile) -> list[Any]:
    generator, critic = model_of(2, 6, 5), model_of(5, 6, 1, seed=2)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (generator, critic)]
    steps = [compiles(each.step) for each in optimizers]

    def critic_loss(real: Any, noise: Any) -> Any:
        fake = generator(noise).detach()
        return F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()

    def generator_loss(noise: Any) -> Any:
        return F.softplus(-critic(generator(noise))).mean()

    critic_loss, generator_loss = compiles(critic_loss), compiles(generator_loss)
    for x, _ in batches(3):
        noise = x[:, :2].cos()
        optimizers[1].zero_grad()
        critic_loss(x, noise).backward()
        steps[1]()
        optimizers[0].zero_grad()
        generator_loss(noise).backward()
        steps[0]()
    return [*generator.parameters(), *critic.parameters()]


def scheduler_and_clipping(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    # A learning rate that is a tensor is an input of the compiled step; a number would cause a recompilation at each
    # change.
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.5))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    loss_of = compiles(lambda x, y: F.cross_entropy(model(x), y))
    clip = compiles(lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.3, foreach=False))
    step = compiles(optimizer.step)
    norms = []
    for x, y in batches(4):
        optimizer.zero_grad()
        loss_of(x, y).backward()
        norms.append(clip([*model.parameters()]))
        step()
        scheduler.step()
    return [*norms, *model.parameters()]


def evaluation_between_steps(compiles: Compile) -> list[Any]:
    model = repro_mlir.initialize(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = compiles(model)
    loss_of = compiles(lambda x, y: F.cross_entropy(model(x), y))
    step = compiles(optimizer.step)
    found = []
    for x, y in batches(3):
        model.train()
        optimizer.zero_grad()
        loss_of(x, y).backward()
        step()
        model.eval()
        with torch.no_grad():
            found.append(run(x[:4]).softmax(-1) if compiles is eager else compiles(lambda z: z.softmax(-1))(run(x[:4])))
    return [*found, *model.parameters(), *model.buffers()]


def moving_average(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = copy.deepcopy(model)

    def update(averages: Any, values: Any) -> None:
        with torch.no_grad():
            for a, b in zip(averages, values, strict=True):
                a.mul_(0.9).add_(b * 0.1)

    loss_of = compiles(lambda x, y: F.cross_entropy(model(x), y))
    step, update = compiles(optimizer.step), compiles(update)
    for x, y in batches(3):
        optimizer.zero_grad()
        loss_of(x, y).backward()
        step()
        update([*average.parameters()], [*model.parameters()])
    return [*average.parameters()]


def frozen_then_not(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = compiles(lambda x, y: F.cross_entropy(model(x), y))
    step = compiles(optimizer.step)
    for number, (x, y) in enumerate(batches(4)):
        model[0].requires_grad_(number >= 2)
        optimizer.zero_grad()
        loss_of(x, y).backward()
        step()
    return [*model.parameters()]


def a_whole_step_in_one_function(compiles: Compile) -> list[Any]:
    """Compiles a whole training step without an optimizer; torch.func.grad computes the gradients in it."""
    weights = [torch.linspace(-1, 1, 35).reshape(5, 7), torch.linspace(1, -1, 21).reshape(7, 3)]

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy((x @ weights[0]).tanh() @ weights[1], y)

    def step(weights: Any, x: Any, y: Any) -> Any:
        gradients = torch.func.grad(loss_of)(weights, x, y)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]

    step = compiles(step)
    for x, y in batches(3):
        weights = step(weights, x, y)
    return weights


def several_losses(compiles: Compile) -> list[Any]:
    model = model_of(5, 7, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(batch: dict[str, Any]) -> dict[str, Any]:
        z = model(batch["x"])
        return {"class": F.cross_entropy(z, batch["y"]), "size": z.square().mean() * 0.1}

    loss_of, step = compiles(loss_of), compiles(optimizer.step)
    total = compiles(lambda losses: losses["class"] + losses["size"])
    for x, y in batches(3):
        optimizer.zero_grad()
        total(loss_of({"x": x, "y": y})).backward()
        step()
    return [*model.parameters()]


def eager(function: Any) -> Any:
    return function


LOOPS = [
    plain,
    only_the_model,
    smaller_last_batch,
    accumulation,
    gan,
    scheduler_and_clipping,
    evaluation_between_steps,
    moving_average,
    frozen_then_not,
    a_whole_step_in_one_function,
    several_losses,
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
@pytest.mark.diagonal(loop=[smaller_last_batch, gan, scheduler_and_clipping, a_whole_step_in_one_function])
@pytest.mark.exhaustive("smaller_last_batch", "scheduler_and_clipping")
def test_loops(loop: Callable[[Compile], list[Any]]) -> None:
    found = []
    for target in TARGETS:
        torch._dynamo.reset()
        backend = repro_mlir.backend(target=target, threads=2)
        found.append([each.detach().clone() for each in loop(lambda f, b=backend: torch.compile(f, backend=b))])
    expected = loop(eager)
    torch.testing.assert_close(found[0], [each.detach() for each in expected], rtol=1e-4, atol=1e-5)
    for other in found[1:]:
        assert [each.numpy().tobytes() for each in other] == [each.numpy().tobytes() for each in found[0]]


def test_a_trainer_takes_a_compiled_model() -> None:
    """A trainer accepts a model or loss that torch.compile has wrapped; its program is that of the original."""
    hashes = set()
    for wrap in ("nothing", "the model", "a part", "the loss"):
        model, loss_of = model_of(5, 7, 3), F.cross_entropy
        if wrap == "a part":
            model[0] = torch.compile(model[0])
        if wrap == "the loss":
            loss_of = torch.compile(F.cross_entropy)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = repro_mlir.Trainer(torch.compile(model) if wrap == "the model" else model, loss_of, optimizer)
        losses = [trainer.step(x, y) for x, y in batches(3)]
        hashes.add((*losses, trainer.program.hash))
    assert len(hashes) == 1
