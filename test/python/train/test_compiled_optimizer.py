# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Loops that compute gradients themselves and call `compile_optimizer` have the bits of `Trainer`."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

F = torch.nn.functional
nn = torch.nn
X, Y = torch.linspace(-2, 2, 30).sin().reshape(6, 5), torch.arange(6) % 3


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=False):
        yield
    torch._dynamo.reset()


def model_of() -> Any:
    return repro_mlir.initialize(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)), 1)


def bits(model: Any, optimizer: Any) -> list[bytes]:
    states = [optimizer.state[parameter] for parameter in model.parameters()]
    tensors = [value for state in states for _, value in sorted(state.items()) if isinstance(value, torch.Tensor)]
    return [value.detach().numpy().tobytes() for value in (*model.parameters(), *tensors)]


def with_two_groups(model: Any) -> Any:
    groups = [{"params": model[0].parameters(), "weight_decay": 0.1}, {"params": model[2].parameters()}]
    return torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95))


@pytest.mark.parametrize(
    "make",
    [
        with_two_groups,
        lambda model: torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True, foreach=True),
        lambda model: torch.optim.NAdam(model.parameters(), lr=0.01),
    ],
    ids=["adamw", "adam", "nadam"],
)
@pytest.mark.diagonal(make=[with_two_groups])
def test_a_compiled_loop_has_the_bits_of_the_trainer(make: Callable[[Any], Any]) -> None:
    model, other = model_of(), model_of()
    optimizer, others = make(model), make(other)
    schedulers = [torch.optim.lr_scheduler.LambdaLR(each, lambda epoch: 0.5**epoch) for each in (optimizer, others)]
    trainer = repro_mlir.Trainer(model, F.cross_entropy, optimizer)
    backend = repro_mlir.backend(threads=1)
    loss_of = torch.compile(lambda x, y: F.cross_entropy(other(x), y), backend=backend, fullgraph=True)
    step = repro_mlir.compile_optimizer(others, threads=1)
    for _ in range(3):
        others.zero_grad()
        loss = loss_of(X, Y)
        loss.backward()
        step()
        assert trainer.step(X, Y) == loss.item()
        for scheduler in schedulers:
            scheduler.step()
        assert bits(model, optimizer) == bits(other, others)
    assert optimizer.state_dict()["param_groups"] == others.state_dict()["param_groups"]


def loop(step_of: Callable[[Any], Callable[[], None]]) -> list[list[bytes]]:
    """Trains five steps. The parameters without gradients differ from step to step. Returns the bytes of the parameters
    after each step."""
    model, late = model_of(), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step, found = step_of(optimizer), []
    for number in range(5):
        optimizer.zero_grad()
        if number == 3:
            optimizer.add_param_group({"params": [late], "lr": 0.5})
        if number:
            for i, parameter in enumerate([*model.parameters(), late]):
                if (i + number) % 2:
                    parameter.grad = torch.full_like(parameter, 0.1 * i - 0.2)
        step()
        found.append([*bits(model, optimizer), late.detach().numpy().tobytes()])
    return found


@pytest.mark.parametrize("target", ["reference", "cpu:x86-64-v2"])
@pytest.mark.diagonal(target=["reference"])
def test_parameters_without_gradients_are_left(target: str) -> None:
    ours = loop(lambda optimizer: repro_mlir.compile_optimizer(optimizer, threads=1))
    theirs = loop(lambda optimizer: optimizer.step)
    assert ours == loop(lambda optimizer: repro_mlir.compile_optimizer(optimizer, target=target))
    assert [[*map(len, each)] for each in ours] == [[*map(len, each)] for each in theirs]
    # No parameter has a gradient in the first step, so the step changes none. Each later step changes some parameters.
    assert ours[0] == theirs[0]
    changed, expected = (
        [[a != b for a, b in zip(before, after, strict=False)] for before, after in itertools.pairwise(found)]
        for found in (ours, theirs)
    )
    assert changed == expected and all(map(any, changed))


def test_hooks_of_gradients_act_once() -> None:
    """`backward` has called the hooks of gradients. The compiled step must not call them again."""

    def loop(step_of: Callable[[Any], Callable[[], Any]]) -> list[float]:
        parameter = nn.Parameter(torch.ones(3))
        parameter.register_hook(lambda gradient: gradient * 0.5)
        step = step_of(torch.optim.SGD([parameter], lr=0.5))
        (parameter * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
        step()
        return parameter.tolist()  # type: ignore[no-any-return]  # a list of one dimension

    assert loop(repro_mlir.compile_optimizer) == loop(lambda optimizer: optimizer.step) == [0.75, 0.5, 0.0]


def test_a_gradient_of_a_frozen_parameter_is_refused() -> None:
    """torch.optim would apply the gradient of a frozen parameter; the compiled step refuses it."""
    frozen, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    step = repro_mlir.compile_optimizer(torch.optim.SGD([frozen, other], lr=0.5), threads=1)
    (frozen.sum() + other.sum()).backward()
    frozen.requires_grad_(False)
    with pytest.raises(ReproError, match=r"a parameter of shape \[3\] has a gradient but does not require one"):
        step()
    assert other.tolist() == [1, 1]
    frozen.grad = None
    step()
    assert frozen.tolist() == [1, 1, 1] and other.tolist() == [0.5, 0.5]


def test_a_step_is_a_write_for_autograd() -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = repro_mlir.compile_optimizer(optimizer, threads=1)
    loss = F.cross_entropy(model(X), Y)
    loss.backward(retain_graph=True)
    step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_arguments_that_are_not_optimizers_are_refused() -> None:
    with pytest.raises(ReproError, match="the optimizer is the class SGD, expected an instance"):
        repro_mlir.compile_optimizer(torch.optim.SGD)
    optimizer = torch.optim.SGD(model_of().parameters(), lr=0.1)
    with pytest.raises(ReproError, match="unknown target 'abacus'"):
        repro_mlir.compile_optimizer(optimizer, target="abacus")
    embedding = nn.Embedding(5, 3, sparse=True)
    step = repro_mlir.compile_optimizer(torch.optim.SGD(embedding.parameters(), lr=0.1))
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ReproError, match=r"expected dense gradients, got one of layout torch\.sparse_coo"):
        step()
