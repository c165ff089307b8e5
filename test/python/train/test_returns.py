# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`returns`: values that a step returns in addition to the loss match those of eager mode and do not affect the
state."""

import dataclasses
import json
import re
from collections import OrderedDict, UserDict, namedtuple
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
import torch.utils._pytree as pytree
from random_batches import BATCH, random_batches
from repro_mlir import ReceiptOptions, StepResult, Trainer
from repro_mlir.cli import main as cli
from repro_mlir.frontends.torch.scripts import load_training
from torch import nn

pytest.importorskip("torch_mlir")

ALL = ("outputs", "gradient_norm", "gradients")
TARGETS = ("cpu", "cpu:x86-64-v2", "reference", "ptx-emulator")
F = nn.functional


def _accuracy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == target).float().mean()


def _correct(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == target).sum()


METRICS = {"accuracy": _accuracy, "correct": _correct}


def _make(**options: Any) -> Trainer:
    model = repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.0), nn.ReLU(), nn.Linear(6, 3)), 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Trainer(model, F.cross_entropy, optimizer, threads=1, **options)


def _eager(clip: float | None, count: int) -> list[StepResult]:
    model = repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.0), nn.ReLU(), nn.Linear(6, 3)), 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for x, y in random_batches(count):
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf") if clip is None else clip)
        gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        optimizer.step()
        metrics = {name: float(function(output, y)) for name, function in METRICS.items()}
        found.append(StepResult(loss.item(), output.detach(), norm.item(), gradients, metrics))
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.diagonal
def test_as_eager_and_the_state_as_without(clip: float | None, target: str) -> None:
    plain, asked = _make(target=target, clip_norm=clip), _make(target=target, clip_norm=clip, metrics=METRICS)
    results = []
    for batch in random_batches(3):
        loss = plain.step(*batch)
        result = asked.step(*batch, returns=(*ALL, "metrics"))
        assert loss == result.loss and plain.state_hash() == asked.state_hash()
        results.append(result)
    # The values are compared after all steps, because later steps must not change them.
    for result, eager in zip(results, _eager(clip, 3), strict=True):
        for name in (*ALL, "metrics", "loss"):
            torch.testing.assert_close(getattr(result, name), getattr(eager, name), rtol=1e-5, atol=1e-6)
    assert results[0].gradient_norm > 0.3


def test_the_same_bits_on_every_target() -> None:
    found = []
    for target in TARGETS:
        trainer = _make(target=target, clip_norm=0.3, metrics=METRICS)
        found.append([trainer.step(*batch, returns=(*ALL, "metrics")) for batch in random_batches(2)])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert (one.loss, one.gradient_norm, one.metrics) == (other.loss, other.gradient_norm, other.metrics)
            assert torch.equal(one.outputs, other.outputs)
            assert all(torch.equal(one.gradients[name], other.gradients[name]) for name in one.gradients)


def test_only_requested_values_are_returned() -> None:
    trainer = _make(metrics=METRICS)
    assert isinstance(trainer.step(*BATCH), float)
    plain = trainer.program
    for returns in (*((name,) for name in (*ALL, "metrics")), ("metrics", "outputs"), ["gradient_norm"]):
        result = trainer.step(*BATCH, returns=returns)
        given = {field.name for field in dataclasses.fields(result) if getattr(result, field.name) is not None}
        assert given == {"loss", *returns}
    assert [kind.name for kind in trainer.program.outputs] == ["loss", "gradient_norm"]
    trainer.step(*BATCH, returns=("outputs",))
    # "outputs" needs no other program, because the arguments of the loss function are outputs of every program.
    assert trainer.program.hash == plain.hash


def test_the_norm_is_that_before_clipping_and_the_gradients_those_after() -> None:
    trainer = _make(clip_norm=1e-3)
    result = trainer.step(*BATCH, returns=("gradients", "gradient_norm"))
    after = torch.cat([value.reshape(-1) for value in result.gradients.values()]).norm()
    assert result.gradient_norm > 0.1 and after == pytest.approx(1e-3, rel=1e-3)


def test_a_program_for_each_choice_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from repro_mlir.train import trainer as module

    trainer = _make()
    captured = []
    capture = module.training_program
    monkeypatch.setattr(module, "training_program", lambda *given: captured.append(0) or capture(*given))
    for number, batch in enumerate(random_batches(6)):
        trainer.step(*batch, **({"returns": ("gradient_norm",)} if number % 2 else {}))
    assert len(captured) == 2


def test_values_that_the_trainer_always_computes_need_no_other_program() -> None:
    trainer = _make(returns=("gradient_norm",))
    batches = random_batches(2)
    assert isinstance(trainer.step(*batches[0]), float)
    program = trainer.program
    result = trainer.step(*batches[1], returns=("gradient_norm",))
    assert trainer.program is program and result.gradient_norm > 0 and result.outputs is None


Pair = namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Given:
    loss: torch.Tensor
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...] = ()
    name: str = "given"
    nothing: None = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    logits: torch.Tensor


class Registered(OrderedDict):
    """A mapping class that is registered with PyTorch's pytree, as transformers registers the outputs of its models."""

    @property
    def loss(self) -> torch.Tensor:
        return self["loss"]


