# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes that the user makes between two steps take effect as in PyTorch, or are refused with the reason."""

import contextlib
import copy
import cProfile
import functools
import gc
import io
import queue
import random
import socket
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
from repro_mlir.frontends.torch import capture_training  # noqa: E402
from repro_mlir.frontends.torch.objects.binding import Binding  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

cross_entropy = torch.nn.functional.cross_entropy
BATCH = torch.arange(32, dtype=torch.float32).reshape(4, 8).mul(0.37).sin(), torch.tensor([0, 1, 2, 0])


def new_model() -> Any:
    layers = torch.nn.Linear(8, 16, bias=False), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
    return repro_mlir.initialize(torch.nn.Sequential(*layers), 1)


def adamw(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def new_trainer(optimizer: Callable = adamw, **options: Any) -> tuple[repro_mlir.Trainer, Any, Any]:
    model = new_model()
    made = optimizer(model)
    return repro_mlir.Trainer(model, cross_entropy, made, threads=1, **options), model, made


def eager_step(model: Any, optimizer: Any, batch: tuple = BATCH) -> float:
    optimizer.zero_grad()
    loss = cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


def same_tensors(ours: dict, theirs: dict, tolerance: float = 2e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def freeze(model: Any, optimizer: Any) -> None:
    model[0].requires_grad_(False)


def unfreeze(model: Any, optimizer: Any) -> None:
    model[0].requires_grad_(True)


def evaluation_mode(model: Any, optimizer: Any) -> None:
    model.eval()


def training_mode(model: Any, optimizer: Any) -> None:
    model.train()


def one_in_evaluation_mode(model: Any, optimizer: Any) -> None:
    model[1].eval()


def less_decay(model: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["weight_decay"] = 0.02


def no_decay(model: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["weight_decay"] = 0.0


def write_parameters(model: Any, optimizer: Any) -> None:
    with torch.no_grad():
        model[0].weight.mul_(0.5)
        model[1].running_mean.add_(0.25)


def write_data(model: Any, optimizer: Any) -> None:
    model[0].weight.data.clamp_(-0.1, 0.1)


def replace_data(model: Any, optimizer: Any) -> None:
    model[0].weight.data = torch.full((16, 8), 0.05)
    model[3].weight.data = model[3].weight.data.t().contiguous().t()


def replace_buffer(model: Any, optimizer: Any) -> None:
    model[1].running_var = torch.full((16,), 2.0)


def replace_parameter(model: Any, optimizer: Any) -> None:
    old = model[3].bias
    model[3].bias = torch.nn.Parameter(torch.ones(3))
    group = optimizer.param_groups[0]
    group["params"] = [model[3].bias if parameter is old else parameter for parameter in group["params"]]
    optimizer.state.pop(old, None)


def write_optimizer_state(model: Any, optimizer: Any) -> None:
    for state in optimizer.state.values():
        for key, value in state.items():
            if value is not None and key != "step":
                value.mul_(0.5)


def write_step_counters(model: Any, optimizer: Any) -> None:
    for state in optimizer.state.values():
        if "step" in state:
            state["step"].fill_(100.0)


def different_step_counters(model: Any, optimizer: Any) -> None:
    for number, state in enumerate(optimizer.state.values()):
        if "step" in state:
            state["step"] += number


def reload_optimizer(model: Any, optimizer: Any) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def clear_optimizer(model: Any, optimizer: Any) -> None:
    optimizer.state.clear()


def another_module(model: Any, optimizer: Any) -> None:
    model[2] = torch.nn.Tanh()


def attribute_of_a_module(model: Any, optimizer: Any) -> None:
    model[1].momentum = 0.5


def scale_gradients(model: Any, optimizer: Any) -> None:
    model[3].weight.register_hook(lambda gradient: gradient * 3)


def scale_outputs(model: Any, optimizer: Any) -> None:
    model[2].register_forward_hook(lambda module, inputs, output: output * 2)


def move_a_parameter(model: Any, optimizer: Any) -> None:
    bias = optimizer.param_groups[0]["params"].pop()
    optimizer.add_param_group({"params": [bias], "lr": 0.5})


def train_eagerly(model: Any, optimizer: Any) -> None:
    eager_step(model, optimizer)


CHANGES = [
    (freeze, unfreeze),
    (evaluation_mode, training_mode),
    (one_in_evaluation_mode,),
    (less_decay, no_decay),
    (write_parameters, write_data),
    (replace_data,),
    (replace_buffer,),
    (replace_parameter,),
    (write_optimizer_state, write_step_counters),
    (different_step_counters,),
    (reload_optimizer, clear_optimizer),
    (another_module,),
    (attribute_of_a_module,),
    (scale_gradients, scale_outputs),
    (move_a_parameter,),
    (train_eagerly, train_eagerly),
]


@pytest.mark.parametrize(
    ("changes", "optimizer", "first"),
    [
        *((changes, adamw, 2) for changes in CHANGES),
        ((write_optimizer_state, reload_optimizer, clear_optimizer), sgd, 2),
        ((move_a_parameter, train_eagerly), sgd, 0),
        ((scale_gradients, scale_outputs), sgd, 0),
    ],
    ids=lambda value: "+".join(change.__name__ for change in value) if isinstance(value, tuple) else None,
)
@pytest.mark.diagonal(changes=CHANGES[::4], optimizer=[adamw])
def test_as_in_pytorch(changes: tuple[Callable, ...], optimizer: Callable, first: int) -> None:
    """Applies the first change before step `first`, and each later one two steps after the previous one, without
    calling `sync`. Compares the state with PyTorch's."""
    trainer, model, made = new_trainer(optimizer, target="reference")
    theirs = new_model()
    their_optimizer = optimizer(theirs)
    for step in range(first + 2 * len(changes)):
        number, rest = divmod(step - first, 2)
        if rest == 0 and number >= 0:
            changes[number](model, made)
            changes[number](theirs, their_optimizer)
        assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, their_optimizer), rel=1e-4)
    same_tensors(model.state_dict(), theirs.state_dict())
    for ours, other in zip(made.state.values(), their_optimizer.state.values(), strict=True):
        same_tensors(ours, other)


def test_modes_that_alternate_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.train import captured_step as module

    compiled = []
    compile_ = module.compile_step
    monkeypatch.setattr(module, "compile_step", lambda *a: compiled.append(a) or compile_(*a))
    trainer, model, _ = new_trainer(target="reference")
    for _ in range(4):
        model.train()
        trainer.step(*BATCH)
        model.eval()
        trainer.step(*BATCH)
    assert len(compiled) == 2


SMALLER = BATCH[0][:3], BATCH[1][:3]


@pytest.mark.parametrize("optimizer", [adamw, sgd])
def test_shapes_that_alternate_stay_bound(optimizer: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, model, _ = new_trainer(optimizer, target="reference")
    theirs = new_model()
    their_optimizer = optimizer(theirs)

    def steps(count: int) -> None:
        for _ in range(count):
            for batch in (BATCH, SMALLER):
                expected = eager_step(theirs, their_optimizer, batch)
                assert trainer.step(*batch) == pytest.approx(expected, rel=1e-4)
                trainer.evaluate(*batch)

    # The optimizer has its state only after the first steps, so bindings are counted after these.
    steps(3)
    made = []
    bind = Binding.__init__
    monkeypatch.setattr(Binding, "__init__", lambda self, *a: made.append(self) or bind(self, *a))
    steps(2)
    assert not made
    same_tensors(model.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("optimizer", [adamw, sgd])
@pytest.mark.diagonal(optimizer=[adamw])
def test_shapes_that_alternate_follow_every_change(optimizer: Callable) -> None:
    """The shape of batches alternates. Each step has the bits of the first step of a new trainer with the same
    state."""
    trainer, model, made = new_trainer(optimizer, target="reference")

    def write_counters(model: Any, optimizer: Any) -> None:
        for state in optimizer.state.values():
            if "step" in state:
                state["step"].add_(3)

    def load_former_state(model: Any, optimizer: Any) -> None:
        trainer.load_state_dict(former)

    changes = [None, None, None, write_counters, None, write_data, load_former_state, None, reload_optimizer, None]
    for number, change in enumerate(changes):
        if number == 3:
            former = copy.deepcopy(trainer.state_dict())
        if change is not None:
            change(model, made)
        batch = SMALLER if number % 2 else BATCH
        alone, _, _ = new_trainer(optimizer, target="reference")
        if number:
            alone.load_state_dict(trainer.state_dict())
        assert alone.step(*batch) == trainer.step(*batch)
        assert alone.state_hash() == trainer.state_hash()


@pytest.mark.exhaustive
def test_an_attribute_that_always_changes_causes_a_warning() -> None:
    trainer, model, _ = new_trainer(target="reference")
    trainer.step(*BATCH)
    with pytest.warns(RuntimeWarning, match=r"model.1.momentum has changed") as caught:
        for step in range(9):
            model[1].momentum = 0.1 + 0.01 * step
            trainer.step(*BATCH)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "reference", "ptx-emulator"])
@pytest.mark.diagonal(target=["cpu", "ptx-emulator"])
def test_targets_agree_on_changes(target: str) -> None:
    hashes = []
    for name in ("cpu", target):
        trainer, model, _ = new_trainer(target=name)
        trainer.step(*BATCH)
        model.eval()
        trainer.step(*BATCH)
        trainer.sync()
        write_parameters(model, None)
        trainer.step(*BATCH)
        model.train()
        trainer.step(*BATCH)
        hashes.append(trainer.state_hash())
    assert hashes[0] == hashes[1]


def observe(*_: Any) -> None:
    return None


def _within_autocast(trainer: repro_mlir.Trainer) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trainer.step(*BATCH)


def _flushed(trainer: repro_mlir.Trainer) -> None:
    assert torch.set_flush_denormal(True)
    try:
        trainer.step(*BATCH)
    finally:
        torch.set_flush_denormal(False)


def _hook(register: Callable) -> Callable:
    def use(trainer: repro_mlir.Trainer) -> None:
        handle = register(trainer._model, trainer._optimizer)
        try:
            trainer.step(*BATCH)
        finally:
            handle.remove()

    return use


REFUSED = [
    (_within_autocast, "within torch.autocast"),
    (_flushed, r"set_flush_denormal\(True\) is set"),
    (_hook(lambda model, _: model[0].weight.register_hook(observe)), "gradient hook of parameter 0.weight returns"),
    (_hook(lambda model, _: model[0].register_forward_hook(observe)), "forward hook of module 0 returns None"),
    (_hook(lambda model, _: model[2].register_forward_pre_hook(observe)), "forward pre-hook of module 2 returns"),
    (_hook(lambda model, _: model[2].register_full_backward_hook(observe)), "backward hook of module 2 returns"),
    (
        _hook(lambda model, _: model[0].weight.register_post_accumulate_grad_hook(observe)),
        "parameter 0.weight has a hook that runs after its gradient",
    ),
    (_hook(lambda _, optimizer: optimizer.register_step_pre_hook(observe)), "the optimizer has a step hook"),
    (_hook(lambda _, optimizer: optimizer.register_step_post_hook(observe)), "the optimizer has a step hook"),
    (_hook(lambda *_: register_optimizer_step_post_hook(observe)), "a global optimizer step hook is registered"),
    (_hook(lambda *_: torch.nn.modules.module.register_module_forward_hook(observe)), "a global module hook"),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_refused_before_the_first_step_and_later(use: Callable, message: str) -> None:
    trainer, _, _ = new_trainer(target="reference")
    whole, _, _ = new_trainer(target="reference")
    for steps in range(2):
        with pytest.raises(ReproError, match=message):
            use(trainer)
        assert trainer.steps == steps
        assert trainer.step(*BATCH) == whole.step(*BATCH)


@pytest.mark.parametrize(("owner", "name"), [(torch.optim.SGD, "step"), (sys.modules["torch.optim.sgd"], "sgd")])
def test_a_function_of_an_optimizer_that_is_replaced_counts(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user replaces a function of PyTorch's optimizer, the built-in rule of the optimizer must not be used."""
    trainer, ours, _ = new_trainer(sgd)
    theirs = new_model()
    optimizer = sgd(theirs)
    former = getattr(owner, name)

    @functools.wraps(former)
    def replaced(*arguments: Any, **options: Any) -> Any:
        found = former(*arguments, **options)
        with torch.no_grad():
            for parameter in arguments[0] if name == "sgd" else arguments[0].param_groups[0]["params"]:
                parameter.mul_(0.5)
        return found

    for step in range(3):
        if step == 1:
            monkeypatch.setattr(owner, name, replaced)
        assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, optimizer), rel=1e-5)
    trainer.sync()
    same_tensors(ours.state_dict(), theirs.state_dict())


def test_a_step_that_has_been_replaced() -> None:
    trainer, _, optimizer = new_trainer(target="reference")
    optimizer.step = lambda: None
    with pytest.raises(ReproError, match="the optimizer's step has been replaced"):
        trainer.step(*BATCH)


def test_weight_normalization_is_part_of_the_program() -> None:
    """Weight normalization is a hook of PyTorch. It returns None, but the program contains what it computes."""
    with pytest.warns(FutureWarning):
        models = [torch.nn.utils.weight_norm(repro_mlir.initialize(torch.nn.Linear(8, 3), 1)) for _ in range(2)]
    ours, theirs = models
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    trainer = repro_mlir.Trainer(ours, cross_entropy, optimizers[0], target="reference")
    for _ in range(3):
        assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, optimizers[1]), rel=1e-5)


