# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Optimizers without a rule in numerics.md, whose step is traced: the results are close to those of eager mode, and the
bits are the same on every target."""

import copy
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR
from written_optimizers import (
    Clipped,
    FirstGradient,
    Foreach,
    GroupCounter,
    Lion,
    Noisy,
    OldAdam,
    Shampoo,
    TensorCounter,
    WarmedUp,
    Written,
)

pytest.importorskip("torch_mlir")

Make = Callable[[Any], torch.optim.Optimizer]
Between = Callable[[torch.optim.Optimizer, int], None]
TARGETS = ("cpu", "cpu:x86-64-v2", "reference")


def small_model(bias: bool = True) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(5, 4, bias=bias), torch.nn.Tanh(), torch.nn.Linear(4, 3, bias=bias))


def batch_of(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randn(4, 8, generator=torch.Generator().manual_seed(number))
    return drawn[:, :5], drawn[:, 5:]


def new(make: Make, bias: bool = True) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = small_model(bias)
    return model, make(model.parameters())


def eager_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    x, y = batch_of(number)
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()


def assert_near(got: Any, want: Any, tolerance: float, where: str = "") -> None:
    """Asserts that two state_dicts have equal keys and types, and values that differ by at most `tolerance`."""
    assert type(got) is type(want), where
    if isinstance(got, dict):
        assert got.keys() == want.keys(), where
        for key, value in want.items():
            assert_near(got[key], value, tolerance, f"{where}.{key}")
    elif isinstance(got, list | tuple):
        for index, pair in enumerate(zip(got, want, strict=True)):
            assert_near(*pair, tolerance, f"{where}[{index}]")
    elif isinstance(got, torch.Tensor | float):
        kind = f"{where}: " + "{}"
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance / 100, msg=kind.format)
    else:
        assert got == want, where


def compare(
    make: Make,
    *,
    steps: int = 7,
    target: str = "reference",
    between: Between | None = None,
    tolerance: float = 1e-4,
    bias: bool = True,
) -> repro_mlir.Trainer:
    """Trains with a compiled step and in eager mode, and compares parameters and the optimizer's state_dict."""
    model, optimizer = new(make, bias)
    theirs, their_optimizer = new(make, bias)
    trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target=target)
    for number in range(steps):
        if between is not None:
            between(optimizer, number)
            between(their_optimizer, number)
        trainer.step(*batch_of(number))
        eager_step(theirs, their_optimizer, number)
    trainer.sync()
    assert_near(model.state_dict(), theirs.state_dict(), tolerance)
    assert_near(optimizer.state_dict(), their_optimizer.state_dict(), tolerance)
    return trainer


# --- Against eager mode ---