pytree.register_pytree_node(
    Registered,
    lambda value: (list(value.values()), list(value)),
    lambda values, keys: Registered(zip(keys, values, strict=True)),
)


class Plain(UserDict):
    """A mapping class that is not registered with PyTorch's pytree."""


class Returning(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.form = form

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        logits = self.layer(x)
        loss = F.cross_entropy(logits, y)
        return {
            "dict": lambda: {"loss": loss, "logits": logits, "count": 3, "more": [logits, (loss,)]},
            "ordered": lambda: OrderedDict(loss=loss, logits=logits),
            "tuple": lambda: (loss, logits),
            "dataclass": lambda: Given(loss, logits, (logits, loss)),
            "registered": lambda: Registered(loss=loss, logits=logits, hidden=(logits, loss)),
            "mapping": lambda: Plain(loss=loss, logits=logits),
            "nested": lambda: {"loss": loss, "pair": Pair(logits, Frozen(logits))},
            "loss": lambda: loss,
        }[self.form]()


def _plain(value: Any) -> Any:
    """Returns a value with its structures replaced by lists, dicts and tuples that contain the class of each
    structure."""
    if dataclasses.is_dataclass(value):
        return type(value), {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {"type": type(value), **{key: _plain(each) for key, each in value.items()}}
    if isinstance(value, list | tuple):
        return [type(value), *map(_plain, value)]
    return value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.allclose(one, other, atol=1e-6)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


@pytest.mark.parametrize("form", ["dict", "ordered", "tuple", "dataclass", "registered", "nested", "loss"])
def test_outputs_have_the_structure_that_the_model_returned(form: str) -> None:
    model = repro_mlir.initialize(Returning(form), 2)
    trainer = Trainer(model, None, torch.optim.SGD(model.parameters(), lr=0.1), threads=1)
    with torch.no_grad():
        expected = model(*BATCH)
    result = trainer.step(*BATCH, returns=("outputs",))
    assert _same(_plain(result.outputs), _plain(expected))
    first = _plain(result.outputs)
    trainer.step(*BATCH, returns=("outputs",))
    assert _same(_plain(result.outputs), first)


def test_outputs_of_a_mapping_are_a_dict() -> None:
    model = repro_mlir.initialize(Returning("mapping"), 2)
    trainer = Trainer(model, None, torch.optim.SGD(model.parameters(), lr=0.1), threads=1)
    with torch.no_grad():
        expected = dict(model(*BATCH))
    outputs = trainer.step(*BATCH, returns=("outputs",)).outputs
    assert _same(_plain(outputs), _plain(expected))


def test_outputs_of_a_dataclass_for_a_loss_function() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor) -> Frozen:
            return Frozen(super().forward(x))

    model = repro_mlir.initialize(Model(5, 3), 2)
    trainer = Trainer(
        model, lambda output, y: F.cross_entropy(output.logits, y), torch.optim.SGD(model.parameters()), threads=1
    )
    assert trainer.step(*BATCH, returns=("outputs",)).outputs.logits.shape == (4, 3)


def test_outputs_of_a_registered_class_for_a_loss_function() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor) -> Registered:
            return Registered(logits=super().forward(x))

    model = repro_mlir.initialize(Model(5, 3), 2)
    trainer = Trainer(
        model, lambda output, y: F.cross_entropy(output["logits"], y), torch.optim.SGD(model.parameters()), threads=1
    )
    trainer.step(*BATCH)
    assert [kind.name for kind in trainer.program.outputs] == ["loss", "output['logits']"]


def test_outputs_that_could_be_anything_are_refused() -> None:
    class Thing:
        def __init__(self, loss: torch.Tensor) -> None:
            self.loss = loss

    class Model(nn.Linear):
        def forward(self, x: torch.Tensor) -> Thing:
            return Thing(super().forward(x).sum())

    model = Model(5, 3)
    trainer = Trainer(model, None, torch.optim.SGD(model.parameters()), threads=1)
    x = torch.ones(4, 5)
    trainer.step(x)
    with pytest.raises(repro_mlir.ReproError, match="returns a Thing, expected outputs of tensors and numbers"):
        trainer.step(x, returns=("outputs",))
    assert trainer.step(x) < 0 or trainer.steps == 2


