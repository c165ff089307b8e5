# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A step's writes to objects outside of the state (the caller's tensors, containers, attributes) happen as in
PyTorch."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
import repro_mlir  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from repro_mlir import ReproError  # noqa: E402
from repro_mlir.frontends.torch import capture_inference, capture_training  # noqa: E402

X, TARGET = torch.arange(8.0).reshape(2, 4).sin(), torch.tensor([0, 1])
Pair = namedtuple("Pair", "value count")


class Net(torch.nn.Module):
    """A module that calls `function` with itself and its input, and applies a layer to the result."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        torch.nn.init.constant_(self.layer.weight, 0.25)
        self.function = function
        self.kept, self.places = torch.zeros(4), {"a": [torch.zeros(4)]}
        self.pair, self.table, self.is_begun = Pair(torch.zeros(4), 1), None, False

    def forward(self, x: Any) -> Any:
        return self.layer(self.function(self, x))


def capture(model: Any, loss_fn: Any = F.cross_entropy, x: Any = X) -> Any:
    return capture_training(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), (x, TARGET))


def _index(_: Any, x: Any) -> Any:
    x[0, 1] = 5.0
    return x


def _mask(_: Any, x: Any) -> Any:
    x[x > 0.5] = 0.0
    return x


def _view(_: Any, x: Any) -> Any:
    x.T[1:].mul_(2)
    return x


def _foreach(_: Any, x: Any) -> Any:
    torch._foreach_mul_([x], 2.0)
    return x


WRITES = {
    "in place": lambda _, x: x.mul_(2),
    "augmented": lambda _, x: x.__imul__(2),
    "index": _index,
    "mask": _mask,
    "view": _view,
    "detached": lambda _, x: x.detach().add_(1) + x,
    "data": lambda _, x: x.data.clamp_(0, 1) + x,
    "out": lambda _, x: torch.add(x, 1, out=x),
    "copy": lambda _, x: x.copy_(torch.ones(2, 4)),
    "activation": lambda _, x: F.relu(x, inplace=True),
    "shape": lambda _, x: x.t_().t(),
    "foreach": _foreach,
    "no copy": lambda _, x: x.to(torch.float32).contiguous().mul_(2),
    "random": lambda _, x: x.uniform_(),
    "statistics": lambda _, x: F.batch_norm(x.detach(), x[0], torch.ones(4), training=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_to_inputs_are_refused(write: Callable) -> None:
    model = Net(write)
    message = r"^test_writes_of_steps.py:\d+: .*the step writes to batch\[0\], which .* write to a clone"
    with pytest.raises(ReproError, match=message):
        capture(model)
    with pytest.raises(ReproError, match=message):
        capture_inference(model, (X,))


def test_writes_to_targets_are_refused() -> None:
    def loss_fn(output: Any, target: Any) -> Any:
        target[target == 1] = -100
        return F.cross_entropy(output, target)

    with pytest.raises(ReproError, match=r"the step writes to batch\[1\]"):
        capture(Net(lambda _, x: x), loss_fn)


def test_copies_of_inputs_are_written() -> None:
    capture(Net(lambda _, x: x.clone().mul_(2)))


@pytest.mark.parametrize("change", [lambda x: x["a"].update(b=x["a"]["b"] * 2), lambda x: x.update(new=1)])
def test_writes_into_the_batch_are_refused(change: Callable) -> None:
    def function(_: Any, x: Any) -> Any:
        change(x)
        return x["a"]["b"]

    with pytest.raises(ReproError, match=r"the step stores another value in batch\[0\]\['"):
        capture(Net(function), x={"a": {"b": X}})


def test_data_is_not_assigned() -> None:
    def function(model: Any, x: Any) -> Any:
        model.layer.weight.data = model.layer.weight.data * 2
        return x

    with pytest.raises(ReproError, match=r"test_writes_of_steps.py:\d+: .*assigns to the data of a tensor"):
        capture(Net(function))


ELSEWHERE = torch.zeros(4)


def _attribute(model: Any, x: Any) -> Any:
    x = x + model.kept
    model.kept = x.detach()
    return x


def _list_in_a_dict(model: Any, x: Any) -> Any:
    x = x + model.places["a"][0]
    model.places["a"][0] = x.detach()
    return x


def _tuple(model: Any, x: Any) -> Any:
    x = x + model.pair.value
    model.pair = Pair(x.detach(), 2)
    return x


def _first_value(model: Any, x: Any) -> Any:
    if model.table is None:
        model.table = x.detach().mean(0)
    return x - model.table


def _first_product(model: Any, x: Any) -> Any:
    if model.table is None:
        model.table = x.detach()
        x = x * 2
    return (x * COMPLEX).real


COMPLEX = torch.tensor(0.5 + 1j)


def test_another_graph_without_a_hash_is_refused() -> None:
    with pytest.raises(ReproError, match=r"a later step reads the value that this step stores in model\.table, "):
        capture(Net(_first_product))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (_attribute, "model.kept"),
        (_list_in_a_dict, r"model.places.a\[0\]"),
        (_tuple, "model.pair"),
        (_first_value, "model.table"),
    ],
)
def test_tensors_kept_for_the_next_step_are_refused(function: Callable, name: str) -> None:
    model = Net(function)
    former = model.kept, model.places["a"][0], model.pair, model.table
    with pytest.raises(ReproError, match=rf"^test_writes_of_steps.py:\d+: a later step reads .* stores in {name}, "):
        capture(model)
    assert all(map(lambda a, b: a is b, former, (model.kept, model.places["a"][0], model.pair, model.table)))


def test_a_buffer_of_the_loss_function_is_refused() -> None:
    class Centred(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("center", torch.zeros(3))

        def forward(self, output: Any, target: Any) -> Any:
            self.center = 0.5 * self.center + output.detach().mean(0)
            return F.cross_entropy(output - self.center, target)

    loss_fn = Centred()
    center = loss_fn.center
    with pytest.raises(ReproError, match=r"stores in loss_fn\.center, .* use a buffer of the model"):
        capture(Net(lambda _, x: x), loss_fn)
    assert loss_fn.center is center


@pytest.mark.parametrize("write", [lambda: ELSEWHERE.add_(1), lambda: ELSEWHERE.__setitem__(0, 1.0)])
def test_writes_to_tensors_from_elsewhere_are_refused(write: Callable) -> None:
    def function(_: Any, x: Any) -> Any:
        write()
        return x + ELSEWHERE

    with pytest.raises(ReproError, match="the step writes to a tensor that is not state of the model"):
        capture(Net(function))


def _last(model: Any, x: Any) -> Any:
    model.last = x * 2
    return model.last


def _table(model: Any, x: Any) -> Any:
    if model.table is None:
        model.table = torch.arange(4.0).cos()
    return x + model.table


@pytest.mark.parametrize("function", [_last, _table])
def test_equal_writes_of_each_step_are_kept(function: Callable) -> None:
    capture(Net(function))


def test_another_first_step_is_refused() -> None:
    def function(model: Any, x: Any) -> Any:
        x = x * 2 if model.is_begun else x
        model.is_begun = True
        return x

    model = Net(function)
    trainer = repro_mlir.Trainer(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), target="reference"
    )
    with pytest.raises(ReproError, match=r"the first step, which changes model\.is_begun, differs from"):
        trainer.step(X, TARGET)