CASES: dict[str, Make] = {
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, weight_decay=0.1, maximize=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.02, weight_decay=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.02),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.02, t0=3, weight_decay=0.1),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.02, etas=(0.4, 1.3)),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.05),
    "foreach_asked": lambda p: torch.optim.Adamax(p, lr=0.02, foreach=True),
    "subclass": lambda p: type("Mine", (torch.optim.Adam,), {})(p, lr=0.02, amsgrad=True),
    "lion": lambda p: Lion(p, weight_decay=0.1),
    "old_adam": lambda p: OldAdam(p, weight_decay=0.1),
    "first_gradient": FirstGradient,
    "warmed_up": WarmedUp,
    "group_counter": GroupCounter,
    "foreach": Foreach,
    "tensor_counter": TensorCounter,
    "clipped": Clipped,
    "shampoo": Shampoo,
}
FORMS = {"radam": 2, "asgd": 3, "rprop": 2, "first_gradient": 2, "warmed_up": 2, "shampoo": 2}
"""The number of programs of a run, for optimizers that use more than one."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.diagonal(name=["adagrad", "asgd", "adafactor", "lion", "first_gradient", "tensor_counter", "shampoo"])
@pytest.mark.exhaustive("shampoo")
def test_what_eager_mode_trains(name: str) -> None:
    trainer = compare(CASES[name])
    assert len(trainer._forms) == FORMS.get(name, 1)


def test_muon_in_bf16() -> None:
    compare(lambda p: torch.optim.Muon(p, lr=0.02), bias=False, tolerance=1e-2, steps=4)


@pytest.mark.parametrize("name", ["lion", "old_adam", "nadam", "warmed_up", "adafactor", "first_gradient", "noisy"])
@pytest.mark.diagonal(name=["lion", "nadam", "noisy"])
@pytest.mark.exhaustive("nadam")
def test_the_same_bits_on_every_target(name: str) -> None:
    hashes = set()
    for target in TARGETS:
        model, optimizer = new(CASES.get(name, Noisy))
        trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target=target)
        for number in range(5):
            trainer.step(*batch_of(number))
        hashes.add(trainer.state_hash())
    assert len(hashes) == 1


def test_low_precision_and_f64() -> None:
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.bfloat16, 3e-2)):
        models = [torch.nn.Linear(5, 3, dtype=dtype) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        optimizers = [Lion(model.parameters(), lr=2.0**-6) for model in models]
        trainer = repro_mlir.Trainer(models[0], F.mse_loss, optimizers[0], target="reference")
        for number in range(3):
            x, y = (value.to(dtype) for value in batch_of(number))
            trainer.step(x, y)
            optimizers[1].zero_grad()
            F.mse_loss(models[1](x), y).backward()
            optimizers[1].step()
        assert_near(models[0].state_dict(), models[1].state_dict(), tolerance)


# --- Hyper-parameters ---


def _weight_decay(optimizer: torch.optim.Optimizer, number: int) -> None:
    for group in optimizer.param_groups:
        group["weight_decay"] = [0.1, 0.2, 0.0, 0.0, 0.3][number]


def _schedule(make: Callable[[torch.optim.Optimizer], Any]) -> Between:
    schedulers: dict[int, Any] = {}

    def between(optimizer: torch.optim.Optimizer, number: int) -> None:
        if number == 0:
            schedulers[id(optimizer)] = make(optimizer)
        else:
            schedulers[id(optimizer)].step()

    return between


BETWEEN: dict[str, Between] = {
    "lambda": _schedule(lambda o: LambdaLR(o, lambda number: 0.9**number)),
    "one_cycle": _schedule(lambda o: OneCycleLR(o, max_lr=0.05, total_steps=8)),
    "weight_decay": _weight_decay,
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("name", ["lion", "old_adam", "nadam"])
@pytest.mark.diagonal
@pytest.mark.exhaustive("nadam")
def test_what_changes_between_steps(name: str, between: str) -> None:
    trainer = compare(CASES[name], steps=5, between=BETWEEN[between])
    # When the weight decay becomes 0, old_adam and nadam need another program; lion needs no other program.
    assert len(trainer._forms) == (2 if between == "weight_decay" and name != "lion" else 1)


def test_groups() -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        first, *rest = parameters
        return OldAdam([{"params": [first], "weight_decay": 0.1, "betas": (0.8, 0.9)}, {"params": rest, "lr": 0.05}])

    trainer = compare(make)
    names = [kind.name for kind in trainer.program.inputs]
    assert names[:5] == ["betas[0].0", "betas[1].0", "eps.0", "lr.0", "weight_decay.0"]
    assert [each for each in names if each.endswith(".1")] == ["betas[0].1", "betas[1].1", "eps.1", "lr.1"]


@pytest.mark.parametrize("lr", [math.nan, torch.tensor(0.02), torch.tensor(0.02, dtype=torch.float64), 1])
@pytest.mark.parametrize("name", ["lion", "adagrad"])
@pytest.mark.diagonal
def test_learning_rates(name: str, lr: Any) -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        optimizer = CASES[name](parameters)
        optimizer.param_groups[0]["lr"] = lr
        return optimizer

    if isinstance(lr, float):
        model, optimizer = new(make)
        repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference").step(*batch_of(0))
        assert all(parameter.isnan().all() for parameter in model.parameters())
        return
    compare(make, steps=3)


def test_numbers_are_inputs_and_not_constants() -> None:
    model, optimizer = new(Lion)
    program = repro_mlir.capture(model, F.mse_loss, optimizer, batch_of(0))
    optimizer.param_groups[0].update(lr=0.5, betas=(0.1, 0.2), weight_decay=0.3)
    assert repro_mlir.capture(model, F.mse_loss, optimizer, batch_of(0)).hash == program.hash


# --- State ---


@pytest.mark.parametrize(
    "name", ["adagrad", "radam", "asgd", "old_adam", "first_gradient", "warmed_up", "group_counter"]
)
def test_state_of_eager_mode_goes_on_and_back(name: str) -> None:
    make = CASES[name]
    model, optimizer = new(make)
    theirs, their_optimizer = new(make)
    for number in range(3):
        eager_step(theirs, their_optimizer, number)
    model.load_state_dict(theirs.state_dict())
    optimizer.load_state_dict(copy.deepcopy(their_optimizer.state_dict()))
    trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference")
    for number in range(3, 6):
        trainer.step(*batch_of(number))
        eager_step(theirs, their_optimizer, number)
    # Training continues in eager mode from the state that the trainer left.
    again, again_optimizer = new(make)
    again.load_state_dict(model.state_dict())
    again_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in ((again, again_optimizer), (theirs, their_optimizer)):
        eager_step(*each, 6)
    assert_near(again_optimizer.state_dict(), their_optimizer.state_dict(), 1e-3)
    assert_near(again.state_dict(), theirs.state_dict(), 1e-3)


def test_state_that_the_user_changes() -> None:
    def between(optimizer: torch.optim.Optimizer, number: int) -> None:
        if number == 2:
            for state in optimizer.state.values():
                state["step"] = 40
        if number == 4:
            optimizer.state.clear()

    compare(OldAdam, steps=6, between=between)


@pytest.mark.exhaustive
def test_counters_that_differ() -> None:
    def between(optimizer: torch.optim.Optimizer, number: int) -> None:
        if number == 2:
            next(iter(optimizer.state.values()))["step"] = 9

    compare(OldAdam, steps=4, between=between)


@pytest.mark.parametrize("form", ["dict", "file"])
@pytest.mark.parametrize("name", ["old_adam", "adafactor", "warmed_up"])
@pytest.mark.diagonal
def test_checkpoints(name: str, form: str, tmp_path: Path) -> None:
    model, optimizer = new(CASES[name])
    trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference")
    for number in range(4):
        trainer.step(*batch_of(number))
        if number == 1:
            saved = copy.deepcopy(trainer.state_dict())
            trainer.save_checkpoint(tmp_path / "checkpoint")
    other_model, other_optimizer = new(CASES[name])
    other = repro_mlir.Trainer(other_model, F.mse_loss, other_optimizer, target="reference")
    if form == "dict":
        other.load_state_dict(saved)
    else:
        other.load_checkpoint(tmp_path / "checkpoint")
    for number in range(2, 4):
        other.step(*batch_of(number))
    assert other.state_hash() == trainer.state_hash()


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import torch
from test_any_optimizer import CASES, batch_of, new

def training():
    model, optimizer = new(CASES[{name!r}])

    def batches():
        for number in range(7):
            optimizer.param_groups[0]["lr"] = 0.01 / (number + 1)
            yield batch_of(number)

    return model, torch.nn.functional.mse_loss, optimizer, batches()
"""