def test_parameters_without_a_gradient_are_left_out() -> None:
    model = repro_mlir.initialize(nn.ModuleDict({"used": nn.Linear(5, 3), "unused": nn.Linear(5, 3)}), 1)
    model.forward = lambda x: model["used"](x)  # type: ignore[method-assign]
    model["used"].bias.requires_grad_(False)
    trainer = Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), threads=1)
    result = trainer.step(*BATCH, returns=("gradients", "gradient_norm"))
    assert set(result.gradients) == {"used.weight"}
    assert result.gradient_norm == pytest.approx(result.gradients["used.weight"].norm().item(), rel=1e-5)


def test_bf16_parameters_have_bf16_gradients() -> None:
    model = repro_mlir.initialize(nn.Linear(5, 3), 1).to(torch.bfloat16)
    trainer = Trainer(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), threads=1, clip_norm=0.5)
    x, y = BATCH
    result = trainer.step(x.bfloat16(), y, returns=("gradients", "outputs", "gradient_norm"))
    assert result.gradients["weight"].dtype == result.outputs.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (("loss",), "expected returns among outputs, gradient_norm, gradients, metrics, got 'loss'"),
        ("outputs", "expected returns as a tuple of names among outputs"),
        (("metrics",), 'returns has "metrics" without metrics: expected Trainer(..., metrics={name: function})'),
        (3, "expected returns as a tuple"),
    ],
)
def test_requests_that_are_refused(returns: Any, message: str) -> None:
    trainer = _make()
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        trainer.step(*BATCH, returns=returns)
    assert trainer.steps == 0
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        _make(returns=returns)


# --- Metrics ---


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda output, target: output.argmax(1) == target, "metric broken returns shape [4], expected a tensor"),
        (lambda output, target: 0.5, "metric broken returns a float, expected a tensor"),
        (lambda output, target: torch.rand(()), "metric broken draws random numbers"),
        (lambda output, target: float(output.sum()), "depends on tensor values"),
    ],
)
def test_metrics_of_another_kind(function: Any, message: str) -> None:
    trainer = _make(metrics={"broken": function})
    trainer.step(*BATCH)
    with pytest.raises(repro_mlir.ReproError, match=re.escape(message)):
        trainer.step(*BATCH, returns=("metrics",))
    assert trainer.steps == 1


def test_a_metric_of_a_model_that_gives_the_loss() -> None:
    model = repro_mlir.initialize(Returning("dict"), 2)
    trainer = Trainer(
        model,
        None,
        torch.optim.SGD(model.parameters(), lr=0.0),
        metrics={"accuracy": lambda result, batch: _accuracy(result["logits"], batch[1])},
        threads=1,
    )
    found = trainer.step(*BATCH, returns=("metrics",)).metrics
    assert found == {"accuracy": _accuracy(model(*BATCH)["logits"], BATCH[1]).item()}