def test_constants_of_the_loss_function() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0])
    model, theirs = new_model(), new_model()
    loss_fn = torch.nn.CrossEntropyLoss(weight=weight)
    trainer = repro_mlir.Trainer(model, loss_fn, sgd(model), target="reference")
    their_optimizer = sgd(theirs)
    for step in range(4):
        if step == 2:
            weight[0] = 10.0
        their_optimizer.zero_grad()
        loss = loss_fn(theirs(BATCH[0]), BATCH[1])
        loss.backward()
        their_optimizer.step()
        assert trainer.step(*BATCH) == pytest.approx(loss.item(), rel=1e-5)


FACTOR = 1.0


@dataclass(slots=True)
class Slot:
    factor: float


class Reader(torch.nn.Module):
    """A module that returns a loss, multiplied by a number that `read` computes from state in other objects."""

    factor = 1.0

    def __init__(self, read: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = repro_mlir.initialize(torch.nn.Linear(8, 3), 1)
        self.settings = SimpleNamespace(factor=1.0)
        self.plain = 1.0
        self.slot = Slot(1.0)
        self.nested: dict[str, Any] = {"factors": [[1.0]]}
        self.nested["self"] = self.nested
        self.array = np.ones((), np.float32)
        self.tensors = [torch.ones(3)]
        self.read = read

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.read(self)


class ScaledLoss:
    factor = 1.0

    def __call__(self, output: Any, target: Any) -> Any:
        return cross_entropy(output, target) * self.factor


def _global_factor(factor: float) -> None:
    globals()["FACTOR"] = factor


def _enclosed() -> tuple[Callable, Callable]:
    factor = 1.0

    def write(_: Any, value: float) -> None:
        nonlocal factor
        factor = value

    return lambda _: factor, write


def _of_another_model() -> tuple[Callable, Callable]:
    teacher = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(teacher.weight)
    return lambda _: teacher(torch.ones(1)).detach(), lambda _, value: teacher.weight.data.fill_(value)


def _of_a_traced_model() -> tuple[Callable, Callable]:
    teacher = torch.jit.trace(torch.nn.Linear(1, 1, bias=False), torch.ones(1))
    torch.nn.init.ones_(teacher.weight)
    return lambda _: teacher(torch.ones(1)).detach(), lambda _, value: teacher.weight.data.fill_(value)


READS = {
    "an attribute of an object": (lambda m: m.settings.factor, lambda m, v: setattr(m.settings, "factor", v)),
    "a nested element": (lambda m: m.nested["factors"][0][0], lambda m, v: m.nested["factors"][0].__setitem__(0, v)),
    "a replaced namespace": (lambda m: m.plain, lambda m, v: setattr(m, "__dict__", {**vars(m), "plain": v})),
    "a slot": (lambda m: m.slot.factor, lambda m, v: setattr(m.slot, "factor", v)),
    "a name as text": (lambda m: getattr(m.settings, "factor"), lambda m, v: setattr(m.settings, "factor", v)),  # noqa: B009
    "an array": (lambda m: float(m.array), lambda m, v: m.array.fill(v)),
    "a tensor in a list": (lambda m: m.tensors[0], lambda m, v: m.tensors[0].data.fill_(v)),
    "an attribute of the class": (lambda m: m.factor, lambda m, v: setattr(Reader, "factor", v)),
    "a global": (lambda m: FACTOR, lambda m, v: _global_factor(v)),
    "an enclosing variable": _enclosed(),
    "another model": _of_another_model(),
    "a traced model": _of_a_traced_model(),
}


@pytest.mark.parametrize("what", READS)
def test_state_that_functions_read(what: str) -> None:
    read, write = READS[what]
    ours, theirs = Reader(read), Reader(read)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.5) for model in (ours, theirs)]
    trainer = repro_mlir.Trainer(ours, cross_entropy, optimizers[0], target="reference")
    for factor in (1.0, 1.0, 3.0, 1.0):
        write(theirs, factor)
        expected = eager_step(theirs, optimizers[1])
        write(ours, factor)
        assert trainer.step(*BATCH) == pytest.approx(expected, rel=1e-5), factor
    assert len(trainer._forms) == 2


