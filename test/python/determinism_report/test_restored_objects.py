# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that a report leaves the model, the optimizer and random states as they were."""

import random
from collections import deque

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from repro_mlir.frontends.torch.eager_operators.snapshots import restoring  # noqa: E402


def bits(tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


class Counting(torch.nn.Module):
    """Changes attributes of each kind when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("n", torch.zeros(()))
        self.register_buffer("mean", torch.tensor([float("nan"), -0.0, 1.0]))
        self.register_buffer("rows", torch.zeros(1, 3).expand(4, 3))
        self.kept = torch.ones(3)
        self.calls = 0
        self.seen = [torch.zeros(2)]
        self.names = {"last": (1, torch.ones(1))}
        self.recent = deque([1], maxlen=1)
        self.counts = np.zeros(2, np.int64)

    def forward(self, x):
        self.n = self.n + 1
        self.mean += self.weight * x
        self.kept.data.add_(1)
        self.calls += 1
        self.seen[0].mul_(2).add_(1)
        self.seen.append(x)
        self.names["last"][1].fill_(5)
        self.names["new"] = x
        self.recent.append(2)
        self.counts[0] += 1
        self.extra = x
        return (self.weight * x + self.n).sum()


def test_attributes_of_a_module_are_restored() -> None:
    outer = torch.nn.Sequential(Counting())
    model = outer[0]
    before = {**vars(model)}
    n, mean, seen, inner = model.n, bits(model.mean), model.seen[0], model.names["last"][1]
    with restoring(outer):
        outer(torch.ones(3)).backward()
        outer.eval()
        outer.append(torch.nn.ReLU())
        assert model.calls == 1 and model.n is not n and len(model.seen) == 2 and hasattr(model, "extra")
    assert vars(model).keys() == before.keys() and all(vars(model)[name] is before[name] for name in before)
    assert model.n is n and n == 0 and model.calls == 0 and not hasattr(model, "extra")
    assert bits(model.mean) == mean and not model.mean.requires_grad and model.mean.grad_fn is None
    assert bits(model.kept) == bits(torch.ones(3))
    assert model.seen == [seen] and bits(seen) == bits(torch.zeros(2))
    assert model.names == {"last": (1, inner)} and inner == 1
    assert model.recent == deque([1]) and model.counts.tolist() == [0, 0]
    assert model.training and len(outer) == 1 and model.weight.grad is None


def test_writes_through_data_are_restored() -> None:
    class Sgd(torch.optim.Optimizer):
        def __init__(self, parameters) -> None:
            super().__init__(parameters, {"lr": 0.5})
            self.steps = 0

        def step(self) -> None:
            self.steps += 1
            for group in self.param_groups:
                group["lr"] *= 0.5
                group["params"][0].data.sub_(group["params"][0].grad, alpha=group["lr"])
                group["params"][1].data = group["params"][1].data - group["lr"] * group["params"][1].grad
                for each in group["params"]:
                    self.state[each]["mean"] = each.grad

    model = torch.nn.Linear(2, 1)
    view = model.bias.detach().view(1)
    optimizer = Sgd(model.parameters())
    # The user's graph stays valid: restoring does not count as a write.
    loss = model(torch.ones(2)).square().sum()
    before = [bits(each) for each in model.parameters()]
    with restoring(model, optimizer):
        model(torch.ones(2)).sum().backward()
        optimizer.step()
        assert bits(model.weight) != before[0] and bits(model.bias) != before[1]
    assert [bits(each) for each in model.parameters()] == before
    assert model.bias.data_ptr() == view.data_ptr()
    assert optimizer.param_groups[0]["lr"] == 0.5 and optimizer.steps == 0 and not optimizer.state
    loss.backward()


def test_tensors_of_the_optimizer_alone_are_restored() -> None:
    model = torch.nn.Linear(1, 1)
    other = torch.nn.Parameter(torch.ones(2))
    other.grad = given = torch.ones(2)
    optimizer = torch.optim.SGD([*model.parameters(), other], lr=torch.tensor(0.5), momentum=0.9)
    optimizer.step()
    before = bits(other), bits(optimizer.state[other]["momentum_buffer"])
    with restoring(model, optimizer):
        assert other.grad is None
        other.grad = torch.ones(2)
        optimizer.step()
        optimizer.param_groups[0]["lr"].mul_(2)
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    assert (bits(other), bits(optimizer.state[other]["momentum_buffer"])) == before
    assert other.grad is given and bits(given) == bits(torch.ones(2))
    assert len(optimizer.param_groups) == 1 and optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_sparse_and_read_only_tensors() -> None:
    model = torch.nn.Module()
    model.register_buffer("sparse", torch.eye(2).to_sparse())
    array = np.frombuffer(b"\0" * 8, np.float32)
    model.constant = torch.from_numpy(array)
    with restoring(model):
        model.sparse.mul_(3)
    assert model.sparse.to_dense().tolist() == [[1, 0], [0, 1]] and array.tolist() == [0, 0]


def test_random_states_are_restored_also_after_an_error(monkeypatch) -> None:
    found, model = [], torch.nn.Linear(1, 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: ["first", "second"])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", found.extend)

    def draws() -> list:
        return [random.random(), np.random.rand(), torch.rand(()).item()]

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = draws()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    with pytest.raises(ValueError, match="stops"), restoring(model):
        draws()
        raise ValueError("stops")
    assert draws() == expected and found == ["first", "second"]