def test_a_metric_that_writes_to_a_parameter() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return super().forward(x), self.weight

    def normalized(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        return output[1].div_(output[1].norm()).sum()

    def clamped(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        return output[0].clamp_(min=0.0).sum()

    model = repro_mlir.initialize(Model(5, 3), 2)
    trainer = Trainer(
        model,
        lambda output, y: F.cross_entropy(output[0], y),
        torch.optim.SGD(model.parameters()),
        threads=1,
        metrics={"clamped": clamped, "normalized": normalized},
    )
    for run in (trainer.step, trainer.evaluate):
        with pytest.raises(repro_mlir.ReproError, match="metric normalized writes to a tensor of the step"):
            run(*BATCH, returns=("metrics",))


@pytest.mark.parametrize("metrics", [[_accuracy], {1: _accuracy}, {"accuracy": 0.5}])
def test_metrics_that_are_none(metrics: Any) -> None:
    with pytest.raises(repro_mlir.ReproError, match="expected metrics as a mapping from names to functions"):
        _make(metrics=metrics)


def test_state_that_a_metric_reads_counts() -> None:
    settings = {"scale": 1.0}
    trainer = _make(metrics={"scale": lambda output, target: output.sum() * 0 + settings["scale"]})
    assert trainer.step(*BATCH, returns=("metrics",)).metrics == {"scale": 1.0}
    settings["scale"] = 2.0
    assert trainer.step(*BATCH, returns=("metrics",)).metrics == {"scale": 2.0}


def test_a_metric_changes_no_random_number() -> None:
    def make() -> Trainer:
        model = repro_mlir.initialize(nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 3)), 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return Trainer(model, F.cross_entropy, optimizer, threads=1, metrics=METRICS)

    one, other = make(), make()
    for batch in random_batches(3):
        assert one.step(*batch) == other.step(*batch, returns=(*ALL, "metrics")).loss
    assert one.state_hash() == other.state_hash()


# --- Receipts ---


def test_a_receipt_of_steps_with_returned_values(tmp_path: Path) -> None:
    path = tmp_path / "run.receipt"
    with _make(receipt=path, metrics=METRICS, clip_norm=0.5) as trainer:
        for number, batch in enumerate(random_batches(6)):
            if number % 3 == 2:
                trainer.step(*batch, returns=("gradient_norm", "metrics"))
            else:
                trainer.step(*batch)
    receipt = repro_mlir.Receipt(path)
    assert [[kind.name for kind in program.signature.outputs] for program in receipt.header.programs] == [
        ["loss", "output"],
        ["loss", "metrics['accuracy']", "metrics['correct']", "gradient_norm"],
    ]
    for target in ("cpu", "reference"):
        assert repro_mlir.verify(path, target=target).executed == (1, 2, 3, 4, 5, 6)


class Cut(Exception):
    """Raised to end a run early."""


def _recorded(path: Path, cut: int | None = None, resume: bool = False) -> None:
    batches = random_batches(5)
    with _make(receipt=ReceiptOptions(path, checkpoint_every=2, resume=resume)) as trainer:
        trainer.prepare(*batches[0], returns=("gradient_norm",))
        while trainer.cursor < len(batches):
            if trainer.cursor == cut:
                raise Cut
            trainer.step(*batches[trainer.cursor], returns=("gradient_norm",))


def test_a_resumed_receipt_of_steps_with_returned_values(tmp_path: Path) -> None:
    _recorded(tmp_path / "whole")
    with pytest.raises(Cut):
        _recorded(tmp_path / "parts", cut=3)
    _recorded(tmp_path / "parts", resume=True)
    for file in ("steps.jsonl", "seal.json"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()


SCRIPT = """
import torch
import repro_mlir


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean()


def training():
    model = repro_mlir.initialize(torch.nn.Linear(5, 3), 1)
    generator = torch.Generator().manual_seed(1)
    batches = [(torch.randn(4, 5, generator=generator), torch.arange(4) % 3) for _ in range(3)]
    options = {{"returns": ["gradient_norm", "metrics"], "metrics": {{"accuracy": accuracy}}}}
    return model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr={lr}), batches, options
"""


def test_a_script_with_returned_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, other = tmp_path / "script.py", tmp_path / "other.py"
    script.write_text(SCRIPT.format(lr=0.1))
    other.write_text(SCRIPT.format(lr=0.2))
    for file, name in ((script, "honest"), (other, "rate")):
        arguments = ["train", str(file), "--steps", "3", "--target", "reference", "--receipt", str(tmp_path / name)]
        assert cli.main(arguments) == 0
    common = ["--target", "reference", "--json"]
    assert cli.main(["verify", str(tmp_path / "honest"), "--script", str(script), *common]) == 0
    names = [str(tmp_path / name) for name in ("honest", "rate")]
    capsys.readouterr()
    assert cli.main(["dispute", *names, "--terms", str(script), *common]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["outcome"], report["wrong"], report["subject"]) == ("data", ["B"], "lr")


LOOP = """
import torch
import repro_mlir


def training():
    model = repro_mlir.initialize(torch.nn.Linear(5, 3), 1)
    generator = torch.Generator().manual_seed(1)
    batches = [(torch.randn(size, 5, generator=generator), torch.arange(size) % 3) for size in (4, 4, 3, 4, 3)]
    return model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batches
"""


def _train_loop(script: Path, path: Path, rate: float = 0.1, **options: Any) -> None:
    given = load_training(str(script))
    given.optimizer.param_groups[0]["lr"] = rate
    parts = given.model, given.loss_fn, given.optimizer
    with Trainer(*parts, target="reference", receipt=path, **options) as trainer:
        for number, batch in zip(range(5), given.batches, strict=False):
            asked = {0: ("gradient_norm",), 2: ("gradients", "gradient_norm"), 3: ("outputs",)}.get(number, ())
            trainer.step(*batch, returns=asked)


def test_a_script_whose_loop_asks_in_some_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(LOOP)
    for name, rate, options in (
        ("honest", 0.1, {}),
        ("rate", 0.2, {}),
        ("clipped", 0.1, {"clip_norm": 0.5}),
        ("metrics", 0.1, {"metrics": METRICS, "returns": ("metrics",)}),
    ):
        _train_loop(script, tmp_path / name, rate, **options)
    common = ["--script", str(script), "--target", "reference", "--json"]
    assert cli.main(["verify", str(tmp_path / "honest"), *common]) == 0
    capsys.readouterr()
    for name, place in (("rate", "input lr"), ("clipped", "program"), ("metrics", "program")):
        assert cli.main(["verify", str(tmp_path / name), *common]) == 1
        assert json.loads(capsys.readouterr().out)["place"] == place