@pytest.mark.parametrize("bound", [False, True])
def test_state_that_a_loss_function_reads(bound: bool) -> None:
    model, scaled, weight = new_model(), ScaledLoss(), torch.ones(3)
    partial = functools.partial(cross_entropy, weight=weight)
    loss_fn = scaled.__call__ if bound else partial
    trainer = repro_mlir.Trainer(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.0), target="reference")
    first = trainer.step(*BATCH)
    scaled.factor, weight[0] = 2.0, 5.0
    expected = loss_fn(model(BATCH[0]), BATCH[1]).item()
    assert first != pytest.approx(expected, rel=1e-2)
    assert trainer.step(*BATCH) == pytest.approx(expected, rel=1e-5)


def _counted(model: Any) -> float:
    model.settings.factor += 1
    return model.settings.factor


SOCKETS = socket.socketpair()


def _own_generator() -> Callable:
    generator = np.random.default_rng(1)
    return lambda _: generator.random()


def _of_a_parameter() -> Callable:
    kept: list[Any] = []

    def read(model: Any) -> Any:
        return kept[0].sum()

    def remember(model: Any) -> None:
        kept.append(model.inner.weight)

    read.remember = remember  # type: ignore[attr-defined]
    return read


_LINE = r"^test_changes_between_steps.py:\d+: "


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda _: random.random(), rf"{_LINE}the step draws random numbers with Python's module random"),
        (lambda _: np.random.rand(), rf"{_LINE}the step draws random numbers with numpy.random"),
        # NumPy seeds these from the system's random numbers.
        (lambda _: np.random.RandomState().rand(), rf"{_LINE}the step calls posix.urandom"),
        (lambda _: float(np.random.default_rng().random()), rf"{_LINE}the step calls posix.urandom"),
        # Outside of a trace, each of these reads would block forever.
        (lambda _: queue.SimpleQueue().get(), r"^test_changes_between_steps.py:\d+: the step waits for another thread"),
        (lambda _: queue.Queue().get(), r"^test_changes_between_steps.py:\d+: the step waits for another thread"),
        (lambda _: float(SOCKETS[0].recv(1)), r"^test_changes_between_steps.py:\d+: the step waits for another thread"),
        (_own_generator(), rf"{_LINE}the step draws random numbers from generator of _own_generator"),
        (_counted, rf"{_LINE}the step itself changes model.settings.factor.*: use the losses that step and fit return"),
        (_of_a_parameter(), r"reads the tensor of inner.weight through a reference outside of the model"),
    ],
)
def test_reads_that_are_refused(read: Callable, message: str) -> None:
    model = Reader(read)
    getattr(read, "remember", lambda _: None)(model)
    trainer = repro_mlir.Trainer(model, cross_entropy, sgd(model), target="reference")
    with pytest.raises(ReproError, match=message):
        trainer.step(*BATCH)