@pytest.mark.parametrize("name", ["old_adam", "radam", "first_gradient"])
@pytest.mark.diagonal(name=["radam"])
@pytest.mark.exhaustive("radam")
def test_receipts(name: str, tmp_path: Path) -> None:
    from repro_mlir.base.errors import ReceiptWrong
    from repro_mlir.frontends.torch.scripts import load_training
    from repro_mlir.script_runs.batches import ScriptBatches
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.script_inputs import ScriptInputs
    from repro_mlir.verification.receipts.verification import verify

    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent), name=name))
    given = load_training(str(script))
    path = tmp_path / "run.receipt"
    options = repro_mlir.ReceiptOptions(path, checkpoint_every=2)
    with repro_mlir.Trainer(
        given.model, given.loss_fn, given.optimizer, target="reference", receipt=options
    ) as trainer:
        trainer.fit(given.batches, 7)
        assert len(trainer._forms) == FORMS.get(name, 1)
    for steps in ("all", "6"):
        receipt = Receipt(path)
        inputs = ScriptInputs(receipt, ScriptBatches(str(script)))
        assert verify(receipt, steps, "cpu", inputs=inputs).sealed
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent), name=name).replace("0.01 /", "0.02 /"))
    with pytest.raises(ReceiptWrong):
        receipt = Receipt(path)
        verify(receipt, inputs=ScriptInputs(receipt, ScriptBatches(str(script))))