GENERATOR = torch.Generator().manual_seed(3)


@pytest.mark.parametrize(
    "read",
    [
        lambda model: float(np.random.randn()) if model.settings.factor > 9 else 1.0,
        lambda model: float(np.random.default_rng(0).random()) if model.settings.factor > 9 else 1.0,
        lambda model: random.uniform(0, 1) if model.settings.factor > 9 else 1.0,
        lambda model: torch.rand((), generator=GENERATOR) if model.settings.factor > 9 else 1.0,
    ],
    ids=["randn", "default_rng", "uniform", "generator"],
)
def test_a_branch_not_taken_may_draw_random_numbers(read: Callable) -> None:
    model = Reader(read)
    trainer = repro_mlir.Trainer(model, cross_entropy, sgd(model), target="reference")
    trainer.step(*BATCH)
    # The global generators may be used between steps.
    random.random()
    np.random.rand()
    trainer.step(*BATCH)
    assert len(trainer._forms) == 1


def test_a_step_may_read_the_state_of_a_generator() -> None:
    model = Reader(lambda _: float(np.random.get_state()[2] % 7))
    trainer = repro_mlir.Trainer(model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.0), target="reference")
    losses = []
    for seed in (0, 0, 1):
        np.random.seed(seed)
        np.random.rand(3 * seed)
        losses.append(trainer.step(*BATCH))
    assert losses[0] == losses[1] != losses[2]


def test_an_optimizer_that_waits_is_refused_after_one_run() -> None:
    values: queue.SimpleQueue[float] = queue.SimpleQueue()
    values.put(0.5)

    class Waiting(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            factor = values.get()
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter.sub_(parameter.grad * factor)

    model = new_model()
    trainer = repro_mlir.Trainer(model, cross_entropy, Waiting(model.parameters(), {}), target="reference")
    with pytest.raises(ReproError, match="the step waits for another thread"):
        trainer.step(*BATCH)


def test_annotations_are_not_reads() -> None:
    model = Reader(lambda _: 2.0 if typing.Optional[int] else 1.0)  # noqa: UP045
    trainer = repro_mlir.Trainer(model, cross_entropy, sgd(model), target="reference")
    trainer.step(*BATCH)
    # Subscribing Optional adds an entry to a cache of the typing module. The new entry must not count as a change of
    # state.
    assert typing.Optional[type("New", (), {})]  # noqa: UP045
    trainer.step(*BATCH)
    assert len(trainer._forms) == 1


def capture_reader(read: Callable) -> None:
    model = Reader(read)
    capture_training(model, cross_entropy, sgd(model), BATCH)


def test_captures_under_a_profiler_of_python() -> None:
    seen = []
    former = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: seen.append((event, frame.f_code)))
    try:
        capture_reader(_one)
    finally:
        sys.setprofile(former)
    assert ("call", _one.__code__) in seen


def _one(_: Any) -> float:
    return 1.0


def test_captures_pause_cprofile() -> None:
    profiler = cProfile.Profile()
    with profiler, pytest.warns(RuntimeWarning, match="cProfile pauses while a step is captured"):
        capture_reader(_one)
        _one(None)
        with pytest.raises(ReproError, match=r"the step calls time\.time"):
            capture_reader(lambda _: time.time())
    calls = {entry.code: entry.callcount for entry in profiler.getstats()}
    assert calls[_one.__code__] == 1


def test_captures_under_a_debugger() -> None:
    seen = []
    former = sys.gettrace()
    sys.settrace(lambda frame, event, argument: seen.append(frame.f_code))
    try:
        capture_reader(_one)
    finally:
        sys.settrace(former)
    assert _one.__code__ in seen


class Recurrent(torch.nn.Module):
    """A model that creates tensors and keeps them in `masks`. Its LSTM replaces its own attributes when a trace
    replaces its weights."""

    def __init__(self, masks: dict[int, Any]) -> None:
        super().__init__()
        self.recurrent = torch.nn.LSTM(8, 3, batch_first=True)
        self.masks = masks

    def forward(self, x: Any) -> Any:
        if len(x) not in self.masks:
            self.masks[len(x)] = torch.arange(3.0)
        return self.recurrent(x[:, None])[0][:, -1] * self.masks[len(x)]


@pytest.mark.parametrize("masks", [{}, {4: 2.0}])
def test_modules_that_keep_created_tensors(masks: dict[int, Any]) -> None:
    ours, theirs = Recurrent(masks.copy()), Recurrent(masks.copy())
    theirs.load_state_dict(ours.state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.5) for model in (ours, theirs)]
    trainer = repro_mlir.Trainer(ours, cross_entropy, optimizers[0], target="reference")
    for _ in range(3):
        assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, optimizers[1]), rel=1e-4)


def test_state_that_a_model_keeps_of_its_first_call() -> None:
    def read(model: Any) -> float:
        model.nested.setdefault("made", len(model.nested))
        model.last = model.inner.weight.sum()
        return float(model.nested["made"])

    model = Reader(read)
    trainer = repro_mlir.Trainer(model, cross_entropy, sgd(model), target="reference")
    trainer.step(*BATCH)
    model.eval()
    trainer.step(*BATCH)
    model.train()
    trainer.step(*BATCH)
    assert len(trainer._forms) == 2


def test_schedulers_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    trainer, _, optimizer = new_trainer(target="reference")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        trainer.step(*BATCH)
        scheduler.step()
    assert not recwarn.list


def test_OneCycleLR_cycles_the_momentum_too() -> None:
    for make in (adamw, sgd):
        trainer, model, optimizer = new_trainer(make, target="reference")
        theirs = new_model()
        their_optimizer = make(theirs)
        schedulers = [
            torch.optim.lr_scheduler.OneCycleLR(each, max_lr=0.1, total_steps=12)
            for each in (optimizer, their_optimizer)
        ]
        for _ in range(8):
            assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, their_optimizer), rel=1e-4)
            for scheduler in schedulers:
                scheduler.step()
        same_tensors(model.state_dict(), theirs.state_dict())


# --- Receipts ---


@pytest.mark.parametrize(
    "change",
    [evaluation_mode, no_decay, write_parameters, write_data, replace_data, write_optimizer_state,
     write_step_counters, reload_optimizer, train_eagerly, scale_gradients],
)  # fmt: skip
@pytest.mark.diagonal(change=[no_decay, replace_data, reload_optimizer, scale_gradients])
def test_receipts_record_changes(change: Callable, tmp_path: Path) -> None:
    """The receipt records each change as another program or as a changed state. After `reload_optimizer`, tensors are
    new but equal, so the receipt records no change."""
    trainer, model, optimizer = new_trainer(target="reference", receipt=tmp_path / "run")
    plain, plain_model, plain_optimizer = new_trainer(target="reference")
    with trainer:
        for number in range(4):
            if number == 2:
                change(model, optimizer)
                change(plain_model, plain_optimizer)
            assert trainer.step(*BATCH) == plain.step(*BATCH)
    assert trainer.state_hash() == plain.state_hash()
    receipt = repro_mlir.Receipt(tmp_path / "run")
    log = receipt.log
    says = len(receipt.header.programs), [log[record].step for record in log.change_records]
    is_program = change in (evaluation_mode, no_decay, scale_gradients)
    assert says == (2 if is_program else 1, [] if is_program or change is reload_optimizer else [2])
    assert repro_mlir.verify(tmp_path / "run", target="reference").state_hash == plain.state_hash()


def test_a_resumed_receipt_sets_the_model(tmp_path: Path) -> None:
    options = repro_mlir.ReceiptOptions(tmp_path / "run", checkpoint_every=2, resume=True)
    first, model, _ = new_trainer(target="reference", receipt=options)
    with first:
        first.fit([BATCH] * 4, 4)
    second, other, optimizer = new_trainer(target="reference", receipt=options)
    second.prepare(*BATCH)
    assert (second.steps, second.cursor) == (4, 4)
    same_tensors(other.state_dict(), model.state_dict(), 0.0)
    assert all(state["step"] == 4 for state in optimizer.state.values())


# --- The tensors of model and optimizer are the state ---


def test_evaluation_without_sync() -> None:
    trainer, model, _ = new_trainer()
    expected, theirs = [], new_model()
    their_optimizer = adamw(theirs)
    for _ in range(5):
        trainer.step(*BATCH)
        eager_step(theirs, their_optimizer)
        for each in (model, theirs):
            each.eval()
            expected.append(each(BATCH[0]).detach())
            each.train()
        torch.testing.assert_close(expected[-2], expected[-1], rtol=1e-4, atol=1e-5)
    for name, value in model.state_dict().items():
        assert np.shares_memory(value.numpy(), trainer.state[name])