def test_one_program_is_not_to_be_had_of_an_optimizer_that_has_several() -> None:
    model, optimizer = new(FirstGradient)
    with pytest.raises(
        repro_mlir.ReproError, match=r"the optimizer FirstGradient depends on its state .* use a Trainer"
    ):
        repro_mlir.capture(model, F.mse_loss, optimizer, batch_of(0))


# --- The first step ---


class Stepping(Written):
    """An optimizer whose update is the function `what`, which a test sets."""

    what: Any = None

    def change(self, p, grad, group, state):
        type(self).what(self, p, grad, group, state)


def _one_or_more(self, p, grad, group, state):
    if "n" not in state:
        state["n"] = 1
    else:
        state["n"] += 1
    p.sub_(grad * (group["lr"] / state["n"]))


def _got_with_default(self, p, grad, group, state):
    state["n"] = state.get("n", 0) + 1
    p.sub_(grad, alpha=group["lr"] / state["n"])


def _caught(self, p, grad, group, state):
    try:
        state["n"] += 1
    except KeyError:
        state["n"] = 1
    p.sub_(grad * (group["lr"] / state["n"]))


def _tensor_count(self, p, grad, group, state):
    state["n"] = state.get("n", torch.tensor(0.0)) + 1
    p.sub_(grad * (group["lr"] / state["n"]))


def _halved(self, p, grad, group, state):
    state["lr"] = state.get("lr", 0.1) * 0.5
    p.sub_(grad * state["lr"])


def _zeros_then_nothing(self, p, grad, group, state):
    if "b" not in state:
        state["b"] = torch.zeros_like(p)
        p.sub_(grad * group["lr"])
    else:
        state["b"].mul_(0.9).add_(grad)
        p.sub_(state["b"] * group["lr"])


def _flag(self, p, grad, group, state):
    p.sub_(grad * group["lr"] * (1 if "begun" in state else 2))
    state["begun"] = True


def _more_at_the_second_step(self, p, grad, group, state):
    if "m" not in state:
        state["m"] = torch.ones_like(p)
    elif "v" not in state:
        state["v"] = torch.full_like(p, 2.0)
    p.sub_(grad * state["m"] * group["lr"] * (state["v"] if "v" in state else 1))


def _more_at_the_third_step(self, p, grad, group, state):
    state.setdefault("n", 0)
    state["n"] += 1
    if state["n"] == 3:
        state["slow"] = p.clone()
    p.sub_(grad * group["lr"] + (state["slow"] * 0.01 if "slow" in state else 0))


def _one_kind_of_parameter(self, p, grad, group, state):
    (_one_or_more if p.dim() > 1 else _halved)(self, p, grad, group, state)


def _equal_at_one_rate(self, p, grad, group, state):
    state["f"] = state["f"] * group["lr"] * 100 if "f" in state else 0.5
    p.sub_(grad * state["f"] * 0.1)


def _aliased(self, p, grad, group, state):
    if "n" not in state:
        count = state["n"] = torch.tensor(0.0)
        count += 1
    else:
        state["n"] += 1
    p.sub_(grad * (group["lr"] / state["n"]))


def _number_then_tensor(self, p, grad, group, state):
    if not state:
        state["b"] = 0
    state["b"] = state["b"] * 0.9 + grad
    p.sub_(state["b"] * group["lr"])


FIRST_STEPS = [
    _one_or_more,
    _got_with_default,
    _caught,
    _tensor_count,
    _halved,
    _zeros_then_nothing,
    _flag,
    _more_at_the_second_step,
    _more_at_the_third_step,
    _one_kind_of_parameter,
    _equal_at_one_rate,
    _aliased,
    _number_then_tensor,
]


@pytest.mark.parametrize("what", FIRST_STEPS, ids=[each.__name__ for each in FIRST_STEPS])
@pytest.mark.diagonal(what=[_one_or_more, _tensor_count, _zeros_then_nothing, _more_at_the_third_step])
def test_a_first_step_that_differs(what: Any) -> None:
    def between(optimizer: torch.optim.Optimizer, number: int) -> None:
        if what is _equal_at_one_rate and number == 2:
            # The first step is repeated with another learning rate.
            optimizer.state.clear()
            optimizer.param_groups[0]["lr"] = 0.02

    compare(type("Stepping", (Stepping,), {"what": what}), steps=4, between=between)