def test_autograd_notices_a_step() -> None:
    trainer, model, _ = new_trainer(target="reference")
    trainer.step(*BATCH)
    loss = cross_entropy(model(BATCH[0]), BATCH[1])
    trainer.step(*BATCH)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Odd(torch.nn.Module):
    """A module with tensors whose memory a program cannot use directly: they are transposed or expanded, have no
    elements, or share memory."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(24.0).reshape(8, 3).mul(0.1).t().contiguous().t())
        self.scale = torch.nn.Parameter(torch.tensor(1.5))
        self.low = torch.nn.Parameter(torch.full((3,), 0.5, dtype=torch.bfloat16))
        self.register_buffer("none", torch.zeros(0, 3))
        self.register_buffer("wide", torch.ones(1).expand(3))
        self.register_buffer("positions", torch.arange(6).reshape(2, 3))
        self.register_buffer("part", self.positions[1])
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.add_(1)
        return (x @ self.weight) * self.scale + self.low.float() + self.wide + self.part


@pytest.mark.parametrize("target", ["cpu", "ptx-emulator"])
def test_tensors_of_all_kinds(target: str) -> None:
    ours, theirs = Odd(), Odd()
    optimizers = [adamw(model) for model in (ours, theirs)]
    trainer = repro_mlir.Trainer(ours, cross_entropy, optimizers[0], target=target, threads=1)
    for step in range(4):
        if step >= 2:
            trainer.sync()
            for model in (ours, theirs):
                if step == 2:
                    with torch.no_grad():
                        model.weight[0, 0] = 1.0
                else:
                    # An update through `.data` does not increment the version counter that PyTorch keeps for the
                    # parameter.
                    model.weight.data.mul_(0.5)
        assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, optimizers[1]), rel=1e-3)
        if target == "cpu":
            same_tensors(dict(ours.named_parameters()), dict(theirs.named_parameters()), 1e-2)
    same_tensors(ours.state_dict(), theirs.state_dict(), 1e-2)
    assert ours.seen == 4 and ours.weight.stride() == (1, 8)


def test_memory_that_cannot_be_state() -> None:
    def refused(model: Any, message: str) -> None:
        trainer = repro_mlir.Trainer(model, cross_entropy, sgd(model), target="reference")
        with pytest.raises(ReproError, match=message):
            trainer.step(*BATCH)

    model = new_model()
    model[1].weight.data = model[1].bias.data
    refused(model, r"state 1.\w+ and state 1.\w+ share memory")
    model = new_model()
    model[1].bias.data = torch.zeros(1).expand(16)
    refused(model, "elements of state 1.bias share memory")
    model = new_model()
    with torch.inference_mode():
        model[1].running_mean = torch.zeros(16)
    refused(model, "inference")


def test_tied_weights() -> None:
    def tied() -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
        repro_mlir.initialize(model, 1)
        model[2].weight = model[0].weight
        return model

    ours, theirs = tied(), tied()
    optimizers = [adamw(model) for model in (ours, theirs)]
    trainer = repro_mlir.Trainer(ours, cross_entropy, optimizers[0], target="reference")
    for _ in range(3):
        assert trainer.step(*BATCH) == pytest.approx(eager_step(theirs, optimizers[1]), rel=1e-5)
    assert ours[2].weight is ours[0].weight
    same_tensors(ours.state_dict(), theirs.state_dict())


# --- State on a device ---


def ahead(**options: Any) -> tuple[repro_mlir.Trainer, torch.nn.Module, torch.optim.Optimizer]:
    """Returns a trainer whose state is on a device, two steps ahead of the returned model and optimizer."""
    trainer, model, optimizer = new_trainer(target="ptx-emulator", **options)
    for _ in range(2):
        trainer.step(*BATCH)
    return trainer, model, optimizer


def in_evaluation(model: torch.nn.Module) -> torch.Tensor:
    model.eval()
    return model(BATCH[0])


def averaged(model: torch.nn.Module) -> torch.nn.Module:
    return torch.optim.swa_utils.AveragedModel(model).module


def pickled(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


USES: dict[str, Callable[[torch.nn.Module, torch.optim.Optimizer], Any]] = {
    "call": lambda model, _: in_evaluation(model),
    "compiled call": lambda model, _: torch.compile(model, backend="eager")(BATCH[0]),
    "call of a part": lambda model, _: model[0](BATCH[0]),
    "state_dict": lambda model, _: model.state_dict(),
    "state_dict of a part": lambda model, _: model[3].state_dict(),
    "state_dict of the optimizer": lambda _, optimizer: optimizer.state_dict()["state"],
    "pickle": lambda model, _: pickled(model).state_dict(),
    "deepcopy": lambda model, _: copy.deepcopy(model).state_dict(),
    "deepcopy of the optimizer": lambda _, optimizer: copy.deepcopy(optimizer).state_dict()["state"],
    "AveragedModel": lambda model, _: averaged(model).state_dict(),
    "data": lambda model, _: model[0].weight.data,
    "operator": lambda model, _: model[0].weight + 1.0,
    "index": lambda model, _: model[0].weight[0],
    "list": lambda model, _: list(model[0].weight),
    "foreach": lambda model, _: torch._foreach_norm(list(model.parameters())),
    "out": lambda model, _: torch.zeros(4, 8).copy_(model[0].weight[:4]),
    "vector": lambda model, _: torch.nn.utils.parameters_to_vector(model.parameters()),
    "NumPy": lambda model, _: torch.from_numpy(model[0].weight.detach().numpy().copy()),
    "NumPy of a buffer": lambda model, _: torch.from_numpy(model[1].running_mean.numpy().copy()),
    "number": lambda model, _: torch.tensor(model[1].num_batches_tracked.item()),
    "text": lambda model, _: torch.tensor(bytearray(repr(model[0].weight).encode())),
    "state of the optimizer": lambda model, optimizer: optimizer.state[model[0].weight],
    "counter of the optimizer": lambda model, optimizer: optimizer.state[model[0].weight]["step"] + 1,
    "gradient by torch.func": lambda model, _: torch.func.grad(
        lambda parameters: torch.func.functional_call(model[3], parameters, torch.ones(4, 16)).square().sum()
    )(dict(model[3].named_parameters())),
    "call by torch.func": lambda model, _: torch.func.functional_call(model, dict(model.named_parameters()), BATCH[:1]),
}


def test_on_a_device_every_use_brings_the_tensors_up_to_date() -> None:
    other, expected, their_optimizer = new_trainer()
    other.fit([BATCH] * 2, 2)
    trainer, model, optimizer = ahead()
    for name, use in USES.items():
        ours, theirs = use(model, optimizer), use(expected, their_optimizer)
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=0.0, msg=lambda m, n=name: f"{n}: {m}")
        assert {type(parameter) for parameter in model.parameters()} == {torch.nn.Parameter}
        for each, module in ((trainer, model), (other, expected)):
            module.train()
            each.step(*BATCH)


WRITES: dict[str, Callable[[torch.nn.Module, torch.optim.Optimizer], Any]] = {
    "data": lambda model, _: model[0].weight.data.clamp_(-0.1, 0.1),
    "NumPy": lambda model, _: model[3].bias.detach().numpy().fill(3.0),
    "function": lambda model, _: torch.nn.init.ones_(model[0].weight),
    "assignment": lambda model, _: setattr(model[0].weight, "data", torch.ones_like(model[0].weight)),
    "buffer": lambda model, _: model[1].running_mean.zero_(),
    "load_state_dict": lambda model, _: model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}),
    "optimizer": lambda model, optimizer: optimizer.state[model[0].weight]["exp_avg"].zero_(),
    "counters": lambda _, optimizer: [state["step"].fill_(0) for state in optimizer.state.values()],
}


def test_on_a_device_every_write_counts() -> None:
    pairs = new_trainer(), ahead()
    pairs[0][0].fit([BATCH] * 2, 2)
    for name, write in WRITES.items():
        for trainer, model, optimizer in pairs:
            write(model, optimizer)
            trainer.step(*BATCH)
        ours, theirs = (dict(model.state_dict()) for _, model, _ in pairs)
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=0.0, msg=lambda m, n=name: f"{n}: {m}")
        for trainer, *_ in pairs:
            trainer.step(*BATCH)
    assert pairs[0][0].state_hash() == pairs[1][0].state_hash()


def test_on_a_device_trainers_share_tensors() -> None:
    states = []
    for target in ("cpu", "ptx-emulator"):
        first, model, _ = new_trainer(target=target)
        second = repro_mlir.Trainer(model, cross_entropy, sgd(model), target=target, threads=1)
        for _ in range(2):
            first.step(*BATCH)
            second.step(*BATCH)
        states.append((first.state_hash(), second.state_hash()))
    assert states[0] == states[1]


def test_on_a_device_trainers_of_two_threads_do_not_wait_for_each_other() -> None:
    trainers = [ahead()[0] for _ in range(2)]

    def train(trainer: repro_mlir.Trainer) -> None:
        for _ in range(50):
            trainer.step(*BATCH)

    threads = [threading.Thread(target=train, args=(trainer,), daemon=True) for trainer in trainers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [trainer.steps for trainer in trainers] == [52, 52]
    assert trainers[0].state_hash() == trainers[1].state_hash()


def test_on_a_device_metadata_copies_nothing() -> None:
    trainer, model, optimizer = ahead()
    fetched = []
    kept = trainer._step.kept
    kept.fetch = lambda: fetched.append(1)
    weight = model[0].weight
    assert (weight.shape, weight.dim(), weight.dtype, weight.requires_grad) == ((16, 8), 2, torch.float32, True)
    assert weight.numel() == 128 and isinstance(weight, torch.nn.Parameter) and weight.grad is None
    optimizer.zero_grad()
    trainer.step(*BATCH)
    assert not fetched and kept.ahead


def test_on_a_device_an_exception_on_the_way_back_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def transposed(model: Any) -> Any:
        model[3].weight = torch.nn.Parameter(model[3].weight.detach().t().contiguous().t())
        return adamw(model)

    def fail(_: Binding) -> None:
        raise MemoryError

    hashes = []
    for target in ("cpu", "ptx-emulator"):
        trainer, model, _ = new_trainer(transposed, target=target)
        for _ in range(2):
            trainer.step(*BATCH)
        if target != "cpu":
            with monkeypatch.context() as patch:
                patch.setattr(Binding, "see", fail)
                with pytest.raises(MemoryError):
                    model[0].weight.detach()
        model[3].weight + 1.0
        trainer.step(*BATCH)
        hashes.append(trainer.state_hash())
    assert hashes[0] == hashes[1]


def test_on_a_device_a_handler_of_a_signal_may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    other, expected, _ = new_trainer()
    other.fit([BATCH] * 3, 3)
    trainer, model, _ = ahead()
    run = type(trainer._step.kept).step

    def step(self: Any, *inputs: Any) -> Any:
        model[0].weight.detach()
        return run(self, *inputs)

    with monkeypatch.context() as patch:
        patch.setattr(type(trainer._step.kept), "step", step)
        trainer.step(*BATCH)
    assert trainer.steps == 3
    same_tensors(model.state_dict(), expected.state_dict(), 0.0)


def test_on_a_device_the_state_outlives_the_trainer() -> None:
    other, expected, _ = new_trainer()
    other.fit([BATCH] * 2, 2)
    model = ahead()[1]
    gc.collect()
    same_tensors(model.state_dict(), expected.state_dict(), 0.0)


def test_on_a_device_stale_tensors_are_not_written() -> None:
    trainer, model, _ = new_trainer(target="ptx-emulator")
    row = model[0].weight.detach()[0]
    trainer.step(*BATCH)
    row.zero_()
    for use in (lambda: trainer.step(*BATCH), trainer.sync, lambda: model[0].weight + 1):
        with pytest.raises(ReproError, match=r"written while newer values were on the device: call sync\(\)"):
            use()


def test_on_a_device_any_write_after_sync_counts() -> None:
    hashes = []
    for target in ("cpu", "ptx-emulator"):
        trainer, model, _ = new_trainer(target=target)
        for _ in range(2):
            trainer.step(*BATCH)
            trainer.sync()
        # These updates, through `.data` and NumPy, increment no version counter.
        model[0].weight.data.clamp_(-0.1, 0.1)
        model[3].bias.detach().numpy()[0] = 3.0
        trainer.step(*BATCH)
        hashes.append(trainer.state_hash())
    assert hashes[0] == hashes[1]


class Keeping(torch.nn.Module):
    """A model whose forward pass assigns computed tensors to attributes, as models with caches or auxiliary losses
    do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
        self.mask = None

    def forward(self, x: Any) -> Any:
        if self.mask is None:
            self.mask = torch.ones(3)
        output = self.layer(x) * self.mask
        self.auxiliary = output.mean()
        return output