def test_a_first_step_of_a_compiled_optimizer() -> None:
    make = type("Stepping", (Stepping,), {"what": _one_or_more})
    (model, optimizer), (theirs, their_optimizer) = new(make), new(make)
    step = repro_mlir.compile_optimizer(optimizer, target="reference")
    for number in range(3):
        x, y = batch_of(number)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        step()
        eager_step(theirs, their_optimizer, number)
    assert_near(model.state_dict(), theirs.state_dict(), 1e-5)
    assert_near(optimizer.state_dict(), their_optimizer.state_dict(), 1e-5)


def _counting(self, p, grad, group, state):
    state.setdefault("n", 0)
    state["n"] += 1
    p.sub_(grad * group["lr"] * state.get("scale", 1.0))


def test_keys_of_state_that_the_user_adds() -> None:
    def between(optimizer: torch.optim.Optimizer, number: int) -> None:
        if number == 2:
            for state in optimizer.state.values():
                state["scale"] = 0.5

    compare(type("Stepping", (Stepping,), {"what": _counting}), steps=4, between=between)


# --- Refused optimizers ---


def _attribute(self, p, grad, group, state):
    self.count = getattr(self, "count", 0) + 1


def _tensor_branch(self, p, grad, group, state):
    if grad.norm() > 1:
        p.sub_(grad)


def _element_branch(self, p, grad, group, state):
    if grad.norm().item() > 1:
        p.sub_(grad)


def _changing_float(self, p, grad, group, state):
    state["step"] = state.get("step", 0) + 1
    p.sub_(grad / float(state["step"]))


def _clock(self, p, grad, group, state):
    p.sub_(grad * (time.time() % 1))


def _python_random(self, p, grad, group, state):
    import random

    p.sub_(grad * random.random())


def _shared(self, p, grad, group, state):
    state["last"] = p.data


def _shared_by_parameters(self, p, grad, group, state):
    first = self.param_groups[0]["params"][0]
    state["last"] = self.state[first].setdefault("last", torch.zeros(2))


def _list(self, p, grad, group, state):
    state["history"] = [grad]


def _other_shape(self, p, grad, group, state):
    state["long"] = torch.cat([state["long"], grad.reshape(-1)]) if "long" in state else torch.zeros(1)


def _assigned_data(self, p, grad, group, state):
    p.data = p.data - grad


def _elsewhere(self, p, grad, group, state):
    p.sub_(grad * torch.nn.Parameter(ELSEWHERE))


def _option_of_group(self, p, grad, group, state):
    group["nesterov"] = True


class Count:
    def __init__(self) -> None:
        self.n = 0


def _object_of_group(self, p, grad, group, state):
    group["count"].n += 1
    p.sub_(grad / group["count"].n)


def _tensor_of_group(self, p, grad, group, state):
    group["tensor"] += 1
    p.sub_(grad / group["tensor"])


def _shared_zeros(self, p, grad, group, state):
    if not state:
        state["a"] = state["b"] = torch.zeros_like(p)
    state["a"].add_(grad)
    p.sub_(state["b"])


def _raises(self, p, grad, group, state):
    raise ValueError("no such thing")


ELSEWHERE = torch.ones([])

REFUSED: list[tuple[Any, str]] = [
    (_attribute, "changes the attribute count of the optimizer"),
    (_tensor_branch, "control flow or a shape depends on tensor values"),
    (_element_branch, "control flow or a Python number depends on tensor values"),
    (_changing_float, "reads the value of a number that changes at each step"),
    (_clock, "the optimizer's step reads time.time"),
    (_python_random, "random numbers with Python's module random"),
    (_shared, "share memory with"),
    (_shared_by_parameters, "share memory with"),
    (_list, "is a list, expected tensors and numbers"),
    (_other_shape, "expected [1] of torch.float32 as before"),
    (_assigned_data, "the step assigns to the data of a tensor: use data.copy_"),
    (_elsewhere, "uses a tensor that is neither a parameter nor in its state"),
    (_tensor_of_group, "changes 'tensor' of parameter group 0"),
    (_shared_zeros, "share memory with state 'a'"),
    (_option_of_group, "changes 'nesterov' of parameter group 0"),
    (_raises, "ValueError: no such thing"),
]
WITHOUT_LINE = (_attribute, _python_random, _shared, _shared_by_parameters, _list, _other_shape, _option_of_group)
WITHOUT_LINE += (_tensor_of_group, _shared_zeros)


@pytest.mark.parametrize(("what", "message"), REFUSED, ids=[each[0].__name__ for each in REFUSED])
def test_refused_steps(what: Any, message: str) -> None:
    make = type("Refusing", (Stepping,), {"what": what, "options": MappingProxyType({"tensor": torch.zeros([])})})
    model, optimizer = new(make)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference")
    with pytest.raises(repro_mlir.ReproError) as caught:
        trainer.step(*batch_of(0))
    assert message in str(caught.value) and "\n" not in str(caught.value)
    if what not in WITHOUT_LINE:
        line = what.__code__.co_firstlineno
        assert any(f"{Path(__file__).name}:{line + i}: " in str(caught.value) for i in (1, 2, 3))
    assert_near((model.state_dict(), optimizer.state_dict()), before, 0.0)


def test_optimizers_that_are_refused() -> None:
    class Wrapper(Written):
        def __init__(self, params: Any) -> None:
            super().__init__(params)
            self.inner = torch.optim.SGD(self.param_groups[0]["params"], lr=0.1)

    class Several(Wrapper):
        def __init__(self, params: Any) -> None:
            super().__init__(params)
            self.each = {"first": self.__dict__.pop("inner")}

    for make, message in (
        (torch.optim.LBFGS, "optimizer LBFGS is not supported: its step needs the argument closure"),
        (torch.optim.SparseAdam, "SparseAdam does not support dense gradients"),
        (Wrapper, "its attribute inner is or contains another optimizer"),
        (Several, "its attribute each is or contains another optimizer"),
        (lambda p: torch.optim.Adagrad(p, differentiable=True), "differentiable=True is not supported"),
    ):
        model, optimizer = new(make)
        with pytest.raises(repro_mlir.ReproError, match=message):
            repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference").step(*batch_of(0))


class EveryState(Written):
    """Uses the state of parameters without a gradient."""

    def change(self, p, grad, group, state):
        state.setdefault("m", torch.zeros_like(p)).lerp_(grad, 0.5)
        p.sub_(grad * sum(each["m"].sum() for each in self.state.values()))


def test_state_that_the_program_does_not_have() -> None:
    model, optimizer = new(EveryState)
    trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference")
    trainer.step(*batch_of(0))
    next(model.parameters()).requires_grad_(False)
    with pytest.raises(repro_mlir.ReproError, match=r"uses the state of parameter 0.weight, which has no gradient"):
        trainer.step(*batch_of(1))
    options = MappingProxyType({"count": Count()})
    make = type("Counting", (Stepping,), {"what": _object_of_group, "options": options})
    model, optimizer = new(make)
    with pytest.raises(repro_mlir.ReproError, match=r"itself changes optimizer.param_groups\[0\]\['count'\].n"):
        repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference").step(*batch_of(0))
    model, optimizer = new(Lion)
    optimizer.state["warm"] = 3
    with pytest.raises(repro_mlir.ReproError, match="keeps state for 'warm': expected state of its parameters"):
        repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference").step(*batch_of(0))


SCALE = 1.0


class Scaled(Written):
    def change(self, p, grad, group, state):
        p.add_(grad, alpha=-SCALE * self.gain * group["lr"])


def test_globals_and_attributes_that_change() -> None:
    def between(optimizer: Any, number: int) -> None:
        global SCALE
        SCALE = 2.0 if number == 2 else 1.0
        optimizer.gain = 3.0 if number == 3 else 1.0

    trainer = compare(Scaled, steps=5, between=between)
    assert len(trainer._forms) == 3


def test_an_unchanged_step_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = new(OldAdam)
    trainer = repro_mlir.Trainer(model, F.mse_loss, optimizer, target="reference")
    trainer.step(*batch_of(0))
    monkeypatch.setattr(trainer, "_find", lambda *_: pytest.fail("looked for another program"))
    for number in range(1, 4):
        trainer.step(*batch_of(number))
    assert {state["step"] for state in optimizer.state.values()} == {4}