def test_tensors_that_forward_keeps_are_restored_after_a_trace() -> None:
    results = []
    for compiled in (False, True):
        model = repro_mlir.initialize(Keeping(), 1)
        optimizer = sgd(model)

        def loss_fn(output: Any, target: Any, model: Any = model) -> Any:
            return cross_entropy(output, target) + model.auxiliary

        trainer = repro_mlir.Trainer(model, loss_fn, optimizer, target="reference")
        for step in range(3):
            if compiled:
                trainer.step(*BATCH)
            else:
                optimizer.zero_grad()
                loss_fn(model(BATCH[0]), BATCH[1]).backward()
                optimizer.step()
            if compiled and step == 0:
                assert model.mask is None and not hasattr(model, "auxiliary")
            # This call of the model in plain PyTorch sets the model's attribute `mask`, which is a constant for the
            # later steps.
            assert type(model(BATCH[0])) is type(model.mask) is torch.Tensor
        results.append(model.state_dict())
    same_tensors(results[1], results[0])


class Doubled(torch.nn.Linear):
    def forward(self, x: Any) -> Any:
        return 2 * super().forward(x)


def test_another_class_of_a_module_counts() -> None:
    (trainer, model, _), (_, expected, optimizer) = new_trainer(sgd, target="reference"), new_trainer(sgd)
    for step in range(2):
        np.testing.assert_allclose(trainer.step(*BATCH), eager_step(expected, optimizer), rtol=1e-5)
        if step == 0:
            model[3].__class__ = expected[3].__class__ = Doubled
    same_tensors(model.state_dict(), expected.state_dict())


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    yield


class WithUncalledMethods(torch.nn.Linear):
    scale = 2.0
    # A descriptor that is not a function, as classes written in C have.
    __match_args__ = property(lambda self: ())

    # The decorator stores a generator object, as decorators of transformers' models do.
    @guarded()
    def reset(self) -> None:
        self.weight.data.zero_()

    def forward(self, x: Any) -> Any:
        return super().forward(x) * vars(self).get("scale", self.scale)


def test_state_of_wrappers_of_uncalled_methods_is_not_read() -> None:
    model, x, y = WithUncalledMethods(8, 3), *BATCH
    trainer = repro_mlir.Trainer(model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.0), target="reference")
    for scale in (2.0, 3.0):
        model.scale = scale
        assert trainer.step(x, y) == pytest.approx(cross_entropy(model(x), y).item())


SYSTEM = random.SystemRandom()


class WithSystemNumbers(torch.nn.Linear):
    draws = False

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (SYSTEM.random() if self.draws else 2.0)


def test_the_systems_random_numbers_have_no_state() -> None:
    model = WithSystemNumbers(8, 3)
    trainer = repro_mlir.Trainer(model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.0), target="reference")
    assert trainer.step(*BATCH) == trainer.step(*BATCH)
    model.draws = True
    with pytest.raises(ReproError, match=r"the step calls posix.urandom, which may return another value each time"):
        trainer.step(*BATCH)


@pytest.mark.parametrize(("first", "second"), [(0.0, -0.0), (float("nan"), float("nan"))])
def test_numbers_of_a_batch_are_compared_by_their_bits(first: float, second: float) -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: Any, scale: float) -> Any:
            return super().forward(x) * scale

    model = Scaled(8, 3)
    trainer = repro_mlir.Trainer(model, cross_entropy, sgd(model), target="reference", nonfinite_loss="ignore")
    trainer.step(BATCH[0], first, BATCH[1])
    one = trainer.program.data
    trainer.step(BATCH[0], second, BATCH[1])
    assert (trainer.program.data == one) == (first != 0)
    assert trainer.steps == 2


_CALLS = [0]


def _times(gradient: Any) -> Any:
    _CALLS[0] += 1
    return gradient * _CALLS[0]


class _Counting(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return _times(gradient)


class _SettingUp(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(context: Any, inputs: Any, output: Any) -> None:
        context.factor = _times(1)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return gradient * context.factor


class _Nested(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return _SettingUp.apply(gradient)


_LIBRARY = torch.library.Library("repro_changes", "DEF")
_LIBRARY.define("times(Tensor x) -> Tensor")
_LIBRARY.impl("times", lambda x: _times(x), "CompositeImplicitAutograd")


def _hooked(output: Any) -> Any:
    output.grad_fn.register_prehook(lambda outputs: tuple(map(_times, outputs)))
    return output


def _saved(output: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, _times):
        return output.square()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: _Counting.apply(x),
        lambda x: _SettingUp.apply(x),
        lambda x: _Nested.apply(x),
        lambda x: torch.ops.repro_changes.times(x),
        lambda x: globals()["_Coun" + "ting"].apply(x),
        lambda x: torch.utils.checkpoint.checkpoint(lambda y: _times(y), x, use_reentrant=False),
        _hooked,
        _saved,
    ],
)
def test_backward_pass_that_changes_a_global(function: Callable) -> None:
    model = torch.nn.Linear(8, 3)
    loss = lambda output, target: cross_entropy(function(output), target)  # noqa: E731
    trainer = repro_mlir.Trainer(model, loss, sgd(model), target="reference")
    with pytest.raises(ReproError, match=r"the step itself changes .*_CALLS"):
        trainer.step(*BATCH)
